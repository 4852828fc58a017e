"""Decisions whose entries are whole numbers, lots or minimum orders: chosen by value."""

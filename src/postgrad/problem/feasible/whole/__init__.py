"""Whole numbers, lots and minimum orders."""

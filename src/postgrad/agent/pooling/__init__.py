"""Populations of live agents, kept in the store."""

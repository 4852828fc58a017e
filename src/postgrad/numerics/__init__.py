"""Arithmetic and random numbers that know nothing of decisions."""

"""Posteriors represented by draws of theta."""

"""Posteriors over finitely many values of theta, a handful or millions."""

"""Beliefs with closed forms, for the models they are conjugate to."""

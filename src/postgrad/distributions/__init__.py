"""Distributions, and facts about distributions, that numpyro does not have."""

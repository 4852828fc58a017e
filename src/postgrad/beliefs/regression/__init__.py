"""A normal posterior of the coefficients of a linear predictor."""

"""A normal posterior: exact for linear normal models, Laplace's approximation elsewhere."""

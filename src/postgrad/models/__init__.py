"""Regression models: a linear predictor made of terms, and a law of the data around it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

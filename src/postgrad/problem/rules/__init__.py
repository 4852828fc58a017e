"""Rules that decisions keep to besides the feasible set: service levels, and limits of change."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

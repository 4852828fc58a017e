"""Where decisions may lie: sets with `project`, which computes the nearest point of the set."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

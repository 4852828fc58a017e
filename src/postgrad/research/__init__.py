"""Simulated closed loops: experiments, comparisons, the testbed, the paper."""

import lazy_loader

# Rooms that are public on top, such as `pg.plots`.
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["plots", "problems", "rivals"])

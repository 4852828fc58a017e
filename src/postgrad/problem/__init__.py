"""What the user states: cost, model, feasible set."""

import lazy_loader

# Rooms that are public on top, such as `pg.feasible`.
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, ["feasible", "rules"])

"""The paper's algorithm and its parts: gradients, descents, risks, outputs, step sizes."""

import lazy_loader

# Rooms that are public on top, such as `pg.descents`.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, ["descents", "gradients", "outputs", "presets", "risks", "step_sizes"]
)

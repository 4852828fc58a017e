"""With what, and on what, results were made."""

import importlib.metadata
import platform
from typing import Any

import jax

import postgrad

_PACKAGES = ("jax", "equinox", "numpyro", "numpy", "optax")


def describe() -> dict[str, Any]:
    """Versions and device, as plain strings."""
    versions = {"postgrad": postgrad.__version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    device = jax.devices()[0]
    return {"versions": versions, "device": f"{device.platform} ({device.device_kind})"}

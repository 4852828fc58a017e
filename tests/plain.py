"""The plain NumPy implementations, which are no part of the package."""

import importlib.util
from pathlib import Path
from types import ModuleType


def plain(name: str) -> ModuleType:
    """A module of `benchmarks/`."""
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Ready-made problems, each with its truth and its optimum.

`testbed()` names them all. A module of this package that defines `TESTBED` is part of it by being
there, and the tests and `docs/testbed.md` follow.
"""

import importlib
import pkgutil
from collections.abc import Callable

from postgrad.errors import SettingError
from postgrad.research.problems.instance import Instance

# All modules of the package are attributes of it, without a list of them to keep.
_MODULES = [
    importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
]


def testbed() -> dict[str, Callable[[], Instance]]:
    """All problems by name, each as a function that makes its instance.

    Raises:
        SettingError: If two modules use one name.
    """
    problems: dict[str, Callable[[], Instance]] = {}
    for module in _MODULES:
        more = getattr(module, "TESTBED", {})
        if twice := problems.keys() & more.keys():
            raise SettingError(f"{module.__name__} has names that others use: {sorted(twice)}")
        problems |= more
    return problems


__all__ = ["Instance", "testbed"]

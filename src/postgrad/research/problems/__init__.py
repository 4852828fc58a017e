"""Ready-made problems, each with its truth and its optimum.

`testbed()` has them by name: it finds every module of this package that defines `TESTBED`.
"""

import importlib
import pkgutil
from collections.abc import Callable

from postgrad.errors import SettingError
from postgrad.research.problems.instance import Instance as Instance

# Imports all modules of the package, so that there is no list to keep.
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

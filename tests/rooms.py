"""What the laws walk: every final class of a room, so that a new file is tested by being there."""

import importlib
import inspect
import pkgutil
import random
from collections import Counter

import pytest

# Problems that strangers made to break the default; each compiles and solves a problem of its own.
ATTACK = pytest.mark.sample(8, of="attacks")


def members(package: str, base: type) -> list[type]:
    """All final subclasses of `base` defined in the modules of `package`."""
    root = importlib.import_module(package)
    names = [package]
    if hasattr(root, "__path__"):
        names += [module.name for module in pkgutil.walk_packages(root.__path__, f"{package}.")]
    found = {
        value
        for name in names
        for value in vars(importlib.import_module(name)).values()
        if inspect.isclass(value) and issubclass(value, base) and not inspect.isabstract(value)
    }
    return sorted(found, key=lambda member: member.__name__)


def examples(package: str, base: type, table: dict) -> list:
    """The examples of each member, one after the other; a member without examples is an error."""
    missing = [member.__name__ for member in members(package, base) if member not in table]
    assert not missing, f"no examples for {missing}: add some, so that the laws reach them"
    return [example for member in members(package, base) for example in table[member]]


def first_of_each(cases, sort, count=1):
    """Cases as parameters of a test; all but the first ones of each sort are slow."""
    seen, parameters = Counter(), []
    for case in cases:
        values = case if type(case) is tuple else (case,)
        marks = pytest.mark.slow if seen[sort(*values)] >= count else ()
        parameters.append(pytest.param(*values, marks=marks))
        seen[sort(*values)] += 1
    return parameters


def drawn(test, cases, count):
    """So many of the cases of a test, the same ones in every process."""
    return random.Random(test).sample(cases, min(count, len(cases)))

"""The structure of programs' arguments and results as text: all that they are but their numbers.

The text is the same in every process: classes and functions are named, never numbered or hashed. It
is made of plain parts, and of named things of packages whose code is known (`PACKAGES`). Whatever
else there is, a lambda or a class of the user's own say, has no description; see `own_functions`.
"""

import dataclasses
import enum
import sys
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

# Whoever compares descriptions must know the versions of these packages.
PACKAGES = ("postgrad", "jax", "jaxlib", "numpyro", "equinox", "optax", "numpy", "builtins")

PLAIN = (bool, int, float, str, type(None))
_TREE = type(jax.tree.structure(0))
# What a description lists stands behind one of these words.
_ARRAY, _LEAF, _NAMED, _OBJECT, _STRUCTURE = "array", "leaf", "named", "object", "structure"
_SEQUENCES: dict[str, type] = {"tuple": tuple, "list": list}


class NoDescriptionError(Exception):
    """Something is determined by more than text can say."""


def described(tree: PyTree) -> Any:
    """A PyTree in JSON types, without the numbers of its arrays: of these, shape and type.

    Raises:
        NoDescriptionError: If some part has no name, or is of a kind that is not known.
    """
    leaves, structure = jax.tree.flatten(tree)
    return [_part(structure), *map(_leaf, leaves)]


def is_known(thing: Any) -> bool:
    """Whether a class or a function is told by its name."""
    try:
        name_of(thing)
    except (NoDescriptionError, AttributeError):  # not all that can be called has a name
        return False
    return True


def rebuilt(description: Any) -> PyTree:
    """A PyTree of this description, with a `jax.ShapeDtypeStruct` for each array.

    Nothing is imported, and no constructor is called.

    Raises:
        NoDescriptionError: If a name means nothing here.
    """
    structure, *leaves = map(_rebuilt, description)
    return jax.tree.unflatten(structure, leaves)


def _leaf(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct):
        return [_ARRAY, str(leaf.dtype), list(leaf.shape), getattr(leaf, "weak_type", False)]
    return _part(leaf)


def _part(value: Any) -> Any:
    """All that a value is; an array that is no leaf of a tree has numbers that count."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if value is ...:
        return [_LEAF]
    if kind in _SEQUENCES.values():
        return [kind.__name__, *map(_part, value)]
    if kind is dict:
        return ["dict", *([_part(key), _part(part)] for key, part in value.items())]
    if kind is _TREE:
        return [_STRUCTURE, _part(jax.tree.unflatten(value, [...] * value.num_leaves))]
    if isinstance(value, enum.Enum):
        return [_NAMED, f"{name_of(kind)}.{value.name}"]
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return [_NAMED, name_of(value)]
    if (names := _fields(kind)) is not None:
        parts = [[name, _part(getattr(value, name))] for name in names if hasattr(value, name)]
        return [_OBJECT, name_of(kind), *parts]
    raise NoDescriptionError(f"{kind.__module__}.{kind.__qualname__}")


def _rebuilt(description: Any) -> Any:
    if not isinstance(description, list):
        return description
    word, *parts = description
    if word == _ARRAY:
        dtype, shape, weak = parts
        return jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype), weak_type=weak)
    if word == _LEAF:
        return ...
    if word in _SEQUENCES:
        return _SEQUENCES[word](map(_rebuilt, parts))
    if word == "dict":
        return {_rebuilt(key): _rebuilt(part) for key, part in parts}
    if word == _STRUCTURE:
        return jax.tree.structure(_rebuilt(parts[0]))
    if word == _NAMED:
        return _named(parts[0])
    if word == _OBJECT:
        kind, fields = _named(parts[0]), {name: _rebuilt(part) for name, part in parts[1:]}
        if issubclass(kind, tuple):
            return kind(**fields)
        new = object.__new__(kind)
        for name, part in fields.items():
            object.__setattr__(new, name, part)
        return new
    raise NoDescriptionError(word)


def _fields(kind: type) -> list[str] | None:
    if issubclass(kind, tuple):
        return list(getattr(kind, "_fields", ())) or None
    return [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None


def name_of(thing: Any) -> str:
    """The name under which a class or a function is found in its module.

    Raises:
        NoDescriptionError: If that is none of `PACKAGES`, or has another thing of this name.
    """
    name = f"{thing.__module__}:{thing.__qualname__}"
    if _named(name) is not thing:
        raise NoDescriptionError(f"{name} is another thing")
    return name


def _named(name: str) -> Any:
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in PACKAGES or module not in sys.modules:
        raise NoDescriptionError(name)
    found: Any = sys.modules[module]
    for part in path.split("."):
        if not hasattr(found, part):  # so it is with what functions define inside
            raise NoDescriptionError(name)
        found = getattr(found, part)
    return found

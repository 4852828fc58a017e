"""Functions of the user's own: when two of them are the same.

Compiled programs are shared by functions that are equal. Python's answer is not ours: two objects
of a frozen dataclass may be equal and compute different numbers, from a field with `compare=False`,
say; and one object computes other numbers once somebody has changed its price.
"""

import functools
import hashlib
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from postgrad.numerics.program_cache.structure import PLAIN, is_known

# How deep, how much and how many bytes are looked at. What lies beyond is told by its identity.
_DEEPEST, _MOST, _LARGEST = 6, 1000, 1 << 20
# What a module that a function names may hold: settings.PRICE.
_NUMBERS = (bool, int, float, str)


class OfItself:
    """A function that equals itself alone, as long as what it refers to does not change.

    Attributes:
        refers_to: What it referred to when this was made: numbers, text and arrays.
    """

    def __init__(self, function: Any, refers_to: tuple[Any, ...]):
        self.__wrapped__, self.refers_to = function, refers_to

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns."""
        return self.__wrapped__(*arguments, **options)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OfItself):
            return False
        mine, its = self.__wrapped__, other.__wrapped__
        is_same = mine == its if isinstance(mine, MethodType) else mine is its
        return is_same and self.refers_to == other.refers_to

    def __hash__(self) -> int:
        mine = self.__wrapped__
        # Each access to a method makes a new one, which is equal if the object is the same one.
        return hash((mine if isinstance(mine, MethodType) else id(mine), self.refers_to))


def of_itself(function: Any) -> Any:
    """The function, as `OfItself` if it refers to numbers or its class says what is equal.

    PyTrees, an `equinox.Module` say, stay what they are: their numbers are not part of a program.
    So do functions that are known by their name.
    """
    function = as_given(function)
    if not callable(function) or isinstance(function, type) or is_known(function):
        return function
    if not any(leaf is function for leaf in jax.tree.leaves(function)):
        return function
    found = _Referents().of(function)
    has_equality = isinstance(type(function).__eq__, FunctionType)
    return OfItself(function, found) if found or has_equality else function


def as_of_now(parts: Any) -> Any:
    """The parts of a problem or a policy; others if functions refer to other numbers by now."""
    old, structure = jax.tree.flatten(parts)
    new = [of_itself(leaf) for leaf in old]
    are_same = (
        a is b or (isinstance(a, OfItself) and a == b) for a, b in zip(old, new, strict=True)
    )
    return parts if all(are_same) else jax.tree.unflatten(structure, new)


def as_given(function: Any) -> Any:
    """The reverse of `of_itself`."""
    return function.__wrapped__ if isinstance(function, OfItself) else function


class _Same:
    """Stands for an object by its identity, and keeps it, so that no other gets its address."""

    def __init__(self, value: Any):
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


class _Referents:
    """What a function can read: its defaults, closure and attributes, and globals that it names."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        self._found: list[Any] = []

    def of(self, function: Any) -> tuple[Any, ...]:
        """What a function refers to, in the order in which it is found."""
        self._visit(function, 0)
        return tuple(self._found)

    def _visit(self, value: Any, depth: int) -> None:
        if type(value) in PLAIN or isinstance(value, bytes | complex | np.generic):
            self._found.append((type(value), repr(value)))
        elif isinstance(value, np.ndarray) and value.dtype != object:
            self._found.append((str(value.dtype), value.shape, _content(value)))
        elif isinstance(value, jax.Array):
            self._found.append(_Same(value))  # it does not change, but there may be another one
        elif id(value) in self._seen or isinstance(value, BuiltinFunctionType):
            return
        elif depth == _DEEPEST or len(self._seen) > _MOST:
            self._found.append(_Same(value))
        else:
            self._seen[id(value)] = value
            if isinstance(value, tuple | list | dict | set | frozenset):
                self._found.append((type(value), len(value)))  # where its entries end
            for part in _parts(value):
                self._visit(part, depth + 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, FunctionType):
        return [] if is_known(value) else _of_function(value)
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, type):
        return [] if is_known(value) else _of_class(value)
    if isinstance(value, ModuleType):
        return []
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    kinds = type(value).__mro__
    slots = [vars(kind).get("__slots__", ()) for kind in kinds]
    names = [name for some in slots for name in ([some] if isinstance(some, str) else some)]
    held = [getattr(value, name, None) for name in names]
    return [*held, *getattr(value, "__dict__", {}).values(), *kinds]


def _of_class(kind: type) -> list[Any]:
    held = [getattr(value, "__func__", value) for value in vars(kind).values()]
    return [one for one in held if isinstance(one, int | float | FunctionType)]


def _of_function(function: FunctionType) -> list[Any]:
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not yet assigned
            continue
    names = _names(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):  # settings.PRICE
            of_module = vars(value)
            held += [of_module[other] for other in names if type(of_module.get(other)) in _NUMBERS]
        elif value is not None:
            held.append(value)
    return held


def _names(code: CodeType) -> list[str]:
    """The globals and attributes that some code and the functions in it name."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [*code.co_names, *(name for one in inner for name in _names(one))]


def _content(array: np.ndarray) -> Any:
    if array.nbytes > _LARGEST:
        return _Same(array)
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()

"""Functions of the user's own, which are the same only if they are the same object."""

from types import FunctionType
from typing import Any

import jax


class OfItself:
    """A function that equals itself alone, whatever its class says of equality.

    Compiled programs are shared by functions that are equal. Two objects of a dataclass may be
    equal and yet compute different numbers, from a field with `compare=False`, say; and objects of
    a dataclass that is not frozen have no hash.
    """

    def __init__(self, function: Any):
        self.__wrapped__ = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What the function returns."""
        return self.__wrapped__(*arguments, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfItself) and self.__wrapped__ is other.__wrapped__

    def __hash__(self) -> int:
        return id(self.__wrapped__)


def of_itself(function: Any) -> Any:
    """The function; if it is an object whose class says what is equal, `OfItself`.

    PyTrees, an `equinox.Module` say, stay what they are: their numbers are not part of a program.
    """
    if not callable(function) or isinstance(function, OfItself):
        return function
    has_equality = isinstance(type(function).__eq__, FunctionType)
    is_leaf = any(leaf is function for leaf in jax.tree.leaves(function))
    return OfItself(function) if has_equality and is_leaf else function


def as_given(function: Any) -> Any:
    """The reverse of `of_itself`."""
    return function.__wrapped__ if isinstance(function, OfItself) else function

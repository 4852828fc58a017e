"""Contexts: what is known before a decision, such as the weekday, a promotion or stock on hand.

A function of a context, with the context given, is a function of two arguments as all others are.
So everything that reads a cost or a model works in a context, and the numbers of the context are
numbers of the problem: one compiled program serves all contexts.
"""

import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from postgrad.errors import ContextError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import is_concrete, on_device

# How many contexts an assumption is tried in, besides the one that is given.
_TRIALS = 8
# Whole numbers to try; indices beyond the end of an array read its last entry.
_WHOLE = np.asarray([0, 1, 2, 3, 4, 5, 6, 11, 23, 51])
_NAMELESS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class InContext(Module):
    """A function of three arguments, the last of which is given: g(a, b) = f(a, b, z).

    Attributes:
        function: f.
        numbers: The arrays of z. Programs are kept by what is not an array, which must be hashable:
            so z, a dictionary perhaps, is kept in two parts.
        structure: What they are arrays of.
    """

    function: Callable[..., Any]
    numbers: tuple[Any, ...]
    structure: Any = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], context: PyTree):
        """See the attributes."""
        self.function = function
        numbers, self.structure = jax.tree.flatten(context)
        self.numbers = tuple(numbers)

    @property
    def context(self) -> PyTree:
        """z."""
        return jax.tree.unflatten(self.structure, self.numbers)

    def __call__(self, a: Any, b: Any) -> Any:
        """f(a, b, z)."""
        return self.function(a, b, self.context)


def takes_context(function: Any) -> bool:
    """Whether a function has three positional parameters without defaults, or says that it does."""
    if isinstance(said := getattr(function, "takes_context", None), bool):
        return said
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return False
    needed = [p for p in parameters if p.kind in _NAMELESS and p.default is p.empty]
    return len(needed) == 3


def in_context(function: Any, context: PyTree) -> Any:
    """The function in the context; itself, if it does not take one.

    A noun that is made of a function, `Items` say, has a method `in_context` of its own.
    """
    if isinstance(function, InContext):
        return InContext(function.function, context)
    if hasattr(function, "in_context"):
        return function.in_context(context)
    return InContext(function, context) if takes_context(function) else function


def context_of(function: Any) -> PyTree:
    """The context in which a function is; None if it is in none."""
    return getattr(function, "context", None)


def as_context(context: PyTree, like: PyTree = None, what: str = "context") -> PyTree:
    """A context as arrays: whole numbers and truth values stay what they are, others are float64.

    Args:
        context: z.
        like: A context whose structure, shapes and kinds of numbers it must have, if given.
        what: Its name in error messages.

    Raises:
        ContextError: If it is not finite numbers, or not like the other one.
    """
    if not is_concrete(context):
        return context
    named, _ = jax.tree.flatten_with_path(context, is_leaf=_is_leaf)
    structure = jax.tree.structure(context, is_leaf=_is_leaf)
    names = [f"{what}{jax.tree_util.keystr(path)}" for path, _ in named]
    arrays = [_as_leaf(leaf, name) for name, (_, leaf) in zip(names, named, strict=True)]
    if like is None:
        if not arrays:
            raise ContextError(f"{what} must have at least one number, got {context!r}")
    else:
        others, expected = jax.tree.flatten(like)[0], jax.tree.structure(like)
        if str(structure) != str(expected):
            raise ContextError(_other_parts(names, like, what))
        arrays = [_like(*each) for each in zip(arrays, others, names, strict=True)]
    return jax.tree.unflatten(structure, [on_device(array) for array in arrays])


def trial_contexts(context: PyTree) -> list[PyTree]:
    """The context, and some around it, near and far, that an assumption is tried in."""
    rng = np.random.default_rng(0)

    def moved(leaf: Array, scale: float) -> Array:
        numbers = np.asarray(leaf)
        if numbers.dtype.kind == "b":
            return on_device(rng.random(numbers.shape) < 0.5)
        if numbers.dtype.kind != "f":  # an index perhaps: of the first few, of hours, of weeks
            return on_device(rng.choice(_WHOLE, numbers.shape))
        noise = scale * rng.standard_normal(numbers.shape)
        return on_device(numbers + noise * (1.0 + np.abs(numbers)))

    scales = np.geomspace(0.01, 3.0, _TRIALS)
    return [context, *(jax.tree.map(lambda z, s=s: moved(z, float(s)), context) for s in scales)]


def _is_leaf(node: object) -> bool:
    return node is None or isinstance(node, list)  # a list of numbers is an array


def _as_leaf(leaf: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(leaf)
    except (ValueError, TypeError) as problem:
        raise ContextError(f"{name} must be numbers of one shape, got {leaf!r}") from problem
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "fiu":
        raise ContextError(f"{name} must be a number or an array of numbers, got {leaf!r}")
    if not np.isfinite(array).all():
        raise ContextError(f"{name} must be finite, got {array.tolist()}")
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64)


def _like(array: np.ndarray, other: Any, name: str) -> np.ndarray:
    """The array, with the kind of numbers of another one."""
    expected = np.asarray(other)
    if array.shape != expected.shape:
        raise ContextError(f"{name} must have shape {expected.shape}, got {array.shape}")
    cast = array.astype(expected.dtype)
    if expected.dtype.kind != "f" and not np.array_equal(cast, array):
        kind = {"i": "whole numbers", "b": "true or false"}[expected.dtype.kind]
        raise ContextError(f"{name} must be {kind} like the first context, got {array.tolist()}")
    return cast


def _other_parts(names: list[str], like: PyTree, what: str) -> str:
    """That a context has other parts than another one, in words."""
    named, _ = jax.tree.flatten_with_path(like)
    expected = [f"{what}{jax.tree_util.keystr(path)}" for path, _ in named]
    missing = [name for name in expected if name not in names]
    extra = [name for name in names if name not in expected]
    said = [f"{name} is missing" for name in missing[:1]]
    said += [f"{name} is not known" for name in extra[:1]]
    parts = "; ".join(said or ["its parts are in another structure"])
    return f"{parts}: the first context has {', '.join(expected)}"

"""The base of all nouns: an `equinox.Module` that prints its numbers."""

import copy
import inspect
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

# Larger arrays are printed as their shape and range.
_ENTRIES = 6

M = TypeVar("M", bound=eqx.Module)


class Module(eqx.Module):
    """An `equinox.Module` whose `repr` shows numbers: `Box(low=1.0, high=100.0)`."""

    def __repr__(self) -> str:
        return shown(self)


def replaced(module: M, **fields: Any) -> M:
    """The Module with other values in some of its fields, which its constructor does not check."""
    new = copy.copy(module)
    for name, value in fields.items():
        object.__setattr__(new, name, value)
    return new


def shown(value: Any) -> str:
    """A PyTree as text: numbers to six digits, large arrays as shape and range, no addresses."""
    return eqx.tree_pformat(jax.tree.map(_as_text, value, is_leaf=_prints_an_address))


class _Text(str):
    """A string that prints without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _as_text(leaf: Any) -> Any:
    if isinstance(leaf, jax.core.Tracer):
        return _Text(f"traced {jax.typeof(leaf)}")
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return _Text(f"key{jax.random.key_data(leaf).tolist()}")
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return _Text(_numbers(np.asarray(leaf)))
    if isinstance(leaf, float):
        return _rounded(leaf)
    if callable(leaf) and hasattr(leaf, "__wrapped__"):
        return inspect.unwrap(leaf)  # functions are printed by name
    return _Text(_name_and_fields(leaf)) if _prints_an_address(leaf) else leaf


def _numbers(array: np.ndarray) -> str:
    if array.dtype.kind not in "fiub":
        return f"array of shape {array.shape}"
    if array.size <= _ENTRIES:
        exact = array.dtype.kind != "f"
        return repr(array.tolist() if exact else np.vectorize(_rounded, [float])(array).tolist())
    finite = array[np.isfinite(array)]
    extent = f" from {_rounded(finite.min())} to {_rounded(finite.max())}" if finite.size else ""
    return f"array of shape {array.shape}{extent}"


def _rounded(number: Any) -> float:
    return float(f"{number:.6g}")


def _prints_an_address(node: Any) -> bool:
    # numpyro's distributions too, asked by protocol since numpyro is slow to import
    kind: Any = type(node)
    return kind.__repr__ is object.__repr__ or hasattr(kind, "arg_constraints")


def _name_and_fields(node: Any) -> str:
    """Of a distribution its parameters, of other objects all public fields."""
    names = [name for name in getattr(node, "__dict__", ()) if not name.startswith("_")]
    if hasattr(type(node), "arg_constraints"):
        parameters = [name for name in names if name in node.arg_constraints]
        names = parameters or list(type(node).pytree_data_fields)
    fields = ", ".join(f"{name.lstrip('_')}={shown(getattr(node, name))}" for name in names)
    return f"{type(node).__name__}({fields})"

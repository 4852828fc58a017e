"""Beliefs that differ in numbers only, as one belief whose arrays are stacked."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten_with_path
from jaxtyping import Array, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.forgetting import Memory
from postgrad.numerics.fixed import steps
from postgrad.numerics.validate import is_concrete, on_device


def stacked(members: Sequence[Belief]) -> tuple[Belief, tuple[bool, ...]]:
    """The members stacked along a new leading axis of each leaf, but for leaves that they share.

    They share what no stage changes and is the same in all of them. What depends on shared arrays
    alone, such as the likelihood at a grid's points, is computed once for all members. (Rates of
    forgetting are stacked in any case.)

    Returns:
        The stack, and of each leaf whether it is shared.
    """
    leaves = [jax.tree.leaves(member) for member in members]
    marks = _may_be_shared(members[0])
    shared = tuple(
        mark and all(_equal(each[0], other) for other in each[1:])
        for mark, *each in zip(marks, *leaves, strict=True)
    )
    columns = zip(shared, *leaves, strict=True)
    stack = [each[0] if is_shared else _stack(each) for is_shared, *each in columns]
    return jax.tree.unflatten(jax.tree.structure(members[0]), stack), shared


def one_of(leaf: Array, index: int) -> Array:
    """An entry along the leading axis; on the host, if it can be: nothing is to be compiled."""
    return on_device(np.asarray(leaf)[index]) if _is_plain(leaf) else leaf[index]


def difference(first: Any, other: Any, path: str = "") -> str | None:
    """In what, apart from numbers, another belief differs from the first one; None if in nothing.

    Said of the other: "has memory.forget = 0.9, and the first None".
    """
    # The walk finds words; whether there is a difference is for JAX to say.
    return next(_differences(first, other, path), None) or (
        None if _form(first) == _form(other) else "is made in another way than the first"
    )


def _form(belief: Any) -> Any:
    leaves, tree = jax.tree.flatten(belief)
    return tree, [(np.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]


def _differences(first: Any, other: Any, path: str) -> Iterator[str]:
    at = f"{path} " if path else ""
    is_array = eqx.is_array(first), eqx.is_array(other)
    if all(is_array):
        if first.shape != other.shape:
            yield f"has {at}of shape {other.shape}, and the first of shape {first.shape}"
        elif first.dtype != other.dtype:
            yield f"has {at}of type {other.dtype}, and the first of type {first.dtype}"
    elif type(first) is not type(other) or any(is_array):
        if path:
            yield f"has {path} = {_shown(other)}, and the first {_shown(first)}"
        else:
            yield f"is a {type(other).__name__}, and the first a {type(first).__name__}"
    elif isinstance(first, dict):
        if first.keys() != other.keys():
            names, others = (sorted(map(str, keys)) for keys in (first, other))
            yield f"has {at}with {others}, the first with {names}"
        else:
            for key in first:
                yield from _differences(first[key], other[key], f"{path}[{key!r}]")
    elif isinstance(first, tuple | list):
        if len(first) != len(other):
            yield f"has {at}of length {len(other)}, and the first of length {len(first)}"
        for i, pair in enumerate(zip(first, other, strict=False)):
            yield from _differences(*pair, f"{path}[{i}]")
    elif isinstance(first, eqx.Module):
        for field in dataclasses.fields(first):
            below = f"{path}.{field.name}" if path else field.name
            yield from _differences(getattr(first, field.name), getattr(other, field.name), below)
    elif not _same_setting(first, other):
        yield f"has {path} = {_shown(other)}, and the first {_shown(first)}"


def _same_setting(first: Any, other: Any) -> bool:
    if jax.tree_util.all_leaves([first]):
        return bool(first == other)
    trees: list[Any] = [jax.tree.structure(value) for value in (first, other)]
    return bool(trees[0] == trees[1])


def _shown(value: Any) -> str:
    return f"{float(value):g}" if eqx.is_array(value) and value.size == 1 else repr(value)


def _may_be_shared(belief: Belief) -> list[bool]:
    leaves, _ = tree_flatten_with_path(belief)
    return [_is_fixed(belief, path) for path, _ in leaves]


def _is_fixed(belief: Belief, path: tuple[Any, ...]) -> bool:
    walked = list(steps(belief, path))
    is_rate = any(kind is Memory for kind, *_ in walked)
    return not is_rate and any(metadata.get("fixed") for *_, metadata in walked)


def _is_plain(leaf: Array) -> bool:
    return is_concrete(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _equal(one: Array, other: Array) -> bool:
    if one is other:
        return True
    plain = _is_plain(one) and _is_plain(other)
    return plain and np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)


def _stack(leaves: list[PyTree]) -> Array:
    if all(map(_is_plain, leaves)):
        return on_device(np.stack([np.asarray(leaf) for leaf in leaves]))
    return jnp.stack(leaves)

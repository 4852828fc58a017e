"""Whether something holds in every run of a `vmap`.

A loop that ends for each run by itself goes on for all until the last has ended; and every `cond`
inside becomes a `select`, which computes both branches, since each run may be elsewhere. A loop
that ends when all runs have is the same for all of them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree


@jax.custom_batching.custom_vmap
def in_every_run(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether `flag` is true in all runs of a `vmap`; outside of one, `flag`."""
    return flag


def in_any_run(flag: Bool[Array, ""]) -> Bool[Array, ""]:
    """Whether `flag` is true in any run of a `vmap`; outside of one, `flag`."""
    return ~in_every_run(~flag)


@in_every_run.def_vmap
def _(size: int, batched: list[bool], flag: Bool[Array, "..."]) -> tuple[Array, bool]:
    del size
    return (jnp.all(flag, axis=0) if batched[0] else flag), False


@jax.custom_batching.custom_vmap
def unless_idle(idle: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """What is new; in a `vmap`, what is old in runs that are idle.

    Only beside others is a run ever idle: a loop that is of no use to a run by itself has ended.
    """
    del idle, old
    return new


@unless_idle.def_vmap
def _(
    size: int, batched: list[Any], idle: Bool[Array, "..."], new: PyTree, old: PyTree
) -> tuple[PyTree, PyTree]:
    if not batched[0]:  # all runs are the same one
        return new, batched[1]

    def chosen(new: Array, old: Array, new_differs: bool, old_differs: bool) -> Array:
        new = new if new_differs else jnp.broadcast_to(new, (size, *new.shape))
        old = old if old_differs else jnp.broadcast_to(old, (size, *old.shape))
        return jnp.where(idle.reshape(size, *(1,) * (new.ndim - 1)), old, new)

    return jax.tree.map(chosen, new, old, *batched[1:]), jax.tree.map(lambda _: True, new)

"""Whether something holds in every run of a `vmap`.

A loop that ends for each run by itself goes on for all until the last has ended; and every `cond`
inside becomes a `select`, which computes both branches, since each run may be elsewhere. A loop
that ends when all runs have is the same for all of them.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


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

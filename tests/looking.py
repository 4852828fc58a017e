"""What the draws of a stage say at one place."""

import jax
import jax.numpy as jnp

from postgrad.algorithm.sampled_objective import Reading, SampledObjective

GROUPS = 8


def read_at(objective: SampledObjective, thetas, key, count, x) -> Reading:
    """All rows look at x, `count` draws of xi for each theta."""
    look = objective.rows(thetas, thetas, key, count, x)(jnp.asarray(False))
    rows = jax.tree.leaves(thetas)[0].shape[0]
    return look(jnp.broadcast_to(jnp.ravel(x), (rows, x.size)))


def noise(objective: SampledObjective, reading: Reading):
    """The standard error of the slope, as eight groups of rows tell it."""
    _, slopes = objective.groups(reading, GROUPS, None)
    return jnp.std(slopes, axis=0, ddof=1) / jnp.sqrt(GROUPS)

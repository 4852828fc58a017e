"""Costs that add up over the coordinates of xi: then only its marginals matter.

The expected cost of several items, each with a demand of its own, does not depend on how the
demands are correlated. Drawn independently, every coordinate can be spread evenly on a line, and a
few thousand draws do what hundreds of thousands would with the joint law.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.problem.problem import Cost, Decision, Problem

_PAIRS = 8  # of draws, at each of the decisions that are tried


def marginals(law: Any) -> Any:
    """Independent coordinates with the same marginals, where these are known; else `law` itself."""
    if not isinstance(law, dist.MultivariateNormal):
        return law
    spread = jnp.sqrt(jnp.sum(jnp.square(law.scale_tril), axis=-1))
    return dist.Normal(law.loc, spread, validate_args=False).to_event(1)


def adds_over_coordinates(problem: Problem, x: Decision, theta: PyTree) -> bool:
    """Whether h(x, xi) = sum_i h_i(x, xi_i), and the model's marginals are known and others.

    Judged by what such costs, and no others, do when two draws a and b swap coordinate i:

        h(x, a) + h(x, b)  =  h(x, a with b_i) + h(x, b with a_i),

    tried on many draws at several decisions.
    """
    kind = problem.kind(x, theta)
    if kind.name != "MultivariateNormal" or kind.event_shape[0] < 2:
        return False
    return bool(jnp.all(_swaps(problem, problem.decisions(x), theta)))


@eqx.filter_jit
def _swaps(problem: Problem, decisions: Array, theta: PyTree) -> Bool[Array, "k pairs d"]:
    def at(x: Decision, key: Array) -> Array:
        a, b = problem.model(x, theta).sample(key, (2,))
        whole = problem.cost(x, a) + problem.cost(x, b)

        def swapped(i: Array) -> Array:
            here = jnp.arange(a.shape[0]) == i
            parts = problem.cost(x, jnp.where(here, b, a)) + problem.cost(x, jnp.where(here, a, b))
            return jnp.abs(parts - whole) <= 1e-9 * (1.0 + jnp.abs(whole))

        return jax.vmap(swapped)(jnp.arange(a.shape[0]))

    keys = random.split(random.key(0), (decisions.shape[0], _PAIRS))
    return jax.vmap(lambda x, keys: jax.vmap(lambda key: at(x, key))(keys))(decisions, keys)


def costs_by_item(
    cost: Cost, x: Float[Array, "n d"], xi: Float[Array, "n d"]
) -> Float[np.ndarray, "n items"]:
    """The cost of each item where h(x, xi) = sum_i h_i(x_i, xi_i); else one column, the whole.

    With item i set to zero, in the decision and in the data, the cost falls by h_i(x_i, xi_i) -
    h_i(0, 0). If these differences add up to h(x, xi) - h(0, 0) in each row, the cost is such a
    sum; h(0, 0) is then shared by the items alike.
    """
    d = x.shape[1]
    keep = ~np.eye(d, dtype=bool)
    whole = np.asarray(jax.vmap(cost)(x, xi))
    without = jax.vmap(lambda keep: jax.vmap(cost)(x * keep, xi * keep), out_axes=1)(keep)
    nothing = float(cost(jnp.zeros(d), jnp.zeros(d)))
    each = whole[:, None] - np.asarray(without) + nothing / d
    adds_up = np.abs(each.sum(axis=1) - whole) <= 1e-9 * (1.0 + np.abs(whole))
    return each if np.all(adds_up | np.isnan(whole)) else whole[:, None]

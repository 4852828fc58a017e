"""How surprising a batch is, given what was believed before it."""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief, first
from postgrad.distributions.inversion import by_inversion
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.lattice_keys import quick_keys
from postgrad.problem.problem import Decision, Model
from postgrad.records.surprise import Surprise as Surprise

# How many replicates are set aside to find the centre.
_CENTRE = 31
# Of a larger batch so many rows are compared, and of long rows fewer: M times the whole batch would
# cost more than everything else that is done with it.
_ROWS, _NUMBERS = 64, 4096


# A tree of arrays in programs, and of NumPy's in records, which need no JAX.
jax.tree_util.register_dataclass(Surprise)


def surprise(
    belief: Belief,
    likelihood: Model,
    x: Decision,
    batch: Float[Array, "D ..."],
    weight: Float[Array, " D"] | None,
    key: Array,
    replicates: int = 199,
) -> Surprise:
    """Compares a batch with replicates that the belief foresees.

        theta_m ~ pi_{t-1},   y_{m,1}, ..., y_{m,D} ~ f(.; x, theta_m),   m = 1, ..., M

    If theta_c ~ pi_{t-1} given the past, and f is right, the batch and its replicates are
    exchangeable. So the number of replicates below the batch, ties broken at random, takes each
    value from 0 to M with equal probability, and with V uniform on [0, 1]

        u  =  (#{m : T_m < T} + V (1 + #{m : T_m = T})) / (M + 1)

    is exactly uniform given the past, whatever D, the belief and the statistic T are, discrete data
    included. The u of the batches of a stream are hence independent of each other.

    Of a batch with more than 64 rows, at most 64 are compared, evenly spaced.

    Args:
        belief: pi_{t-1}, before the batch.
        likelihood: f(.; x, theta), the distribution of one observation.
        x: The decision in force when the batch arose.
        batch: D observations along the leading axis.
        weight: How much each observation counts; None counts all once.
        key: Randomness: a new key for each batch.
        replicates: M.
    """
    rows = _some(batch.shape)
    batch = jnp.asarray(batch[rows], float)
    weight = jnp.ones(len(batch)) if weight is None else weight[rows]

    count = _CENTRE + replicates

    def some_thetas(key: Array) -> PyTree:
        return belief.sample(key, (count,))

    def a_row(theta: PyTree, key: Array) -> Array:
        return by_inversion(likelihood(x, theta)).sample(key)

    example = first(belief.examples())
    keys = quick_keys([some_thetas, functools.partial(a_row, example)], key, 2 + count)
    thetas = computed_once(some_thetas(keys[0]), key)

    def with_row(j: Array, foreseen: Array) -> Array:
        new = jax.vmap(a_row)(thetas, jax.vmap(lambda key: random.fold_in(key, j))(keys[2:]))
        return lax.dynamic_update_index_in_dim(foreseen, jnp.asarray(new, float), j, 1)

    # Row by row, since most rows of a small batch are padding, and come last.
    used = jnp.max(jnp.where(weight > 0, jnp.arange(1, 1 + len(weight)), 0))
    foreseen = lax.fori_loop(0, used, with_row, jnp.zeros((count, *batch.shape)))
    # From replicates set aside, so that the centre favours neither the batch nor those compared.
    centre = jnp.sort(foreseen[:_CENTRE, 0], axis=0)[_CENTRE // 2]

    def statistics(y: Float[Array, "M D ..."]) -> Float[Array, "2 M ..."]:
        return jnp.stack([_total(weight, y), _total(weight, jnp.abs(y - centre))])

    seen, foreseen = statistics(batch[None]), statistics(foreseen[_CENTRE:])
    v = random.uniform(keys[1], (2, *batch.shape[1:]))
    return Surprise(*_randomised_rank(seen, foreseen, v), *_standardised(seen, foreseen))


def _some(shape: tuple[int, ...]) -> slice:
    """Evenly spaced rows, all of them if they are few."""
    most = max(1, min(_ROWS, _NUMBERS // math.prod(shape[1:])))
    return slice(None, None, -(-shape[0] // most))


def _total(weight: Float[Array, " D"], y: Float[Array, "M D ..."]) -> Float[Array, "M ..."]:
    """sum_j w_j y_j. Not divided by sum_j w_j: whole numbers stay whole, so that ties are ties."""
    wide = weight.reshape(-1, *(1,) * (y.ndim - 2))
    return jnp.sum(jnp.where(wide > 0, wide * y, 0.0), axis=1)


def _randomised_rank(
    seen: Float[Array, "2 1 ..."], foreseen: Float[Array, "2 M ..."], v: Float[Array, "2 ..."]
) -> Float[Array, "2 ..."]:
    """u, as above; NaN where some T_m is none: there is no posterior."""
    below = jnp.sum(foreseen < seen, axis=1)
    equal = jnp.sum(foreseen == seen, axis=1)
    u = (below + v * (1 + equal)) / (1 + foreseen.shape[1])
    return jnp.where(jnp.any(jnp.isnan(foreseen), axis=1), jnp.nan, u)


def _standardised(
    seen: Float[Array, "2 1 ..."], foreseen: Float[Array, "2 M ..."]
) -> Float[Array, "2 ..."]:
    """(T - mean) / standard deviation, where zero over zero is zero."""
    gap = seen[:, 0] - jnp.mean(foreseen, axis=1)
    return jnp.where(gap == 0, 0.0, gap / jnp.std(foreseen, axis=1, ddof=1))

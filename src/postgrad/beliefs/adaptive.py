"""A belief that also learns how fast the world changes."""

import math
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import (
    BatchBelief,
    Belief,
    BeliefWithMemory,
    check_arrays_stay,
    first,
    member_axes,
)
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.errors import PriorError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_numbers, is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem

# From a world that does not change to one that a dozen batches describe.
RATES = (1.0, 0.99, 0.98, 0.96, 0.92)


class Adaptive(BatchBelief):
    """A belief with several rates of forgetting, each weighted by how well it predicted the data.

        pi_t  =  sum_r v_{t,r} pi_t^(r),
        v_{t,r}  ~  v_{t-1,r} prod_j f_hat^(r)_{t-1}(y_{t,j}; x_t)

    where pi^(r) forgets at the rate lambda_r: see `Memory`. The product is over predictive
    densities before the batch (the prequential likelihood of Dawid, 1984), so this is Bayesian
    model averaging over rates. No rate has to be chosen; if nothing changes, v concentrates on
    lambda = 1.

    Attributes:
        beliefs: pi^(r), stacked along the leading axis of each leaf that members do not share.
        log_weights: log v_r, the largest zero.
    """

    beliefs: BeliefWithMemory
    log_weights: Float[Array, " r"]

    def __init__(self, belief: Belief, rates: Any = RATES):
        """Copies of a prior that forget at different rates.

        Args:
            belief: pi_0, made with `forget=1.0`; the rates replace this number.
            rates: lambda_r, in (0, 1].

        Raises:
            PriorError: If the belief was made without `forget`, or a rate is not in (0, 1].
        """
        if not isinstance(belief, BeliefWithMemory) or belief.memory.forget is None:
            raise PriorError(f"Adaptive needs a belief made with forget=1.0, got {belief!r}")
        numbers = as_numbers(rates, PriorError, "rates")
        if numbers.ndim != 1 or numbers.size == 0 or not ((numbers > 0) & (numbers <= 1)).all():
            raise PriorError(f"rates must be numbers in (0, 1], got {rates!r}")
        stacked = _map_members(lambda leaf: _repeated(leaf, numbers.size), belief)
        self.beliefs = eqx.tree_at(lambda b: b.memory.forget, stacked, on_device(numbers))
        self.log_weights = on_device(np.zeros(numbers.size))

    @property
    def rates(self) -> Float[Array, " r"]:
        """lambda_r."""
        assert self.beliefs.memory.forget is not None  # checked when made
        return self.beliefs.memory.forget

    @property
    def probabilities(self) -> Float[Array, " r"]:
        """v_r."""
        return jax.nn.softmax(self.log_weights)

    @property
    def weights(self) -> LogWeights:
        """v_r, up to a constant."""
        return LogWeights(self.log_weights)

    def _each(self, function: Callable[[Belief], PyTree], out_axes: PyTree = 0) -> PyTree:
        """`function(belief)` of each member."""
        return jax.vmap(function, (member_axes(self.beliefs),), out_axes)(self.beliefs)

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule for every member, and for the weights of the members."""
        return self.predict_and_update(likelihood, batch, key)[0]

    def predict_and_update(
        self, likelihood: Model, batch: Batch, key: Array | None = None
    ) -> tuple[Self, Float[Array, " D"]]:
        """Both from the members' own predictions.

        The observations of a batch are predicted independently of each other.
        """
        learned, log_f = self._each(
            lambda belief: belief.predict_and_update(likelihood, batch, key),
            (member_axes(self.beliefs), 0),
        )
        log_weights = self.log_weights + jax.vmap(batch.total)(log_f)
        new = replaced(self, beliefs=learned, log_weights=log_weights - jnp.max(log_weights))
        return new, jax.vmap(self._mixed, in_axes=1)(log_f)

    @property
    def effective_size(self) -> Array:
        """The members' sizes, averaged with the weights v_r."""
        return jnp.sum(self.probabilities * self._each(lambda belief: belief.effective_size))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """A member by inversion, then a draw from it."""
        key_rate, key_theta = random.split(key)
        which, _ = self.weights.pick(random.uniform(key_rate, (math.prod(shape),)))
        thetas = self.beliefs.sample_among(which, key_theta)
        return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), thetas)

    def mean(self) -> PyTree:
        """sum_r v_r E_r theta."""
        return self.weights.average(self._each(lambda belief: belief.mean()))

    def spread(self) -> PyTree:
        """From the variance within members and that of their means."""
        means = self._each(lambda belief: belief.mean())
        spreads = self._each(lambda belief: belief.spread())
        squares = jax.tree.map(lambda m, s, e: s**2 + (m - e) ** 2, means, spreads, self.mean())
        return jax.tree.map(jnp.sqrt, self.weights.average(squares))

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """log sum_r v_r f_hat^(r)(xi; x)."""
        return self._mixed(self._each(lambda belief: belief.log_mixture(model, x, xi)))

    def _mixed(self, log_f: Float[Array, " r"]) -> Float[Array, ""]:
        """log sum_r v_r f_r."""
        return logsumexp(self.log_weights + log_f) - logsumexp(self.log_weights)

    def examples(self) -> PyTree:
        """Those of the first member."""
        return self._first().examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Binds the first member, to see that binding changes no arrays.

        Raises:
            ModelError: If it does.
        """
        check_arrays_stay(self._first(), problem, x, "Adaptive")
        return self

    def _first(self) -> Belief:
        return _map_members(first, self.beliefs)


def _repeated(leaf: Array, count: int) -> Array:
    """Copies along a new leading axis; on the host, if it can be: nothing is to be compiled."""
    if is_concrete(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return on_device(np.stack([np.asarray(leaf)] * count))
    return jnp.stack([leaf] * count)


def _map_members(function: Callable[[Array], Array], belief: BeliefWithMemory) -> Any:
    """The belief with a function applied to each leaf in which members differ."""
    return jax.tree.map(
        lambda leaf, axis: leaf if axis is None else function(leaf), belief, member_axes(belief)
    )

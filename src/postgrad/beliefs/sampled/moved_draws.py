"""Beliefs that hold draws of theta, and move them as data arrive."""

import abc
import math
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import BeliefWithMemory, select
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.kept_likelihood import KeptLikelihood, KeptRows
from postgrad.beliefs.sampled.markov_moves import Bridge
from postgrad.beliefs.sampled.prior import Prior
from postgrad.beliefs.sufficient_totals import renewed
from postgrad.errors import SettingError
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count, as_key, is_concrete
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem

# Temperatures on the way to one posterior, at most: some hundred take a prior to one that is a
# million times narrower in twenty dimensions.
MOST_ROUNDS = 1000


class MovedDraws(BeliefWithMemory):
    """Draws theta_i, moved on the posterior by Markov chains.

    Attributes:
        prior: pi_0.
        kept: What is kept of the data, to compute their likelihood; None before `bind`.
        positions: The draws in R^d; see `Prior`.
        memory: How much of the past counts.
    """

    prior: Prior = fixed()
    kept: KeptLikelihood | None
    positions: Float[Array, "n d"]

    def __init__(self, prior: PyTree, count: int, seed: int | Array):
        """Draws from the prior.

        Raises:
            PriorError: If the prior is no proper distribution of real numbers.
            SettingError: If there are fewer than two, or the seed is neither a number nor a key.
        """
        if as_count(count, SettingError, "count") < 2:
            raise SettingError(f"count must be at least 2, got {count}")
        self.prior = Prior(prior)
        self.kept = None
        self.positions = self.prior.start(as_key(seed, SettingError), int(count))

    def _faded(self, share: Array) -> Self:
        """The draws stay where they are until the next batch moves them."""
        return self if self.kept is None else replaced(self, kept=self.kept.faded(share))

    @property
    @abc.abstractmethod
    def weights(self) -> LogWeights:
        """The weights of the draws."""

    @property
    def thetas(self) -> PyTree:
        """theta_i, along the leading axis."""
        each = _constrained if is_concrete(self.positions) else _each_constrained
        return each(self.prior, self.positions)

    @property
    def probabilities(self) -> Float[Array, " n"]:
        """The weights of the draws, divided by their sum."""
        return jax.nn.softmax(self.weights.log_weights)

    @property
    def stores_history(self) -> bool:
        """Whether all data are kept, so that moves take time in proportion to their number."""
        return isinstance(self.kept, KeptRows)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Some of the draws, by weight."""
        index, valid = self.weights.pick(random.uniform(key, (math.prod(shape),)))
        return select(self.thetas, index.reshape(shape), jnp.broadcast_to(valid, shape))

    def mean(self) -> PyTree:
        """Over the draws."""
        return self.weights.average(self.thetas)

    def spread(self) -> PyTree:
        """Over the draws."""
        return self.weights.spread(self.thetas)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log sum_i w_i f(xi; x, theta_i) / sum_i w_i."""
        return self.weights.log_mixture(model, self.thetas, x, xi)

    def examples(self) -> PyTree:
        """All draws."""
        return self.thetas

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Finds out what has to be kept of the data: sums of statistics, or all rows.

        Raises:
            ModelError: If the data so far are of another kind than the problem's.
        """
        return replaced(self, kept=renewed(self.kept, self.memory, problem, self.thetas, x))

    def bridge(
        self, likelihood: Model, batch: Batch, key: Array | None
    ) -> tuple[Bridge, Float[Array, "n d"], Array]:
        """The way from pi_{t-1} to pi_t, the draws to begin with, and a key for their moves.

        Raises:
            SettingError: Without a key, or before `bind`.
        """
        name = type(self).__name__
        if key is None:
            raise SettingError(f"{name} needs a key to learn from a batch, got none")
        if self.kept is None:
            raise SettingError(f"{name} must be bound to a problem first: bind(problem, x)")
        key_first, key = random.split(key)
        # Before any data, draws with this key: runs that share a belief do not share its draws.
        positions = lax.cond(
            self.memory.size > 0,
            lambda: self.positions,
            lambda: self.prior.draw(key_first, self.positions.shape[0]),
        )
        bridge = Bridge(self.prior, self.kept, likelihood, batch)
        return bridge, positions, key


def _each_constrained(prior: Prior, positions: Float[Array, "n d"]) -> PyTree:
    return jax.vmap(prior.constrain)(positions)


# Outside compiled programs: operation by operation, each would be a program of its own.
_constrained = eqx.filter_jit(_each_constrained)

"""A posterior over finitely many values of theta."""

import math
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.beliefs.belief import BeliefWithMemory, as_points, as_theta, select
from postgrad.beliefs.forgetting import Memory
from postgrad.beliefs.grid.rare_points import MOST_POINTS, Drawn, wide_density
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights, some, sufficient
from postgrad.beliefs.grid.weights import LogWeights, Weights, log_densities
from postgrad.errors import PriorError
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, is_concrete, on_device
from postgrad.problem.batch import MOST_ROWS, Batch
from postgrad.problem.problem import Decision, Model, Problem


class Grid(BeliefWithMemory):
    """The exact posterior on Theta = {theta_1, ..., theta_n}.

        pi_t(theta_i)  =  pi_{t-1}(theta_i) prod_j f(y_{t,j}; x_t, theta_i) / normaliser

    (eqs. independent-posterior and dependent-posterior of the paper.) Any model is admitted. If the
    model is of an exponential family and the grid is large, `bind` replaces the log-weights of all
    points by a few sufficient statistics: see `SufficientWeights`.

    Attributes:
        points: theta_1, ..., theta_n along the leading axis of each leaf of a PyTree.
        weights: pi_t up to a constant.
        memory: How much of the past counts.
    """

    points: PyTree = fixed()
    weights: Weights
    memory: Memory

    def __init__(self, points: PyTree, prior: Any = None, *, forget: Any = None):
        """A grid with a prior.

        Args:
            points: theta_1, ..., theta_n along the leading axis, e.g. from `product_grid`.
            prior: pi_0 up to a constant; uniform if not given.
            forget: What remains of the evidence after one unit of time; everything, if not given.

        Raises:
            PriorError: If the points are not finite numbers, or the prior is not one non-negative
                weight for each point, some of them positive.
        """
        self.points = as_points(points)
        size = jax.tree.leaves(self.points)[0].shape[0]
        weights = np.ones(size) if prior is None else as_array(prior, PriorError, "prior")
        if weights.shape != (size,):
            raise PriorError(
                f"prior must have one weight for each of {size} points, got shape {weights.shape}"
            )
        to: Any = jnp
        if is_concrete(weights):
            to, weights = np, np.asarray(weights)  # on the host, where nothing is to be compiled
            if (lowest := float(weights.min())) < 0:
                raise PriorError(f"prior must not be negative, got {lowest}")
            if not float(weights.max()) > 0:
                raise PriorError("prior must have positive weight somewhere, got all zeros")
        self.memory = Memory(forget)
        with np.errstate(divide="ignore"):  # a point without weight
            log_prior = to.log(weights) - to.log(weights.max())
        log_prior = on_device(log_prior) if to is np else log_prior
        self.weights = LogWeights(log_prior, None if forget is None else log_prior)

    @property
    def log_weights(self) -> Float[Array, " n"]:
        """log pi_t up to a constant; the largest is zero."""
        return self.weights.log_weights

    @property
    def probabilities(self) -> Float[Array, " n"]:
        """pi_t(theta_i)."""
        return jax.nn.softmax(self.log_weights)

    def probability(self, theta: PyTree) -> Float[Array, ""]:
        """pi_t(theta), zero if theta is not on the grid (to twelve digits)."""

        def is_near(points: Array, value: Array) -> Array:
            near = jnp.isclose(points, value, rtol=1e-12, atol=1e-12)
            return jnp.all(near, axis=tuple(range(1, points.ndim)))

        near = jax.tree.map(is_near, self.points, as_theta(theta))
        here = jnp.all(jnp.stack(jax.tree.leaves(near)), axis=0)
        return jnp.sum(jnp.where(here, self.probabilities, 0.0))

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule."""
        del key
        weights = self.weights.update(likelihood, self.points, batch)
        return replaced(self, weights=weights, memory=self.memory.after(batch))

    def _faded(self, share: Array) -> Self:
        assert isinstance(self.weights, LogWeights)  # see `bind`
        return replaced(self, weights=self.weights.faded(share))

    def predict_and_update(
        self, likelihood: Model, batch: Batch, key: Array | None = None
    ) -> tuple[Self, Float[Array, " D"]]:
        """Both from one computation of all densities, unless rows are none or very many."""
        weights = self.weights
        if not isinstance(weights, LogWeights) or not 0 < len(batch.y) <= MOST_ROWS:
            return super().predict_and_update(likelihood, batch, key)
        densities = partial(log_densities, likelihood, self.points, batch.x)
        # Of members of a `Mixture` that share their points, computed once for all.
        log_f = computed_once(jax.vmap(densities)(batch.y), batch.y)
        new = weights.added(batch.total(log_f))
        foreseen = jax.vmap(weights.log_mean)(log_f)
        return replaced(self, weights=new, memory=self.memory.after(batch)), foreseen

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Draws by inversion: the first point whose cumulated probability exceeds u."""
        index, valid = self.weights.pick(random.uniform(key, (math.prod(shape),)))
        return select(self.points, index.reshape(shape), jnp.broadcast_to(valid, shape))

    def sample_among(self, axes: PyTree, which: Int[Array, " k"], key: Array) -> PyTree:
        """The same from weights of several beliefs; a draw reads those of one belief only."""
        if not isinstance(self.weights, LogWeights):
            return super().sample_among(axes, which, key)
        index, valid = self.weights.pick_among(which, random.uniform(key, which.shape))

        def point(leaf: Array, axis: int | None) -> Array:
            return leaf[index] if axis is None else leaf[which, index]

        picked = jax.tree.map(point, self.points, axes.points)
        return select(picked, jnp.arange(which.size), valid)

    def wide(self) -> Self | None:
        """A grid with the same points and flatter probabilities, unless points are many."""
        size = jax.tree.leaves(self.points)[0].shape[0]
        if not isinstance(self.weights, LogWeights) or not 1 < size <= MOST_POINTS:
            return None
        share = self.probabilities
        density = wide_density(share)
        points = self.points, Drawn(jnp.arange(size), share, density)
        weights = LogWeights(jnp.log(density) - jnp.log(jnp.max(density)))
        return replaced(self, points=points, weights=weights)

    def mean(self) -> PyTree:
        """sum_i pi_t(theta_i) theta_i; NaN if no point explains the data."""
        return self.weights.average(self.points)

    def spread(self) -> PyTree:
        """Weighted over the points."""
        return self.weights.spread(self.points)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """log sum_i pi_t(theta_i) f(xi; x, theta_i)."""
        return self.weights.log_mixture(model, self.points, x, xi)

    def examples(self) -> PyTree:
        """All points, or some of very many; `bind` tries the rest."""
        return some(self.points)

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Replaces log-weights by sufficient statistics, if the model has them and points are many.

        Not if the past fades: the proof that few points matter needs evidence that only grows.
        """
        kept = self.weights
        serves = isinstance(kept, SufficientWeights) and kept.serves(problem, self.points, x)
        if serves or self.memory.forget is not None:
            return self
        return replaced(self, weights=sufficient(self.log_weights, problem, self.points, x))

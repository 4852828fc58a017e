"""The mean of a posterior, taken for the truth."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.conjugate.beta import Beta
from postgrad.beliefs.conjugate.dirichlet import Dirichlet
from postgrad.beliefs.conjugate.gamma import Gamma, InverseGamma
from postgrad.beliefs.conjugate.normal import Normal
from postgrad.beliefs.conjugate.normal_inverse_gamma import NormalInverseGamma
from postgrad.beliefs.conjugate.normal_inverse_wishart import NormalInverseWishart
from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.point_mass import PointMass
from postgrad.beliefs.sampled.particles import Particles
from postgrad.errors import PriorError, SettingError
from postgrad.numerics.validate import as_count
from postgrad.problem.problem import Decision, Model, Problem


class PosteriorMean(PointMass):
    """A point mass at theta_hat_t = E_{pi_t} theta, entry by entry: certainty equivalence.

    In closed form for conjugate beliefs, `Gaussian`, `Particles` and grids that keep the weights of
    all points; elsewhere the mean of `draws` values from pi_t, drawn anew at every stage. The mean
    of values from a grid need not be one of them.

    Attributes:
        belief: pi_t.
        mean: theta_hat_t.
        draws: How many values are averaged where there is no closed form.
    """

    belief: Belief
    mean: PyTree
    draws: int = eqx.field(static=True)

    def __init__(self, belief: Belief, draws: int = 256):
        """The plug-in for a belief.

        Args:
            belief: pi_0.
            draws: How many values are averaged where there is no closed form.

        Raises:
            PriorError: If it is no belief.
            SettingError: If draws is not a positive whole number.
        """
        if not isinstance(belief, Belief):
            raise PriorError(f"belief must be a belief such as Grid(...), got {belief!r}")
        self.belief = belief
        self.draws = as_count(draws, SettingError, "draws")
        self.mean = _mean(belief, self.draws, random.key(0))

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.mean

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Array,
        weight: Array | None = None,
        key: Array | None = None,
    ) -> Self:
        """Bayes' rule, then the mean."""
        key_belief, key_mean = (None, random.key(0)) if key is None else random.split(key)
        belief = self.belief.update(likelihood, x, batch, weight, key_belief)
        new = belief, _mean(belief, self.draws, key_mean)
        return eqx.tree_at(lambda self: (self.belief, self.mean), self, new)

    @property
    def effective_size(self) -> Array:
        """That of the belief."""
        return self.belief.effective_size

    def examples(self) -> PyTree:
        """Those of the belief."""
        return self.belief.examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """As the belief does."""
        return eqx.tree_at(lambda self: self.belief, self, self.belief.bind(problem, x))


def _mean(belief: Belief, draws: int, key: Array) -> PyTree:
    """E theta."""
    match belief:
        case PointMass():
            return belief.theta
        case Grid(weights=LogWeights()):
            return _weighted(belief.points, belief.probabilities)
        case Particles():
            return _weighted(belief.particles, belief.probabilities)
        case Normal() | Gaussian():
            return belief.mean
        case Gamma():
            return belief.shape / belief.rate
        case InverseGamma():  # infinite up to a shape of one, where no plug-in exists
            return belief.scale / jnp.where(belief.shape > 1, belief.shape - 1.0, jnp.nan)
        case Beta():
            return belief.successes / (belief.successes + belief.failures)
        case Dirichlet():
            return belief.concentration / jnp.sum(belief.concentration)
        case NormalInverseGamma():
            ratio = jnp.exp(gammaln(belief.shape - 0.5) - gammaln(belief.shape))
            ratio = jnp.where(belief.shape > 0.5, ratio, jnp.nan)
            return {"mean": belief.mean, "scale": jnp.sqrt(belief.scale) * ratio}
        case NormalInverseWishart():
            rest = belief.degrees - belief.mean.shape[0] - 1.0
            covariance = belief.scale / jnp.where(rest > 0, rest, jnp.nan)
            return {"mean": belief.mean, "covariance": covariance}
    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), belief.sample(key, (draws,)))


def _weighted(points: PyTree, probabilities: Float[Array, " n"]) -> PyTree:
    return jax.tree.map(
        lambda leaf: jnp.sum(probabilities.reshape(-1, *(1,) * (leaf.ndim - 1)) * leaf, axis=0),
        points,
    )

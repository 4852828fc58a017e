"""A normal belief: exact for linear normal models, an approximation for other smooth ones."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.beliefs.belief import BeliefWithMemory, as_theta
from postgrad.beliefs.forgetting import Memory, fade
from postgrad.beliefs.gaussian.laplace import Laplace, check_smooth
from postgrad.beliefs.gaussian.linear import (
    FlatModel,
    Kalman,
    NormalLaw,
    Rule,
    around,
    is_linear,
    is_straight,
    normal_law,
)
from postgrad.errors import PriorError
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.draw_barrier import normal_once
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_covariance, is_concrete
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem

# How many values of theta, near and far, linearity is tried at.
_TRIALS = 16


class Gaussian(BeliefWithMemory):
    """theta ~ N(m_t, P_t^-1), for any theta made of real numbers.

    Exact where the model is normal and linear in theta,

        y or log y  ~  N(A(x) theta + g(x), V(x)),

    such as a price response `Normal(theta["base"] - theta["slope"] * price, 2.0)`: the Kalman
    filter, in information form. An online Laplace approximation for other models that are smooth
    in theta, e.g. Poisson or Bernoulli demand with a log or logit price response. `bind` finds out
    which of the two a problem needs, and `exact` tells; before `bind` it is the approximation.
    Memory and time for a batch are constant either way.

    theta ranges over all real numbers: a positive parameter is written `jnp.exp(theta)`.

    Attributes:
        prior_loc: m_0, a PyTree.
        prior_precision: P_0, over all numbers of theta one after the other.
        evidence: (P_t - P_0, P_t (m_t - m_0)).
        rule: How data become evidence: `Kalman` or `Laplace`.
        memory: How much of the past counts.
    """

    prior_loc: PyTree = fixed()
    prior_precision: Float[Array, "d d"] = fixed()
    evidence: Sum
    rule: Rule
    memory: Memory

    def __init__(
        self,
        loc: PyTree,
        scale: PyTree = None,
        *,
        covariance_matrix: Any = None,
        forget: Any = None,
    ):
        """A prior.

        Args:
            loc: m_0: a number, an array, or a dictionary or other PyTree of them.
            scale: The standard deviation of each number: one for all, or a PyTree like `loc`. All
                are independent.
            covariance_matrix: Instead of `scale`, over all numbers of theta in the order of
                `jax.flatten_util.ravel_pytree` (keys of a dictionary are sorted).
            forget: What remains of the evidence after one unit of time; everything, if not given.

        Raises:
            PriorError: If an argument is not finite numbers of a fitting shape, a scale is not
                positive, or the covariance matrix not symmetric and positive definite.
        """
        self.prior_loc = as_theta(loc)
        origin = self._origin
        if origin.size == 0:
            raise PriorError(f"loc must have at least one number, got {loc!r}")
        if (scale is None) == (covariance_matrix is None):
            raise PriorError("Gaussian needs either scale or covariance_matrix, and not both")
        if covariance_matrix is None:
            self.prior_precision = jnp.diag(_as_scales(scale, self.prior_loc) ** -2.0)
        else:
            # The law with the precision C has the covariance C^-1.
            matrix = as_covariance(covariance_matrix, PriorError, "covariance_matrix", origin.size)
            self.prior_precision = normal_law(origin, matrix, jnp.zeros_like(origin)).covariance
        if is_concrete(self.prior_precision) and not np.isfinite(self.prior_precision).all():
            raise PriorError("the prior is so narrow that its precision is not a finite number")
        self.evidence = Sum.zeros_like((self.prior_precision, origin))
        self.rule = Laplace()
        self.memory = Memory(forget)

    @property
    def exact(self) -> bool:
        """Whether the belief is the posterior itself, not an approximation."""
        return self.rule.exact

    @property
    def loc(self) -> PyTree:
        """m_t, a PyTree like theta."""
        return self._unravel(self._law.mean)

    @property
    def covariance_matrix(self) -> Float[Array, "d d"]:
        """P_t^-1, over all numbers of theta one after the other."""
        return self._law.covariance

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule, or Laplace's approximation to it."""
        del key
        model = FlatModel(likelihood, self.prior_loc)
        gained = self.rule.evidence(model, self._origin, self._law, batch)
        evidence = self.evidence.add(gained)
        return replaced(self, evidence=evidence, memory=self.memory.after(batch))

    def _faded(self, share: Array) -> Self:
        return replaced(self, evidence=fade(self.evidence, share))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Normal draws."""
        draws = self._law.at(normal_once(key, (*shape, self._origin.size)))
        unravel = self._unravel
        for _ in shape:
            unravel = jax.vmap(unravel)
        return unravel(draws)

    def sample_among(self, axes: PyTree, which: Int[Array, " k"], key: Array) -> PyTree:
        """The same, by one normal draw each and not one for each member."""
        laws = jax.vmap(lambda member: member._law, (axes,))(self)
        own = jax.tree.map(lambda leaf: leaf[which], laws)
        noise = normal_once(key, (which.size, own.mean.shape[-1]))
        draws = jax.vmap(lambda law, z: law.at(z))(own, noise)
        one = jax.tree.map(
            lambda leaf, axis: leaf if axis is None else leaf[0], self.prior_loc, axes.prior_loc
        )
        return jax.vmap(ravel_pytree(one)[1])(draws)

    def mean(self) -> PyTree:
        """m_t."""
        return self.loc

    def spread(self) -> PyTree:
        """The roots of the diagonal of P_t^-1."""
        return self._unravel(jnp.sqrt(jnp.diagonal(self.covariance_matrix)))

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """In closed form if exact, else the mean over evenly spread points."""
        return self.rule.log_mixture(FlatModel(model, self.prior_loc), self._law, x, xi)

    def examples(self) -> PyTree:
        """The mean, and points one standard deviation from it to all sides."""
        return jax.vmap(self._unravel)(around(self._law))

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether the model is normal and linear in theta, if that was found out."""
        if not self.exact:
            return jnp.ones((), bool)
        model = FlatModel(likelihood, self.prior_loc)
        return is_straight(model, batch.x[None], self._origin, self._far())

    def _far(self) -> Float[Array, "n d"]:
        """Values of theta near and far from the prior's mean."""
        origin = self._origin
        prior = normal_law(origin, self.prior_precision, jnp.zeros_like(origin))
        noise = np.random.default_rng(0).standard_normal((_TRIALS, origin.size))
        return prior.at(jnp.asarray(np.geomspace(0.1, 1000.0, _TRIALS)[:, None] * noise))

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Finds out whether the model is normal and linear in theta, and checks that it is smooth.

        The model is tried at decisions and values of theta near and far. If data are not the
        model's xi itself, the belief is exact if both the model and the observation are linear.

        Raises:
            ModelError: If the model is not smooth in theta, or does not depend on it.
        """
        tried = problem.decisions(x, self.examples())
        places = jnp.asarray(np.concatenate([np.asarray(x)[None], tried]))
        contexts = problem.in_trial_contexts(x, self.examples())
        data = [FlatModel(one.likelihood, self.prior_loc) for one in contexts]
        check_smooth(data, places, around(self._law))
        origin, thetas = self._origin, self._far()
        exact = all(
            is_linear(FlatModel(model, self.prior_loc), places, origin, thetas)
            for one in contexts
            for model in one.models.values()
        )
        return replaced(self, rule=Kalman() if exact else Laplace())

    @property
    def _origin(self) -> Float[Array, " d"]:
        return ravel_pytree(self.prior_loc)[0]

    @property
    def _law(self) -> NormalLaw:
        precision, shift = self.evidence.value
        return normal_law(self._origin, self.prior_precision + precision, shift)

    def _unravel(self, vector: Float[Array, " d"]) -> PyTree:
        return ravel_pytree(self.prior_loc)[1](vector)


def _as_scales(scale: PyTree, loc: PyTree) -> Float[Array, " d"]:
    """The standard deviation of each number of theta."""
    scale = as_theta(scale)
    if isinstance(scale, jax.Array) and scale.ndim == 0:  # one for all
        scale = jax.tree.map(lambda leaf: jnp.full_like(leaf, scale), loc)
    trees = jax.tree.structure(scale), jax.tree.structure(loc)
    if len(set(trees)) > 1:
        raise PriorError(f"scale must be one number or made like loc, {trees[1]}; got {trees[0]}")
    pairs = list(zip(jax.tree.leaves(scale), jax.tree.leaves(loc), strict=True))
    for given, leaf in pairs:
        if given.shape not in ((), leaf.shape):
            raise PriorError(
                f"scale must be one number or have loc's shape {leaf.shape}, got {given.shape}"
            )
    scales = jnp.concatenate([jnp.broadcast_to(given, leaf.shape).ravel() for given, leaf in pairs])
    if is_concrete(scales) and not bool(jnp.all(scales > 0)):
        raise PriorError(f"scale must be positive, got {float(scales.min())}")
    return scales

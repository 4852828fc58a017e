"""A normal belief about the coefficients of a regression model, with updates of rank one."""

import functools
import math
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from postgrad.beliefs.belief import BatchBelief
from postgrad.beliefs.regression.mode import Mode, find_mode, log_average
from postgrad.beliefs.regression.vocabulary import in_vocabulary
from postgrad.distributions.density import log_density
from postgrad.errors import ModelError, PriorError
from postgrad.models.regression_model import Curve, RegressionModel
from postgrad.numerics.draw_barrier import normal_once
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.small_matrices import cholesky
from postgrad.numerics.validate import as_positive, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem

# Added to the diagonal of a correlation matrix, so that its root exists in spite of rounding.
_ROUNDING = 1e-12


class Eta(NamedTuple):
    """The linear predictor under a belief: eta ~ N(mean, variance).

    Attributes:
        mean: h' m.
        variance: h' P h.
        gain: P h, the covariance of eta with the coefficients.
    """

    mean: Float[Array, ""]
    variance: Float[Array, ""]
    gain: Float[Array, " d"]


class Regression(BatchBelief):
    """beta ~ N(m, P), for the coefficients of a model of `pg.models`.

    A batch arose in one context, so that all of it depends on one number, eta = h' beta, which is
    normal before the batch. With eta* the mode of its posterior and c the curvature of log f there
    (`beliefs/regression/mode.py`),

        m  <-  m + g (eta* - h' m) / v,     P  <-  P - g g' c / (1 + c v),     g = P h, v = h' P h

    which is Bayes' rule for normal and lognormal models and Laplace's approximation for others.
    Priors and how coefficients move with time are those that the model's terms state. The family's
    numbers, such as the scale of a normal law, are known to a belief and part of each theta; a
    `Mixture` of beliefs that differ in them learns which are right.

    Attributes:
        shapes: The names of the terms and the shapes of their coefficients.
        prior_loc: m before all data.
        scale: The prior standard deviation of each coefficient.
        half_life: The time in which each coefficient has come half the way back to `prior_loc`.
        drift: The standard deviation of each coefficient's random walk in a unit of time.
        numbers: The family's numbers by their names.
        loc: m, all coefficients one after the other.
        covariance_matrix: P.
        size: How many observations were learned from.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    prior_loc: Float[Array, " d"] = fixed()
    scale: Float[Array, " d"] = fixed()
    half_life: Float[Array, " d"] = fixed()
    drift: Float[Array, " d"] = fixed()
    numbers: dict[str, Float[Array, ""]] = fixed()
    loc: Float[Array, " d"]
    covariance_matrix: Float[Array, "d d"]
    size: Float[Array, ""]

    def __init__(self, model: RegressionModel, **numbers: Any):
        """The prior that the model's terms state.

        Args:
            model: A model of `pg.models`, such as `pg.models.NegativeBinomial(predictor)`.
            **numbers: The family's numbers: `scale=` of normal and lognormal models,
                `concentration=` of negative-binomial ones.

        Raises:
            PriorError: If a number is missing, not one of the family's, or not positive.
        """
        if not isinstance(model, RegressionModel):
            raise PriorError(f"Regression needs a model of pg.models, got {model!r}")
        if set(numbers) != set(model.known):
            needed = ", ".join(f"{name}=..." for name in model.known) or "no numbers"
            raise PriorError(
                f"Regression of a {type(model).__name__} model needs {needed}, got "
                f"{sorted(numbers) or 'none'}"
            )
        predictor = model.predictor
        self.shapes = tuple(predictor.shapes.items())
        self.prior_loc = self.loc = predictor.each("mean")
        self.scale = predictor.each("scale")
        self.half_life, self.drift = predictor.each("half_life"), predictor.each("drift")
        self.numbers = {
            name: as_positive(numbers[name], PriorError, name) for name in sorted(numbers)
        }
        self.covariance_matrix = jnp.diag(self.scale**2)
        self.size = on_device(np.float64(0.0))

    def advance(self, elapsed: Any) -> Self:
        """After `elapsed` units of time without data: coefficients drift, and return.

            m  <-  m_0 + k (m - m_0),    P  <-  k k' P + diag(scale^2 (1 - k^2) + elapsed drift^2)

        with k = 2^(-elapsed / half_life), which is 1 where coefficients do not return.
        """
        log_keep = -jnp.log(2.0) * elapsed / self.half_life
        keep = jnp.exp(log_keep)
        news = self.scale**2 * -jnp.expm1(2.0 * log_keep) + elapsed * self.drift**2
        return replaced(
            self,
            loc=self.loc + jnp.expm1(log_keep) * (self.loc - self.prior_loc),
            covariance_matrix=keep[:, None] * keep * self.covariance_matrix + jnp.diag(news),
        )

    def eta(self, model: Model, x: Decision | None) -> Eta:
        """The law of the linear predictor of a model in a context, under the decision x."""
        law, z = in_vocabulary(model)
        h = law.predictor.design(z, x)
        # Not a product of matrices: members of a mixture are then one loop that XLA vectorises.
        gain = jnp.sum(self.covariance_matrix * h, axis=1)
        return Eta(jnp.sum(h * self.loc), jnp.maximum(jnp.sum(h * gain), 0.0), gain)

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule, or Laplace's approximation to it."""
        del key
        eta = self.eta(likelihood, batch.x)
        return self._after(batch, eta, self._mode(likelihood, batch, eta))

    def predict_and_update(
        self, likelihood: Model, batch: Batch, key: Array | None = None
    ) -> tuple[Self, Float[Array, " D"]]:
        """Both from one search for the mode, if the batch is one observation."""
        if len(batch.y) > 1:
            return super().predict_and_update(likelihood, batch, key)
        eta = self.eta(likelihood, batch.x)
        mode = self._mode(likelihood, batch, eta)
        foreseen = self._log_average(likelihood, batch.y[0], eta, mode)
        return self._after(batch, eta, mode), foreseen[None]

    def _mode(self, likelihood: Model, batch: Batch, eta: Eta) -> Mode:
        """The posterior mode of eta, given a batch."""
        law, _ = in_vocabulary(likelihood)

        def curve(law: RegressionModel, at: Array) -> Curve:
            each = jax.vmap(lambda y: law.curve(y, at, self.numbers))(batch.y)
            return Curve(*map(batch.total, each))

        def mode(law: RegressionModel, start: Array | None) -> Mode:
            of_law = functools.partial(curve, law)
            return find_mode(of_law, eta.mean, eta.variance, law.longest_step, start)

        # With outliers there may be two modes: near the data, and near what was foreseen.
        near_data = None if law.usual is law else mode(law.usual, None).eta
        return mode(law, near_data)

    def _after(self, batch: Batch, eta: Eta, mode: Mode) -> Self:
        """The update of rank one. Without observations it adds zeros, and changes no bit."""
        shrink = mode.bend / (1.0 + mode.bend * eta.variance)
        outer = eta.gain[:, None] * eta.gain
        return replaced(
            self,
            loc=self.loc + eta.gain * mode.slope,
            covariance_matrix=self.covariance_matrix - shrink * outer,
            size=self.size + batch.size,
        )

    def _log_average(self, model: Model, y: Array, eta: Eta, mode: Mode) -> Float[Array, ""]:
        law, _ = in_vocabulary(model)
        closed = law.averaged(eta.mean, eta.variance, self.numbers)
        if closed is not None:
            return log_density(closed, y)
        log_f = jax.vmap(lambda at: law.log_f(y, at, self.numbers))
        return log_average(log_f, eta.mean, eta.variance, mode)

    @property
    def effective_size(self) -> Float[Array, ""]:
        """The sum of the weights."""
        return self.size

    @property
    def root(self) -> Float[Array, "d d"]:
        """L with L L' = P, also where a coefficient is known exactly."""
        scale = jnp.sqrt(jnp.maximum(jnp.diagonal(self.covariance_matrix), 0.0))
        safe = jnp.where(scale > 0, scale, 1.0)
        likeness = self.covariance_matrix / (safe[:, None] * safe)
        return scale[:, None] * cholesky(likeness + jnp.diag(jnp.where(scale > 0, _ROUNDING, 1.0)))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Normal coefficients, and the family's numbers."""
        z = normal_once(key, (*shape, self.loc.size))
        return self._as_theta(self.loc + z @ self.root.T) | self._numbers(shape)

    def sample_among(self, axes: PyTree, which: Int[Array, " k"], key: Array) -> PyTree:
        """The same draws as each member's own; see `Belief`. A root for each member, not draw."""
        roots, locs, numbers = jax.vmap(
            lambda member: (member.root, member.loc, member.numbers), (axes,)
        )(self)
        z = normal_once(key, (which.size, locs.shape[1]))
        theta = self._as_theta(locs[which] + jnp.sum(roots[which] * z[:, None, :], axis=2))
        return theta | {name: number[which] for name, number in numbers.items()}

    def mean(self) -> PyTree:
        """m, and the family's numbers."""
        return self._as_theta(self.loc) | self._numbers(())

    def spread(self) -> PyTree:
        """The roots of the diagonal of P, and zero for the family's numbers."""
        variance = jnp.maximum(jnp.diagonal(self.covariance_matrix), 0.0)
        none = {name: jnp.zeros_like(number) for name, number in self.numbers.items()}
        return self._as_theta(jnp.sqrt(variance)) | none

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """In closed form for normal models, else by seven nodes around the mode of eta."""
        eta = self.eta(model, x)
        # Where the nodes lie changes nothing but their error, and has no derivative in x.
        still = jax.lax.stop_gradient(eta)
        mode = self._mode(model, Batch(x, jnp.asarray(xi)[None]), still)
        return self._log_average(model, xi, eta, mode)

    def examples(self) -> PyTree:
        """The mean, and points one standard deviation from it to all sides."""
        steps = self.root.T
        points = jnp.concatenate([jnp.zeros_like(steps[:1]), steps, -steps])
        return self._as_theta(self.loc + points) | self._numbers(points.shape[:1])

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Checks that the data are observed through a model with the terms of this belief.

        Raises:
            ModelError: If they are not.
        """
        del x
        law, _ = in_vocabulary(problem.likelihood)
        terms = tuple(law.predictor.shapes.items())
        if terms != self.shapes:
            raise ModelError(
                f"the belief is about the terms {dict(self.shapes)}, but the model has "
                f"{dict(terms)}: make the belief from the problem's own model"
            )
        if set(law.known) != set(self.numbers):
            raise ModelError(
                f"the belief knows the numbers {sorted(self.numbers)}, but the model has "
                f"{sorted(law.known)}: make the belief from the problem's own model"
            )
        return self

    def _numbers(self, shape: tuple[int, ...]) -> dict[str, Array]:
        return {name: jnp.broadcast_to(number, shape) for name, number in self.numbers.items()}

    def _as_theta(self, vector: Float[Array, "... d"]) -> dict[str, Array]:
        """The coefficients by the terms' names, from vectors along the last axis."""
        lead, theta, start = vector.shape[:-1], {}, 0
        for name, shape in self.shapes:
            size = math.prod(shape)
            theta[name] = vector[..., start : start + size].reshape(*lead, *shape)
            start += size
        return theta

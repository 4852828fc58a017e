"""Normal laws of theta, and models that are normal and linear in it."""

import abc
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.distributions.density import settle
from postgrad.errors import ModelError
from postgrad.numerics.small_matrices import SMALL, cholesky, gram, solve_lower, solve_upper
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model

# How closely a model must be linear, relative to the terms of its mean.
_TOLERANCE = 1e-8


class NormalLaw(eqx.Module):
    """theta ~ N(m, (L L')^-1).

    Attributes:
        mean: m.
        lower: L, the Cholesky factor of the precision.
    """

    mean: Float[Array, " d"]
    lower: Float[Array, "d d"]

    @property
    def root(self) -> Float[Array, "d d"]:
        """L'^-1, a root of the covariance."""
        return solve_upper(self.lower, jnp.eye(self.mean.size))

    @property
    @jax.jit
    def covariance(self) -> Float[Array, "d d"]:
        """The inverse of L L'."""
        return gram(self.root.T)

    @eqx.filter_jit
    def at(self, z: Float[Array, "... d"]) -> Float[Array, "... d"]:
        """The point m + L'^-1 z, a draw if z is standard normal."""
        if self.mean.size > SMALL:
            return self.mean + z @ self.root.T
        return self.mean + jnp.sum(self.root * z[..., None, :], axis=-1)


@jax.jit
def normal_law(
    origin: Float[Array, " d"], precision: Float[Array, "d d"], shift: Float[Array, " d"]
) -> NormalLaw:
    """N(o + P^-1 s, P^-1)."""
    lower = cholesky(precision)
    return NormalLaw(origin + solve_upper(lower, solve_lower(lower, shift)), lower)


@jax.jit
def around(law: NormalLaw) -> Float[Array, "n d"]:
    """The mean, and the points m +- each column of L'^-1."""
    unit = jnp.eye(law.mean.size)
    return law.at(jnp.concatenate([jnp.zeros_like(unit[:1]), unit, -unit]))


class FlatModel(eqx.Module):
    """A model as a function of a vector, which holds all numbers of theta one after the other.

    Attributes:
        model: f(.; x, theta).
        theta: Some theta, for its shape.
    """

    model: Model
    theta: PyTree

    def __call__(self, x: Decision, vector: Float[Array, " d"]) -> Any:
        """f(.; x, theta)."""
        return self.model(x, ravel_pytree(self.theta)[1](vector))


class Rule(eqx.Module):
    """How data become evidence on a normal law of theta: a precision and a shift.

    With evidence (Q, s) the precision is P_0 + Q and the mean o + (P_0 + Q)^-1 s, where o is the
    prior's mean and P_0 its precision.

    Attributes:
        exact: Whether the rule is Bayes' rule itself.
    """

    exact: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def evidence(
        self, model: FlatModel, origin: Float[Array, " d"], law: NormalLaw, batch: Batch
    ) -> tuple[Float[Array, "d d"], Float[Array, " d"]]:
        """The summands of a batch in (Q, s)."""

    @abc.abstractmethod
    def log_mixture(
        self, model: FlatModel, law: NormalLaw, x: Decision, xi: Array
    ) -> Float[Array, ""]:
        """log E f(xi; x, theta)."""


class Kalman(Rule):
    """y or log y ~ N(A(x) theta + g(x), V(x)): everything in closed form.

    Q += A' V^-1 A,    s += A' V^-1 (y - A o - g),    f_hat = N(A m + g, A P^-1 A' + V).
    """

    exact: bool = eqx.field(static=True)

    def __init__(self) -> None:
        self.exact = True

    def evidence(
        self, model: FlatModel, origin: Array, law: NormalLaw, batch: Batch
    ) -> tuple[Array, Array]:
        """Sums over the batch of differences from the prior's mean, so that no digits cancel."""
        del law
        here = read(model(batch.x, origin))
        residual = jax.vmap(lambda y: here.whiten(here.values(y) - here.mean))(batch.y)
        slope = here.whiten(_slope(model, batch.x, origin))
        total = batch.total(residual)
        return batch.size * gram(slope), jnp.sum(slope * total[:, None], axis=0)

    def log_mixture(self, model: FlatModel, law: NormalLaw, x: Decision, xi: Array) -> Array:
        """The density of a normal or a lognormal law."""
        member = model(x, law.mean)
        safe, inside = settle(member, xi)
        here = read(member)
        spread = gram(solve_lower(law.lower, _slope(model, x, law.mean).T))
        lower = cholesky(here.covariance + spread)
        z = solve_lower(lower, here.values(safe) - here.mean)
        scale = jnp.sum(jnp.log(jnp.diagonal(lower))) + here.log_slope(safe)
        log_f = -0.5 * jnp.sum(z**2 + np.log(2.0 * np.pi)) - scale
        return log_f + jnp.where(inside, 0.0, -jnp.inf)


class Reading(NamedTuple):
    """The law of y, or of log y: N(mean, root root').

    Attributes:
        mean: The mean, as a vector.
        root: The standard deviation of each coordinate, or a triangular root of the covariance.
        logarithm: Whether the law is that of log y.
    """

    mean: Float[Array, " m"]
    root: Float[Array, " m"] | Float[Array, "m m"]
    logarithm: bool

    @property
    @jax.jit
    def covariance(self) -> Float[Array, "m m"]:
        """V."""
        return jnp.diag(self.root**2) if self.root.ndim == 1 else self.root @ self.root.T

    def whiten(self, array: Float[Array, "m ..."]) -> Float[Array, "m ..."]:
        """V^-1/2 array."""
        if self.root.ndim == 1:
            return array / self.root.reshape(-1, *(1,) * (array.ndim - 1))
        return solve_lower(self.root, array)

    def values(self, y: Array) -> Float[Array, " m"]:
        """y or log y as a vector."""
        return jnp.ravel(jnp.log(y) if self.logarithm else y)

    def log_slope(self, y: Array) -> Float[Array, ""]:
        """log of the ratio of the density of log y to that of y."""
        return jnp.sum(jnp.log(y)) if self.logarithm else jnp.zeros(())


@functools.singledispatch
def read(member: Any) -> Reading:
    """The normal law in a distribution with numpyro's protocol, of a class that is registered.

    Raises:
        ModelError: If the class is not registered.
    """
    raise ModelError(f"this belief is bound to a normal model, but got {type(member).__name__}")


@read.register
def _(member: dist.MultivariateNormal) -> Reading:
    return Reading(member.mean, member.scale_tril, False)


@read.register(dist.Normal)
@read.register(dist.LogNormal)
def _(member: Any) -> Reading:
    mean, root = (jnp.broadcast_to(a, member.batch_shape) for a in (member.loc, member.scale))
    return Reading(jnp.ravel(mean), jnp.ravel(root), isinstance(member, dist.LogNormal))


@read.register(dist.Independent)
@read.register(dist.ExpandedDistribution)
def _(member: Any) -> Reading:
    base, each = member.base_dist, read(member.base_dist)
    if each.root.ndim > 1:
        raise ModelError(f"this belief is bound to a normal model, but got many {type(base)}")
    mean, root = (
        jnp.broadcast_to(a.reshape(base.shape()), member.shape()) for a in (each.mean, each.root)
    )
    return Reading(jnp.ravel(mean), jnp.ravel(root), each.logarithm)


def _slope(model: FlatModel, x: Decision, theta: Float[Array, " d"]) -> Float[Array, "m d"]:
    """A(x)."""
    return jax.jacfwd(lambda theta: read(model(x, theta)).mean)(theta)


def is_linear(
    model: FlatModel,
    places: Float[Array, "k ..."],
    origin: Float[Array, " d"],
    thetas: Float[Array, "n d"],
) -> bool:
    """Whether a model is normal, linear in theta, with a noise that does not depend on theta.

    Args:
        model: The model.
        places: Decisions to try.
        origin: The theta at which the slope is taken.
        thetas: Other values to try, some of them far, as most curves are straight from near.
    """
    try:
        return bool(is_straight(model, places, origin, thetas))
    except ModelError:  # no normal model
        return False


@eqx.filter_jit
def is_straight(model: FlatModel, places: Array, origin: Array, thetas: Array) -> Bool[Array, ""]:
    """See `is_linear`; of a normal model, inside compiled programs."""

    def at(x: Decision, theta: Array) -> Array:
        here, there = read(model(x, origin)), read(model(x, theta))
        terms = _slope(model, x, origin) * (theta - origin)
        bend = jnp.abs(there.mean - here.mean - jnp.sum(terms, axis=1))
        size = jnp.abs(here.mean) + jnp.sum(jnp.abs(terms), axis=1)
        change = jnp.abs(there.root - here.root)
        # False if a number is NaN.
        straight = jnp.all(bend <= _TOLERANCE * size)
        return straight & jnp.all(change <= _TOLERANCE * jnp.max(jnp.abs(here.root)))

    return jnp.all(jax.vmap(lambda x: jax.vmap(lambda theta: at(x, theta))(thetas))(places))

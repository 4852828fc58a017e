"""The costs and models of specifications that are found nowhere else."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from postgrad.distributions.counts import NegativeBinomial, Poisson, log_normal
from postgrad.problem.problem import Decision, Model


class Squared(eqx.Module):
    """h(x, xi) = |x - xi|^2."""

    def __call__(self, x: Float[Array, "..."], xi: Float[Array, "..."]) -> Float[Array, ""]:
        """h(x, xi)."""
        return jnp.sum(jnp.square(x - xi))


class NormalOfScale(eqx.Module):
    """N(theta, scale^2)."""

    scale: Float[Array, ""]

    def __call__(self, x: Decision, theta: Array) -> Any:
        """f(.; x, theta)."""
        del x
        return dist.Normal(theta, self.scale, validate_args=False)


class ShiftedLogNormal(eqx.Module):
    """log(demand + shift) is normal: see `log_normal`."""

    shift: float = eqx.field(static=True)

    def __call__(self, x: Decision, theta: PyTree) -> Any:
        """f(.; x, theta)."""
        del x
        return log_normal(theta["median"], theta["spread"], self.shift)


class Linear(eqx.Module):
    """N(intercept - slope x, scale^2)."""

    scale: Float[Array, ""]

    def __call__(self, x: Decision, theta: PyTree) -> Any:
        """f(.; x, theta)."""
        mean = theta["intercept"] - theta["slope"] * x
        return dist.Normal(mean, self.scale, validate_args=False)


def _normal(x: Decision, theta: PyTree) -> Any:
    del x
    return dist.Normal(theta["mean"], theta["scale"], validate_args=False)


def _poisson(x: Decision, theta: Array) -> Any:
    del x
    return Poisson(theta, validate_args=False)


def _negative_binomial(x: Decision, theta: PyTree) -> Any:
    del x
    return NegativeBinomial(theta["mean"], theta["concentration"], validate_args=False)


def _exponential(x: Decision, theta: Array) -> Any:
    del x
    return dist.Exponential(1.0 / theta, validate_args=False)


def _bernoulli(x: Decision, theta: Array) -> Any:
    del x
    return dist.Bernoulli(theta, validate_args=False)


def normal_of(scale: float | None) -> Model:
    """The normal law of a known scale; of an unknown one, if it is None."""
    return _normal if scale is None else NormalOfScale(jnp.asarray(scale))


def linear(scale: float) -> Model:
    """The linear model of a known scale."""
    return Linear(jnp.asarray(scale))


PLAIN: dict[str, Model] = {
    "poisson": _poisson,
    "negative-binomial": _negative_binomial,
    "exponential": _exponential,
    "bernoulli": _bernoulli,
}

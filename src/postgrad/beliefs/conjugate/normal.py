"""The mean of normal data with a known spread."""

import functools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import Conjugate, along_axis, hyperparameters, unknown
from postgrad.numerics.draw_barrier import normal_once
from postgrad.problem.problem import Decision, Model, coordinates


@functools.singledispatch
def on_real_line(member: Any, y: Array) -> tuple[Array, Float[Array, ""]]:
    """Data as normal ones, and the logarithm of the derivative of y in them."""
    return unknown(member)


@on_real_line.register
def _(member: dist.Normal, y: Array) -> tuple[Array, Float[Array, ""]]:
    return y, jnp.zeros(())


@on_real_line.register
def _(member: dist.LogNormal, y: Array) -> tuple[Array, Float[Array, ""]]:
    return jnp.log(y), jnp.sum(jnp.log(y))


class Normal(Conjugate):
    """theta ~ N(m, s^2), and y ~ N(c(x) theta + g(x), v(x)) with v known.

        pi_t = N(m_t, 1 / P_t),   P_t = 1/s^2 + sum c^2 / v,   m_t = m + sum c r / v / P_t,

    with r = y - c m - g. Lognormal data likewise, through their logarithms. theta may be an array,
    for data with independent coordinates; correlated ones are for `Gaussian`.
    """

    form: ClassVar[str] = "theta in Normal or LogNormal(c(x) theta + g(x), s(x))"
    read: ClassVar[Any] = staticmethod(on_real_line)

    def __init__(self, loc: Any, scale: Any, *, forget: Any = None):
        """A prior.

        Args:
            loc: m.
            scale: s, the standard deviation.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        prior = hyperparameters({"scale": scale}, loc=loc)
        super().__init__(prior, dict.fromkeys(("precision", "slope"), prior["loc"]), forget)

    @property
    def loc(self) -> Float[Array, "..."]:
        """m_t."""
        return self.prior["loc"] + self.data.value["slope"] * self.scale**2

    @property
    def scale(self) -> Float[Array, "..."]:
        """P_t^(-1/2)."""
        return 1.0 / jnp.sqrt(self.prior["scale"] ** -2 + self.data.value["precision"])

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """(c^2 / v, c r / v)."""
        slope, centre, spread, value, _ = self._line(likelihood, x, y)
        residual = (value - centre) / spread
        return {"precision": (slope / spread) ** 2, "slope": slope / spread * residual}

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """With d = theta - m: sum over coordinates of d c r / v - d^2 c^2 / (2 v)."""
        d = theta - self.prior["loc"]
        return jnp.sum(d * statistics["slope"] - 0.5 * d**2 * statistics["precision"])

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """N(c m_t + g, v + c^2 / P_t)."""
        slope, centre, spread, value, log_jacobian = self._line(model, x, y)
        centre = centre + slope * (self.loc - self.prior["loc"])
        log_f = norm.logpdf(value, centre, jnp.hypot(spread, slope * self.scale))
        return jnp.sum(log_f) - log_jacobian

    def estimate(self) -> PyTree:
        """The mean of the data, weighted by their precision."""
        total = self.data.value
        return self.prior["loc"] + total["slope"] / total["precision"]

    def mean(self) -> PyTree:
        """m_t."""
        return self.loc

    def spread(self) -> PyTree:
        """P_t^(-1/2)."""
        return self.scale

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """m_t plus normal noise."""
        noise = normal_once(key, shape + self.prior["loc"].shape)
        return self.loc + self.scale * noise

    def examples(self) -> PyTree:
        """Around the prior's mean."""
        steps = along_axis([0.0, -1.5, -0.5, 0.7, 2.0], self.prior["loc"])
        return self.prior["loc"] + self.prior["scale"] * steps

    def _line(self, likelihood: Model, x: Decision, y: Array) -> tuple[Array, ...]:
        """c(x), the centre c(x) m + g(x), the spread, and y on the real line; see there."""
        here = coordinates(likelihood(x, self.prior["loc"]))
        there = coordinates(likelihood(x, self.prior["loc"] + self.prior["scale"]))
        slope = (there.loc - here.loc) / self.prior["scale"]
        return slope, here.loc, here.scale, *on_real_line(here, y)

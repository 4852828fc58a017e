"""The mean and the spread of normal data."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jax import random
from jax.scipy.special import gammaln
from jax.scipy.stats import t
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import Conjugate, along_axis, hyperparameters
from postgrad.beliefs.conjugate.normal import on_real_line
from postgrad.numerics.draw_barrier import normal_once
from postgrad.numerics.gamma_draws import gamma
from postgrad.problem.problem import Decision, Model, coordinates


class NormalInverseGamma(Conjugate):
    """y ~ N(c(x) mu + g(x), (s(x) sigma)^2), theta = {"mean": mu, "scale": sigma} unknown.

        1 / sigma^2  ~  Gamma(a, b),    mu | sigma  ~  N(m, sigma^2 / k)

    With z = c/s and r = (y - c m - g)/s data add z^2 to k, z r to k (mu - m), 1/2 to a and
    r^2 / 2 to b. Lognormal data likewise, through their logarithms. Both may be arrays, for data
    with independent coordinates.
    """

    form: ClassVar[str] = (
        'theta in Normal or LogNormal(c(x) theta["mean"] + g(x), s(x) theta["scale"])'
    )
    read: ClassVar[Any] = staticmethod(on_real_line)

    def __init__(self, loc: Any, count: Any, concentration: Any, rate: Any, *, forget: Any = None):
        """A prior.

        Args:
            loc: m.
            count: k: the prior knows the mean as well as k observations would tell it.
            concentration: a: the prior knows the variance as well as 2 a observations would.
            rate: b: the prior's guess of the variance is about b / a.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        positive = {"count": count, "concentration": concentration, "rate": rate}
        prior = hyperparameters(positive, loc=loc)
        super().__init__(prior, dict.fromkeys(("zz", "zr", "rr", "n"), prior["loc"]), forget)

    @property
    def loc(self) -> Float[Array, "..."]:
        """m_t."""
        return self.prior["loc"] + self._shift()

    @property
    def count(self) -> Float[Array, "..."]:
        """k_t."""
        return self.prior["count"] + self.data.value["zz"]

    @property
    def concentration(self) -> Float[Array, "..."]:
        """a_t."""
        return self.prior["concentration"] + 0.5 * self.data.value["n"]

    @property
    def rate(self) -> Float[Array, "..."]:
        """b_t."""
        around = self.data.value["rr"] - self.count * self._shift() ** 2
        return self.prior["rate"] + 0.5 * jnp.maximum(around, 0.0)

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """(z^2, z r, r^2, 1)."""
        z, r, _ = self._standardise(likelihood, x, y)
        return {"zz": z**2, "zr": z * r, "rr": r**2, "n": jnp.ones_like(z)}

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """-(r - z d)^2 / (2 sigma^2) - log sigma, with d = mu - m."""
        d, sigma = theta["mean"] - self.prior["loc"], theta["scale"]
        square = statistics["rr"] - 2.0 * d * statistics["zr"] + d**2 * statistics["zz"]
        return -jnp.sum(0.5 * square / sigma**2 + statistics["n"] * jnp.log(sigma))

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Student's t in r: 2 a_t degrees of freedom around z (m_t - m)."""
        z, r, log_volume = self._standardise(model, x, y)
        a, b = self.concentration, self.rate
        scale = jnp.sqrt(b / a * (1.0 + z**2 / self.count))
        return jnp.sum(t.logpdf(r, 2.0 * a, z * self._shift(), scale)) - log_volume

    def estimate(self) -> PyTree:
        """The sample's mean and standard deviation; 1e-3 for the latter, if there is no spread."""
        total = self.data.value
        d = total["zr"] / total["zz"]
        variance = (total["rr"] - d * total["zr"]) / total["n"]
        scale = jnp.sqrt(jnp.where(variance < 1e-6, 1e-6, variance))
        return {"mean": self.prior["loc"] + d, "scale": scale}

    def mean(self) -> PyTree:
        """m_t; sqrt(b_t) Gamma(a_t - 1/2) / Gamma(a_t), if a_t > 1/2."""
        a = self.concentration
        ratio = jnp.where(a > 0.5, jnp.exp(gammaln(a - 0.5) - gammaln(a)), jnp.nan)
        return {"mean": self.loc, "scale": jnp.sqrt(self.rate) * ratio}

    def spread(self) -> PyTree:
        """From E sigma^2 = b_t / (a_t - 1); infinite up to a_t = 1."""
        variance = self.rate / jnp.maximum(self.concentration - 1.0, 0.0)
        of_scale = jnp.maximum(variance - self.mean()["scale"] ** 2, 0.0)
        return {"mean": jnp.sqrt(variance / self.count), "scale": jnp.sqrt(of_scale)}

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """First the variance, then the mean given it."""
        key_scale, key_mean = random.split(key)
        full = shape + self.prior["loc"].shape
        sigma = jnp.sqrt(self.rate / gamma(key_scale, jnp.broadcast_to(self.concentration, full)))
        noise = normal_once(key_mean, full)
        return {"mean": self.loc + sigma / jnp.sqrt(self.count) * noise, "scale": sigma}

    def examples(self) -> PyTree:
        """Around the prior's guess."""
        spread = jnp.sqrt(self.prior["rate"] / self.prior["concentration"])
        steps = along_axis([0.0, -1.5, 0.7, 0.0, 2.0], spread)
        factors = along_axis([1.0, 0.6, 1.0, 1.7, 1.3], spread)
        return {"mean": self.prior["loc"] + spread * steps, "scale": spread * factors}

    def _shift(self) -> Array:
        """m_t - m."""
        return self.data.value["zr"] / self.count

    def _standardise(self, likelihood: Model, x: Decision, y: Array) -> tuple[Array, Array, Array]:
        """z, r, and the logarithm of dy/dr."""
        mean, one = self.prior["loc"], jnp.ones_like(self.prior["loc"])
        here = coordinates(likelihood(x, {"mean": mean, "scale": one}))
        there = coordinates(likelihood(x, {"mean": mean + one, "scale": one}))
        value, log_jacobian = on_real_line(here, y)
        z, r = (there.loc - here.loc) / here.scale, (value - here.loc) / here.scale
        return z, r, jnp.sum(jnp.log(here.scale) * one) + log_jacobian

"""The mean and the covariance of correlated normal data."""

import functools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import random
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import Conjugate, unknown
from postgrad.errors import PriorError
from postgrad.numerics.draw_barrier import normal_once
from postgrad.numerics.gamma_draws import gamma
from postgrad.numerics.validate import as_array, as_covariance, as_number, as_positive
from postgrad.problem.problem import Decision, Model


@functools.singledispatch
def centre_and_root(member: Any) -> tuple[Array, Array]:
    """The mean of correlated normal data, and a triangular root of their covariance."""
    return unknown(member)


@centre_and_root.register
def _(member: dist.MultivariateNormal) -> tuple[Array, Array]:
    return member.loc, member.scale_tril


class NormalInverseWishart(Conjugate):
    """y ~ N(mu + g(x), s(x)^2 C), theta = {"mean": mu, "covariance": C} unknown.

        C  ~  InverseWishart(n, Psi),    mu | C  ~  N(m, C / k)

    With r = y - m - g and w = 1/s^2 data add w to k, w r to k (mu - m), 1 to n and w r r' to Psi.
    """

    form: ClassVar[str] = (
        'theta in MultivariateNormal(theta["mean"] + g(x), s(x)^2 theta["covariance"])'
    )
    read: ClassVar[Any] = staticmethod(centre_and_root)

    def __init__(
        self, loc: Any, count: Any, concentration: Any, rate_matrix: Any, *, forget: Any = None
    ):
        """A prior.

        Args:
            loc: m, a vector of length d.
            count: k: the prior knows the mean as well as this many observations would tell it.
            concentration: n > d - 1: how well the prior knows the covariance.
            rate_matrix: Psi, a positive definite matrix: the covariance is about Psi / n.
            forget: What remains of the evidence after one unit of time; everything, if not given.

        Raises:
            PriorError: If the shapes do not fit, Psi is not positive definite, or a count is too
                small.
        """
        loc = as_array(loc, PriorError, "loc")
        if loc.ndim != 1:
            raise PriorError(f"loc must be a vector, got shape {loc.shape}")
        d = loc.size
        least = f"a number above d - 1 = {d - 1}"
        concentration = as_number(
            concentration, PriorError, "concentration", least, lambda number: number > d - 1
        )
        count = as_positive(count, PriorError, "count")
        psi = as_covariance(rate_matrix, PriorError, "rate_matrix", d)
        super().__init__(
            {"loc": loc, "count": count, "concentration": concentration, "rate_matrix": psi},
            {"w": count, "r": loc, "rr": psi, "n": concentration},
            forget,
        )

    @property
    def loc(self) -> Float[Array, " d"]:
        """m_t."""
        return self.prior["loc"] + self._shift()

    @property
    def count(self) -> Float[Array, ""]:
        """k_t."""
        return self.prior["count"] + self.data.value["w"]

    @property
    def concentration(self) -> Float[Array, ""]:
        """n_t."""
        return self.prior["concentration"] + self.data.value["n"]

    @property
    def rate_matrix(self) -> Float[Array, "d d"]:
        """Psi_t."""
        total = self.prior["rate_matrix"] + self.data.value["rr"]
        return total - self.count * jnp.outer(self._shift(), self._shift())

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """(w, w r, w r r', 1)."""
        centre, spread = self._read(likelihood, x)
        r, w = y - centre, spread**-2.0
        return {"w": w, "r": w * r, "rr": w * jnp.outer(r, r), "n": jnp.ones(())}

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """-(tr C^-1 (w r r' - 2 w r d' + w d d') + log |C|) / 2, with d = mu - m."""
        d = theta["mean"] - self.prior["loc"]
        cross = jnp.outer(statistics["r"], d)
        square = statistics["rr"] - cross - cross.T + statistics["w"] * jnp.outer(d, d)
        _, log_det = jnp.linalg.slogdet(theta["covariance"])
        trace = jnp.trace(jnp.linalg.solve(theta["covariance"], square))
        return -0.5 * (trace + statistics["n"] * log_det)

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Multivariate t with n_t - d + 1 degrees of freedom around m_t + g."""
        centre, spread = self._read(model, x)
        df = self.concentration - centre.size + 1.0
        root = jnp.linalg.cholesky(self.rate_matrix * (spread**2 + 1.0 / self.count) / df)
        law = dist.MultivariateStudentT(df, centre + self._shift(), root, validate_args=False)
        return law.log_prob(y)

    def estimate(self) -> PyTree:
        """The sample's mean and covariance."""
        total = self.data.value
        d = total["r"] / total["w"]
        covariance = (total["rr"] - total["w"] * jnp.outer(d, d)) / total["n"]
        return {"mean": self.prior["loc"] + d, "covariance": covariance}

    def mean(self) -> PyTree:
        """m_t; Psi_t / (n_t - d - 1), if n_t > d + 1."""
        rest = self.concentration - self.loc.size - 1.0
        covariance = self.rate_matrix / jnp.where(rest > 0, rest, jnp.nan)
        return {"mean": self.loc, "covariance": covariance}

    def spread(self) -> PyTree:
        """sqrt(E C_ii / k_t), and sqrt(((r + 2) C_ij^2 + r C_ii C_jj) / ((r + 1) (r - 2))).

        Here C is its mean and r = n_t - d - 1; the latter is infinite up to r = 2.
        """
        rest = self.concentration - self.loc.size - 1.0
        c = self.mean()["covariance"]
        variances = jnp.diagonal(c)
        squares = (rest + 2.0) * c**2 + rest * jnp.outer(variances, variances)
        below = (rest + 1.0) * jnp.maximum(rest - 2.0, 0.0)
        return {"mean": jnp.sqrt(variances / self.count), "covariance": jnp.sqrt(squares / below)}

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """First the covariance, by Bartlett's decomposition, then the mean given it."""
        d = self.prior["loc"].size
        root = jnp.linalg.cholesky(self.rate_matrix)
        key_diagonal, key_below, key_mean = random.split(key, 3)
        # W = A A' ~ Wishart(n, I) with squared diagonal entries chi^2(n - i); C = L W^-1 L'.
        halves = jnp.broadcast_to(0.5 * (self.concentration - jnp.arange(d)), (*shape, d))
        diagonal = jnp.sqrt(2.0 * gamma(key_diagonal, halves))
        below = jnp.tril(normal_once(key_below, (*shape, d, d)), -1)
        bartlett = below + diagonal[..., None] * jnp.eye(d)
        # B = L A'^-1, so that C = B B'; B' solves A B' = L'.
        transposed = jnp.broadcast_to(root.T, (*shape, d, d))
        factor = jnp.swapaxes(solve_triangular(bartlett, transposed, lower=True), -1, -2)
        # B is no Cholesky factor (A' is upper), but any root of C will do.
        noise = normal_once(key_mean, (*shape, d))
        moved = jnp.einsum("...ij,...j->...i", factor, noise) / jnp.sqrt(self.count)
        covariance = factor @ jnp.swapaxes(factor, -1, -2)
        return {"mean": self.loc + moved, "covariance": covariance}

    def examples(self) -> PyTree:
        """Around the prior's guess."""
        covariance = self.prior["rate_matrix"] / self.prior["concentration"]
        spread = jnp.sqrt(jnp.diagonal(covariance))
        turned = covariance + 0.5 * jnp.diag(spread**2)  # with lower correlations
        steps = jnp.asarray([0.0, -1.0, 0.5, 1.5])
        tilt = jnp.linspace(0.5, 1.5, spread.size)
        return {
            "mean": self.prior["loc"] + steps[:, None] * tilt * spread,
            "covariance": jnp.stack([covariance, 0.5 * turned, turned, 2.0 * covariance]),
        }

    def _shift(self) -> Array:
        """m_t - m."""
        return self.data.value["r"] / self.count

    def _read(self, likelihood: Model, x: Decision) -> tuple[Array, Array]:
        """The centre m + g(x), and s(x)."""
        unit = {"mean": self.prior["loc"], "covariance": jnp.eye(self.prior["loc"].size)}
        centre, root = centre_and_root(likelihood(x, unit))
        return centre, root[0, 0]

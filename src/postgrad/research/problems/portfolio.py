"""Shares of three assets with the least conditional value at risk.

    minimise over w in the simplex and v:    v + E max(-w'xi - v, 0) / (1 - alpha),

the mean loss in the worst 10 % of months (alpha = 0.9), written as an expectation (Rockafellar and
Uryasev, 2000): at the optimum v is the loss that is exceeded in 10 % of them. Returns xi are
N(theta, Sigma) in per cent a month, Sigma known and the means unknown. The loss is normal then, so

    H(w, v)  =  v + s (phi(z) - z Phi(-z)) / (1 - alpha),    z = (v - m) / s,

with m = -w'theta and s^2 = w'Sigma w.

In the testbed for a decision of two kinds, shares and a level, on a product of feasible sets, and
for a cost whose derivative in the shares is zero for nine draws out of ten. (The means of real
returns are harder to learn: they are smaller relative to the standard deviation.)
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.grid.product_grid import product_grid
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.product import Product
from postgrad.problem.feasible.simplex import Simplex
from postgrad.problem.problem import Problem
from postgrad.research.problems import expected_excess
from postgrad.research.problems.instance import Instance

_SPREADS = np.asarray([1.5, 2.0, 3.0])
_CORRELATIONS = np.asarray([[1.0, 0.2, 0.0], [0.2, 1.0, 0.3], [0.0, 0.3, 1.0]])


class TailLoss(eqx.Module):
    """h((w, v), xi) = v + max(-w'xi - v, 0) / (1 - alpha).

    Attributes:
        quantile: alpha.
    """

    quantile: Float[Array, ""]

    def __call__(self, x: Float[Array, " n+1"], xi: Float[Array, " n"]) -> Float[Array, ""]:
        """h(x, xi)."""
        return x[-1] + jnp.maximum(-x[:-1] @ xi - x[-1], 0.0) / (1.0 - self.quantile)

    def expected(self, x: Array, mean: Array, covariance: Array) -> Float[Array, ""]:
        """E h(x, xi) for normal returns."""
        w, v = x[:-1], x[-1]
        spread = jnp.sqrt(w @ covariance @ w)
        return v + expected_excess.normal(-w @ mean, spread, v) / (1.0 - self.quantile)


def cvar() -> Instance:
    """Three assets of means theta_c = (0.4, 1.2, 2.0), more for more risk; all in the riskiest.

    The model is linear in theta, so the normal belief is exact. Its prior N(1, 1/4) of each mean
    sees no reason for risk: at a mean of 1 the best shares would be (0.633, 0.240, 0.126).
    """
    cost = TailLoss(jnp.asarray(0.9))
    theta = jnp.asarray([0.4, 1.2, 2.0])
    covariance = jnp.asarray(_SPREADS[:, None] * _CORRELATIONS * _SPREADS)
    factor = jnp.linalg.cholesky(covariance)
    return Instance(
        problem=Problem(
            cost=cost,
            model=lambda x, theta: dist.MultivariateNormal(
                theta, scale_tril=factor, validate_args=False
            ),
            feasible=Product((Simplex(), Box(-5.0, 10.0)), (3, 1)),
        ),
        theta=theta,
        x_star=jnp.asarray([0.4873190366090, 0.2981965627955, 0.2144844005955, 0.6934655744029]),
        x=jnp.asarray([0.0, 0.0, 1.0, 0.0]),
        expected_cost=lambda x: cost.expected(x, theta, covariance),
        points=product_grid([[0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.4]] * 3),
        prior=Gaussian(jnp.ones(3), 0.5),
    )


TESTBED: dict[str, Callable[[], Instance]] = {"portfolio-cvar": cvar}

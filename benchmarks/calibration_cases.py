"""What is calibrated: beliefs, with the prior and the model once more, as NumPy draws from them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg


class Case(NamedTuple):
    """A belief, its model, and an independent way to draw from both.

    Attributes:
        belief: pi_0.
        model: f.
        draw_theta: Of a generator and n, n values from the prior.
        draw_data: Of a generator, these values and decisions (T, 1): data (T, n, ...).
        weak: The same belief with a prior that says next to nothing.
        functions: Functions of theta, whose ranks are looked at.
        batches: Other numbers of batches than usual.
        fresh: The belief, of a key, if it starts with draws from the prior.
        kind: What is known of it.
    """

    belief: pg.Belief
    model: Callable[..., Any]
    draw_theta: Callable[[np.random.Generator, int], Any]
    draw_data: Callable[[np.random.Generator, Any, np.ndarray], np.ndarray]
    weak: pg.Belief | None = None
    functions: Callable[[Any], jax.Array] = lambda theta: jnp.concatenate(
        [jnp.ravel(leaf) for leaf in jax.tree.leaves(theta)]
    )
    batches: tuple[int, ...] = ()
    fresh: Callable[[jax.Array], pg.Belief] | None = None
    kind: str = "exact"


def _upper(theta: Any) -> jax.Array:
    """Means, variances and a covariance."""
    c = theta["covariance"]
    return jnp.concatenate([theta["mean"], jnp.stack([c[0, 0], c[0, 1], c[1, 1]])])


def _inverse_wishart(rng: np.random.Generator, n: int, degrees: int, scale: np.ndarray):
    """Inverses of sums of squares of normal vectors, for whole degrees of freedom."""
    root = np.linalg.cholesky(np.linalg.inv(scale))
    z = rng.standard_normal((n, degrees, len(scale))) @ root.T
    return np.linalg.inv(np.einsum("nki,nkj->nij", z, z))


def _normal_inverse_wishart(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    covariance = _inverse_wishart(rng, n, 6, _PSI)
    root = np.linalg.cholesky(covariance / 2.0)
    noise = np.einsum("nij,nj->ni", root, rng.standard_normal((n, 2)))
    return {"mean": np.asarray([1.0, -1.0]) + noise, "covariance": covariance}


def _correlated(rng: np.random.Generator, theta: Any, xs: np.ndarray) -> np.ndarray:
    root = np.linalg.cholesky(theta["covariance"])
    noise = rng.standard_normal((len(xs), len(root), 2))
    scaled = (1 + xs)[..., None] * np.einsum("nij,tnj->tni", root, noise)
    return theta["mean"] + xs[..., None] + scaled


def _normal_inverse_gamma(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    scale = np.sqrt(3.0 / rng.gamma(2.0, size=n))
    return {"mean": rng.normal(3.0, scale / np.sqrt(0.5)), "scale": scale}


def _multinomial(rng: np.random.Generator, theta: np.ndarray, xs: np.ndarray) -> np.ndarray:
    return np.stack([rng.multinomial(4, theta) for _ in xs])


def _categorical(rng: np.random.Generator, theta: np.ndarray, xs: np.ndarray) -> np.ndarray:
    u = rng.random((len(xs), len(theta), 1))
    return (u > np.cumsum(theta, axis=1)).sum(axis=-1)


_PSI = np.asarray([[4.0, 1.0], [1.0, 3.0]])
_TINY = 1e-3
_NORMAL = pg.Normal(3.0, 2.0), pg.Normal(3.0, 2e3)
_NIG = pg.NormalInverseGamma(3.0, 0.5, 2.0, 3.0), pg.NormalInverseGamma(3.0, _TINY, _TINY, _TINY)
_NIW = (
    pg.NormalInverseWishart([1.0, -1.0], 2.0, 6.0, _PSI),
    pg.NormalInverseWishart([1.0, -1.0], _TINY, 1.0 + _TINY, _TINY * np.eye(2)),
)
_GAMMA = pg.Gamma(2.0, 0.5), pg.Gamma(_TINY, _TINY)
_INVERSE = pg.InverseGamma(3.0, 8.0), pg.InverseGamma(_TINY, _TINY)
_BETA = pg.Beta(2.0, 3.0), pg.Beta(_TINY, _TINY)
_DIRICHLET = pg.Dirichlet([1.0, 2.0, 0.5]), pg.Dirichlet([_TINY] * 3)


def _case(beliefs: tuple, model: Any, draw_theta: Any, draw_data: Any, **options: Any) -> Case:
    return Case(beliefs[0], model, draw_theta, draw_data, beliefs[1], **options)


def _mean(rng, n):
    return rng.normal(3.0, 2.0, n)


def _rate(rng, n):
    return rng.gamma(2.0, 2.0, n)


def _waiting(rng, n):
    return 8.0 / rng.gamma(3.0, size=n)


def _share(rng, n):
    return rng.beta(2.0, 3.0, n)


def _shares(rng, n):
    return rng.dirichlet([1.0, 2.0, 0.5], n)


EXACT = {
    "Normal of Normal": _case(
        _NORMAL,
        lambda x, theta: dist.Normal((1.0 + x) * theta - x**2, 4.0 + x),
        _mean,
        lambda rng, t, x: rng.normal((1.0 + x) * t - x**2, 4.0 + x),
    ),
    "Normal of LogNormal": _case(
        _NORMAL,
        lambda x, theta: dist.LogNormal(theta + x, 4.0),
        _mean,
        lambda rng, t, x: rng.lognormal(t + x, 4.0),
    ),
    "NormalInverseGamma of Normal": _case(
        _NIG,
        lambda x, t: dist.Normal((1.0 + x) * t["mean"] + x**2, (2.0 + x) * t["scale"]),
        _normal_inverse_gamma,
        lambda rng, t, x: rng.normal((1.0 + x) * t["mean"] + x**2, (2.0 + x) * t["scale"]),
    ),
    "NormalInverseGamma of LogNormal": _case(
        _NIG,
        lambda x, t: dist.LogNormal(t["mean"] + x, t["scale"]),
        _normal_inverse_gamma,
        lambda rng, t, x: rng.lognormal(t["mean"] + x, t["scale"]),
    ),
    "NormalInverseWishart of MultivariateNormal": _case(
        _NIW,
        lambda x, t: dist.MultivariateNormal(t["mean"] + x, (1.0 + x) ** 2 * t["covariance"]),
        _normal_inverse_wishart,
        _correlated,
        functions=_upper,
    ),
    "Gamma of Exponential": _case(
        _GAMMA,
        lambda x, theta: dist.Exponential(theta * (1.0 + x)),
        _rate,
        lambda rng, t, x: rng.exponential(1.0 / (t * (1.0 + x))),
    ),
    "Gamma of Poisson": _case(
        _GAMMA,
        lambda x, theta: dist.Poisson(theta * (1.0 + x)),
        _rate,
        lambda rng, t, x: rng.poisson(t * (1.0 + x)),
    ),
    "Gamma of Gamma": _case(
        _GAMMA,
        lambda x, theta: dist.Gamma(2.0 + x, theta / (1.0 + x)),
        _rate,
        lambda rng, t, x: rng.gamma(2.0 + x, (1.0 + x) / t),
    ),
    "InverseGamma of Exponential": _case(
        _INVERSE,
        lambda x, theta: dist.Exponential(1.0 / (theta * (1.0 + x))),
        _waiting,
        lambda rng, t, x: rng.exponential(t * (1.0 + x)),
    ),
    "InverseGamma of Gamma": _case(
        _INVERSE,
        lambda x, theta: dist.Gamma(0.5 + x, 1.0 / theta),
        _waiting,
        lambda rng, t, x: rng.gamma(0.5 + x, t),
    ),
    "Beta of Bernoulli": _case(
        _BETA,
        lambda x, theta: dist.Bernoulli(theta),
        _share,
        lambda rng, t, x: rng.random((len(x), len(t))) < t,
    ),
    "Beta of Binomial": _case(
        _BETA,
        lambda x, theta: dist.Binomial(7, theta),
        _share,
        lambda rng, t, x: rng.binomial(7, np.broadcast_to(t, (len(x), len(t)))),
    ),
    "Beta of Geometric": _case(
        _BETA,
        lambda x, theta: dist.Geometric(theta),
        _share,
        lambda rng, t, x: rng.geometric(np.broadcast_to(t, (len(x), len(t)))) - 1,
    ),
    "Beta of NegativeBinomial": _case(
        _BETA,
        lambda x, theta: dist.NegativeBinomial(2.5 + x, probs=1.0 - theta),
        _share,
        lambda rng, t, x: rng.negative_binomial(2.5 + x, t),
    ),
    "Dirichlet of Categorical": _case(
        _DIRICHLET, lambda x, theta: dist.Categorical(theta), _shares, _categorical
    ),
    "Dirichlet of Multinomial": _case(
        _DIRICHLET, lambda x, theta: dist.Multinomial(4, theta), _shares, _multinomial
    ),
}

APPROXIMATE: dict[str, Case] = {}

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
        draw_data: Of a generator, these values, decisions (T, 1), and contexts if there are any:
            data (T, n, ...).
        weak: The same belief with a prior that says next to nothing.
        functions: Functions of theta, whose ranks are looked at.
        batches: Other numbers of batches than usual.
        kind: What is known of it.
        draw_contexts: Of a generator and (T, n): contexts, along two leading axes; None without.
    """

    belief: pg.beliefs.Belief
    model: Callable[..., Any]
    draw_theta: Callable[[np.random.Generator, int], Any]
    draw_data: Callable[..., np.ndarray]
    weak: pg.beliefs.Belief | None = None
    functions: Callable[[Any], jax.Array] = lambda theta: jnp.concatenate(
        [jnp.ravel(leaf) for leaf in jax.tree.leaves(theta)]
    )
    batches: tuple[int, ...] = ()
    kind: str = "exact"
    draw_contexts: Callable[[np.random.Generator, tuple[int, int]], Any] = lambda rng, shape: None


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
_NORMAL = pg.beliefs.Normal(3.0, 2.0), pg.beliefs.Normal(3.0, 2e3)
_NIG = (
    pg.beliefs.NormalInverseGamma(3.0, 0.5, 2.0, 3.0),
    pg.beliefs.NormalInverseGamma(3.0, _TINY, _TINY, _TINY),
)
_NIW = (
    pg.beliefs.NormalInverseWishart([1.0, -1.0], 2.0, 6.0, _PSI),
    pg.beliefs.NormalInverseWishart([1.0, -1.0], _TINY, 1.0 + _TINY, _TINY * np.eye(2)),
)
_GAMMA = pg.beliefs.Gamma(2.0, 0.5), pg.beliefs.Gamma(_TINY, _TINY)
_INVERSE = pg.beliefs.InverseGamma(3.0, 8.0), pg.beliefs.InverseGamma(_TINY, _TINY)
_BETA = pg.beliefs.Beta(2.0, 3.0), pg.beliefs.Beta(_TINY, _TINY)
_DIRICHLET = pg.beliefs.Dirichlet([1.0, 2.0, 0.5]), pg.beliefs.Dirichlet([_TINY] * 3)


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


def _bound(belief: pg.beliefs.Belief, model: Any) -> pg.beliefs.Belief:
    """In the form that serves the model."""
    problem = pg.Problem(lambda x, xi: jnp.sum(x * xi), model, pg.feasible.Box(0.1, 3.0))
    return belief.bind(problem, jnp.asarray(1.0))


def _response(x: Any, theta: Any) -> dist.Distribution:
    return dist.Normal(theta["base"] - theta["slope"] * x, 2.0)


def _coefficients(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    base = rng.normal(10.0, 3.0, n)
    # covariance [[9, 1], [1, 1]]: given the base, the slope is normal around it
    return {"base": base, "slope": rng.normal(2.0 + (base - 10.0) / 9.0, np.sqrt(8.0 / 9.0))}


_LINE = tuple(
    _bound(
        pg.beliefs.Gaussian({"base": 10.0, "slope": 2.0}, covariance_matrix=np.asarray(covariance)),
        _response,
    )
    for covariance in ([[9.0, 1.0], [1.0, 1.0]], [[9e6, 0.0], [0.0, 1e6]])
)


def _regression(scale: float = 1.0) -> pg.models.Predictor:
    """A level, weekdays, a promotion and a price, their priors so many times as wide."""
    return pg.models.Predictor(
        level=pg.models.Level(2.0, 0.5 * scale),
        weekday=pg.models.Categorical(3, scale=0.4 * scale),
        promo=pg.models.Numeric(scale=0.3 * scale),
        price=pg.models.Feature(lambda x, z: x * z["promo"], scale=0.2 * scale),
    )


def _effects(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    return {
        "level": rng.normal(2.0, 0.5, n),
        "weekday": rng.normal(0.0, 0.4, (n, 3)),
        "promo": rng.normal(0.0, 0.3, n),
        "price": rng.normal(0.0, 0.2, n),
    }


def _calendar(rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    return {"weekday": rng.integers(0, 3, shape), "promo": rng.normal(0.0, 1.0, shape)}


def _eta(theta: Any, x: np.ndarray, z: Any) -> np.ndarray:
    day = np.take_along_axis(theta["weekday"], z["weekday"].T, axis=1).T
    return theta["level"] + day + (theta["promo"] + theta["price"] * x) * z["promo"]


def _all_but_numbers(theta: Any) -> jax.Array:
    return jnp.stack([theta["level"], theta["weekday"][0], theta["promo"], theta["price"]])


_LINEAR, _COUNTS = pg.models.Normal(_regression()), pg.models.NegativeBinomial(_regression())

EXACT = {
    "Regression of Normal, contexts": _case(
        (
            pg.beliefs.Regression(_LINEAR, scale=0.8),
            pg.beliefs.Regression(pg.models.Normal(_regression(1e3)), scale=0.8),
        ),
        _LINEAR,
        _effects,
        lambda rng, t, x, z: rng.normal(_eta(t, x, z), 0.8),
        functions=_all_but_numbers,
        draw_contexts=_calendar,
    ),
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
        lambda x, theta: dist.NegativeBinomialProbs(2.5 + x, 1.0 - theta),
        _share,
        lambda rng, t, x: rng.negative_binomial(2.5 + x, t),
    ),
    "Gaussian of linear Normal": _case(
        _LINE,
        _response,
        _coefficients,
        lambda rng, t, x: rng.normal(t["base"] - t["slope"] * x, 2.0),
    ),
    "Dirichlet of Categorical": _case(
        _DIRICHLET, lambda x, theta: dist.Categorical(theta), _shares, _categorical
    ),
    "Dirichlet of Multinomial": _case(
        _DIRICHLET, lambda x, theta: dist.Multinomial(4, theta), _shares, _multinomial
    ),
}


def _student(x: Any, theta: Any) -> dist.Distribution:
    return dist.StudentT(5.0, theta + x, 2.0)


def _poisson(x: Any, theta: Any) -> dist.Distribution:
    return dist.Poisson(theta * (1.0 + x))


def _normal(x: Any, theta: Any) -> dist.Distribution:
    return dist.Normal(theta + x, 4.0)


def _log_poisson(x: Any, theta: Any) -> dist.Distribution:
    return dist.Poisson(jnp.exp(theta - 0.3 * x))


def _logit(x: Any, theta: Any) -> dist.Distribution:
    return dist.Bernoulli(logits=theta - x)


def _atoms(x: Any, theta: Any) -> pg.distributions.Atoms:
    return pg.distributions.Atoms(theta["values"] + x, theta["weights"])


def _process(rng: np.random.Generator, n: int, atoms: int = 200) -> dict[str, np.ndarray]:
    """A Dirichlet process of concentration 2 around N(3, 2^2), by breaking a stick."""
    pieces = rng.beta(1.0, 2.0, (n, atoms))
    rest = np.cumprod(1.0 - pieces, axis=1)
    weights = pieces * np.concatenate([np.ones((n, 1)), rest[:, :-1]], axis=1)
    weights[:, -1] += rest[:, -1]
    return {"values": rng.normal(3.0, 2.0, (n, atoms)), "weights": weights}


def _process_data(rng: np.random.Generator, theta: Any, xs: np.ndarray) -> np.ndarray:
    cumulated = np.cumsum(theta["weights"], axis=1)
    u = rng.random((len(xs), len(cumulated)))
    index = np.stack([(row[:, None] > cumulated).sum(axis=1) for row in u])
    index = np.minimum(index, cumulated.shape[1] - 1)
    return np.take_along_axis(theta["values"].T, index, axis=0) + xs


def _functionals(theta: Any) -> jax.Array:
    """The mean, and how much lies below 2 and below 4."""
    values, weights = theta["values"], theta["weights"]
    below = [jnp.sum(jnp.where(values <= c, weights, 0.0)) for c in (2.0, 4.0)]
    return jnp.stack([jnp.sum(values * weights), *below])


def _student_data(rng: np.random.Generator, theta: np.ndarray, xs: np.ndarray) -> np.ndarray:
    return theta + xs + 2.0 * rng.standard_t(5.0, (len(xs), len(theta)))


def _normal_data(rng: np.random.Generator, theta: np.ndarray, xs: np.ndarray) -> np.ndarray:
    return rng.normal(theta + xs, 4.0)


_LANGEVIN = {"count": 500, "steps": 10}
_MEAN_PRIOR = dist.Normal(3.0, 2.0)
_SHORT = (1, 10, 100)


def approximate() -> dict[str, Case]:
    """Made when asked for: it takes seconds."""
    return {
        "Particles of Poisson": Case(
            _bound(pg.beliefs.Particles(dist.Gamma(2.0, 0.5), 1000), _poisson),
            _poisson,
            _rate,
            lambda rng, t, x: rng.poisson(t * (1.0 + x)),
            batches=_SHORT,
            kind="many particles",
        ),
        "Particles of StudentT": Case(
            _bound(pg.beliefs.Particles(_MEAN_PRIOR, 1000), _student),
            _student,
            _mean,
            _student_data,
            batches=_SHORT,
            kind="many particles",
        ),
        "Langevin, adjusted": Case(
            _bound(pg.beliefs.Langevin(_MEAN_PRIOR, **_LANGEVIN), _normal),
            _normal,
            _mean,
            _normal_data,
            batches=_SHORT,
            kind="many steps",
        ),
        "Langevin, unadjusted, step 0.1": Case(
            _bound(pg.beliefs.Langevin(_MEAN_PRIOR, **_LANGEVIN, adjusted=False), _normal),
            _normal,
            _mean,
            _normal_data,
            batches=_SHORT,
            kind="too wide by 3 %",
        ),
        "Langevin, unadjusted, step 0.4": Case(
            _bound(
                pg.beliefs.Langevin(_MEAN_PRIOR, **_LANGEVIN, adjusted=False, step_size=0.4),
                _normal,
            ),
            _normal,
            _mean,
            _normal_data,
            batches=_SHORT,
            kind="too wide by 18 %",
        ),
        "Gaussian of Poisson, log link": Case(
            _bound(pg.beliefs.Gaussian(1.0, 0.5), _log_poisson),
            _log_poisson,
            lambda rng, n: rng.normal(1.0, 0.5, n),
            lambda rng, t, x: rng.poisson(np.exp(t - 0.3 * x)),
            kind="Laplace",
        ),
        "Gaussian of Bernoulli, logit link": Case(
            _bound(pg.beliefs.Gaussian(1.0, 1.5), _logit),
            _logit,
            lambda rng, n: rng.normal(1.0, 1.5, n),
            lambda rng, t, x: rng.random((len(x), len(t))) < 1.0 / (1.0 + np.exp(x - t)),
            kind="Laplace",
        ),
        "Regression of NegativeBinomial, contexts": Case(
            pg.beliefs.Regression(_COUNTS, concentration=5.0),
            _COUNTS,
            _effects,
            lambda rng, t, x, z: rng.negative_binomial(5.0, 5.0 / (5.0 + np.exp(_eta(t, x, z)))),
            functions=_all_but_numbers,
            kind="Laplace",
            draw_contexts=_calendar,
        ),
        "DirichletProcess": Case(
            _bound(pg.beliefs.DirichletProcess(_MEAN_PRIOR, 2.0, atoms=128, capacity=128), _atoms),
            _atoms,
            _process,
            _process_data,
            functions=_functionals,
            batches=_SHORT,
            kind="truncated",
        ),
    }

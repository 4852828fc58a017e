"""The Gaussian belief where it is an approximation: close to the posterior, and at its mode."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax, random
from scipy import integrate, special, stats
from test_gaussian import (
    assert_same,
    bernoulli,
    bound,
    flat,
    linear,
    log_mixture,
    poisson,
    scan,
    update,
)

from postgrad.beliefs.gaussian.gaussian import Gaussian


def quadrature(model, prior, prices, batches, t):
    """Means and standard deviations of a posterior of two numbers, by brute force."""

    def log_posterior(t):
        theta = {"base": t[0], "slope": t[1]}
        log_f = model(prices[:, None], theta).log_prob(batches)
        return jnp.sum(log_f) - 0.5 * jnp.sum(((t - prior[0]) / prior[1]) ** 2)

    def newton(_, t):  # from a good start
        return t - jnp.linalg.solve(jax.hessian(log_posterior)(t), jax.grad(log_posterior)(t))

    mode = lax.fori_loop(0, 20, newton, t)
    root = jnp.linalg.cholesky(jnp.linalg.inv(-jax.hessian(log_posterior)(mode)))
    u = np.linspace(-8.0, 8.0, 65)
    points = mode + np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2) @ root.T
    w = jax.nn.softmax(lax.map(log_posterior, points, batch_size=65))
    mean = w @ points
    return mean, jnp.sqrt(w @ (points - mean) ** 2)


@pytest.mark.parametrize("model", [poisson, bernoulli])
def test_approximation_is_close_to_the_posterior(model):
    """Fifty batches of ten, at twelve truths from the prior.

    Seen: means off by 0.08 standard deviations in the root mean square and 0.3 at most, spreads by
    3 % (Poisson), 2 % (Bernoulli) and 10 % at most. What is left comes from the first batches,
    after which the posterior is not normal yet.
    """
    prior = np.asarray([1.0, 0.7]), np.asarray([1.0, 0.5])
    start = Gaussian({"base": 1.0, "slope": 0.7}, {"base": 1.0, "slope": 0.5})
    start = bound(start, model)
    assert not start.exact
    rng = np.random.default_rng(0)
    truth = prior[0] + prior[1] * rng.normal(size=(12, 2))
    prices = rng.uniform(0.5, 3.0, (12, 50))
    response = (truth[:, :1] - truth[:, 1:] * prices)[..., None] * np.ones(10)
    counts = rng.poisson(np.exp(response))
    batches = (
        counts if model is poisson else rng.uniform(size=(12, 50, 10)) < special.expit(response)
    )

    def one(prices, batches):
        belief, _ = lax.scan(lambda b, d: (b.update(model, *d), None), start, (prices, batches))
        m = jnp.stack([belief.loc["base"], belief.loc["slope"]])
        mean, sd = quadrature(model, prior, prices, batches, m)
        return (m - mean) / sd, jnp.sqrt(jnp.diagonal(belief.covariance_matrix)) / sd - 1.0

    off, wider = jax.jit(jax.vmap(one))(prices, batches.astype(float))
    assert np.sqrt(np.mean(off**2)) < 0.15
    assert np.abs(off).max() < 0.4
    assert np.sqrt(np.mean(wider**2)) < 0.05
    assert np.abs(wider).max() < 0.15


def test_approximation_of_a_linear_model_is_exact():
    prior = Gaussian({"base": 10.0, "slope": 1.0}, 3.0)
    rng = np.random.default_rng(6)
    prices, sales = rng.uniform(1, 3, 30), rng.normal(500.0, 2.0, (30, 2))
    exact, close = (scan(b, linear, prices, sales) for b in (bound(prior, linear), prior))
    assert exact.exact
    assert not close.exact
    assert_same(flat(close), flat(exact), 1e-9)
    assert_same(close.covariance_matrix, exact.covariance_matrix, 1e-9)


def test_impossible_data_without_weight_are_no_data():
    weight = jnp.asarray([1.0, 0.0])
    for model, belief in (
        (poisson, Gaussian({"base": 1.0, "slope": 0.5}, 1.0)),
        (lambda x, t: dist.LogNormal(t["base"], 1.0), Gaussian({"base": 1.0}, 1.0)),
    ):
        belief = bound(belief, model)
        y = jnp.asarray([2.0, -1.0])
        learned = update(belief, model, 1.0, y, weight)
        assert_same(learned, update(belief, model, 1.0, y[:1]), 1e-9)
        lost = update(belief, model, 1.0, y)
        assert np.isnan(flat(lost)).all()
        assert np.isnan(jax.tree.leaves(lost.sample(random.key(0), (3,)))[0]).all()


def log_rate(x, theta):
    return dist.Poisson(jnp.exp(theta))


@pytest.mark.parametrize(
    ("mean", "scale", "y"),
    [(0.0, 1.0, 1e6), (0.0, 10.0, 1e6), (30.0, 10.0, 3.0), (0.0, 1.0, 0.0), (60.0, 30.0, 1e9)],
)
def test_mode_is_found_from_far_away(mean, scale, y):
    """Steps that overflow, and slow ones down an exponential."""
    belief = update(Gaussian(mean, scale), log_rate, 0.0, np.asarray([y]))
    mode = float(belief.loc)
    precision = scale**-2 + math.exp(mode)
    slope = y - math.exp(mode) - (mode - mean) / scale**2
    assert abs(slope) < 1e-6 * math.sqrt(precision)
    assert float(belief.covariance_matrix[0, 0]) == pytest.approx(1 / precision, rel=1e-5)


@pytest.mark.parametrize(("mean", "scale"), [(5000.0, 1.0), (720.0, 20.0)])
def test_no_mode_is_no_posterior(mean, scale):
    """Rates beyond all numbers, all around or where the climb starts."""
    belief = update(Gaussian(mean, scale), log_rate, 0.0, np.asarray([3.0]))
    assert np.isnan(float(belief.loc))


def test_curvature_is_never_negative():
    """An outlier under heavy tails: the log-density is convex there."""

    def tails(x, theta):
        return dist.StudentT(3.0, theta, 1.0)

    learned = update(Gaussian(0.0, 1.0), tails, 0.0, np.asarray([30.0]))
    assert float(learned.covariance_matrix[0, 0]) == pytest.approx(1.0, rel=1e-12)
    assert 0.1 < float(learned.loc) < 0.2
    both = update(
        Gaussian([0.0, 0.0], 1.0),
        lambda x, theta: tails(x, theta).to_event(1),
        0.0,
        np.asarray([[30.0, 0.1]]),
    )
    assert np.linalg.eigvalsh(np.asarray(both.covariance_matrix)).max() <= 1.0 + 1e-12


def test_mixture_by_points_is_close_to_the_integral():
    covariance = np.asarray([[0.3, 0.1], [0.1, 0.2]])
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, covariance_matrix=covariance), bernoulli)
    price = jnp.asarray(2.0)
    log_f = [log_mixture(belief, bernoulli, price, xi) for xi in (0.0, 1.0)]
    a = np.asarray([1.0, -2.0])
    sd = float(np.sqrt(a @ covariance @ a))  # the logit is normal with mean 0
    exact, _ = integrate.quad(lambda z: special.expit(0.3 + sd * z) * stats.norm.pdf(z), -10, 10)
    shifted = Gaussian({"base": 1.3, "slope": 0.5}, covariance_matrix=covariance)
    p = np.exp(log_mixture(shifted, bernoulli, price, 1.0))
    assert np.exp(log_f).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_f[1]) == pytest.approx(0.5, abs=1e-12)
    assert float(p) == pytest.approx(exact, abs=1e-3)
    counts = jnp.arange(400.0)
    mass = jnp.exp(jax.jit(jax.vmap(lambda xi: belief.log_mixture(poisson, price, xi)))(counts))
    assert float(mass.sum()) == pytest.approx(1.0, abs=1e-3)
    assert float(mass @ counts) == pytest.approx(np.exp(0.5 * sd**2), rel=5e-3)
    assert float(log_mixture(belief, poisson, price, -1.0)) == -np.inf


@pytest.mark.parametrize(("yes", "of"), [(8, 17), (9, 20), (3, 8), (1, 2)])
def test_conversions_are_learned_from_a_prior_mean_of_zero(yes, of):
    """A stranger's: 9 conversions of 20 were refused as data that no theta explains."""
    belief = bound(Gaussian(0.0, 1.5), lambda x, theta: dist.Bernoulli(logits=theta))
    y = jnp.asarray([1.0] * yes + [0.0] * (of - yes))
    new = belief.update(lambda x, theta: dist.Bernoulli(logits=theta), jnp.asarray(1.0), y)
    logits = np.linspace(-9.0, 9.0, 40001)
    log_f = yes * logits - of * np.logaddexp(0.0, logits) - 0.5 * (logits / 1.5) ** 2
    np.testing.assert_allclose(new.mean(), logits[log_f.argmax()], atol=3e-4)

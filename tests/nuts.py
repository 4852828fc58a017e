"""Posteriors by NUTS, which take too long to compute in every test: kept in `nuts.json`.

python tests/nuts.py

computes them anew. Each is the mean and the quantiles of every coordinate, (6, d), with their
standard errors from independent chains.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC, NUTS

import postgrad  # noqa: F401 - it switches to numbers of 64 bits

KEPT = Path(__file__).with_suffix(".json")
SHARES = np.asarray([0.05, 0.25, 0.5, 0.75, 0.95])


def price_response():
    """Prior, model, decisions and data: demand that is linear in the price, a row at a time."""
    rng = np.random.default_rng(5)
    xs = rng.uniform(1.0, 9.0, 200)
    ys = (40.0 - 3.0 * xs + rng.normal(0.0, 2.5, 200))[:, None]
    prior = {"a": dist.Normal(0.0, 50.0), "b": dist.LogNormal(0.0, 1.5), "s": dist.HalfNormal(10.0)}

    def model(x, theta):
        return dist.Normal(theta["a"] - theta["b"] * x, theta["s"])

    return prior, model, jnp.asarray(xs), jnp.asarray(ys)


def twenty_dimensions():
    """A logistic regression on correlated features, twenty rows at a time."""
    d, rng = 20, np.random.default_rng(6)
    xs = rng.normal(size=(20, 20, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)))
    slopes = 0.5 * rng.normal(size=d)
    ys = (rng.random((20, 1, 20)) < 1.0 / (1.0 + np.exp(-xs @ slopes))[:, None]).astype(float)
    prior = {"slopes": dist.Normal(jnp.zeros(d), 2.0).to_event(1)}

    def model(x, theta):
        return dist.Bernoulli(logits=x @ theta["slopes"]).to_event(1)

    return prior, model, jnp.asarray(xs), jnp.asarray(ys)


CASES = {"price response": price_response, "twenty dimensions": twenty_dimensions}


def summary(theta, weight):
    """Mean and quantiles of each coordinate, (6, d)."""
    order = np.argsort(theta, axis=0)
    below = np.cumsum(weight[order], axis=0) - 0.5 * weight[order]
    ranked = np.take_along_axis(theta, order, axis=0)
    quantiles = [np.interp(SHARES, *pair) for pair in zip(below.T, ranked.T, strict=True)]
    return np.concatenate([(weight @ theta)[None], np.transpose(quantiles)])


def flat(theta, axes):
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(theta)]
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=-1)


def mean_and_error(values):
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def nuts(prior, model, xs, ys, chains=24, length=800):
    def program():
        theta = {name: numpyro.sample(name, part) for name, part in prior.items()}
        each = jax.vmap(lambda x, y: jnp.sum(model(x, theta).log_prob(y)))
        numpyro.factor("data", jnp.sum(each(xs, ys)))

    sampler = MCMC(
        NUTS(program),
        num_warmup=300,
        num_samples=length,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(random.key(1))
    theta = flat({name: sampler.get_samples(True)[name] for name in prior}, 2)
    even = np.full(length, 1.0 / length)
    return mean_and_error(np.asarray([summary(chain, even) for chain in theta]))


if __name__ == "__main__":
    found = {name: np.asarray(nuts(*case())).round(6).tolist() for name, case in CASES.items()}
    KEPT.write_text(json.dumps(found))

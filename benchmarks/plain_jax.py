"""The README's example by hand in JAX, against which `first_decision.py` measures postgrad.

The posterior on the grid theta in {5, ..., 25}; the averaged cost on 4,096 fixed draws (256 thetas
of 16 demands each), with its slope; the best of 64 orders between 1 and 100, and 45 steps inside
the bracket around that order. One loop contains the one evaluation of the averaged cost.

    python benchmarks/plain_jax.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax, random

jax.config.update("jax_enable_x64", True)

THETAS = jnp.arange(5.0, 26.0)
LOW, HIGH = 1.0, 100.0
PLACES, STEPS = 64, 45
DRAWS_OF_THETA, DRAWS_OF_DEMAND = 256, 16
LARGEST_BATCH = 4
BATCHES = ([14.2, 17.9], [12.8], [18.3, 15.5, 16.9], [13.7, 16.2])


def cost(order, demand):
    return 2 * order - 4 * jnp.minimum(order, demand) - jnp.maximum(order - demand, 0)


def model(order, theta):
    return dist.Normal(theta + jnp.sqrt(order), 3.0)


def learn(log_weights, order, batch, counts):
    """Bayes' rule: log-weights plus the log-likelihood of the rows that count."""
    log_likelihood = model(order, THETAS[:, None]).log_prob(batch)
    log_weights = log_weights + jnp.sum(counts * log_likelihood, axis=1)
    return log_weights - jnp.max(log_weights)


def draw(key, log_weights):
    """Thetas from the posterior, and levels of the demands' quantiles, on a shifted lattice."""
    number = DRAWS_OF_THETA * DRAWS_OF_DEMAND
    shift = random.uniform(key, (2,))
    first = (jnp.arange(DRAWS_OF_THETA) + shift[0]) / DRAWS_OF_THETA
    second = (jnp.arange(number) * 0.6180339887498949 + shift[1]) % 1.0
    cumulative = jnp.cumsum(jnp.exp(log_weights))
    thetas = THETAS[jnp.searchsorted(cumulative, first * cumulative[-1])]
    return thetas[:, None], second.reshape(DRAWS_OF_THETA, DRAWS_OF_DEMAND)


def descend(thetas, levels):
    """The order of the smallest averaged cost: a scan of places, then steps inside a bracket."""

    def averaged_cost(order):
        return jnp.mean(cost(order, model(order, thetas).icdf(levels)))

    gap = (HIGH - LOW) / (PLACES - 1)

    def one_evaluation(i, carry):
        order, best, least, low, high, slope_low, slope_high = carry
        value, slope = jax.value_and_grad(averaged_cost)(order)
        best = jnp.where(value < least, order, best)
        least = jnp.minimum(value, least)
        scanning, last_place = i < PLACES, i == PLACES - 1
        # While places are scanned the bracket follows the best of them; then it only shrinks.
        rises = slope > 0
        low = jnp.where(scanning, jnp.maximum(best - gap, LOW), jnp.where(rises, low, order))
        high = jnp.where(scanning, jnp.minimum(best + gap, HIGH), jnp.where(rises, order, high))
        slope_low = jnp.where(scanning | rises, slope_low, slope)
        slope_high = jnp.where(~scanning & rises, slope, slope_high)
        # The secant where both ends have a slope, the middle at every other step.
        middle = 0.5 * (low + high)
        secant = low - slope_low * (high - low) / (slope_high - slope_low)
        inside = (secant > low) & (secant < high) & (i % 2 == 0)
        step = jnp.where(inside, secant, middle)
        following = jnp.where(scanning & ~last_place, LOW + (i + 1) * gap, step)
        return following, best, least, low, high, slope_low, slope_high

    # float64, as the arguments are: the weak type of Python's floats would compile a second time.
    start = tuple(jnp.array([LOW, LOW, jnp.inf, LOW, HIGH, -jnp.inf, jnp.inf], jnp.float64))
    return lax.fori_loop(0, PLACES + STEPS, one_evaluation, start)[1]


@jax.jit
def stage(key, log_weights, order, batch, counts):
    log_weights = learn(log_weights, order, batch, counts)
    return log_weights, descend(*draw(key, log_weights))


def main() -> None:
    log_weights, order = np.zeros(len(THETAS)), np.float64(15.0)
    for t, batch in enumerate(BATCHES):
        # One size for all batches, so that the stage compiles once.
        padded = np.zeros(LARGEST_BATCH)
        padded[: len(batch)] = batch
        counts = (np.arange(LARGEST_BATCH) < len(batch)).astype(float)
        log_weights, order = stage(random.key(t), log_weights, order, padded, counts)
        print(f"order {order:.2f}")


if __name__ == "__main__":
    main()

"""A user's own continuous law with `Particles`: 100 batches of 10 through `pg.Agent`.

The law is no exponential family, so that particles keep the data, and it is written as a user would
write it: `sample` and `log_prob` of an asymmetric Laplace distribution, whose quantile at `share`
is `location`.

    python benchmarks/own_law.py
"""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from numpyro.distributions import constraints

import postgrad as pg

BATCHES, BATCH_SIZE = 100, 10
LOCATION, SCALE, SHARE = 30.0, 2.0, 0.3


class AsymmetricLaplace(dist.Distribution):
    """log f(y) = log(share (1 - share) / scale) - z (share - 1{z < 0}), z = (y - location) / scale."""  # noqa: E501

    arg_constraints = {"location": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    reparametrized_params = ["location", "scale"]  # noqa: RUF012

    def __init__(self, location, scale, share=SHARE, *, validate_args=None):
        self.location, self.scale, self.share = location, scale, share
        shape = jnp.broadcast_shapes(jnp.shape(location), jnp.shape(scale))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(self, key, sample_shape=()):
        """The difference of two exponential draws."""
        up, down = random.exponential(key, (2, *sample_shape, *self.batch_shape))
        return self.location + self.scale * (up / self.share - down / (1 - self.share))

    def log_prob(self, value):
        """The logarithm of the density."""
        z = (value - self.location) / self.scale
        loss = z * (self.share - jnp.where(z < 0, 1.0, 0.0))
        return jnp.log(self.share * (1 - self.share) / self.scale) - loss


def main() -> None:
    problem = pg.Problem(
        cost=lambda order, demand: (
            3 * jnp.maximum(demand - order, 0) + jnp.maximum(order - demand, 0)
        ),
        model=lambda order, theta: AsymmetricLaplace(theta["location"], theta["scale"]),
        feasible=pg.feasible.Box(0.0, 200.0),
    )
    prior = {"location": dist.Normal(20.0, 20.0), "scale": dist.LogNormal(0.0, 1.0)}
    agent = pg.Agent(problem, belief=pg.beliefs.Particles(prior), x=15.0)
    rng = np.random.default_rng(0)
    up, down = rng.exponential(size=(2, BATCHES, BATCH_SIZE))
    for batch in LOCATION + SCALE * (up / SHARE - down / (1 - SHARE)):
        agent.observe(batch)
    print(f"order {agent.decision:.2f}")


if __name__ == "__main__":
    main()

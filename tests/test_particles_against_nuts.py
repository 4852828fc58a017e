"""Particles against long runs of NUTS, kept in a file."""

import json

import equinox as eqx
import jax
import numpy as np
import nuts
import pytest
from jax import random
from test_particles import problem

from postgrad.beliefs.kept_likelihood import with_room
from postgrad.beliefs.sampled.particles import Particles


@eqx.filter_jit
def run(belief, model, xs, ys, key):
    def one(belief, stage):
        x, batch, key = stage
        return belief.update(model, x, batch, None, key), None

    return jax.lax.scan(one, belief, (xs, ys, random.split(key, len(xs))))[0]


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(
    ("name", "move", "count"),
    [
        ("price response", "random-walk", 1000),
        ("twenty dimensions", "hmc", 300),
    ],
)
def test_particles_agree_with_nuts(name, move, count):
    """Each mean and quantile within four standard errors, from replications of both."""
    prior, model, xs, ys = nuts.CASES[name]()
    belief = Particles(prior, count, move=move).bind(problem(model), xs[0])
    belief = with_room(belief, len(xs))
    assert belief.stores_history
    found = []
    for i in range(10):
        learned = run(belief, model, xs, ys, random.key(i))
        theta = nuts.flat(learned.thetas, 1)
        found.append(nuts.summary(theta, np.asarray(learned.probabilities)))
    mine, mine_error = nuts.mean_and_error(np.asarray(found))
    theirs, their_error = np.asarray(json.loads(nuts.KEPT.read_text())[name])
    z = (mine - theirs) / np.hypot(mine_error, their_error)
    assert np.abs(z).max() < 4.0, z

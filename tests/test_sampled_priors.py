"""Beliefs by draws refuse bad settings and priors; what becomes of the priors that they accept."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from test_particles import PRIOR, bound, normal

from postgrad import errors
from postgrad.beliefs.sampled.langevin import Langevin
from postgrad.beliefs.sampled.markov_moves import kernel_of
from postgrad.beliefs.sampled.particles import Particles
from postgrad.beliefs.sampled.prior import Prior


def test_learning_needs_a_key_and_a_problem():
    for belief in (Particles(PRIOR, 3000), Langevin(PRIOR, 3000)):
        with pytest.raises(errors.SettingError, match="bound to a problem"):
            belief.update(normal, jnp.asarray(0.0), jnp.ones(1), None, random.key(0))
        with pytest.raises(errors.SettingError, match="key"):
            bound(belief, normal).update(normal, jnp.asarray(0.0), jnp.ones(1))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Particles(PRIOR, 1),
        lambda: Particles(PRIOR, 10.0),
        lambda: Particles(PRIOR, move="gibbs"),
        lambda: Particles(PRIOR, moves=0),
        lambda: Particles(PRIOR, seed=-1),
        lambda: Langevin(PRIOR, 1),
        lambda: Langevin(PRIOR, steps=0),
        lambda: Langevin(PRIOR, adjusted="yes"),
        lambda: Langevin(PRIOR, step_size=0.0),
        lambda: Langevin(PRIOR, step_size=[0.1]),
        lambda: Langevin(PRIOR, step_size=0.5, adjusted=False),
    ],
)
def test_bad_settings_are_refused(build):
    with pytest.raises(errors.SettingError):
        build()


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (3.0, "must be a distribution, got 3.0"),
        ({}, "must be a distribution"),
        ({"a": PRIOR, "b": None}, r"prior\['b'\] must be a distribution, got None"),
        ([1.0, 2.0], r"prior\[0\] must be a distribution, got 1.0"),
        (dist.Poisson(1.0), "of real numbers, got Poisson"),
        (dist.Normal(0.0, -1.0, validate_args=False), "no proper Normal"),
        (dist.Normal(np.nan, 1.0, validate_args=False), "no proper Normal"),
        (dist.Normal(0.0, np.inf, validate_args=False), "finite draws"),
        (dist.Delta(1.0), "write it into the model"),
        (dist.ImproperUniform(dist.constraints.real, (), ()), "must have draws"),
        (dist.ProjectedNormal(jnp.ones(2)), "R\\^k maps onto"),
    ],
)
def test_what_is_no_prior_is_refused(prior, said):
    with pytest.raises(errors.PriorError, match=said):
        Particles(prior, 10)
    with pytest.raises(errors.PriorError):
        Particles(PRIOR, 10, forget=0.0)


def test_without_blackjax_all_but_its_moves_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax.mcmc", None)
    for move in ("mala", "hmc"):
        with pytest.raises(errors.SettingError, match="blackjax"):
            Particles(PRIOR, 10, move=move)
    Particles(PRIOR, 10)
    Langevin(PRIOR, 10)
    script = (
        "import sys, numpyro.distributions as dist; from postgrad import beliefs; "
        "beliefs.Grid([1.0, 2.0]); beliefs.Particles(dist.Normal(0.0, 1.0)); "
        "sys.exit('blackjax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_random_walk_is_that_of_blackjax():
    from blackjax.mcmc.random_walk import normal_random_walk

    def log_density(u):
        return jnp.where(u[0] > 1.5, jnp.nan, -jnp.sum(u**2) - u[0] * u[1])

    here = jnp.asarray([0.3, -0.2, 1.1])
    ours, theirs = (
        algorithm(log_density, size)
        for algorithm, size in (
            (kernel_of("random-walk", 3).algorithm, 1.3),
            (normal_random_walk, jnp.full(3, 1.3)),
        )
    )
    states = [ours.init(here), theirs.init(here)]
    rates = []
    for key in random.split(random.key(3), 50):
        moved = [
            chain.step(key, state) for chain, state in zip((ours, theirs), states, strict=True)
        ]
        states = [state for state, _ in moved]
        mine, other = (told.acceptance_rate for _, told in moved)
        rates.append(float(mine))
        assert mine == other
        assert np.array_equal(states[0].position, states[1].position)
    assert {0.0, 1.0} < set(rates)


# Priors.


@pytest.mark.parametrize(
    "prior",
    [
        dist.Normal(1.0, 2.0),
        dist.LogNormal(0.0, 0.5),
        dist.HalfNormal(3.0),
        dist.Uniform(-1.0, 3.0),
        dist.Beta(2.0, 3.0),
        dist.Pareto(1.0, 3.0),
    ],
    ids=lambda prior: type(prior).__name__,
)
def test_densities_without_walls_are_densities(prior):
    """They integrate to one, and give back the prior's mean and round trips."""
    stated = Prior(prior)
    z = jnp.linspace(-25.0, 25.0, 20_001)[:, None]
    theta, log_p = jax.jit(jax.vmap(lambda z: (stated.constrain(z), stated.log_density(z))))(z)
    mass = np.exp(log_p) * (z[1] - z[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-6)
    assert mass @ theta == pytest.approx(float(prior.mean), abs=1e-6)
    middle = slice(9_000, 11_000, 100)
    np.testing.assert_allclose(jax.vmap(stated.unconstrain)(theta[middle]), z[middle], atol=1e-9)


def test_theta_has_the_shape_of_its_prior():
    prior = {
        "curve": dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3)),
        "shares": dist.Dirichlet(jnp.ones(4)),
        "levels": (dist.Normal(jnp.zeros(2), 1.0), dist.HalfNormal(1.0)),
    }
    stated = Prior(prior)
    z = jax.eval_shape(lambda: stated.draw(random.key(0), 7))
    assert z.shape == (7, stated.size) == (7, 3 + 3 + 2 + 1)
    shapes = jax.tree.map(lambda leaf: leaf.shape, jax.eval_shape(jax.vmap(stated.constrain), z))
    assert shapes == {"curve": (7, 3), "shares": (7, 4), "levels": ((7, 2), (7,))}


def test_a_saved_prior_does_not_depend_on_the_order_of_its_parameters():
    """numpyro keeps them in a set, whose order differs from process to process."""
    stated = Prior({"b": dist.Normal(1.0, 2.0), "a": dist.Gumbel(3.0, 4.0)})
    assert [float(number) for number in stated.numbers] == [3.0, 4.0, 1.0, 2.0]  # loc, scale
    assert float(stated.parts["b"].scale) == 2.0


@pytest.mark.slow
def test_a_durable_agent_reopens_under_another_hash_seed(tmp_path):
    """numpyro keeps the parameters of a distribution in a set, whose order follows the seed."""
    program = (
        "import sys, postgrad as pg, numpyro.distributions as dist\n"
        "prior = {'loc': dist.Normal(15.0, 5.0), 'scale': dist.Gamma(4.0, 1.0)}\n"
        "model = lambda x, theta: dist.StudentT(4.0, theta['loc'], theta['scale'])\n"
        "problem = pg.Problem(lambda x, xi: (x - xi) ** 2, model)\n"
        "agent = pg.Agent(problem, pg.beliefs.Particles(prior, 8), 1.0, path=sys.argv[1],\n"
        "                 **pg.presets.paper())\n"
        "agent.observe([14.0])\n"
        "print(agent.stage, agent.replay().identical)\n"
    )
    programs = {  # where the orders are the same, so are these
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    for stage, seed in enumerate(("1", "2", "77"), start=1):
        command = [sys.executable, "-c", program, str(tmp_path / "a.db")]
        environment = {**os.environ, **programs, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout.split() == [str(stage), "True"], done.stderr

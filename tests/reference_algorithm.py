"""Reference cases of gradients, descents, outputs, feasible sets and risks."""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
from jax import random
from reference_case import Cases, Numbers
from reference_parts import BOX, FEW, POINTS, QUADRATICS, grid, stepped

import postgrad as pg

CASES = Cases()
case = CASES.add

# Gradients: eight estimates under a posterior that is not flat, and a few stages with each.

buyers = pg.Problem(lambda x, xi: -x * xi, lambda x, theta: dist.Binomial(10, logits=theta - x))
# (problem, points of a grid, x, a batch)
sales = pg.Problem(
    lambda x, sold: -x * sold,
    lambda x, theta: dist.Poisson(theta * jnp.exp(-x)),
    BOX,
)

PLACES = {
    "2d-independent": (QUADRATICS["2d-independent"].problem, POINTS, [0.5, -1.2]),
    "1d-dependent": (QUADRATICS["1d-dependent"].problem, POINTS, 1.7),
    "2d-dependent": (QUADRATICS["2d-dependent"].problem, POINTS, [0.5, 1.9]),
    "buyers": (buyers, jnp.linspace(-2.0, 2.0, 5), 1.7),
    "sales": (sales, jnp.linspace(5.0, 80.0, 5), 1.7),
}


def estimated(gradient: pg.gradients.Gradient, name: str) -> Numbers:
    """Estimates at one decision."""
    problem, points, x = PLACES[name]

    @jax.jit
    def estimates(belief: pg.beliefs.Grid, x: Any, keys: Any) -> Any:
        belief = belief.update(problem.likelihood, x, jnp.asarray([6.0, 3.0]))
        thetas = belief.sample(keys[0], (8,))
        sample = functools.partial(pg.gradients.Sample, mixture=belief)
        one = jax.vmap(lambda theta, key: gradient.estimate(problem, x, sample(theta, key)))
        return one(thetas, keys[1:])

    prior = pg.beliefs.Grid(points, jnp.linspace(2.0, 1.0, len(points)))
    return {"estimates": estimates(prior, jnp.asarray(x), random.split(random.key(4), 9))}


EVERYWHERE = tuple(name for name in PLACES if name != "sales")
for kind, places in {
    pg.gradients.Automatic: EVERYWHERE,
    pg.gradients.Enumerate: ("buyers",),
    pg.gradients.MixtureScore: EVERYWHERE,
    pg.gradients.Partial: EVERYWHERE,
    pg.gradients.Pathwise: ("2d-independent", "1d-dependent", "2d-dependent"),
    pg.gradients.Score: EVERYWHERE,
    pg.gradients.Systematic: ("sales",),
}.items():
    for place in places:
        case(f"gradients/{kind.__name__}/{place}", estimated, kind(), place)


# Descents, outputs and feasible sets: the algorithm by steps.


def crowd(x, theta):
    return dist.Normal(theta + 0.1 * jnp.sum(x), 2.0)


def decided(
    options: Mapping[str, Any], feasible: pg.feasible.FeasibleSet = BOX, x: Any = 3.0
) -> Numbers:
    """Decisions in a world that does not answer; the cost is least at (1, -1/2, 1/3, ...) xi."""

    def cost(x: Any, xi: Any) -> Any:
        weights = (-1.0) ** jnp.arange(x.size) / (1.0 + jnp.arange(x.size))
        return jnp.sum((x.ravel() - 0.8 * xi * weights) ** 2)

    algorithm = pg.BayesianSGD(pg.Problem(cost, crowd, feasible), **options)
    _, told = stepped(algorithm, algorithm.init(grid(), x), FEW)
    return {"decisions": told["decisions"], "gradients": told["gradients"]}


PATHS = {"gradient": pg.gradients.Pathwise()}
for name, steps in {
    "SGD/number": 0.1,
    "SGD/inverse square root": pg.descents.SGD(pg.step_sizes.InverseSqrt(0.3)),
    "SGD/constant": pg.step_sizes.Constant(0.5, 100),
    "SGLD/cooling": pg.descents.SGLD(0.05, 0.5, cooling=0.5),
    "optax/adam": optax.adam(0.1),
    "optax/momentum": optax.sgd(0.05, momentum=0.9),
}.items():
    case(f"descents/{name}", decided, {"steps": steps, **PATHS})
case("descents/SGD/several", decided, pg.presets.paper(iterations=3, samples=4))
for name, output in {
    "Last": pg.outputs.Last(),
    "Average": pg.outputs.Average(),
    "RandomIterate": pg.outputs.RandomIterate(),
    "Perturbed": pg.outputs.Perturbed(0.5),
}.items():
    # With this seed RandomIterate moves to a later iterate, twice.
    case(f"outputs/{name}", decided, {"steps": 0.1, "output": output, "seed": 1, **PATHS})

ROOF = ([[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [0, 0, 1], [0, 0, -1]], [2, 2, 2, 2, 2, 0])
# (set, a decision in it)
SETS = {
    "Reals": (pg.feasible.Reals(), [3.0, 2.0]),
    "Box": (pg.feasible.Box([0.0, -0.5], [3.5, 1.0]), [3.0, 0.5]),
    "Ball": (pg.feasible.Ball([1.0, 0.0], 2.0), [1.0, 0.5]),
    "Simplex": (pg.feasible.Simplex(3.0), [1.0, 1.0, 1.0]),
    "Budget": (pg.feasible.Budget(0.0, 5.0, [1.0, 2.0, 4.0], 5.0), [1.0, 1.0, 0.5]),
    "Polyhedron": (pg.feasible.Polyhedron(*ROOF), [0.5, 0.5, 0.5]),
    "Product": (
        pg.feasible.Product((pg.feasible.Simplex(), pg.feasible.Box(-1.0, 2.0)), (3, 1)),
        [0.2, 0.3, 0.5, 0.0],
    ),
    "Integers": (pg.feasible.Integers(pg.feasible.Box(-2.0, 3.0)), [3.0, 0.0]),
    "Lots": (pg.feasible.Lots(pg.feasible.Box(0.0, 4.0), 2.0), [2.0, 0.0]),
    "MinimumOrder": (pg.feasible.MinimumOrder(pg.feasible.Box(0.0, 4.0), 1.5), [2.0, 0.0]),
}


def projected(feasible: pg.feasible.FeasibleSet, x: Any) -> Numbers:
    """Projections of points all around, how far out these are, and a few steps in the set."""
    size = len(x)
    points = 4.0 * np.sin(1.3 * np.arange(8 * size) + 0.5).reshape(8, size)

    @jax.jit
    @jax.vmap
    def both(point: Any) -> Any:
        return feasible.project(point), feasible.violation(point)

    nearest, violations = both(points)
    told = decided({"steps": 0.3, **PATHS}, feasible, np.asarray(x))
    return {"projections": nearest, "violations": violations, **told}


for name, (feasible, x) in SETS.items():
    case(f"feasible/{name}", projected, feasible, x)


# Risks of given costs; decisions under them are further down.

COSTS = 3.0 + 5.0 * np.sin(1.1 * np.arange(24)) + 0.1 * np.arange(24)
RISKS = {
    "Mean": pg.risks.Mean(),
    "MeanVariance": pg.risks.MeanVariance(0.05),
    "VaR": pg.risks.VaR(0.9),
    "CVaR": pg.risks.CVaR(0.9),
}


def weighed(risk: pg.risks.Risk) -> Numbers:
    """The risk of given costs, and how much each of them counts."""
    return {"value": risk.value(COSTS), "weights": risk.weights(COSTS)}


for name, risk in RISKS.items():
    case(f"risks/{name}/weights", weighed, risk)

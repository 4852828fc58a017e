"""Claims that both gradient estimators are unbiased, at several decisions, early in a run."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.algorithm.gradients.mixture_score import MixtureScore
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.beliefs.grid.grid import Grid
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.problem.problem import Decision, Problem
from postgrad.research.paper.claims.claim import Claim, Statement
from postgrad.research.paper.claims.simulations import shared
from postgrad.research.paper.claims.verdicts import Estimate, Zero
from postgrad.research.problems import Instance, quadratic
from postgrad.research.progress import RunStages

_DRAWS = 4000  # draws for each run of the summary
_OBSERVATIONS = 3  # that the posterior is computed from
# The quadratics curve at least as much as x^2, so a bias of 0.1 moves the solution by 0.05 at most.
_MARGIN = 0.1
# By the number of axes of x.
_DECISIONS: dict[int, Any] = {0: [0.0, 2.0, 4.0], 1: [[0.0, 1.0], [1.0, 3.0], [3.0, 2.0]]}

Maker = Callable[[], Instance]
Makers = Sequence[Maker]
INDEPENDENT: Makers = (quadratic.univariate_independent, quadratic.multivariate_independent)
DEPENDENT: Makers = (quadratic.univariate_dependent, quadratic.multivariate_dependent)


def claims(runs: int, seed: int, counter: RunStages) -> list[Claim]:
    """The lemmas on the estimators of Algorithms 2.1 and 2.2."""
    return [
        unbiasedness("independent", Pathwise(), INDEPENDENT, _DRAWS * runs, seed, counter),
        unbiasedness("dependent", MixtureScore(), DEPENDENT, _DRAWS * runs, seed, counter),
    ]


def unbiasedness(
    kind: str, gradient: Gradient, problems: Makers, draws: int, seed: int, counter: RunStages
) -> Claim:
    """The mean of many estimates against the exact gradient.

    Args:
        kind: The case of the paper: "independent" or "dependent".
        gradient: The estimator.
        problems: The problems on which it is tried.
        draws: How many estimates each mean is made of.
        seed: The seed of data and draws.
        counter: Reports what is being done.
    """
    found: dict[str, Estimate] = {}
    for i, make in enumerate(problems):
        counter.tell(f"bias in {make.__name__}")
        found |= _biases(gradient, make, draws, random.fold_in(random.key(seed), i))
    worst = max(found.values(), key=lambda bias: abs(bias.z))
    rule = Zero(_MARGIN, comparisons=len(found))
    estimator = f"decision-{kind} gradient estimator"
    text = f"The mean of the {estimator} is the gradient of the Bayesian average."
    farthest = f"{worst}, z = {worst.z:.2g} ({draws} draws each)"
    measured = f"of {len(found)} biases the one farthest from zero is {farthest}"
    statements = [Statement(what, bias, rule) for what, bias in found.items()]
    return Claim(f"unbiased-{kind}", text, measured, draws, statements)


def _biases(gradient: Gradient, make: Maker, draws: int, key: Array) -> dict[str, Estimate]:
    """The mean error of the estimates at each decision, coordinate by coordinate."""
    instance = shared(make)
    problem, belief = instance.problem, early_posterior(instance, random.fold_in(key, 0))
    found = {}
    for i, x in enumerate(map(jnp.asarray, _DECISIONS[instance.x.ndim])):
        keys = random.split(random.fold_in(key, 1 + i), draws)
        errors = _estimates(gradient, problem, belief, x, keys) - exact_gradient(problem, belief, x)
        for j, error in enumerate(np.asarray(errors).reshape(draws, -1).T):
            name = f"bias of coordinate {j + 1} at x = {x.tolist()} in {make.__name__}"
            found[name] = Estimate.mean(error)
    return found


@compiled_at_once
def early_posterior(instance: Instance, key: Array) -> Grid:
    """The posterior after three observations under the initial decision."""
    model = instance.problem.likelihood
    data = model(instance.x, instance.theta).sample(key, (_OBSERVATIONS,))
    return Grid(instance.points).update(model, instance.x, data)


@compiled_at_once
def exact_gradient(problem: Problem, belief: Grid, x: Decision) -> Decision:
    """grad_x E_{theta ~ pi} H(x, theta), for a cost that is affine in xi.

    Then E h(x, xi) = h(x, E xi) for xi ~ f(.; x, theta). All four quadratics are of this kind.
    """

    def average(x: Decision) -> Array:
        costs = jax.vmap(lambda theta: problem.cost(x, problem.model(x, theta).mean))
        return jnp.dot(belief.probabilities, costs(belief.points))

    return jax.grad(average)(x)


@eqx.filter_jit
def _estimates(
    gradient: Gradient, problem: Problem, belief: Grid, x: Decision, keys: Array
) -> Array:
    def one(key: Array) -> Decision:
        key_theta, key_xi = random.split(key)
        return gradient.estimate(problem, x, Sample(belief.sample(key_theta), key_xi, belief))

    return jax.vmap(one)(keys)

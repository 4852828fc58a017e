"""The algorithms that can be compared on a problem, under fixed names."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Bool, Float

from postgrad.algorithm import presets
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.gradients.partial import Partial
from postgrad.algorithm.policy import Policy
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.conjugate.conjugate import Conjugate
from postgrad.beliefs.conjugate.free_maximum_likelihood import FreeMaximumLikelihood
from postgrad.beliefs.grid.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.known import Known
from postgrad.beliefs.posterior_mean import PosteriorMean
from postgrad.beliefs.sampled.dirichlet_process import DirichletProcess
from postgrad.beliefs.thompson import Thompson
from postgrad.errors import PostgradError, SettingError
from postgrad.problem.problem import Decision
from postgrad.research.problems import Instance
from postgrad.research.rivals.greedy import Greedy
from postgrad.research.rivals.perfgd import PerfGD
from postgrad.research.rivals.sample_average import SampleAverage
from postgrad.research.rivals.spsa import SPSA
from postgrad.research.rivals.two_stage import TwoStage
from postgrad.research.rivals.wasserstein import Wasserstein

# The algorithm that knows the true theta, so that the others do not compete with it.
BENCHMARK = "known"
_DRAWS = 64


class Entrant(NamedTuple):
    """A policy and its prior; None for policies without a belief."""

    policy: Policy
    belief: Belief | None = None


def entrants(instance: Instance) -> dict[str, Entrant]:
    """All algorithms that apply to an instance, by name; `left_out` has the others."""
    return _try_all(instance)[0]


def left_out(instance: Instance) -> dict[str, str]:
    """The algorithms that do not apply to an instance, by name, each with the reason."""
    return _try_all(instance)[1]


def names() -> list[str]:
    """The names of all algorithms, whether they apply or not."""
    return list(_MAKERS)


def _try_all(instance: Instance) -> tuple[dict[str, Entrant], dict[str, str]]:
    able, unable = {}, {}
    for name, make in _MAKERS.items():
        try:
            able[name] = make(instance)
        except PostgradError as error:
            unable[name] = str(error)
    return able, unable


_BeliefOf = Callable[[Instance], Belief]


def _bayesian_sgd(belief: _BeliefOf, instance: Instance, **options: Any) -> Entrant:
    policy = BayesianSGD(instance.problem, **options)
    policy.gradient.check(instance.problem, instance.x, instance.theta)
    return Entrant(policy, belief(instance))


def _most_likely(instance: Instance) -> Belief:
    """The maximum-likelihood estimate: on a grid only if the prior is not conjugate.

    The grid contains the true theta, which is more than a prior on a continuum knows.
    """
    if isinstance(instance.prior, Conjugate):
        return FreeMaximumLikelihood(instance.prior)
    return MaximumLikelihood(instance.points)


def _posterior_mean(instance: Instance) -> Belief:
    if isinstance(instance.belief, DirichletProcess):
        raise SettingError("theta is a distribution, and atoms of several of them have no mean")
    return PosteriorMean(instance.belief)


def _of_dependent_data(instance: Instance) -> Belief:
    if not instance.problem.kind(instance.x, instance.theta).depends_on_decision:
        raise SettingError("the data do not depend on the decision, so it is Bayesian-SGD itself")
    return instance.belief


def _on_data(policy: Callable[..., Policy], instance: Instance) -> Entrant:
    """A policy that computes from the data what other decisions would have cost."""
    if instance.problem.observation is not None:
        raise SettingError("data are not xi; the cost of other decisions takes a model")
    shape = instance.problem.event_shape(instance.x, instance.theta)
    return Entrant(policy(instance.problem, event_shape=shape))


def _on_paid_costs(policy: Callable[..., Policy], instance: Instance) -> Entrant:
    """A policy that computes from the data only what the decision in force costs."""
    problem, x, theta = instance.problem, instance.x, instance.theta
    alike = problem.event_shape(x, theta) == problem.kind(x, theta).event_shape
    near = problem.near(x)
    if problem.observation is not None and not (alike and bool(_cost_is_seen(instance, near))):
        raise SettingError("the data do not tell what the decision in force costs")
    return Entrant(policy(problem))


@eqx.filter_jit
def _cost_is_seen(instance: Instance, near: Float[Array, "k ..."]) -> Bool[Array, ""]:
    """Whether the cost of an observation, and its derivative in x, equal those of xi near x_1.

    True of sales instead of demand: unmet demand earns nothing. Draws of the model and of the
    observation from the same key must belong together, as those of `Censored` do.
    """
    problem = instance.problem
    assert problem.observation is not None
    observation = problem.observation

    def agrees(x: Decision, key: Array) -> Array:
        draws = (law(x, instance.theta).sample(key) for law in (problem.model, observation))
        both = [jax.value_and_grad(problem.cost)(x, jnp.asarray(y, float)) for y in draws]
        close = jax.tree.map(lambda a, b: jnp.all(jnp.isclose(a, b)), *both)
        return jnp.all(jnp.stack(jax.tree.leaves(close)))

    keys = random.split(random.key(0), _DRAWS)
    at = jax.vmap(jax.vmap(agrees, in_axes=(None, 0)), in_axes=(0, None))
    return jnp.all(at(near, keys))


# Each makes an entrant, or raises a PostgradError whose message says why it does not apply.
_MAKERS: dict[str, Callable[[Instance], Entrant]] = {
    "postgrad": partial(_bayesian_sgd, lambda instance: instance.belief),
    "paper": partial(_bayesian_sgd, lambda instance: instance.belief, **presets.paper()),
    BENCHMARK: partial(_bayesian_sgd, lambda instance: Known(instance.theta)),
    "mle": partial(_bayesian_sgd, _most_likely),
    "posterior-mean": partial(_bayesian_sgd, _posterior_mean),
    "thompson": partial(_bayesian_sgd, lambda instance: Thompson(instance.belief)),
    "repeated-gradient": partial(_bayesian_sgd, _of_dependent_data, gradient=Partial()),
    "greedy": partial(_on_paid_costs, Greedy),
    "perfgd": partial(_on_data, PerfGD),
    "two-stage": partial(_on_data, TwoStage),
    "saa": partial(_on_data, SampleAverage),
    "wasserstein": partial(_on_data, Wasserstein),
    "spsa": partial(_on_paid_costs, SPSA),
}

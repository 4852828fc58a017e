"""Everybody who can be compared on a problem, under fixed names."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Bool

from postgrad.algorithm import presets
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.gradients import Partial
from postgrad.algorithm.policy import Policy
from postgrad.beliefs import (
    Belief,
    Conjugate,
    DirichletProcess,
    FreeMaximumLikelihood,
    Known,
    MaximumLikelihood,
    PosteriorMean,
    Thompson,
)
from postgrad.errors import PostgradError
from postgrad.problem.problem import Decision
from postgrad.research.problems import Instance
from postgrad.research.rivals.greedy import Greedy
from postgrad.research.rivals.perfgd import PerfGD
from postgrad.research.rivals.sample_average import SampleAverage
from postgrad.research.rivals.spsa import SPSA
from postgrad.research.rivals.two_stage import TwoStage
from postgrad.research.rivals.wasserstein import Wasserstein

# It knows the truth, so nobody competes with it.
BENCHMARK = "known"
_DRAWS = 64


class Entrant(NamedTuple):
    """A policy and what it believes at first; None if nothing."""

    policy: Policy
    belief: Belief | None = None


def field(instance: Instance) -> dict[str, Entrant]:
    """All that apply to an instance, by name. `left_out` says which do not, and why."""
    entries = {name: _enter(make, instance) for name, make in _MAKERS.items()}
    return {name: entry for name, entry in entries.items() if isinstance(entry, Entrant)}


def left_out(instance: Instance) -> dict[str, str]:
    """The names that `field` leaves out for an instance, with the reason."""
    entries = {name: _enter(make, instance) for name, make in _MAKERS.items()}
    return {name: entry for name, entry in entries.items() if isinstance(entry, str)}


def names() -> list[str]:
    """All names, whether they apply or not."""
    return list(_MAKERS)


def _enter(make: "_Maker", instance: Instance) -> Entrant | str:
    """An entrant that is known to start, or why there is none."""
    try:
        entry = make(instance)
        if isinstance(entry, Entrant) and isinstance(entry.policy, BayesianSGD):
            entry.policy.gradient.check(instance.problem, instance.x, instance.theta)
    except PostgradError as error:
        return str(error)
    return entry


_Maker = Callable[[Instance], Entrant | str]


def _sgd(belief: Callable[[Instance], Belief], **options: Any) -> _Maker:
    return lambda instance: Entrant(BayesianSGD(instance.problem, **options), belief(instance))


def _most_likely(instance: Instance) -> Belief:
    """The maximum-likelihood estimate, on a grid only where the belief has one, too.

    On a grid that happens to contain the truth it would know more than those who believe in a
    continuum.
    """
    prior = instance.prior
    if isinstance(prior, Conjugate):
        return FreeMaximumLikelihood(prior)
    return MaximumLikelihood(instance.points)


def _posterior_mean(instance: Instance) -> Entrant | str:
    if isinstance(instance.belief, DirichletProcess):
        return "the mean of several laws' atoms is no law's"
    return Entrant(BayesianSGD(instance.problem), PosteriorMean(instance.belief))


def _repeated_gradient(instance: Instance) -> Entrant | str:
    if not instance.problem.kind(instance.x, instance.theta).depends_on_decision:
        return "the data do not depend on the decision, so it is Bayesian-SGD itself"
    return Entrant(BayesianSGD(instance.problem, Partial()), instance.belief)


def _free(make: Callable[..., Policy]) -> _Maker:
    """A method that asks what other decisions would have cost on the data."""

    def enter(instance: Instance) -> Entrant | str:
        if instance.problem.observation is not None:
            return "what is seen is not what the cost depends on, and without a model it stays so"
        shape = instance.problem.event_shape(instance.x, instance.theta)
        return Entrant(make(instance.problem, event_shape=shape))

    return enter


def _own(make: Callable[..., Policy]) -> _Maker:
    """A method that asks what the decision in force costs, and nothing else."""

    def enter(instance: Instance) -> Entrant | str:
        problem, x, theta = instance.problem, instance.x, instance.theta
        alike = problem.event_shape(x, theta) == problem.kind(x, theta).event_shape
        if problem.observation is not None and not (alike and bool(_is_seen(instance))):
            return "what is seen does not tell what the decision in force costs"
        return Entrant(make(problem))

    return enter


@eqx.filter_jit
def _is_seen(instance: Instance) -> Bool[Array, ""]:
    """Whether what is seen gives the same cost, and the same derivative, as xi itself.

    So it is with sales instead of demand: what could not be sold brought nothing. Draws of the
    model and of what is seen of them must share their key, as those of `Censored` do.
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
    return jnp.all(at(problem.decisions(instance.x), keys))


_MAKERS: dict[str, _Maker] = {
    "postgrad": _sgd(lambda instance: instance.belief),
    "paper": _sgd(lambda instance: instance.belief, **presets.paper()),
    BENCHMARK: _sgd(lambda instance: Known(instance.theta)),
    "mle": _sgd(_most_likely),
    "posterior-mean": _posterior_mean,
    "thompson": _sgd(lambda instance: Thompson(instance.belief)),
    "repeated-gradient": _repeated_gradient,
    "greedy": _own(Greedy),
    "perfgd": _free(PerfGD),
    "two-stage": _free(TwoStage),
    "saa": _free(SampleAverage),
    "wasserstein": _free(Wasserstein),
    "spsa": _own(SPSA),
}

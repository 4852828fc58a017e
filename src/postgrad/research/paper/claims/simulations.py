"""The simulations that the claims need."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.beliefs.belief import Belief
from postgrad.research.problems import Instance
from postgrad.research.progress import RunStages
from postgrad.research.simulation import Simulation, nothing


@functools.cache
def shared(make: Callable[[], Instance]) -> Instance:
    """`make()`, called once: some instances have millions of points."""
    return make()


class PlannedSimulation(NamedTuple):
    """The arguments of one call of `RunStages.simulate`, but for the label and the seed."""

    instance: Instance
    policy: BayesianSGD
    belief: Belief
    runs: int
    horizon: int = 1000
    batch_size: int = 1
    record: Callable[[State], Any] = nothing


def jobs(
    planned: Mapping[str, PlannedSimulation], seed: int, counter: RunStages
) -> dict[str, Callable[[], Simulation]]:
    """Simulations by name, to be called: run i meets the same data noise in all of them."""
    return {
        name: functools.partial(counter.simulate, name, **plan._asdict(), seed=seed)
        for name, plan in planned.items()
    }

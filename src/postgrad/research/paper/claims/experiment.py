"""The simulations that the claims ask for, and how far they have got."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.beliefs import Belief
from postgrad.research.paper.reproduce import Watch
from postgrad.research.problems import Instance
from postgrad.research.simulation import Simulation, simulate


@functools.cache
def shared(make: Callable[[], Instance]) -> Instance:
    """The one instance of its kind: what is compiled for it serves all that ask for it."""
    return make()


def _nothing(state: State) -> tuple[()]:
    del state
    return ()


@dataclasses.dataclass(frozen=True)
class Trial:
    """One simulation: `simulate`'s arguments, but for the seed."""

    instance: Instance
    algorithm: BayesianSGD
    belief: Belief
    runs: int
    horizon: int = 1000
    batch_size: int = 1
    record: Callable[[State], Any] = _nothing

    @property
    def size(self) -> int:
        """How many run-stages it takes."""
        return self.runs * self.horizon


class Meter:
    """Tells `watch` what is being done, and how much of it all is done."""

    def __init__(self, watch: Watch, total: int):
        self._watch, self._done, self._total = watch, 0, total

    def add(self, label: str, more: int = 0) -> None:
        """So much more is done."""
        self._done += more
        self._watch(f"claims: {label}", self._done, self._total)


def perform(trials: Mapping[str, Trial], seed: int, meter: Meter) -> dict[str, Simulation]:
    """Runs the trials, all on the same noise: run i of one can be compared with run i of others."""
    return {name: _perform(name, trial, seed, meter) for name, trial in trials.items()}


def _perform(name: str, trial: Trial, seed: int, meter: Meter) -> Simulation:
    meter.add(name)
    return simulate(
        trial.algorithm,
        trial.belief,
        trial.instance.x,
        trial.instance.theta,
        runs=trial.runs,
        horizon=trial.horizon,
        batch_size=trial.batch_size,
        seed=seed,
        record=trial.record,
        progress=lambda more: meter.add(name, more),
    )

"""The progress of several simulations in a row, reported as one total."""

from typing import Any

from postgrad.algorithm.policy import Policy
from postgrad.beliefs.belief import Belief
from postgrad.engine.bulk import Progress
from postgrad.research.problems import Instance
from postgrad.research.simulation import Simulation, simulate


def silent(label: str, done: int, total: int) -> None:
    """Reports nothing."""


def at(place: str, progress: Progress) -> Progress:
    """Reports the same, each label after the place."""
    return lambda label, done, total: progress(f"{place}: {label}", done, total)


class RunStages:
    """Counts the run-stages of several simulations in a row.

    Attributes:
        progress: Called with what is being run, and the run-stages done and to do.
        total: The run-stages of all simulations together.
        done: Those that are done.
    """

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self.done = progress, total, 0

    def tell(self, label: str) -> None:
        """Reports what is being run, and nothing more as done."""
        self.progress(label, self.done, self.total)

    def simulate(
        self, label: str, instance: Instance, policy: Policy, belief: Belief | None, **options: Any
    ) -> Simulation:
        """Simulates an instance, and counts the run-stages; the options are those of `simulate`."""
        self.tell(label)
        before = self.done

        def tell(_: str, done: int, __: int) -> None:
            self.done = before + done
            self.tell(label)

        return simulate(policy, belief, instance.x, instance.theta, **options, progress=tell)

"""The progress of several simulations, reported as one total."""

import threading
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
    """Counts the run-stages of several simulations, in a row or side by side.

    Attributes:
        progress: Called with all that is being run, and the run-stages done and to do.
        total: The run-stages of all simulations together.
        done: Those that are done.
    """

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self.done = progress, total, 0
        self._lock = threading.Lock()
        self._running: dict[int, str] = {}  # what each thread runs
        self._stopped = False

    def tell(self, label: str) -> None:
        """Reports what this thread runs, and nothing more as done."""
        self._tell(threading.get_ident(), label, 0)

    def end(self) -> None:
        """This thread runs nothing any more."""
        with self._lock:
            self._running.pop(threading.get_ident(), None)

    def simulate(
        self, label: str, instance: Instance, policy: Policy, belief: Belief | None, **options: Any
    ) -> Simulation:
        """Simulates an instance, and counts the run-stages; the options are those of `simulate`."""
        self.tell(label)
        place, counted = threading.get_ident(), 0

        def tell(_: str, done: int, __: int) -> None:  # called by threads of the simulation
            nonlocal counted
            more, counted = done - counted, done
            self._tell(place, label, more)

        return simulate(policy, belief, instance.x, instance.theta, **options, progress=tell)

    def stop(self) -> None:
        """Interrupts whoever reports from now on, so that simulations of other threads end."""
        self._stopped = True

    def _tell(self, place: int, label: str, more: int) -> None:
        if self._stopped:
            raise KeyboardInterrupt
        with self._lock:
            self._running[place] = label
            self.done += more
            self.progress(" | ".join(self._running.values()), self.done, self.total)

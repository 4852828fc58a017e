"""Errors |x_t - x*| of several algorithms: from runs, or from the summary of an experiment."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from postgrad.research.paper.claims.verdicts import Estimate, Within

# Our choice, as the paper does not say: early and late stages, and ratios of errors that are alike.
EARLY = range(1, 11)
LATE = range(1000, 1001)
ALIKE = Within(0.8, 1.25)
POSITIVE = Within(low=0.0)


def period(stages: range) -> str:
    """The stages in words."""
    first, last = stages[0], stages[-1]
    return f"at t = {first}" if first == last else f"over t = {first}..{last}"


@dataclasses.dataclass(frozen=True)
class Paired:
    """Errors by algorithm, (run, stage), where run i met the same noise under all algorithms."""

    errors: Mapping[str, np.ndarray]

    def mean(self, name: str, stages: range) -> Estimate:
        """The mean over the runs."""
        return Estimate.mean(self._each(name, stages))

    def difference(self, one: str, other: str, stages: range) -> Estimate:
        """The mean of the differences within each run."""
        return Estimate.mean(self._each(one, stages) - self._each(other, stages))

    def ratio(self, one: str, other: str, stages: range) -> Estimate:
        """The ratio of the means, its error from the pairs."""
        return Estimate.ratio(self._each(one, stages), self._each(other, stages))

    def _each(self, name: str, stages: range) -> np.ndarray:
        return self.errors[name][:, stages.start : stages.stop].mean(axis=1)


@dataclasses.dataclass(frozen=True)
class Summarised:
    """Mean and standard deviation over runs at each stage: what a summary keeps of an experiment.

    The standard errors are upper bounds: stages count as fully correlated, and noise that two
    algorithms share does not cancel.
    """

    experiment: Mapping[str, Any]

    def mean(self, name: str, stages: range) -> Estimate:
        """The mean over the runs that did not diverge."""
        curve = self.experiment["algorithms"][name]
        n = self.experiment["runs"] - curve["diverged"]
        mean = np.mean([curve["mean_error"][t] for t in stages])
        spread = np.mean([curve["std_error"][t] for t in stages])
        return Estimate(float(mean), float(spread) / math.sqrt(n))

    def difference(self, one: str, other: str, stages: range) -> Estimate:
        """With the standard error of independent means."""
        a, b = self.mean(one, stages), self.mean(other, stages)
        return Estimate(a.value - b.value, math.hypot(a.error, b.error))

    def ratio(self, one: str, other: str, stages: range) -> Estimate:
        """With the standard error of independent means."""
        a, b = self.mean(one, stages), self.mean(other, stages)
        relative = math.hypot(a.error / a.value, b.error / b.value)
        return Estimate(a.value / b.value, relative * a.value / b.value)


# Mean errors over some stages, and their differences and ratios between two algorithms.
Errors = Paired | Summarised


def missing(summary: Mapping[str, Any], name: str, algorithms: tuple[str, ...]) -> str:
    """Why a summary does not have the late errors of these algorithms; empty if it has them."""
    experiment = summary["experiments"].get(name)
    if experiment is None:
        return f"not run: {name} is not in the summary"
    if experiment["horizon"] < LATE[-1]:
        return f"not run: {name} ended at t = {experiment['horizon']}, before t = {LATE[-1]}"
    for key in algorithms:
        if key not in experiment["algorithms"]:
            return f"not run: {name} is without {key}"
        if experiment["runs"] - experiment["algorithms"][key]["diverged"] < 2:
            return f"not run: fewer than two runs of {key} in {name} stayed bounded"
    return ""

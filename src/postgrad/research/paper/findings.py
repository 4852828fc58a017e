"""What was found, in a few numbers: the beginning of the report."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from postgrad.research.paper.experiments import ALGORITHMS, LIMIT, UNTUNED

# The algorithms that are compared, as in a heading.
COMPARED = {
    key: ALGORITHMS[key].title.partition(":")[0] for key in ("bayesian-sgd", UNTUNED, LIMIT)
}
_STAGES = (10, 100, 1000)


class Finding(NamedTuple):
    """Mean errors of the compared algorithms at one stage of an experiment.

    Attributes:
        name: The experiment.
        stage: t.
        errors: The mean over runs and its standard error, by algorithm; None where not known.
    """

    name: str
    stage: int
    errors: dict[str, tuple[float, float] | None]


def findings(experiments: Mapping[str, Any]) -> list[Finding]:
    """The errors at an early and at a late stage of each experiment."""
    found = []
    for name, experiment in experiments.items():
        curves = experiment["algorithms"]
        if not COMPARED.keys() & curves.keys():
            continue
        stages = [t for t in _STAGES if t <= experiment["horizon"]] or [experiment["horizon"]]
        for t in dict.fromkeys((stages[0], stages[-1])):
            errors = {key: _error(curves.get(key), t) for key in COMPARED}
            found.append(Finding(name, t, errors))
    return found


def _error(curve: Mapping[str, Any] | None, t: int) -> tuple[float, float] | None:
    """The mean error at stage t, and its standard error; None if not known."""
    if curve is None or curve["mean_error"][t] is None:
        return None
    return curve["mean_error"][t], curve["std_error"][t] / math.sqrt(
        curve["runs"] - curve["diverged"]
    )

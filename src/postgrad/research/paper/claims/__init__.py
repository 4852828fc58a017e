"""Every claim of the paper that can be tested by numbers.

Each module states some claims as lists of statements about estimates, and computes the estimates:
from the summary of the experiments where that is enough, else from simulations of its own. The
verdicts follow from the estimates by the requirements in `verdicts`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from postgrad.engine.bulk import Progress
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count
from postgrad.research.paper.claims import (
    convergence,
    dependent_data,
    independent_data,
    rates,
    unbiased,
)
from postgrad.research.paper.claims.simulations import jobs
from postgrad.research.progress import RunStages, at, silent
from postgrad.research.side_by_side import side_by_side

_BIASES = "biases"


def assess(
    summary: Mapping[str, Any], *, runs: int, seed: int = 0, progress: Progress = silent
) -> list[dict[str, Any]]:
    """What the numbers say about each claim of the paper.

    Args:
        summary: What `reproduce` returned. Claims on experiments that are not in it stay open.
        runs: The runs of the experiments in the summary. Simulations made here are cheaper, and
            take up to twenty times as many.
        seed: The seed of these simulations.
        progress: Called with what is being run, and the run-stages done and to do.

    Returns:
        For each claim a dictionary that can be written as JSON: "id", "claim" (what the paper says,
        in our words), "measured", "verdict" ("holds", "does not hold" or "inconclusive"), "rule"
        (how the verdict follows), "runs" and "numbers" (each estimate with its standard error).

    Raises:
        SettingError: If runs is not a positive whole number.
    """
    runs = as_count(runs, SettingError, "runs")
    modules = (independent_data, dependent_data, rates)
    planned = [module.simulations(runs) for module in modules]
    total = sum(plan.runs * plan.horizon for group in planned for plan in group.values())
    counter = RunStages(at("claims", progress), total)
    # All together, so that no processor waits for the last simulation of a group.
    biases = functools.partial(unbiased.claims, runs, seed, counter)
    every: dict[str, Callable[[], Any]] = {_BIASES: biases}
    for group in planned:
        every |= jobs(group, seed, counter)
    results = dict(side_by_side(every, counter))
    found = [*convergence.claims(summary), *results[_BIASES]]
    for module in modules:
        found += module.claims(results)
        if module is independent_data:
            found += module.from_summary(summary)
    return [claim.as_dict() for claim in found]

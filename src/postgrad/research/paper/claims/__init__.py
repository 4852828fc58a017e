"""Every claim of the paper that numbers can speak to, tested.

Each module states some claims as sets of statements about estimates, and measures them: from the
summary of the experiments where that is enough, else by simulations of its own. The verdicts follow
from the numbers by the rules in `rules`.
"""

from collections.abc import Mapping
from typing import Any

from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count
from postgrad.research.paper.claims import comparison, convergence, dependent, rates, unbiased
from postgrad.research.paper.claims.experiment import Meter, perform
from postgrad.research.paper.reproduce import Watch

__all__ = ["assess"]


def assess(
    summary: Mapping[str, Any],
    *,
    runs: int,
    seed: int = 0,
    watch: Watch = lambda label, done, total: None,
) -> list[dict[str, Any]]:
    """What the numbers say about each claim of the paper.

    Args:
        summary: What `reproduce` returned. Claims on experiments that are not in it stay open.
        runs: The runs of the experiments in the summary. Simulations made here are cheaper, and
            take ten or twenty times as many.
        seed: The seed of these simulations.
        watch: Called with what is being run, and the run-stages done and to do.

    Returns:
        For each claim a dictionary that can be written as JSON: "id", "claim" (what the paper says,
        in our words), "measured", "verdict" ("holds", "does not hold" or "inconclusive"), "rule"
        (how the verdict follows), "runs" and "numbers" (each estimate with its standard error).

    Raises:
        SettingError: If runs is not a positive whole number.
    """
    runs = as_count(runs, SettingError, "runs")
    compared, depending, rated = (module.trials(runs) for module in (comparison, dependent, rates))
    planned = (*compared.values(), *depending.values(), *rated.values())
    meter = Meter(watch, sum(trial.size for trial in planned))
    found = [
        *convergence.claims(summary),
        *unbiased.claims(runs, seed, meter),
        *comparison.claims(perform(compared, seed, meter)),
        *comparison.from_summary(summary),
        *dependent.claims(perform(depending, seed, meter)),
        *rates.claims(perform(rated, seed, meter)),
    ]
    return [claim.as_dict() for claim in found]

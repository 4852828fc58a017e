"""Claims that the algorithms converge: the error becomes small, and still falls."""

import math
from collections.abc import Mapping
from typing import Any

from postgrad.research.paper.claims.claim import Claim, Statement
from postgrad.research.paper.claims.error_curves import Summarised, missing
from postgrad.research.paper.claims.verdicts import Estimate, Within

_ALGORITHMS = {
    f"{problem}-{data}": number
    for data, number in (("independent", "2.1"), ("dependent", "2.2"))
    for problem in ("quadratic-1d", "quadratic-2d", "newsvendor")
}
_STAGES = (0, 10, 100, 1000)
# From t = 100 to 1000 the error falls by a fifth (10^-0.1), to at most a fifth of the first error.
_FALLING = Within(high=-0.1)
_SMALL = Within(high=0.2)


def claims(summary: Mapping[str, Any]) -> list[Claim]:
    """One claim for each experiment."""
    return [_claim(summary, name) for name in _ALGORITHMS]


def _claim(summary: Mapping[str, Any], name: str) -> Claim:
    label = f"convergence-{name}"
    text = f"Algorithm {_ALGORITHMS[name]} converges to the optimum ({name})."
    if why := missing(summary, name, ("bayesian-sgd",)):
        return Claim(label, text, why, 0)
    experiment = summary["experiments"][name]
    errors = Summarised(experiment)
    at = [errors.mean("bayesian-sgd", range(t, t + 1)) for t in _STAGES]
    start, *_, before, end = at
    b = slope(before, end)
    share = Estimate(end.value / start.value, end.error / start.value)
    diverged = experiment["algorithms"]["bayesian-sgd"]["diverged"]
    runs = experiment["runs"] - diverged
    course = ", ".join(f"{e} at t = {t}" for t, e in zip(_STAGES, at, strict=True))
    counts = f"{runs} runs; {diverged} more diverged"
    measured = f"error {course}; slope {b} from t = 100 to 1000 ({counts})"
    statements = [
        Statement("slope of log error in log t from t = 100 to 1000", b, _FALLING),
        Statement("share of the first error left at t = 1000", share, _SMALL),
    ]
    return Claim(label, text, measured, runs, statements)


def slope(before: Estimate, after: Estimate) -> Estimate:
    """The slope of log error in log t over a factor ten in t.

    The two errors are taken as independent: with steps like 1/t, little of an error is left ten
    times later, and what is left would make the slope's own error smaller.
    """
    relative = math.hypot(before.error / before.value, after.error / after.value)
    return Estimate(math.log10(after.value / before.value), relative / math.log(10.0))

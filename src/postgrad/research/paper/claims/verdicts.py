"""Verdicts on estimates: numbers with standard errors, and what is required of them.

An estimate is judged by its interval, `SURE` standard errors to either side. A requirement is met,
or failed, only if the whole interval agrees.
"""

import dataclasses
import enum
import math
from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
from scipy.special import ndtr, ndtri

SURE = 3.0
_TINY = float(np.finfo(float).tiny)


class Verdict(enum.StrEnum):
    """What the numbers say about a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "inconclusive"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on several statements: one failure refutes, and all must hold."""
    found = set(verdicts)
    if Verdict.FAILS in found:
        return Verdict.FAILS
    return Verdict.HOLDS if found == {Verdict.HOLDS} else Verdict.OPEN


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number with its standard error."""

    value: float
    error: float

    @classmethod
    def mean(cls, samples: np.ndarray) -> Self:
        """The mean of independent samples."""
        return cls(float(samples.mean()), float(samples.std(ddof=1) / math.sqrt(samples.size)))

    @classmethod
    def ratio(cls, above: np.ndarray, below: np.ndarray) -> Self:
        """The ratio r of the means of paired samples, with the error of (a - r b) / mean(b)."""
        r = above.mean() / below.mean()
        return cls(float(r), cls.mean((above - r * below) / below.mean()).error)

    @property
    def z(self) -> float:
        """How many standard errors from zero."""
        return self.value / max(self.error, _TINY)

    def interval(self, comparisons: int = 1) -> tuple[float, float]:
        """`SURE` standard errors to either side; wider by Bonferroni for several comparisons."""
        half = -float(ndtri(ndtr(-SURE) / comparisons)) * self.error
        return self.value - half, self.value + half

    def __str__(self) -> str:
        if self.error < 1e-6:
            return f"{self.value:.6g}"
        decimals = min(6, max(0, 1 - math.floor(math.log10(self.error))))  # two digits of the error
        return f"{self.value:.{decimals}f} ± {self.error:.{decimals}f}"


@dataclasses.dataclass(frozen=True)
class Within:
    """Between two limits: a z-test if one of them is infinite, an equivalence test if none is."""

    verdicts: ClassVar[str] = (
        f"Holds if the estimate with {SURE:g} standard errors to either side lies within the "
        "limits, does not hold if that interval lies outside, and is inconclusive if it lies across"
    )

    low: float = -math.inf
    high: float = math.inf

    def judge(self, estimate: Estimate) -> Verdict:
        """Within, outside or across the limits; inconclusive if the estimate is not a number."""
        low, high = estimate.interval()
        if self.low < low and high < self.high:
            return Verdict.HOLDS
        if high < self.low or self.high < low:
            return Verdict.FAILS
        return Verdict.OPEN

    def __str__(self) -> str:
        if math.isinf(self.low):
            return f"below {self.high:.4g}"
        if math.isinf(self.high):
            return f"above {self.low:.4g}"
        return f"between {self.low:.4g} and {self.high:.4g}"


@dataclasses.dataclass(frozen=True)
class Zero:
    """Exactly zero, by a measurement precise enough to detect the margin.

    Attributes:
        margin: The smallest size that must be detected.
        comparisons: How many estimates are compared with zero; intervals are wider by Bonferroni.
    """

    verdicts: ClassVar[str] = (
        f"Zero holds if it lies in the estimate's interval, at the level of {SURE:g} standard "
        "errors, and that interval within the margin; it does not hold if it lies outside the "
        "interval; else it is inconclusive"
    )

    margin: float
    comparisons: int = 1

    def judge(self, estimate: Estimate) -> Verdict:
        """Fails if zero is outside the interval, however small the difference is."""
        low, high = estimate.interval(self.comparisons)
        if low > 0 or high < 0:
            return Verdict.FAILS
        return Verdict.HOLDS if -self.margin < low and high < self.margin else Verdict.OPEN

    def __str__(self) -> str:
        several = f", {self.comparisons} at once (Bonferroni)" if self.comparisons > 1 else ""
        return f"zero{several}, margin {self.margin:.3g}"


# What is required of an estimate; `str` says it in words, and `verdicts` when it holds.
Requirement = Within | Zero

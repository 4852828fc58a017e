"""An alarm: the data do not look like the model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Alarm:
    """What was noticed, with the numbers.

    Attributes:
        kind: "misfit", the data have not looked like the model since the beginning (or since the
            last alarm); "change", they did until `since`; "outlier", this batch alone is far off.
        stage: The number of the batch that raised the alarm, counted from one.
        since: The number of the batch with which the evidence began.
        evidence: The odds against the model, to one.
        statistic: "location" or "spread": the statistic with the strongest evidence.
        coordinate: The index of the observation's coordinate with the strongest evidence; () if
            observations are single numbers.
        pit: The share of foreseen batches whose statistic is lower, at `stage`.
        z: By how many standard deviations the statistic is larger than foreseen, at `stage`.
        alpha: The bound on false alarms: see `Monitor`.
    """

    kind: str
    stage: int
    since: int
    evidence: float
    statistic: str
    coordinate: tuple[int, ...]
    pit: float
    z: float
    alpha: float

    def __str__(self) -> str:
        where = f" of coordinate {list(self.coordinate)}" if self.coordinate else ""
        quantile = min(max(self.pit, 0.001), 0.999)  # as exact as the number of replicates allows
        seen = (
            f"at batch {self.stage} the {self.statistic}{where} is at the {quantile:.3f} quantile "
            f"of what was foreseen (z = {self.z:{'.1f' if abs(self.z) < 1e4 else '.3g'}})"
        )
        odds = f"{self.evidence:.1e} to 1"
        if self.kind == "outlier":
            return (
                f"a batch unlike any foreseen: {seen}; an error in the data, or the first of a "
                f"change (chance by Chebyshev's inequality: less than {1 / self.evidence:.1g})"
            )
        if self.kind == "change":
            return (
                f"the data no longer look like the model: {seen}; evidence of a change since "
                f"batch {self.since}: {odds} (without one, batches until such an alarm: "
                f"{1 / self.alpha:.0f} or more on average)"
            )
        return (
            f"the data do not look like the model: {seen}; evidence since batch {self.since}: "
            f"{odds} (were model and prior right, chance of ever such an alarm: "
            f"less than {self.alpha:g})"
        )

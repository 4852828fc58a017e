"""The expectation of a number, and how sure it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Expectation:
    """The expectation of a number under what is believed.

    Attributes:
        mean: The expectation over theta and xi.
        low: The 2.5 % quantile, over theta, of the expectation if theta were known.
        high: The 97.5 % quantile. More data bring the two nearer to each other.
        error: The standard error of `mean` that comes from drawing, whatever the data.
        event: Whether the number is 1 if something happens, else 0, so that `mean` is a chance.
    """

    mean: float
    low: float
    high: float
    error: float
    event: bool = False

    def __str__(self) -> str:
        return f"{self._number(self.mean)} ({self.between})"

    @property
    def between(self) -> str:
        """The interval in words."""
        return f"between {self._number(self.low)} and {self._number(self.high)}"

    def _number(self, value: float) -> str:
        if self.event:
            return f"{100.0 * value:.3g} %"
        return f"{value:.4g}"

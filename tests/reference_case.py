"""A reference case: what to compute, how exactly it must come out, and what differs.

There are two kinds of tolerance:

* rounding: the paper's plain steps. Same random numbers, same sums: 1e-9, relative and absolute.
* statistical: the untuned default (Newton steps). It draws thousands of numbers for each decision,
  and may draw others one day. Decisions may then differ by a stated fraction of the posterior
  standard deviation of the optimal decision (`info.outlook.epistemic`), totals by a relative error.

Data are closed formulas rather than random numbers of NumPy, and all code is written against public
names, so that a change of names is a change of spelling here. The tables of models are these
modules' own: those of other tests may grow or change, these must not.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Numbers = dict[str, Any]


class Tolerance(NamedTuple):
    """How far a number may be from what was recorded.

        |now - recorded|  <=  absolute + relative |recorded| + fraction spread

    Attributes:
        relative: A share of the recorded number.
        absolute: In the unit of the number.
        fraction: A share of the recorded posterior standard deviation of the optimal decision, for
            an array that has one: the array of the same name with " spread" after it. The spread
            itself is known from few draws, and compared to within half of it.
        why: Why this case needs more than the usual tolerance of its kind.
    """

    relative: float = 1e-9
    absolute: float = 1e-9
    fraction: float = 0.0
    why: str = ""


class Case(NamedTuple):
    """What to compute, and how exactly it must come out."""

    compute: Callable[[], Numbers]
    tolerance: Tolerance = Tolerance()


class Cases(dict[str, Case]):
    """A table of cases by name."""

    def add(
        self, name: str, function: Callable[..., Numbers], *arguments: Any, **options: Any
    ) -> None:
        """Adds a row; `tolerance` is the case's own, everything else the function's."""
        tolerance = options.pop("tolerance", Tolerance())
        assert name not in self, name
        self[name] = Case(functools.partial(function, *arguments, **options), tolerance)


def bounds(name: str, recorded: Numbers, tolerance: Tolerance) -> np.ndarray:
    """How far each entry of one of the recorded arrays may be from what is computed now."""
    size = np.abs(np.asarray(recorded[name], float))
    if name.endswith(" spread"):
        return 0.5 * size
    spread = np.asarray(recorded.get(f"{name} spread", 0.0), float)
    return tolerance.absolute + tolerance.relative * size + tolerance.fraction * spread


def differences(recorded: Numbers, now: Numbers, tolerance: Tolerance) -> list[str]:
    """What is not as it was recorded, in words: one line for each array, with its worst entry."""
    lines = [f"{name}: only on one side" for name in sorted(recorded.keys() ^ now.keys())]
    for name in recorded.keys() & now.keys():
        old, new = (np.asarray(side[name], float) for side in (recorded, now))
        if old.shape != new.shape:
            lines.append(f"{name}: shape {new.shape}, recorded was {old.shape}")
            continue
        excess = np.abs(new - old) / bounds(name, recorded, tolerance)
        excess = np.where(np.isnan(old) & np.isnan(new), 0.0, excess)
        if not np.all(excess <= 1.0):
            worst = np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), old.shape)
            lines.append(
                f"{name}: {float(new[worst])!r} at {tuple(map(int, worst))}, recorded was "
                f"{float(old[worst])!r}: {float(excess[worst]):.3g} times the tolerance"
            )
    return lines

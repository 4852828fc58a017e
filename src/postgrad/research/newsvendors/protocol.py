"""The protocol: which rows are learned, what is decided, and what decisions cost."""

import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from postgrad.errors import BatchError, SettingError
from postgrad.numerics.validate import as_count, as_number, as_numbers

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
# Published test costs of methods that know weekday, month and year, on the demand of yaz with the
# first 27 rows dropped, at `LEVELS`.
PUBLISHED: dict[str, tuple[float, ...]] = {
    "nearest neighbours": (11.00, 19.56, 25.28, 20.71, 12.61),
    "linear model": (12.01, 20.41, 25.86, 22.22, 14.62),
    "random forest": (11.63, 20.47, 26.29, 21.78, 13.22),
    "kernel weights": (11.04, 20.56, 26.92, 22.00, 14.37),
    "decision tree": (11.99, 21.25, 27.59, 22.96, 13.09),
    "neural network": (11.57, 21.53, 27.28, 23.18, 13.88),
    "empirical quantile": (11.57, 21.17, 27.81, 24.07, 14.46),
}
_YAZ = (738, 7, 3583787465)  # days, items and checksum of yaz without the first 27 rows


class Demand(NamedTuple):
    """The rows of one item, in the order of their days.

    Attributes:
        item: The name of the item.
        days: Whole days since 1970-01-01.
        values: The demand of each day.
    """

    item: str
    days: np.ndarray
    values: np.ndarray


class Protocol(eqx.Module):
    """How a data set is split, and which costs are decided for.

    A decision q costs  10 (p max(y - q, 0) + (1 - p) max(q - y, 0))  if demand is y, where p is the
    service level.

    Attributes:
        train: The share of an item's rows that are for training.
        levels: The service levels.
        origins: After how many rows the look-aheads of `--origins` begin.
    """

    train: float = 0.75
    levels: tuple[float, ...] = LEVELS
    origins: tuple[int, ...] = ()

    def __check_init__(self) -> None:
        as_number(
            self.train,
            SettingError,
            "train",
            "a share between 0 and 1",
            lambda share: 0 < share < 1,
        )
        numbers = as_numbers(self.levels, SettingError, "levels")
        if numbers.ndim != 1 or not numbers.size or not ((numbers > 0) & (numbers < 1)).all():
            raise SettingError(f"levels must be numbers between 0 and 1, got {list(self.levels)}")
        for origin in self.origins:
            as_count(origin, SettingError, "an origin")

    def split(self, demand: Demand) -> int:
        """How many of an item's rows are for training."""
        return math.floor(self.train * len(demand.values))

    def costs(self, decisions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The mean cost at each level, of decisions of shape (rows, levels)."""
        p, short = np.asarray(self.levels), values[:, None] - decisions
        each = 10.0 * (p * np.maximum(short, 0.0) + (1.0 - p) * np.maximum(-short, 0.0))
        return each.mean(axis=0)


def series(days: Any, table: np.ndarray, items: Sequence[str], drop: int = 0) -> list[Demand]:
    """The rows of each item, without the first `drop` of each.

    Args:
        days: The days of the table's rows.
        table: Days by items; NaN where an item has no row.
        items: The names of the items.
        drop: How many rows of each item are left out at its beginning.

    Raises:
        BatchError: If an item has fewer than two rows then, or two rows on one day.
    """
    if isinstance(drop, bool) or drop < 0:
        raise SettingError(f"drop must be a whole number of at least 0, got {drop!r}")
    days, found = np.asarray(days, np.int64), []
    for item, column in zip(items, np.asarray(table, float).T, strict=True):
        known = np.flatnonzero(~np.isnan(column))[drop:]
        if len(known) < 2:
            raise BatchError(
                f"{item!r} has {len(known)} rows without the first {drop}; at least two are "
                f"needed, one to learn from and one to decide for"
            )
        if (np.diff(days[known]) <= 0).any():
            raise BatchError(f"{item!r} has two rows on one day; the benchmark is about daily rows")
        found.append(Demand(str(item), days[known], column[known]))
    return found


def check_origins(demands: Sequence[Demand], protocol: Protocol) -> None:
    """Whether each item has rows before and after each origin.

    Raises:
        SettingError: If one has not.
    """
    for demand in demands:
        count = len(demand.values)
        if protocol.split(demand) < 1:
            raise SettingError(
                f"train = {protocol.train:g} leaves no row of {demand.item!r} to learn from: it "
                f"has {count} rows"
            )
        for origin in protocol.origins:
            if origin >= count:
                raise SettingError(
                    f"origins must be below the number of rows, but {demand.item!r} has {count} "
                    f"rows, got {origin}"
                )


def published(demands: Sequence[Demand], protocol: Protocol) -> dict[str, tuple[float, ...]]:
    """The published rows, if the data and the protocol are those they were measured by."""
    same = protocol.train == 0.75 and protocol.levels == LEVELS
    return PUBLISHED if same and fingerprint(demands) == _YAZ else {}


def fingerprint(demands: Sequence[Demand]) -> tuple[int, int, int]:
    """Rows, items and a checksum of all values."""
    total = 0
    for demand in demands:
        total = zlib.crc32(demand.values.astype("<f8").tobytes(), total)
    return len(demands[0].values), len(demands), total

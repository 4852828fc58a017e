"""What decisions are compared with: nearest neighbours in the calendar, empirical quantiles."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from postgrad.research.newsvendors.protocol import Demand

# How many neighbours, and how many rows of distances are sorted at a time.
NEIGHBOURS, _CHUNK = 64, 256


def nearest_neighbours(
    demands: Sequence[Demand], first: Sequence[int], last: Sequence[int], levels: Any, *, live: bool
) -> list[np.ndarray]:
    """Quantiles of the 64 rows that are nearest in the calendar.

    The squared distance of two days is 2 if their weekdays differ, plus 2 if their months do, plus
    the square of the years between them; of equally near days the newest count.

    Args:
        demands: The items.
        first: The first row of each item to decide for.
        last: The row of each item after the last one to decide for.
        levels: The service levels.
        live: Whether all rows before a row may be neighbours, not only those before `first`.

    Returns:
        Decisions of each item, rows by levels.
    """
    known: dict[Any, np.ndarray] = {}  # items that share their days share their neighbours
    found = []
    for demand, start, stop in zip(demands, first, last, strict=True):
        key = (demand.days[:stop].tobytes(), start)
        if key not in known:
            known[key] = _neighbours(demand.days[:stop], start, live)
        found.append(_quantiles(demand.values, known[key], levels))
    return found


def _neighbours(days: np.ndarray, start: int, live: bool) -> np.ndarray:
    """The rows of the neighbours of rows start, ..., to be averaged; -1 where there are fewer."""
    date = days.astype("datetime64[D]")
    weekday = (days + 3) % 7
    month = date.astype("datetime64[M]").astype(int) % 12
    year = date.astype("datetime64[Y]").astype(int)
    count = len(days) if live else start
    age = count - 1 - np.arange(count)
    chosen = []
    for at in range(start, len(days), _CHUNK):
        rows = np.arange(at, min(at + _CHUNK, len(days)))[:, None]
        squares = 2 * (weekday[rows] != weekday[:count]) + 2 * (month[rows] != month[:count])
        squares = squares + (year[rows] - year[:count]) ** 2
        # Whole numbers: the distance first, then the age.
        rank = squares.astype(np.int64) * (count + 1) + age
        rank = np.where(np.arange(count) < (rows if live else start), rank, np.iinfo(np.int64).max)
        most = min(NEIGHBOURS, count)
        near = np.argpartition(rank, most - 1, axis=1)[:, :most]
        chosen.append(np.where(near < (rows if live else start), near, -1))
    return np.concatenate(chosen)


def _quantiles(values: np.ndarray, rows: np.ndarray, levels: Any) -> np.ndarray:
    """`numpy.quantile(..., method="higher")` of some rows of the values, for each line of rows."""
    taken = np.sort(np.where(rows >= 0, values[rows], np.inf), axis=1)
    count = (rows >= 0).sum(axis=1)[:, None]
    return np.take_along_axis(taken, _higher(count, levels), axis=1)


def empirical_quantiles(
    demands: Sequence[Demand], first: Sequence[int], last: Sequence[int], levels: Any, *, live: bool
) -> list[np.ndarray]:
    """Quantiles of all rows of an item, whatever the day; see `nearest_neighbours`."""
    found = []
    for demand, start, stop in zip(demands, first, last, strict=True):
        if live:
            rows = [_of_all(demand.values[:t], levels) for t in range(start, stop)]
            found.append(np.stack(rows))
        else:
            same = _of_all(demand.values[:start], levels)
            found.append(np.broadcast_to(same, (stop - start, same.size)))
    return found


def _of_all(values: np.ndarray, levels: Any) -> np.ndarray:
    place = _higher(np.asarray([[len(values)]]), levels)[0]
    return np.partition(values, place)[place]


def _higher(count: np.ndarray, levels: Any) -> np.ndarray:
    """The places, among so many sorted values, that the method "higher" takes."""
    exact = np.asarray(levels, float) * (count - 1)
    # A level such as .1 is not exact, and .1 * 10 must be place 1 all the same.
    return np.ceil(exact - 1e-9 * np.maximum(exact, 1.0)).astype(int)

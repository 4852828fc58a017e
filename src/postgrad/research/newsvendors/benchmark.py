"""The benchmark as a whole: everyone's decisions, their costs, and the table of both."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import numpy as np

from postgrad.research.newsvendors.families import Family, family_of
from postgrad.research.newsvendors.learning import ITEMS, Learner, learning_program
from postgrad.research.newsvendors.neighbours import empirical_quantiles, nearest_neighbours
from postgrad.research.newsvendors.protocol import (
    Demand,
    Protocol,
    check_origins,
    published,
)

POSTGRAD, NEIGHBOURS, EMPIRICAL = "postgrad", "64 nearest neighbours", "empirical quantile"
FROZEN, LIVE, PRINTED = "frozen", "live", "published"
Progress = Callable[[str, int, int], None]


class Line(eqx.Module):
    """One line of the table.

    Attributes:
        method: Who decided.
        kind: "live" if rows are learned after their decision, "frozen" if only training rows are;
            "published" for figures from elsewhere.
        costs: The cost at each level: the mean over rows of each item, then over items.
        by_item: The same of each item, items by levels; empty for published figures.
    """

    method: str
    kind: str
    costs: np.ndarray
    by_item: np.ndarray

    @property
    def total(self) -> float:
        """The sum over levels."""
        return float(self.costs.sum())


class Newsvendors(eqx.Module):
    """What the benchmark found.

    Attributes:
        family: The law of demand.
        items: The names of the items.
        rows: Training and test rows, the least and the most of any item: (train, test).
        protocol: How the data were split.
        lines: The table.
        origins: For each method, the sum of costs of a frozen look-ahead from each origin.
    """

    family: str
    items: tuple[str, ...]
    rows: tuple[tuple[int, int], tuple[int, int]]
    protocol: Protocol
    lines: tuple[Line, ...]
    origins: dict[str, np.ndarray]

    def line(self, method: str, kind: str) -> Line:
        """One line of the table."""
        return next(line for line in self.lines if (line.method, line.kind) == (method, kind))

    def against_best(self, kind: str) -> np.ndarray | None:
        """Costs of postgrad over the least published ones, level by level; None without these."""
        best = [line.costs for line in self.lines if line.kind == PRINTED]
        return self.line(POSTGRAD, kind).costs / np.min(best, axis=0) if best else None

    def summary(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        result: dict[str, Any] = {
            "family": self.family,
            "items": list(self.items),
            "train_rows": list(self.rows[0]),
            "test_rows": list(self.rows[1]),
            "levels": list(self.protocol.levels),
            "lines": [
                {
                    "method": line.method,
                    "kind": line.kind,
                    "costs": line.costs.tolist(),
                    "sum": line.total,
                    "by_item": line.by_item.tolist(),
                }
                for line in self.lines
            ],
        }
        if self.origins:
            sums = {name: found.tolist() for name, found in self.origins.items()}
            means = {name: float(found.mean()) for name, found in self.origins.items()}
            result["origins"] = {"after": list(self.protocol.origins), "sums": sums, "mean": means}
        for kind in (LIVE, FROZEN):
            ratio = self.against_best(kind)
            if ratio is not None:
                result[f"{kind}_to_best_published"] = ratio.tolist()
        return result


def newsvendors(
    demands: Sequence[Demand],
    protocol: Protocol | None = None,
    progress: Progress = lambda label, done, total: None,
) -> Newsvendors:
    """Decides for the test rows of each item at each service level, and adds up what that costs.

    One belief for each item, `pg.beliefs.daily_demand`, learns once and decides for all levels by
    the quantiles of what it foresees. Nothing is tuned: the specification is the same for all items
    and levels.

    Args:
        demands: The items: see `protocol.series`.
        protocol: How to split the rows, and the levels; if not given, as published figures do.
        progress: Called with what is being done, and the items done and to do.

    Raises:
        SettingError: If an item has no row to learn from, or an origin is beyond its rows.
    """
    protocol = protocol or Protocol()
    check_origins(demands, protocol)
    family = family_of(demands)
    splits = [protocol.split(demand) for demand in demands]
    ends = [len(demand.values) for demand in demands]
    progress("compiling", 0, 1)
    ours = _ours(demands, family, protocol, progress)

    def line(method: str, kind: str, decisions: Sequence[np.ndarray]) -> Line:
        by_item = _costs(demands, protocol, splits, decisions)
        return Line(method, kind, by_item.mean(axis=0), by_item)

    progress("comparing", 0, 1)
    lines = [line(POSTGRAD, kind, ours[kind]) for kind in (LIVE, FROZEN)]
    others = ((NEIGHBOURS, nearest_neighbours), (EMPIRICAL, empirical_quantiles))
    for name, decide in others:
        for kind in (LIVE, FROZEN):
            found = decide(demands, splits, ends, protocol.levels, live=kind == LIVE)
            lines.append(line(name, kind, found))
    for name, figures in published(demands, protocol).items():
        lines.append(Line(name, PRINTED, np.asarray(figures), np.zeros((0, len(figures)))))
    origins: dict[str, list[float]] = {POSTGRAD: [], NEIGHBOURS: []} if protocol.origins else {}
    for origin in protocol.origins:
        starts = [origin] * len(demands)
        stops = _horizons(demands, protocol, origin)
        near = nearest_neighbours(demands, starts, stops, protocol.levels, live=False)
        for name, found in ((POSTGRAD, ours[origin]), (NEIGHBOURS, near)):
            by_item = _costs(demands, protocol, starts, found)
            origins[name].append(float(by_item.mean(axis=0).sum()))
    return Newsvendors(
        family=family.name,
        items=tuple(demand.item for demand in demands),
        rows=(_range(splits), _range([e - s for e, s in zip(ends, splits, strict=True)])),
        protocol=protocol,
        lines=tuple(lines),
        origins={name: np.asarray(sums) for name, sums in origins.items()},
    )


def _ours(
    demands: Sequence[Demand], family: Family, protocol: Protocol, progress: Progress
) -> dict[Any, list[np.ndarray]]:
    """Our decisions, items in order, under "live", "frozen" and each origin."""
    cores = os.cpu_count() or 1
    width = min(ITEMS, -(-len(demands) // cores))
    chunks = [demands[first : first + width] for first in range(0, len(demands), width)]
    program, done, lock = learning_program(family, width), 0, threading.Lock()

    def decide(chunk: Sequence[Demand]) -> dict[Any, list[np.ndarray]]:
        nonlocal done
        found = _of_chunk(Learner(chunk, family, program, protocol), protocol)
        with lock:
            done += len(chunk)
            progress("learning and deciding", done, len(demands))
        return found

    # Compiled programs and SciPy's functions release Python's lock.
    with ThreadPoolExecutor(cores) as pool:
        parts = list(pool.map(decide, chunks))
    return {key: [found for part in parts for found in part[key]] for key in parts[0]}


def _of_chunk(learner: Learner, protocol: Protocol) -> dict[Any, list[np.ndarray]]:
    fresh, demands, levels = learner.copy(), learner.demands, protocol.levels
    splits = [protocol.split(demand) for demand in demands]
    found: dict[Any, list[np.ndarray]] = {}
    for origin in sorted(protocol.origins):
        learner.learn(origin)
        stops = _horizons(demands, protocol, origin)
        found[origin] = learner.copy().decide(stops, levels, learning=False)
    if max(protocol.origins, default=0) > min(splits):
        learner = fresh
    learner.learn(splits)
    ends = [len(demand.values) for demand in demands]
    found[FROZEN] = learner.copy().decide(ends, levels, learning=False)
    found[LIVE] = learner.decide(ends, levels, learning=True)
    return found


def _horizons(demands: Sequence[Demand], protocol: Protocol, origin: int) -> list[int]:
    """Where look-aheads from an origin end: after as many rows as the protocol has for tests."""
    counts = [len(demand.values) for demand in demands]
    ahead = [n - protocol.split(demand) for n, demand in zip(counts, demands, strict=True)]
    return [min(origin + more, n) for more, n in zip(ahead, counts, strict=True)]


def _costs(
    demands: Sequence[Demand],
    protocol: Protocol,
    starts: Sequence[int],
    decisions: Sequence[np.ndarray],
) -> np.ndarray:
    """Mean costs, items by levels."""
    each = zip(demands, starts, decisions, strict=True)
    return np.stack([protocol.costs(q, d.values[a : a + len(q)]) for d, a, q in each])


def _range(counts: Sequence[int]) -> tuple[int, int]:
    return min(counts), max(counts)

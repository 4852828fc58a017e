"""One untuned belief for each item, learned once, and its decisions for all levels."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

from postgrad import beliefs, models
from postgrad.beliefs.regression.predictive import predictors
from postgrad.problem.contexts import InContext
from postgrad.research.newsvendors import quantiles
from postgrad.research.newsvendors.families import COUNTS, POSITIVE, Family
from postgrad.research.newsvendors.protocol import Demand, Protocol

# How many items and rows one call of the compiled program learns. Shorter calls are filled up with
# rows of weight zero, so that there is one program.
ITEMS, _ROWS = 8, 128


class Program(NamedTuple):
    """What all chunks of items share.

    Attributes:
        run: A compiled function of beliefs and rows: rows are foreseen, then learned.
        states: The beliefs of a chunk of items before all data.
        width: How many items a chunk has.
        number: The number that members differ in, such as the concentration, of each member.
    """

    run: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]]
    states: PyTree
    width: int
    number: np.ndarray


@functools.cache
def learning_program(family: Family, width: int) -> Program:
    """The program of a family, for chunks of so many items."""
    model = models.daily_demand(family.model)
    observed = models.WithOutliers(model)
    belief: Any = beliefs.daily_demand(family.model)

    def row(belief: Any, row: PyTree) -> tuple[Any, PyTree]:
        z, y, elapsed, weight = row
        belief = belief.advance(elapsed)
        foreseen = (*predictors(belief, InContext(model, z), None), belief.log_weights)
        learned = belief.update(InContext(observed, z), jnp.zeros(()), y[None], weight[None])
        return learned, foreseen

    def rows(states: PyTree, rows: PyTree) -> tuple[PyTree, PyTree]:
        return lax.scan(jax.vmap(row), states, rows)

    states = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (width, *leaf.shape)), belief)
    blank = np.zeros((_ROWS, width))
    compiled = jax.jit(rows).lower(states, (_context(blank, blank[0]), blank, blank, blank))
    number = np.asarray(belief.beliefs.numbers[family.number])
    return Program(compiled.compile(), states, width, number)


class Learner:
    """Beliefs about some items, which learn rows in their order and look ahead from where they are.

    Attributes:
        demands: The items.
        family: The law of their demand.
        at: How many rows of each item are learned.
    """

    def __init__(
        self, demands: Sequence[Demand], family: Family, program: Program, protocol: Protocol
    ):
        """Beliefs before all data.

        Args:
            demands: The items, at most as many as the program is for.
            family: The law of their demand.
            program: See `learning_program`.
            protocol: Which rows are for training. Where demand is standardised, they say its mean
                and spread.
        """
        self.demands, self.family = list(demands), family
        self.at = np.zeros(len(demands), int)
        self._program, self._units = program, [(0.0, 1.0)] * len(demands)
        if family.is_standardised:
            seen = [min([protocol.split(demand), *protocol.origins]) for demand in demands]
            self._units = [_unit(d.values[:n]) for d, n in zip(demands, seen, strict=True)]
        self._state = program.states

    def copy(self) -> "Learner":
        """Another learner in the same state."""
        other = object.__new__(Learner)
        other.__dict__ = self.__dict__ | {"at": self.at.copy()}
        return other

    def learn(self, until: Any) -> None:
        """Learns the rows of each item up to a number of rows."""
        self._walk(until, learning=True, levels=None)

    def decide(self, until: Any, levels: Any, *, learning: bool) -> list[np.ndarray]:
        """Decisions for the rows of each item up to a number of rows, of shape (rows, levels).

        Args:
            until: The number of rows, for each item.
            levels: The service levels.
            learning: Whether each row is learned after its decision. If not, all are decided for
                from what is believed now.
        """
        return self._walk(until, learning=learning, levels=np.asarray(levels, float))

    def _walk(self, until: Any, *, learning: bool, levels: np.ndarray | None) -> list[np.ndarray]:
        until = np.broadcast_to(np.asarray(until), (len(self.demands),))
        most = int((until - self.at).max())
        parts: list[list[np.ndarray]] = [[] for _ in self.demands]
        for first in range(0, most, _ROWS):
            lengths = np.clip(until - self.at - first, 0, _ROWS)
            rows = self._rows(first, lengths, learning)
            self._state, foreseen = self._program.run(self._state, rows)
            if levels is not None:
                for found, some in zip(
                    parts, self._decisions(foreseen, lengths, levels), strict=True
                ):
                    found.append(some)
        self.at = np.maximum(self.at, until)
        blank = np.zeros((0, 0 if levels is None else len(levels)))
        return [np.concatenate(found) if found else blank for found in parts]

    def _rows(self, first: int, lengths: np.ndarray, learning: bool) -> PyTree:
        """Rows at + first, ... of each item, rows by items, filled up with rows without weight."""
        shape = (_ROWS, self._program.width)
        day, y = np.zeros(shape), np.ones(shape)
        elapsed, weight = np.zeros(shape), np.zeros(shape)
        for i, (demand, length) in enumerate(zip(self.demands, lengths, strict=True)):
            if not length:
                continue
            start = int(self.at[i]) + first
            some = slice(start, start + int(length))
            middle, unit = self._units[i]
            day[:length, i] = demand.days[some]
            y[:length, i] = (demand.values[some] - middle) / unit
            before = demand.days[max(start - 1, 0)]
            elapsed[:length, i] = np.diff(demand.days[some], prepend=before)
            weight[:length, i] = float(learning)
        origin = np.zeros(self._program.width)
        origin[: len(self.demands)] = [demand.days[0] for demand in self.demands]
        return _context(day, origin), y, elapsed, weight

    def _decisions(
        self, foreseen: PyTree, lengths: np.ndarray, levels: np.ndarray
    ) -> list[np.ndarray]:
        mean, variance, log_weights = (np.asarray(leaf).swapaxes(0, 1) for leaf in foreseen)
        mask = np.arange(_ROWS) < lengths[:, None]
        kept = [leaf[: len(lengths)][mask] for leaf in (mean, variance, log_weights)]
        if not mask.any():
            return [np.zeros((0, len(levels))) for _ in lengths]
        made: Any = quantiles.counts if self.family is COUNTS else quantiles.normals
        found = quantiles.quantiles(made(*kept, self._program.number), levels)
        middle, unit = (
            np.repeat(column, lengths)[:, None] for column in zip(*self._units, strict=True)
        )
        found = middle + unit * (np.exp(found) if self.family is POSITIVE else found)
        return np.split(found, np.cumsum(lengths)[:-1])


def _context(day: np.ndarray, origin: np.ndarray) -> dict[str, np.ndarray]:
    """The calendar of some days; "day" counts from the first row of an item."""
    date = day.astype("datetime64[D]")
    month = date.astype("datetime64[M]").astype(int) % 12
    return {"day": day - origin, "weekday": (day.astype(int) + 3) % 7, "month": month}


def _unit(rows: np.ndarray) -> tuple[float, float]:
    return float(rows.mean()), float(rows.std()) or 1.0

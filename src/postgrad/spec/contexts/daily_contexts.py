"""The contexts of all days of a table, each from what was known before that day's decision."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int

from postgrad.errors import DataError
from postgrad.spec.contexts.cells import Cells
from postgrad.spec.contexts.column_memory import ColumnMemory, Context
from postgrad.spec.contexts.context_table import ContextTable
from postgrad.spec.contexts.days import ContextOfDays


def daily_contexts(
    table: ContextTable,
    cells: Sequence[Sequence[Cells | None]],
    demand_known: Bool[np.ndarray, "days items"],
    group: Int[np.ndarray, " days"],
    dates: Sequence[str],
    *,
    burn_in: int,
    delay: int,
    joint: bool,
) -> ContextOfDays:
    """Numbers of the contexts of each day, as a live agent would have had them.

    Args:
        table: The columns.
        cells: What the rows say, days by items; None where there is no row.
        demand_known: Where there is a demand to learn from.
        group: The number of each day's group; groups learn by themselves.
        dates: The days, for messages.
        burn_in: So many days are not scored: levels that were never seen are no error there.
        delay: So many days pass before a row is learned from, beyond the next morning.
        joint: Whether all items are decided together.

    Raises:
        DataError: If a scored day has a level that was never seen, and the column does not say
            `other = true`; or a column has more levels than there is room for.
    """
    columns = np.asarray(cells, object)
    units = [columns] if joint else [columns[:, i : i + 1] for i in range(columns.shape[1])]
    of_unit = [np.asarray(demand_known.all(axis=1))] if joint else list(demand_known.T)
    found = [
        _of_unit(table, list(unit), known, group, dates, burn_in, delay, joint)
        for unit, known in zip(units, of_unit, strict=True)
    ]
    left_out: collections.Counter[str] = collections.Counter()
    for one in found:
        left_out.update(one.left_out)
    context = {
        name: np.stack([one.context[name] for one in found], axis=1) for name in found[0].context
    }
    return ContextOfDays(context, np.stack([one.known[:, 0] for one in found], axis=1), left_out)


def _of_unit(
    table: ContextTable,
    cells: Sequence[Sequence[Cells | None]],
    demand_known: Bool[np.ndarray, " days"],
    group: Int[np.ndarray, " days"],
    dates: Sequence[str],
    burn_in: int,
    delay: int,
    joint: bool,
) -> ContextOfDays:
    left_out: collections.Counter[str] = collections.Counter()
    days: list[Context | None] = []
    # Levels have their numbers in the order of days, also where a row is learned from later.
    learned, met = ([ColumnMemory()] * (int(group.max()) + 1) for _ in range(2))
    for day, row in enumerate(cells):
        if (late := day - 1 - delay) >= 0 and demand_known[late]:
            g, seen = group[late], _whole(cells[late])
            learned[g] = learned[g] if seen is None else learned[g].after(table, seen)
        days.append(None)
        if (here := _whole(row, left_out if demand_known[day] else None)) is None:
            continue
        g = group[day]
        if day >= burn_in and (reason := learned[g].unseen(table, here)) is not None:
            raise DataError(f"{here[0].where}: {dates[day]}: {reason}")
        met[g] = met[g].after(table, here)
        numbers = dataclasses.replace(met[g], first_rows=learned[g].first_rows)
        days[-1] = numbers.context(table, here, joint)
    usual = next((one for one in days if one is not None), None)
    if usual is None:
        columns = ", ".join(left_out) or "the columns of the context"
        raise DataError(f"no row has a value in each of {columns}; see `missing`")
    blank = {name: np.zeros_like(value) for name, value in usual.items()}
    filled = [blank if one is None else one for one in days]
    context = {name: np.stack([one[name] for one in filled]) for name in usual}
    return ContextOfDays(context, np.asarray([[one is not None] for one in days]), left_out)


def _whole(
    cells: Sequence[Cells | None], left_out: collections.Counter[str] | None = None
) -> list[Cells] | None:
    """The cells of a row, if there is nothing missing."""
    there = [one for one in cells if one is not None]
    missing = {column for one in there for column in one.missing}
    if left_out is not None:
        left_out.update(missing)
    return None if missing or len(there) < len(cells) else there

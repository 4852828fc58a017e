"""A specification backtested on a table of data."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from postgrad.engine.bulk import Progress
from postgrad.errors import DataError
from postgrad.research.progress import silent
from postgrad.spec.backtest import Backtest, backtest
from postgrad.spec.build import build
from postgrad.spec.contexts.daily_contexts import daily_contexts
from postgrad.spec.demand_table import groups_of
from postgrad.spec.specification import Specification
from postgrad.spec.tables.files import Row
from postgrad.spec.tables.row_reader import dated_rows, demand_table


@dataclasses.dataclass(frozen=True)
class SpecBacktest:
    """The backtest of a specification.

    Attributes:
        result: The backtest.
        rows: How many rows of the data were scored.
    """

    result: Backtest
    rows: int

    def summary(self) -> dict[str, Any]:
        """What `postgrad backtest --json` prints."""
        result = self.result
        return {
            "total": result.total,
            "scored": self.rows,
            "days": result.scored,
            "burn_in": result.burn_in,
            "first": result.dates[result.burn_in],
            "last": result.dates[-1],
            "counterfactual": result.counterfactual,
            "items": result.by_item,
        } | ({"left_out": dict(result.left_out)} if result.left_out else {})


def backtest_specification(
    specification: Specification,
    rows: Iterable[Row],
    progress: Progress = silent,
    *,
    again: bool = False,
) -> SpecBacktest:
    """Decide on each day of the data with what was known by then, and score the decisions.

    Args:
        specification: The problem, what the columns mean, and how to score.
        rows: The data.
        progress: Called with what is being done, and how much of it is done, of how much.
        again: Whether a row may come again, as on standard input: see `dated_rows`.

    Raises:
        DataError: If the rows are not as the specification says, or not more than `burn_in` days.
        PostgradError: If the parts of the specification do not fit each other.
    """
    spec, scoring = specification, specification.backtest
    dated = dated_rows(rows, spec.data, spec.split_by, spec.context, again=again)
    table = demand_table(dated, spec.data.item_names or ())
    built = build(spec, table.items)
    if len(table.dates) <= scoring.burn_in:
        burn_in = f"backtest.burn_in = {scoring.burn_in} leaves none of them to score"
        instead = "give more days, or a smaller burn_in"
        raise DataError(f"the data have {len(table.dates)} days; {burn_in}: {instead}")
    given = {name: part for name, part in table._asdict().items() if name not in ("rows", "cells")}
    if spec.context is not None:
        given["context"] = daily_contexts(
            spec.context,
            table.cells,
            ~np.isnan(table.demand).reshape(*table.demand.shape[:2], -1).all(axis=2),
            groups_of(table.split_by, len(table.dates)),
            table.dates,
            burn_in=scoring.burn_in,
            delay=scoring.delay,
            joint=built.joint,
        )
    result = backtest(
        built.problems[0] if built.joint else built.problems,
        built.belief,
        built.starts[0] if built.joint else [float(start) for start in built.starts],
        **given,
        pool=built.pool,
        progress=progress,
        **scoring.model_dump(),
        **built.options,
    )
    return SpecBacktest(result, int(table.rows[scoring.burn_in :].sum()))

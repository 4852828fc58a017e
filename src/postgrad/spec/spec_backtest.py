"""A specification backtested on a table of data."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from postgrad.errors import DataError
from postgrad.spec.backtest import Backtest, backtest
from postgrad.spec.setup import build
from postgrad.spec.specification import Specification
from postgrad.spec.tables.files import Row
from postgrad.spec.tables.row_reader import arrivals, calendar


@dataclasses.dataclass(frozen=True)
class Trial:
    """A backtest, and how many rows of the data it scored.

    Attributes:
        result: The backtest.
        rows: How many rows of the data were scored.
    """

    result: Backtest
    rows: int

    def summary(self) -> dict[str, Any]:
        """What is printed as JSON."""
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
        }


def trial(
    specification: Specification,
    rows: Iterable[Row],
    watch: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> Trial:
    """Walk through the rows as the specification says.

    Raises:
        DataError: If the rows are not as it says.
        PostgradError: If the parts do not fit.
    """
    spec = specification
    table = calendar(arrivals(rows, spec.data, spec.context), spec.data.known or ())
    setup = build(spec, table.items)
    scoring = spec.backtest
    if len(table.dates) <= scoring.burn_in:
        raise DataError(
            f"there are {len(table.dates)} days, not more than backtest.burn_in = {scoring.burn_in}"
        )
    result = backtest(
        setup.problems[0] if setup.joint else setup.problems,
        setup.belief,
        setup.starts[0] if setup.joint else [float(start) for start in setup.starts],
        table.demand,
        items=table.items,
        dates=table.dates,
        context=table.contexts,
        pool=setup.pool,
        in_force=table.decisions,
        burn_in=scoring.burn_in,
        delay=scoring.delay,
        rivals=scoring.rivals,
        watch=watch,
        **setup.options,
    )
    return Trial(result, int(table.rows[scoring.burn_in :].sum()))

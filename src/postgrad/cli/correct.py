"""The command `correct`: batches that were wrong."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from postgrad.cli.output import EXIT_CODES, AllowCode, SpecFile, exit_codes
from postgrad.cli.streams import Group, Item, StateFile, named_streams, opened

app = typer.Typer()

_DATA = typer.Argument(help="Rows as they should have been: .csv, .jsonl or .parquet.")
_WITHDRAW = typer.Option("--withdraw", help="The id (or date) of a row to take back instead.")


@app.command(epilog=EXIT_CODES)
def correct(
    specification: SpecFile,
    data: Annotated[Path | None, _DATA] = None,
    withdraw: Annotated[str | None, _WITHDRAW] = None,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
) -> None:
    """Correct rows that were wrong, by their ids, and print the decisions that follow.

    All later rows are learned from again; what was decided at the time stays on record. Rows that
    are right already change nothing, so the command can be repeated.
    """
    if (data is None) == (withdraw is None):
        raise typer.BadParameter("give either the right rows, or --withdraw and an id")
    found = "" if data is None else str(data)
    with exit_codes(specification, found), opened(specification, state, allow_code) as agents:
        from postgrad.spec.tables.files import rows
        from postgrad.spec.tables.row_reader import dated_rows

        spec = agents.specification
        with closing(rows(found)) as given:
            if withdraw is not None:
                lines = agents.withdraw(withdraw, named_streams(agents, item, group))
            else:
                lines = agents.correct(dated_rows(given, spec.data, spec.split_by, spec.context))
            for line in lines:
                print(json.dumps(line, allow_nan=False), flush=True)

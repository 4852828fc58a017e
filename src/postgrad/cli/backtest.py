"""The command `backtest`."""

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from postgrad.cli.output import (
    EXIT_CODES,
    AllowCode,
    AsJson,
    SpecFile,
    exit_codes,
    make_folder,
    progress,
    say,
)

app = typer.Typer()

_DATA = typer.Argument(help="Dated demand: .csv, .jsonl or .parquet, or - for a stream.")
_FILES = ("cumulative-cost.png", "cumulative-cost.svg", "summary.json", "decisions.csv")
_FOLDER = typer.Option(help="Folder for the figure, decisions.csv and summary.json.")


@app.command(epilog=EXIT_CODES)
def backtest(
    specification: SpecFile,
    data: Annotated[str, _DATA],
    out: Annotated[Path | None, _FOLDER] = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Decide on each day of past demand, and compare with rules of thumb and hindsight."""
    with exit_codes(specification, data):
        from postgrad.spec import load

        # Errors of form are found before JAX is imported.
        spec = load(specification, allow_code=allow_code)

        from postgrad.spec.spec_backtest import backtest_specification
        from postgrad.spec.tables.files import rows
        from postgrad.spec.tables.output_files import refuse_overwriting

        if out is not None:
            for name in _FILES:
                refuse_overwriting(out / name, [specification, Path(data)])
        with progress() as report, closing(rows(data)) as given:
            done = backtest_specification(spec, given, report, again=data == "-")
        result, summary = done.result, json.dumps(done.summary(), allow_nan=False)
        if out is not None:
            from postgrad.spec.tables import charts

            make_folder(out)
            charts.draw_backtest(result, out / "cumulative-cost", title=spec.title)
            (out / "summary.json").write_text(summary)
            (out / "decisions.csv").write_text(result.to_csv())
    if as_json:
        typer.echo(summary)
        return
    name = spec.title or specification.name
    say(f"{name}: {result.scored} days scored, after {result.burn_in} to learn from")
    say(result.table())
    if out is not None:
        typer.echo(f"The figure, decisions.csv and summary.json are in {out}/.")

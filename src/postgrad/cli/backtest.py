"""Would it have been better? Backtests of specifications."""

import json
from pathlib import Path
from typing import Annotated

import typer

from postgrad.cli.show import EXIT_CODES, AsJson, failing, make_folder, progress

app = typer.Typer()


@app.command(epilog=EXIT_CODES)
def backtest(
    specification: Annotated[Path, typer.Argument(help="The problem, a .toml file.")],
    data: Annotated[
        str, typer.Argument(help="Dated demand: .csv, .jsonl or .parquet, or - for a stream.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the figure, decisions.csv and summary.json.")
    ] = None,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Whether the specification may name your own Python."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Walk through past demand and compare with rules of thumb and hindsight."""
    from rich.console import Console

    with failing():
        from postgrad.spec import load
        from postgrad.spec.spec_backtest import trial
        from postgrad.spec.tables.files import rows

        spec = load(specification, allow_code=allow_code)
        with progress(Console(stderr=True)) as watch:
            done = trial(spec, rows(data), watch)
        if out is not None:
            from postgrad.spec.tables import charts

            make_folder(out)
            charts.draw_backtest(done.result, out / "cumulative-cost", title=spec.title)
            (out / "summary.json").write_text(json.dumps(done.summary(), allow_nan=False))
            (out / "decisions.csv").write_text(done.result.to_csv())
    if as_json:
        typer.echo(json.dumps(done.summary(), allow_nan=False))
        return
    result = done.result
    typer.echo(
        f"{spec.title or specification.name}: {result.scored} days scored, {result.burn_in} before"
    )
    typer.echo(result.table())
    if out is not None:
        typer.echo(f"The figure, decisions.csv and summary.json are in {out}/.")

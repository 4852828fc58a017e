"""The command line. Thin: it reads options, shows progress, prints what the library returns."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

app = typer.Typer(
    name="postgrad",
    help="Decisions that learn from a stream of data, even when the decisions change the data.",
    epilog="Exit codes: 0 done; 1 something failed while running; 2 wrong usage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def postgrad() -> None:
    """Decisions that learn from a stream of data, even when the decisions change the data."""


@app.command(epilog="Exit codes: 0 done; 1 something failed while running; 2 wrong usage.")
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]", help="Experiments of the paper; all, if none is named."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each algorithm.")] = 100,
    horizon: Annotated[int, typer.Option(min=1, help="Stages of each run.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The seed of everything.")] = 0,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(help="Algorithms, comma-separated; those of the paper, if not given."),
    ] = None,
    literal: Annotated[
        bool, typer.Option("--literal", help="Without the box [-20, 20]; counts diverged runs.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for figures and summary.json.")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Reproduce the paper's experiments: a figure for each, summary.json, a table."""
    from rich.console import Console

    from postgrad.errors import SettingError
    from postgrad.paper import figures
    from postgrad.paper.reproduce import plan
    from postgrad.paper.reproduce import reproduce as run

    console = Console(stderr=True)
    chosen = [part for text in algorithms or [] for part in text.split(",") if part]
    try:
        plan(names or [], chosen)
    except SettingError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error}", param_hint="--out") from error
    with _progress(console) as watch:
        summary = run(
            names or [],
            algorithms=chosen,
            runs=runs,
            horizon=horizon,
            seed=seed,
            literal=literal,
            watch=watch,
        )
    (out / "summary.json").write_text(json.dumps(summary, allow_nan=False))
    for name, experiment in summary["experiments"].items():
        figures.draw_experiment(name, experiment, out)
    if summary["posterior"]:
        figures.draw_posterior(summary["posterior"], runs, out)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
    else:
        _print_tables(summary)
        typer.echo(f"Figures and summary.json are in {out}/")


@contextlib.contextmanager
def _progress(console: "Console") -> Iterator[Callable[[str, int, int], None]]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<40}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting")
        yield lambda label, done, total: progress.update(
            task, description=label, completed=done, total=total
        )


def _table(first: str, title: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    style: dict[str, Any] = {
        "box": SIMPLE_HEAD,
        "pad_edge": False,
        "title_justify": "left",
        "title_style": "bold",
    }
    table = Table(title=title, **style)
    table.add_column(first, no_wrap=True)
    return table


def _print_tables(summary: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    for name, experiment in summary["experiments"].items():
        stages = [t for t in (1, 10, 100, 1000, 10_000) if t <= experiment["horizon"]]
        title = f"{name}: mean error ± standard deviation over {experiment['runs']} runs"
        table = _table("algorithm", title)
        for t in stages:
            table.add_column(f"t = {t}", justify="right")
        table.add_column("diverged", justify="right")
        for key, curve in experiment["algorithms"].items():
            pairs = [(curve["mean_error"][t], curve["std_error"][t]) for t in stages]
            cells = ["-" if mean is None else f"{mean:.3f} ± {std:.3f}" for mean, std in pairs]
            table.add_row(key, *cells, str(curve["diverged"]))
        console.print(table)
    if summary["posterior"]:
        length = len(next(iter(summary["posterior"].values()))["mean"])
        stages = [t for t in (0, 1, 10, 100, 1000, 10_000) if t < length]
        table = _table("batch size", "posterior: mean of pi_t(theta_c)")
        for t in stages:
            table.add_column(f"t = {t}", justify="right")
        table.add_column("diverged", justify="right")
        for label, curve in summary["posterior"].items():
            cells = ["-" if (mean := curve["mean"][t]) is None else f"{mean:.3f}" for t in stages]
            table.add_row(label, *cells, str(curve["diverged"]))
        console.print(table)


def main() -> None:
    """The entry point."""
    app()

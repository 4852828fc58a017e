"""What commands share: how they show things, and how they fail."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_CODES = (
    "Exit codes: 0 done; 1 something failed while running; 2 wrong usage; 3 the specification is "
    "wrong; 4 the data are wrong; 5 the file of decisions is damaged, locked or of another problem."
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Errors of the library, in one line and with an exit code of their own."""
    from postgrad import errors

    try:
        yield
    except errors.PostgradError as error:
        typer.echo(f"error: {error}", err=True)
        codes = {
            errors.SpecificationError: 3,
            errors.PriorError: 3,
            errors.FeasibleSetError: 3,
            errors.ModelError: 3,
            errors.StoreError: 5,
        }
        data = (
            errors.DataError,
            errors.BatchError,
            errors.DecisionError,
            errors.SupportError,
            errors.ImpossibleDataError,
            errors.DuplicateBatchError,
        )
        code = next((code for kind, code in codes.items() if isinstance(error, kind)), 1)
        raise typer.Exit(4 if isinstance(error, data) else code) from None
    except BrokenPipeError:  # whoever read has gone
        sys.stderr.close()
        raise typer.Exit(0) from None


def split(options: list[str] | None) -> list[str]:
    """What is given several times, or with commas, or both."""
    return [part for text in options or [] for part in text.split(",") if part]


def check(plan: Callable[[], object]) -> None:
    """Wrong usage, if the plan has unknown names."""
    from postgrad.errors import SettingError

    try:
        plan()
    except SettingError as error:
        raise typer.BadParameter(str(error)) from error


def make_folder(out: Path) -> None:
    """The folder, or wrong usage."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error}", param_hint="--out") from error


@contextlib.contextmanager
def progress(
    console: "Console", *, lines: bool = False
) -> Iterator[Callable[[str, int, int], None]]:
    """Told of what is done; shown as a bar on a terminal.

    Args:
        console: Where it is shown.
        lines: Whether each new label is printed as a line where there is no terminal, so that the
            log of a long command says how far it is.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<44}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task, last = progress.add_task("starting"), ""

        def watch(label: str, done: int, total: int) -> None:
            nonlocal last
            if quiet and lines and label != last:
                typer.echo(label, err=True)
            last = label
            progress.update(task, description=label, completed=done, total=total)

        yield watch


def plain_table(first: str, title: str) -> "Table":
    """A table without lines, its first column named."""
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


def standard_output() -> "Console":
    """Standard output; wide enough for a row in one line where nobody looks at a terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=120)

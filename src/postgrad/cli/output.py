"""What commands share: common options, exit codes, progress and tables."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from postgrad.cli.progress_log import ProgressLog

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_CODES = (
    "Exit codes: 0 done; 1 something failed while running; 2 wrong usage; 3 the specification is "
    "wrong; 4 the data are wrong; 5 the file of decisions is damaged, locked or of another problem."
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
SpecFile = Annotated[Path, typer.Argument(help="The problem, a .toml file.")]
_ALLOW = typer.Option("--allow-code", help="Whether the specification may name your own Python.")
AllowCode = Annotated[bool, _ALLOW]


@contextlib.contextmanager
def exit_codes(specification: Path | None = None, data: str | None = None) -> Iterator[None]:
    """Turn errors of the library into one line on standard error and an exit code.

    Args:
        specification: What errors of the specification are about, where they do not say it.
        data: What errors of the data are about, where they do not say it.
    """
    from postgrad import errors as e

    of_problem = (e.SpecificationError, e.PriorError, e.FeasibleSetError, e.ModelError)
    of_data = (e.DataError, e.BatchError, e.DecisionError, e.SupportError, e.ImpossibleDataError)
    codes = {3: of_problem, 4: (*of_data, e.DuplicateBatchError), 5: (e.StoreError,)}
    files = {3: specification, 4: "standard input" if data == "-" else data}
    try:
        yield
    except e.PostgradError as error:
        code = next((code for code, kinds in codes.items() if isinstance(error, kinds)), 1)
        named = code not in files or str(files[code] or "") in str(error)
        say(f"error: {error}" if named else f"error: {files[code]}: {error}", err=True)
        sys.exit(code)
    except BrokenPipeError:  # the program that read the output has ended
        _failed("whoever read the output has ended; not everything was written")
    except OSError as error:
        what = "standard output" if error.filename is None else error.filename
        _failed(f"cannot write to {what}: {error.strerror or error}")


def _failed(why: str) -> NoReturn:
    """Say why output could not be written, and end with exit code 1."""
    with contextlib.suppress(OSError, ValueError):  # standard error may be full as well
        say(f"error: {why}", err=True)
    with contextlib.suppress(OSError, ValueError):  # else Python writes the rest when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def say(text: str, *, err: bool = False) -> None:
    """Print text in which names may come from anywhere: see `printable`."""
    typer.echo(printable(text), err=err)


def printable(text: str) -> str:
    """Text whose control characters are shown, not sent to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def split(options: list[str] | None) -> list[str]:
    """The names of an option that may be repeated, hold commas, or both."""
    return [part for text in options or [] for part in text.split(",") if part]


def check(plan: Callable[[], object]) -> None:
    """Report a `SettingError` of the plan as wrong usage."""
    from postgrad.errors import SettingError

    try:
        plan()
    except SettingError as error:
        raise typer.BadParameter(str(error)) from error


def make_folder(out: Path) -> None:
    """Make the folder; report failure as wrong usage."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error}", param_hint="--out") from error


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function of (label, done, total) that shows progress on standard error.

    On a terminal as a bar, above which other output appears; elsewhere as lines, one at least every
    ten seconds, so that a log says how far a long command has come.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        with ProgressLog() as log:
            yield log.report
        return
    description = TextColumn("{task.description:<44}")
    columns = SpinnerColumn(), description, BarColumn(), TimeElapsedColumn()
    # Output that goes to a file must not be sent to the terminal.
    shared = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=shared) as bar:
        task = bar.add_task("starting")
        yield lambda label, done, total: bar.update(
            task, description=label, completed=done, total=total
        )


def plain_table(first: str, title: str, numbers: Iterable[str]) -> "Table":
    """A table without lines: a first column of names, then columns of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left", title_style="bold"
    )
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def standard_output() -> "Console":
    """Standard output; 120 columns wide where it is no terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=120)

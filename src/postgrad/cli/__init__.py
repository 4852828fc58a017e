"""The command line. Thin: it reads options, shows progress, prints what the library returns."""

import atexit
import gc
import os
import warnings

import typer

from postgrad.cli import backtest, correct, reading, reproduce, run, store, what_if
from postgrad.cli.output import EXIT_CODES, exit_codes

app = typer.Typer(
    name="postgrad",
    help="Decisions that learn from a stream of data, even when the decisions change the data.\n\n"
    "Compiled programs are kept in your cache folder; POSTGRAD_CACHE names another one, or is off.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (run, reading, what_if, correct, backtest, reproduce):
    app.add_typer(commands.app)
app.add_typer(store.app)


def main() -> None:
    """The entry point. Compiled programs are kept on disk, unless `POSTGRAD_CACHE` says no."""
    os.environ.setdefault("POSTGRAD_CACHE", "on")
    # JAX says so of a program that it does not accept; it is compiled anew, and replaced.
    warnings.filterwarnings("ignore", "Error reading persistent compilation cache", UserWarning)
    # Tracing makes millions of small objects, among which Python would look for cycles, now and
    # before it ends: half a second of a `run` that takes four.
    gc.set_threshold(50_000, 20, 100)
    atexit.register(gc.freeze)
    with exit_codes():
        app()

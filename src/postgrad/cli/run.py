"""Commands about one specification that compute: init, run, plot."""

import collections
import itertools
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
from postgrad.cli.streams import Group, Item, StateFile, heading, named_streams, opened, state_file

app = typer.Typer()

# Rows of a file that may share a commit.
_ROWS_AT_ONCE = 64

_FOLLOW = typer.Option("--follow", help="Wait for more rows at the end of the file.")
_ACCEPT = typer.Option(
    "--accept-change", help="Go on with an edited cost or feasible set; what is believed stays."
)


@app.command(epilog=EXIT_CODES)
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("problem.toml"),
) -> None:
    """Write a commented example of a specification."""
    from importlib import resources

    example = resources.files("postgrad").joinpath("spec", "example.toml").read_text()
    try:
        with path.open("x") as file:
            file.write(example)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"Wrote {path}. Try: postgrad run {path} data.csv")


@app.command(epilog=EXIT_CODES)
def run(
    specification: SpecFile,
    data: Annotated[str, typer.Argument(help="Rows: .csv, .jsonl or .parquet, or - for a stream.")],
    state: StateFile = None,
    follow: Annotated[bool, _FOLLOW] = False,
    accept_change: Annotated[bool, _ACCEPT] = False,
    allow_code: AllowCode = False,
) -> None:
    """Learn from each row and print the decision after it, as JSON lines.

    With [context] in the specification, rows without a demand are decided for.

    Everything printed is stored already. Run it again, after a crash or with more data: rows that
    have counted do not count again, and their lines are the same.
    """
    with exit_codes(specification, data):
        from postgrad.spec import load

        # Errors of form are found before JAX is imported.
        spec = load(specification, allow_code=allow_code)

        from postgrad.spec.spec_agents import SpecAgents
        from postgrad.spec.tables.files import rows
        from postgrad.spec.tables.row_reader import dated_rows

        path = state_file(specification, state)
        found = closing(rows(data, follow=follow))
        with found as given, SpecAgents(spec, path, accept_change=accept_change) as agents:
            again = data == "-"
            source = dated_rows(given, spec.data, spec.split_by, spec.context, again=again)
            # Whoever sends a stream may wait for the line of a row before sending the next row.
            at_once = 1 if follow or data == "-" else _ROWS_AT_ONCE
            lines = agents.deliver(source, at_once=at_once)
            with progress() as report:
                report("first row: compiling, or waiting for data", 0, 1)
                first = list(itertools.islice(lines, 1))
            left_out = collections.Counter[str]()
            for line in itertools.chain(first, lines):
                left_out.update(
                    name for names in line.get("left_out", {}).values() for name in names
                )
                print(json.dumps(line, allow_nan=False), flush=True)
            for column, count in left_out.items():
                say(f"not learned from, for want of {column!r}: {count} demands", err=True)


@app.command(epilog=EXIT_CODES)
def plot(
    specification: SpecFile,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("figures"),
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Draw decisions with their interval, the posterior, surprise and cost over time."""
    with exit_codes(specification), opened(specification, state, allow_code) as agents:
        from postgrad.spec.tables.charts import draw_stream

        streams = named_streams(agents, item, group)
        make_folder(out)
        drawn = []
        for number, stream in enumerate(streams, start=1):
            agent, stem = agents.agent(*stream), out / f"stream-{number}"
            files = draw_stream(agent, stem, title=heading(*stream), labels=agents.together)
            drawn += [str(path) for path in files]
    typer.echo(json.dumps(drawn) if as_json else "\n".join(drawn))

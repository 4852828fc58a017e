"""Commands about one specification: init, run, decide, explain, export, plot."""

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from postgrad.spec.spec_agents import SpecAgents, Stream

app = typer.Typer()

# Rows of a file that may share a commit.
_ROWS_AT_ONCE = 64

_STATE = typer.Option("--state", help="The file of decisions; next to the problem, if not given.")
StateFile = Annotated[Path | None, _STATE]
Item = Annotated[str | None, typer.Option(help="Only this item.")]
Group = Annotated[str | None, typer.Option(help="Only this group of split_by, such as Monday.")]

_FOLLOW = typer.Option("--follow", help="Wait for more rows at the end of the file.")
_ACCEPT = typer.Option(
    "--accept-change", help="Go on with an edited cost or feasible set; what is believed stays."
)
_EXPORT_FILE = typer.Argument(help="Where to: .csv, .json, or .nc for ArviZ where it is installed.")


@app.command(epilog=EXIT_CODES)
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("problem.toml"),
) -> None:
    """Write a commented example of a specification."""
    from importlib import resources

    example = resources.files("postgrad.spec").joinpath("example.toml").read_text()
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

    Everything printed is stored already. Run it again, after a crash or with more data: rows that
    have counted do not count again, and their lines are the same.
    """
    with exit_codes(specification, data):
        from postgrad.spec import load
        from postgrad.spec.spec_agents import SpecAgents
        from postgrad.spec.tables.files import rows
        from postgrad.spec.tables.row_reader import dated_rows

        spec = load(specification, allow_code=allow_code)
        path = _state(specification, state)
        with SpecAgents(spec, path, accept_change=accept_change) as agents:
            found = rows(data, follow=follow)
            source = dated_rows(found, spec.data, spec.split_by, again=data == "-")
            # Whoever sends a stream may wait for the line of a row before sending the next row.
            at_once = 1 if follow or data == "-" else _ROWS_AT_ONCE
            lines = agents.deliver(source, at_once=at_once)
            with progress() as report:
                report("first row: compiling, or waiting for data", 0, 1)
                first = list(itertools.islice(lines, 1))
            for line in itertools.chain(first, lines):
                print(json.dumps(line, allow_nan=False), flush=True)


@app.command(epilog=EXIT_CODES)
def decide(
    specification: SpecFile,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the decisions in force."""
    with exit_codes(specification), opened(specification, state, allow_code) as agents:
        found = [
            decided
            for stream in named_streams(agents, item, group)
            for decided in _decided(agents, *stream)
            if item in (None, decided["item"])
        ]
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    for decided in found:
        where = f" on {decided['group']}" if decided["group"] else ""
        ends = decided["interval"]
        between = f"   (the best lies between {ends[0]:.4g} and {ends[1]:.4g})" if ends else ""
        say(f"{decided['item']}{where}: {decided['decision']:.4g}{between}")


@app.command(epilog=EXIT_CODES)
def explain(
    specification: SpecFile,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Say why the decisions are what they are, and what is uncertain about them."""
    with exit_codes(specification), opened(specification, state, allow_code) as agents:
        streams = named_streams(agents, item, group)
        explained = [(*stream, agents.agent(*stream).explain()) for stream in streams]
    if as_json:
        from postgrad.research.json_types import as_json_types

        lines = [
            {"item": name, "group": its_group, **as_json_types(explanation)}
            for name, its_group, explanation in explained
        ]
        typer.echo(json.dumps(lines, allow_nan=False))
        return
    for name, its_group, explanation in explained:
        say(f"{_heading(name, its_group)}\n{explanation}\n")


@app.command(epilog=EXIT_CODES)
def export(
    specification: SpecFile,
    out: Annotated[Path, _EXPORT_FILE],
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
) -> None:
    """Write the history of all batches and decisions, or the posterior for ArviZ."""
    with exit_codes(specification), opened(specification, state, allow_code) as agents:
        from postgrad.spec.tables.export import write
        from postgrad.spec.tables.output_files import refuse_overwriting

        refuse_overwriting(out, [specification])
        count = write(agents, named_streams(agents, item, group), out)
    typer.echo(f"Wrote {count} {'records' if out.suffix != '.nc' else 'posteriors'} to {out}")


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
            files = draw_stream(agent, stem, title=_heading(*stream), labels=agents.together)
            drawn += [str(path) for path in files]
    typer.echo(json.dumps(drawn) if as_json else "\n".join(drawn))


def _state(specification: Path, state: Path | None) -> Path:
    return state or specification.with_suffix(".db")


def opened(specification: Path, state: Path | None, allow_code: bool) -> "SpecAgents":
    """The agents of a file that must exist."""
    from postgrad.errors import StoreError
    from postgrad.spec import load
    from postgrad.spec.spec_agents import SpecAgents

    spec, path = load(specification, allow_code=allow_code), _state(specification, state)
    if not path.is_file():
        raise StoreError(f"there is no {path}: `postgrad run` makes it")
    return SpecAgents(spec, path)


def named_streams(agents: "SpecAgents", item: str | None, group: str | None) -> list["Stream"]:
    """The streams that the options name; wrong usage if there are none."""
    found = [
        (name, its_group)
        for name, its_group in agents.streams()
        if item in (None, name, *agents.together) and group in (None, its_group)
    ]
    if not found:
        asked = ", ".join(repr(name) for name in (item, group) if name is not None)
        raise typer.BadParameter(f"there are no decisions {f'for {asked}' if asked else 'yet'}")
    return found


def _decided(agents: "SpecAgents", item: str, group: str | None) -> list[dict[str, Any]]:
    agent = agents.agent(item, group)
    so_far = {"stage": agent.stage, "alarms": len(agent.alarms)}
    return [
        {"item": name, "group": group, "decision": number, "interval": pair, **so_far}
        for name, number, pair in agents.by_item(item, agent.decision, agent.interval)
    ]


def _heading(item: str, group: str | None) -> str:
    name = "all items together" if item == "*" else item
    return name if group is None else f"{name}, {group}"

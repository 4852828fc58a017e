"""A live decision: run, decide, explain, export, plot."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from postgrad.cli.show import EXIT_CODES, AsJson, failing, make_folder

app = typer.Typer()

# Rows of a file that may share a commit.
_ROWS_AT_ONCE = 64

Spec = Annotated[Path, typer.Argument(help="The problem, a .toml file.")]
StateFile = Annotated[
    Path | None,
    typer.Option("--state", help="The file of decisions; next to the problem, if not given."),
]
AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Whether the specification may name your own Python."),
]
Item = Annotated[str | None, typer.Option(help="Only this item.")]
Context = Annotated[str | None, typer.Option(help="Only this context, such as Monday.")]


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
    specification: Spec,
    data: Annotated[str, typer.Argument(help="Rows: .csv, .jsonl or .parquet, or - for a stream.")],
    state: StateFile = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more rows at the end of the file.")
    ] = False,
    recover: Annotated[
        bool, typer.Option("--recover", help="Go on from the last good state of a damaged file.")
    ] = False,
    allow_code: AllowCode = False,
) -> None:
    """Learn from each row and print the decision after it, as JSON lines.

    Everything printed is stored already. Run it again, after a crash or with more data: rows that
    have counted do not count again, and their lines are the same.
    """
    with failing():
        from postgrad.spec import load
        from postgrad.spec.spec_agents import Live
        from postgrad.spec.tables.files import rows
        from postgrad.spec.tables.row_reader import arrivals

        spec = load(specification, allow_code=allow_code)
        with Live(spec, state or _beside(specification), recover=recover) as live:
            source = arrivals(rows(data, follow=follow), spec.data, spec.context)
            # Whoever sends a stream may wait for the answer to each row.
            at_once = 1 if follow or data == "-" else _ROWS_AT_ONCE
            for line in live.deliver(source, at_once=at_once):
                print(json.dumps(line, allow_nan=False), flush=True)


@app.command(epilog=EXIT_CODES)
def decide(
    specification: Spec,
    state: StateFile = None,
    item: Item = None,
    context: Context = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the decisions in force."""
    with failing(), _opened(specification, state, allow_code) as live:
        lines = [_decided(live, *stream) for stream in _chosen(live, item, context)]
        found = [line for several in lines for line in several if item in (None, line["item"])]
        _none_found(found, item, context)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    for line in found:
        where = f" on {line['context']}" if line["context"] else ""
        ends = line["interval"]
        between = f"   (the best lies between {ends[0]:.4g} and {ends[1]:.4g})" if ends else ""
        typer.echo(f"{line['item']}{where}: {line['decision']:.4g}{between}")


@app.command(epilog=EXIT_CODES)
def explain(
    specification: Spec,
    state: StateFile = None,
    item: Item = None,
    context: Context = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Say why the decisions are what they are, and what is uncertain about them."""
    with failing(), _opened(specification, state, allow_code) as live:
        streams = _chosen(live, item, context)
        _none_found(streams, item, context)
        told = [(*stream, live.agent(*stream).explain()) for stream in streams]
    if as_json:
        from postgrad.spec.tables.export import plain

        lines = [
            {"item": item, "context": context, **plain(explanation)}
            for item, context, explanation in told
        ]
        typer.echo(json.dumps(lines, allow_nan=False))
        return
    for name, context_name, explanation in told:
        typer.echo(_heading(name, context_name))
        typer.echo(f"{explanation}\n")


@app.command(epilog=EXIT_CODES)
def export(
    specification: Spec,
    out: Annotated[
        Path, typer.Argument(help="Where to: .csv, .json, or .nc for ArviZ where it is installed.")
    ],
    state: StateFile = None,
    item: Item = None,
    context: Context = None,
    allow_code: AllowCode = False,
) -> None:
    """Write the history of all batches and decisions, or the posterior for ArviZ."""
    with failing(), _opened(specification, state, allow_code) as live:
        from postgrad.spec.tables.export import write

        streams = _chosen(live, item, context)
        _none_found(streams, item, context)
        count = write(live, streams, out)
    typer.echo(f"Wrote {count} {'records' if out.suffix != '.nc' else 'posteriors'} to {out}")


@app.command(epilog=EXIT_CODES)
def plot(
    specification: Spec,
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("figures"),
    state: StateFile = None,
    item: Item = None,
    context: Context = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Draw decisions with their interval, the posterior, surprise and cost over time."""
    with failing(), _opened(specification, state, allow_code) as live:
        from postgrad.spec.tables.charts import draw_stream

        streams = _chosen(live, item, context)
        _none_found(streams, item, context)
        make_folder(out)
        drawn = [
            path
            for number, stream in enumerate(streams)
            for path in draw_stream(
                live.agent(*stream),
                out / f"stream-{number + 1}",
                title=_heading(*stream),
                labels=live.specification.data.known if live.together else (),
            )
        ]
    if as_json:
        typer.echo(json.dumps([str(path) for path in drawn]))
    else:
        typer.echo("\n".join(str(path) for path in drawn))


def _beside(specification: Path) -> Path:
    return specification.with_suffix(".db")


def _opened(specification: Path, state: Path | None, allow_code: bool) -> Any:
    """The agents of a file that exists."""
    from postgrad.errors import StoreError
    from postgrad.spec import load
    from postgrad.spec.spec_agents import Live

    spec, path = load(specification, allow_code=allow_code), state or _beside(specification)
    if not path.is_file():
        raise StoreError(f"there is no {path}: `postgrad run` makes it")
    return Live(spec, path)


def _chosen(live: Any, item: str | None, context: str | None) -> list[tuple[str, str | None]]:
    known = live.specification.data.known or ()
    return [
        (name, where)
        for name, where in live.streams()
        if item in (None, name) or (live.together and item in known)
        if context in (None, where)
    ]


def _none_found(found: list[Any], item: str | None, context: str | None) -> None:
    if not found:
        asked = ", ".join(repr(name) for name in (item, context) if name is not None)
        what = f"for {asked}" if asked else "yet"
        raise typer.BadParameter(f"there are no decisions {what}")


def _decided(live: Any, item: str, context: str | None) -> list[dict[str, Any]]:
    from postgrad.agent.record import interval

    agent = live.agent(item, context)
    info = agent.info
    ends = None
    if info is not None:
        ends = interval(agent.decision, info.outlook.epistemic, agent.problem.feasible)
    return [
        {
            "item": name,
            "context": context,
            "decision": number,
            "interval": pair,
            "stage": agent.stage,
            "alarms": len(agent.alarms),
        }
        for name, number, pair in live.spelled(item, agent.decision, ends)
    ]


def _heading(item: str, context: str | None) -> str:
    name = "all items together" if item == "*" else item
    return name if context is None else f"{name}, {context}"

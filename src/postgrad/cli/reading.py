"""Commands that read what was decided, without JAX where that can be: see `streams.told`."""

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
    plain_table,
    printable,
    say,
    standard_output,
)
from postgrad.cli.streams import Group, Item, StateFile, heading, named_streams, opened, told
from postgrad.records.explanation import in_plain_text

if TYPE_CHECKING:
    from postgrad.spec.reading.stored_streams import ToldStreams

app = typer.Typer()

# So many numbers of a batch are shown in a table.
_SHOWN = 6

_EXPORT_FILE = typer.Argument(help="Where to: .csv, .json, or .nc for ArviZ where it is installed.")
_SHARES = typer.Option(
    "--shares", help="Compute how much of the last move was learning, and how much search."
)
_ROWS = typer.Option(min=0, help="How many batches of each stream; 0 for all.")
_FROM = typer.Option("--from", min=1, help="The first stage to show; the latest, if not given.")


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
    with exit_codes(specification), told(specification, state, allow_code) as streams:
        found = [
            decided
            for stream in named_streams(streams, item, group)
            for decided in _decided(streams, *stream)
            if item in (None, decided["item"])
        ]
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    for decided in found:
        where = f" on {decided['group']}" if decided["group"] else ""
        ends = decided["interval"]
        between = (
            f"   (the best lies between {' and '.join(map(in_plain_text, ends))})" if ends else ""
        )
        say(f"{decided['item']}{where}: {in_plain_text(decided['decision'])}{between}")


@app.command(epilog=EXIT_CODES)
def history(
    specification: SpecFile,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    rows: Annotated[int, _ROWS] = 20,
    first: Annotated[int | None, _FROM] = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Print what was observed, decided and noticed, batch by batch, a page at a time."""
    with exit_codes(specification), told(specification, state, allow_code) as streams:
        from postgrad.spec.reading.history_lines import history_lines

        named = named_streams(streams, item, group)
        found = history_lines(streams, named, first=first, count=rows or None)
        lines = [line for line in found if item in (None, line["item"])]
        stages = max(streams.told(*stream).stage for stream in named)
    if as_json:
        typer.echo(json.dumps(lines, allow_nan=False))
        return
    if lines:
        _print_history(lines)
    else:
        say(f"There is nothing to show: there are {stages} stages.")
    shown = [line["stage"] for line in lines]
    if shown and (min(shown) > 1 or max(shown) < stages):
        say(f"Stages {min(shown)} to {max(shown)} of {stages}. Others: --from, --rows.")


@app.command(epilog=EXIT_CODES)
def explain(
    specification: SpecFile,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    shares: Annotated[bool, _SHARES] = False,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Say why the decisions are what they are, and what is uncertain about them."""
    with exit_codes(specification):
        if shares:
            with opened(specification, state, allow_code) as agents:
                named = named_streams(agents, item, group)
                explained = [(*one, agents.agent(*one).explain(shares=True)) for one in named]
        else:
            with told(specification, state, allow_code, last_move=True) as streams:
                named = named_streams(streams, item, group)
                explained = [(*stream, streams.told(*stream).explain()) for stream in named]
    if as_json:
        from postgrad.research.json_types import as_json_types

        lines = [
            {"item": name, "group": its_group, **as_json_types(explanation)}
            for name, its_group, explanation in explained
        ]
        typer.echo(json.dumps(lines, allow_nan=False))
        return
    for name, its_group, explanation in explained:
        say(f"{heading(name, its_group)}\n{explanation}\n")


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
    draws = out.suffix == ".nc"  # from the posterior, which only an agent has
    reader = opened if draws else told
    with exit_codes(specification), reader(specification, state, allow_code) as streams:
        from postgrad.spec.tables.export import write
        from postgrad.spec.tables.output_files import refuse_overwriting

        refuse_overwriting(out, [specification])
        count = write(streams, named_streams(streams, item, group), out)
    typer.echo(f"Wrote {count} {'posteriors' if draws else 'records'} to {out}")


def _decided(streams: "ToldStreams", item: str, group: str | None) -> list[dict[str, Any]]:
    stream = streams.told(item, group)
    so_far = {"stage": stream.stage, "alarms": len(stream.alarms)}
    return [
        {"item": name, "group": group, "decision": number, "interval": pair, **so_far}
        for name, number, pair in streams.by_item(item, stream.decision, stream.interval)
    ]


def _print_history(lines: list[dict[str, Any]]) -> None:
    """Print a table, and what each alarm in it says."""
    from rich.text import Text

    grouped = any(line["group"] for line in lines)
    names = ["group"] * grouped + ["stage", "id", "in force", "data", "decision", "between", ""]
    table = plain_table("item", "", names)
    for line in lines:
        low, high = line["low"], line["high"]
        between = "" if low is None else f"{in_plain_text(low)} and {in_plain_text(high)}"
        data = [in_plain_text(value) for value in line["data"]]
        seen = " ".join(data if len(data) <= _SHOWN else [*data[: _SHOWN - 1], "..."])
        noticed = [line["correction"]] * bool(line["correction"]) + ["alarm"] * bool(line["alarm"])
        cells = [str(line["stage"]), line["id"] or "", in_plain_text(line["in_force"]), seen]
        cells += [in_plain_text(line["decision"]), between, ", ".join(noticed)]
        names = [line["item"], *[line["group"] or ""] * grouped]
        # As `Text`, in which brackets are no markup.
        table.add_row(*(Text(printable(cell)) for cell in [*names, *cells]))
    standard_output().print(table)
    for line in lines:
        if line["alarm"]:
            say(f"{line['item']}, stage {line['stage']}: {line['alarm']}")

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
    from postgrad.spec.reading.stored_streams import ToldStream, ToldStreams
    from postgrad.spec.spec_agents import SpecAgents

app = typer.Typer()

# So many numbers of a batch are shown in a table.
_SHOWN = 6

_EXPORT_FILE = typer.Argument(help="Where to: .csv, .json, or .nc for ArviZ where it is installed.")
_SHARES = typer.Option(
    "--shares", help="Compute how much of the last move was learning, and how much search."
)
_DATE = typer.Option(help="Decide for this date, such as 2026-12-24; looks ahead to it.")
_CONTEXT = typer.Option(help="Decide for a value of a column, such as promo=1; may be repeated.")
_ROWS = typer.Option(min=0, help="How many batches of each stream; 0 for all.")
_FROM = typer.Option("--from", min=1, help="The first stage to show; the latest, if not given.")


@app.command(epilog=EXIT_CODES)
def decide(
    specification: SpecFile,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    date: Annotated[str | None, _DATE] = None,
    context: Annotated[list[str] | None, _CONTEXT] = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the decisions in force.

    With [context] in the specification these are the last ones that were issued; --date and
    --context compute the decision for another date or context. Nothing is stored.
    """
    with exit_codes(specification):
        if date is None and not context:
            with told(specification, state, allow_code) as streams:
                named = named_streams(streams, item, group)
                found = [one for stream in named for one in _decided(streams, *stream)]
        else:
            given = columns_given(context or [])
            with opened(specification, state, allow_code) as agents:
                from postgrad.spec.contexts.asking import streams_on

                split = agents.specification.split_by
                named = streams_on(date, split, named_streams(agents, item, group))
                found = [one for stream in named for one in _sought(agents, *stream, date, given)]
    found = [one for one in found if item in (None, one["item"])]
    if not found:
        instead = "rows without a demand ask `postgrad run` for one; or give --date or --context"
        raise typer.BadParameter(f"no decision has been issued yet: {instead}")
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    for decided in found:
        where = f" on {decided['group']}" if decided["group"] else ""
        where += f" for {decided['id']}" if decided.get("id") else ""
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
    """The decision in force; with contexts the last one issued, if there is one."""
    from postgrad.records.explanation import interval_of

    stream = streams.told(item, group)
    if not streams.in_contexts:
        return _lines(streams, stream, item, group, stream.decision, stream.interval, {})
    if (last := stream.last_issued()) is None:
        return []
    note = (last.context or {}).get("note") or {}
    more = {"id": last.id, "context": note.get("cells", {})}
    return _lines(streams, stream, item, group, last.decision, interval_of(last), more)


def _sought(
    agents: "SpecAgents", item: str, group: str | None, date: str | None, given: dict[str, str]
) -> list[dict[str, Any]]:
    """The decision for a date and a context."""
    found = agents.decide(item, group, date, given)
    more = {"id": date, "context": given}
    return _lines(
        agents, agents.told(item, group), item, group, found.decision, found.interval, more
    )


def _lines(
    streams: "ToldStreams",
    stream: "ToldStream",
    item: str,
    group: str | None,
    decision: Any,
    interval: Any,
    more: dict[str, Any],
) -> list[dict[str, Any]]:
    so_far = {"stage": stream.stage, "alarms": len(stream.alarms)}
    return [
        {"item": name, "group": group, "decision": number, "interval": pair, **more, **so_far}
        for name, number, pair in streams.by_item(item, decision, interval)
    ]


def columns_given(context: list[str]) -> dict[str, str]:
    """Values of columns from options such as promo=1."""
    parts = [text.partition("=") for text in context]
    if wrong := [
        text for text, (name, _, value) in zip(context, parts, strict=True) if not name or not value
    ]:
        raise typer.BadParameter(f"--context must be a name and a value, promo=1, got {wrong[0]!r}")
    return {name: value for name, _, value in parts}


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

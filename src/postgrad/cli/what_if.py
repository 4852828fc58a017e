"""The command `what-if`."""

import json
from typing import Annotated, Any

import typer

from postgrad.cli.output import EXIT_CODES, AllowCode, AsJson, SpecFile, exit_codes, say
from postgrad.cli.reading import columns_given
from postgrad.cli.streams import Group, Item, StateFile, heading, named_streams, opened

app = typer.Typer()

_DECISION = typer.Option(
    "--decision", "-d", help="A decision; for items that are decided together one for each."
)
_AGAINST = typer.Option("--against", help="Another decision, to compare with.")
_DATE = typer.Option("--date", help="For when, such as 2026-12-24.")
_CONTEXT = typer.Option(
    "--context", help="For a value of a column, such as promo=1; may be repeated."
)


@app.command("what-if", epilog=EXIT_CODES)
def what_if(
    specification: SpecFile,
    decision: Annotated[list[float], _DECISION],
    against: Annotated[list[float] | None, _AGAINST] = None,
    date: Annotated[str | None, _DATE] = None,
    context: Annotated[list[str] | None, _CONTEXT] = None,
    state: StateFile = None,
    item: Item = None,
    group: Group = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Say what a decision would cost and bring under what is believed; nothing is written."""
    with exit_codes(specification), opened(specification, state, allow_code) as agents:
        from postgrad.spec.contexts.asking import streams_on

        lines, texts, given = [], [], columns_given(context or [])
        split = agents.specification.split_by
        for name, its_group in streams_on(date, split, named_streams(agents, item, group)):
            agent = agents.agent(name, its_group)
            z, when = agents.occasion((name, its_group), date, given)
            x, other = (_shaped(each, agent.decision) for each in (decision, against))
            found = (
                agent.cost(x, z, date=when)
                if other is None
                else agent.compare(x, other, z, date=when)
            )
            texts.append(f"{heading(name, its_group)}\n{found}\n")
            lines.append((name, its_group, found))
        if as_json:
            from postgrad.research.json_types import as_json_types

            told = [{"item": n, "group": g, **as_json_types(found)} for n, g, found in lines]
            typer.echo(json.dumps(told, allow_nan=False))
            return
    for text in texts:
        say(text)


def _shaped(numbers: list[float] | None, like: Any) -> float | list[float] | None:
    """One number where the decision is one; all of them where it is several."""
    single = numbers is not None and len(numbers) == 1 and getattr(like, "ndim", 0) == 0
    return numbers[0] if numbers is not None and single else numbers

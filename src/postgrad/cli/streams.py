"""What commands about the streams of one specification share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from postgrad.spec.reading.stored_streams import ToldStreams
    from postgrad.spec.reading.stream_names import Stream
    from postgrad.spec.spec_agents import SpecAgents
    from postgrad.spec.specification import Specification

_STATE = typer.Option("--state", help="The file of decisions; next to the problem, if not given.")
StateFile = Annotated[Path | None, _STATE]
Item = Annotated[str | None, typer.Option(help="Only this item.")]
Group = Annotated[str | None, typer.Option(help="Only this group of split_by, such as Monday.")]
# How many names a message lists.
_MOST = 10


def state_file(specification: Path, state: Path | None) -> Path:
    """The file of decisions."""
    return state or specification.with_suffix(".db")


def opened(specification: Path, state: Path | None, allow_code: bool) -> "SpecAgents":
    """The agents of a file that must exist."""
    spec, path = _found(specification, state, allow_code)

    from postgrad.spec.spec_agents import SpecAgents

    return SpecAgents(spec, path)


@contextlib.contextmanager
def told(
    specification: Path, state: Path | None, allow_code: bool, *, last_move: bool = False
) -> Iterator["ToldStreams"]:
    """What is on record in a file that must exist, read without JAX if that can be."""
    spec, path = _found(specification, state, allow_code)

    from postgrad.spec.reading.stored_streams import stored_streams

    with stored_streams(spec, path, last_move=last_move) as found:
        if found is not None:
            yield found
            return
    with opened(specification, state, allow_code) as agents:
        yield agents


def _found(
    specification: Path, state: Path | None, allow_code: bool
) -> tuple["Specification", Path]:
    from postgrad.errors import StoreError
    from postgrad.spec import load

    spec, path = load(specification, allow_code=allow_code), state_file(specification, state)
    if not path.is_file():
        raise StoreError(f"there is no {path}: `postgrad run` makes it")
    return spec, path


def named_streams(agents: "ToldStreams", item: str | None, group: str | None) -> list["Stream"]:
    """The streams that the options name; wrong usage if there are none."""
    found = [
        (name, its_group)
        for name, its_group in agents.streams()
        if item in (None, name, *agents.together) and group in (None, its_group)
    ]
    if not found:
        asked = ", ".join(repr(name) for name in (item, group) if name is not None)
        known = list(dict.fromkeys(heading(*stream) for stream in agents.streams()))
        others = f"; there are for: {', '.join(known[:_MOST])}" if known else ""
        others += f" and {len(known) - _MOST} more" if len(known) > _MOST else ""
        what = f"for {asked}{others}" if asked else "yet"
        raise typer.BadParameter(f"there are no decisions {what}")
    return found


def heading(item: str, group: str | None) -> str:
    """The name of a stream for people."""
    name = "all items together" if item == "*" else item
    return name if group is None else f"{name}, {group}"

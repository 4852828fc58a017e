"""The command `bench newsvendors`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from postgrad.cli.output import (
    AsJson,
    check,
    plain_table,
    printable,
    progress,
    split,
    standard_output,
)

if TYPE_CHECKING:
    from postgrad.research.newsvendors.benchmark import Newsvendors

_YAZ = Path("examples") / "yaz.csv"
_YAZ_ITEMS = ["calamari", "fish", "shrimp", "chicken", "koefte", "lamb", "steak"]
_YAZ_DROP = 27

_FILE = typer.Argument(
    metavar="[FILE]",
    help="Daily demand: .csv, .jsonl, .ndjson or .parquet. If not given, the demand of a "
    "restaurant that comes with the repository (examples/yaz.csv), by the protocol of the "
    "published figures.",
)
_DATE = typer.Option(help="The column with the date.")
_ITEMS = typer.Option(help="The columns with demand, comma-separated, if each item has one.")
_VALUE = typer.Option(help="The column with demand, if there is one row for each day and item.")
_ITEM = typer.Option(help="The column with the name of the item, which goes with --value.")
_DROP = typer.Option(min=0, help="How many first rows of each item are left out.")
_TRAIN = typer.Option(help="The share of an item's rows that are for training.")
_LEVELS = typer.Option(help="Service levels, comma-separated.")
_ORIGINS = typer.Option(
    help="Also look ahead from these numbers of rows, comma-separated; as far as there are rows "
    "for tests."
)


def newsvendors(
    file: Annotated[Path | None, _FILE] = None,
    date: Annotated[str, _DATE] = "date",
    items: Annotated[list[str] | None, _ITEMS] = None,
    value: Annotated[str | None, _VALUE] = None,
    item: Annotated[str | None, _ITEM] = None,
    drop: Annotated[int | None, _DROP] = None,
    train: Annotated[float, _TRAIN] = 0.75,
    levels: Annotated[str, _LEVELS] = "0.1,0.25,0.5,0.75,0.9",
    origins: Annotated[list[str] | None, _ORIGINS] = None,
    as_json: AsJson = False,
) -> None:
    """Newsvendors with a calendar: postgrad, live and frozen, against others on the same rows.

    One untuned specification for all items and service levels p; a decision costs 10 p a unit that
    is short, and 10 (1 - p) a unit that is left.
    """
    from postgrad.research.newsvendors.benchmark import newsvendors as run
    from postgrad.research.newsvendors.protocol import Protocol, check_origins
    from postgrad.spec.newsvendors import read_demand

    columns = split(items)
    if file is None and (columns or value or item):
        raise typer.BadParameter("--items, --value and --item go with a FILE")
    if file is not None and bool(columns) == bool(value):
        raise typer.BadParameter("give either --items a,b,c or --value column")
    if item is not None and value is None:
        raise typer.BadParameter("--item goes with --value")
    if file is None:
        file, columns = _yaz(), _YAZ_ITEMS
        drop = _YAZ_DROP if drop is None else drop
    protocol: Any = check_made(
        lambda: Protocol(
            train, tuple(_numbers([levels], float)), tuple(_numbers(origins or [], int))
        )
    )
    with progress() as report:
        report(f"reading {file.name}", 0, 1)
        demands = read_demand(
            file, date=date, items=columns, value=value, item=item, drop=drop or 0
        )
        check(lambda: check_origins(demands, protocol))
        result = run(demands, protocol, report)
    if as_json:
        typer.echo(json.dumps(result.summary(), allow_nan=False))
    else:
        _print(result, file)


def check_made(make: Any) -> Any:
    """What a function makes; a `SettingError` is wrong usage."""
    made: list[Any] = []
    check(lambda: made.append(make()))
    return made[0]


def _numbers(texts: list[str], kind: type) -> list[Any]:
    try:
        return [kind(text) for text in split(texts)]
    except ValueError as error:
        whole = "whole numbers" if kind is int else "numbers"
        raise typer.BadParameter(f"must be {whole}, comma-separated: {error}") from error


def _yaz() -> Path:
    """The file in this folder, or in the clone of the repository that is running.

    Raises:
        BadParameter: If there is neither.
    """
    clone = Path(__file__).parents[3] / _YAZ
    found = next((path for path in (_YAZ, clone) if path.is_file()), None)
    if found is None:
        raise typer.BadParameter(
            f"there is no {_YAZ} here: run this in a clone of the repository, or give a FILE"
        )
    return found


def _print(result: "Newsvendors", file: Path) -> None:
    """Print the table, and one of look-aheads from several origins."""
    console = standard_output()
    levels = [f"{level:g}" for level in result.protocol.levels]
    count = f"{len(result.items)} items" if len(result.items) > 1 else result.items[0]
    (least, most), (fewest, mosts) = result.rows
    title = (
        f"{file.name}: {count}, {_range(least, most)} rows to train and {_range(fewest, mosts)} to "
        f"test; mean cost by service level"
    )
    table = plain_table("method", printable(title), ["", *levels, "sum"])
    for line in sorted(result.lines, key=lambda line: line.total):
        numbers = [f"{cost:.2f}" for cost in [*line.costs, line.total]]
        table.add_row(line.method, line.kind, *numbers)
    console.print(table)
    if result.origins:
        after = [f"after {origin}" for origin in result.protocol.origins]
        table = plain_table("frozen look-aheads", "Sums over service levels", [*after, "mean"])
        for name, sums in result.origins.items():
            table.add_row(name, *(f"{cost:.2f}" for cost in [*sums, sums.mean()]))
        console.print(table)
    typer.echo(f"postgrad took demand for {result.family}.")
    for kind in ("live", "frozen"):
        ratio = result.against_best(kind)
        if ratio is not None:
            shown = " ".join(f"{number:.3f}" for number in ratio)
            typer.echo(f"{kind} over the best published, by service level: {shown}")


def _range(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least} to {most}"

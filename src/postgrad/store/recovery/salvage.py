"""What is good in a damaged database: rows whose checksums hold, and chains of batches.

Rows are recognised by what they hold. So it does not matter in which order pages are, and whether
indices, inner pages or the list of tables are damaged.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from postgrad.store import schema
from postgrad.store.batch_rows import next_chain
from postgrad.store.changes.issue_rows import chain_start, next_issued
from postgrad.store.checksum import Field, digest
from postgrad.store.commit_marker import Mark
from postgrad.store.recovery.pages import Pages
from postgrad.store.recovery.records import Place, row_at, rows
from postgrad.store.stored_state import Batch, Event, Issue, StoredState, StreamHead


@dataclass(frozen=True)
class _Table:
    """A table: its columns, which of them is the key, and which are fractions.

    Rows that are older than the last columns lack these: so many, `added`.
    """

    name: str
    columns: tuple[str, ...]
    key: int | None
    fractions: tuple[int, ...]
    added: int

    def fits(self, values: list[Field]) -> bool:
        """Whether a row may be of the table: the key is not among the stored values."""
        return 0 <= len(self.columns) - len(values) <= self.added and all(
            (value is None) == (place == self.key) for place, value in enumerate(values[:1])
        )

    def whole(self, key: int, values: list[Field]) -> list[Field]:
        """The row as SQLite gives it: with its key, and whole numbers as fractions."""
        values = [*values, *[None] * (len(self.columns) - len(values))]
        values = [key if place == self.key else value for place, value in enumerate(values)]
        for place in self.fractions:
            if isinstance(values[place], int):
                values[place] = float(values[place])  # type: ignore[arg-type]
        return values


@dataclass(frozen=True)
class StreamPart:
    """What is good of a stream.

    Attributes:
        number: The number of the stream.
        name: The name; None if it is lost, and the settings with it.
        settings: The settings.
        places: Where the batches are, up to the first that is damaged.
        chains: The checksums of the batches, after that before the first.
        states: Good states up to the last of these batches, the last one last.
        stages: How many batches there were, as far as can be known.
        commits: How many commits are known of.
        missing: How many later commits were acknowledged of which nothing is left. A commit has
            at most one batch, or one issued decision, of a stream; one that went back has none.
        lost_ids: Ids of later batches that are good; None for those without an id.
        events: Good events, in the order in which they happened.
        lost_events: How many others there were, as far as can be known.
        issues: Where the issued decisions are that are good.
        lost_issues: How many others there were, as far as can be known.
    """

    number: int
    name: str | None
    settings: str
    places: tuple[Place, ...]
    chains: tuple[bytes, ...]
    states: tuple[StreamHead, ...]
    stages: int
    commits: int
    missing: int
    lost_ids: tuple[str | None, ...]
    events: tuple[Event, ...]
    lost_events: int
    issues: tuple[Place, ...]
    lost_issues: int


class _End(NamedTuple):
    """Where a stream ends: how many stages and commits, and the checksum of its batches."""

    stage: int
    commits: int
    chain: bytes


class Salvage:
    """What is good in the pages of a database.

    Attributes:
        identity: The identity of the store; None if it is lost.
        fixed: Headers and bytes of fixed arrays, by stream and stage.
        has_states: Whether any state of the present format is good.
    """

    def __init__(self, pages: Pages, marks: Mapping[int, Mark]):
        """Args: the pages, and what is marked of each stream."""
        self._pages, self._marks = pages, marks
        tables, self._batch_table, self._issue_table = _tables()
        self._places: dict[int, list[Place]] = defaultdict(list)
        self._issue_places: dict[int, list[Place]] = defaultdict(list)
        others = []
        for number in pages.numbers():
            for place, key, values in rows(pages, number):
                if self._batch_table.fits(values) and values[1] == key // schema.STAGES:
                    self._places[key].append(place)
                elif self._issue_table.fits(values) and values[1] == key // schema.STAGES:
                    self._issue_places[key].append(place)
                else:
                    others.append((key, values))
        found = [values[0] for _, values in others if _is_identity(values)]
        found += [mark.identity for mark in marks.values()]
        self.identity: bytes | None = found[0] if found else None  # type: ignore[assignment]
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for key, values in others:
            for table in tables:
                if table.fits(values):
                    *fields, checksum = table.whole(key, values)
                    if checksum == digest(self.identity, *fields):
                        named = dict(zip(table.columns, fields, strict=False))
                        self._rows[table.name].append(named)
        headers = {row["number"]: row["header"] for row in self._rows["array_headers"]}
        self.fixed = {
            (row["stream"], row["stage"]): (headers[row["header"]], row["arrays"])
            for row in self._rows["fixed_arrays"]
            if row["header"] in headers
        }
        self._heads = self._states("heads", headers)
        self._checkpoints = self._states("checkpoints", headers)
        self.has_states = bool(self._rows["heads"] or self._rows["checkpoints"])

    def streams(self) -> list[StreamPart]:
        """The good part of each stream that there was."""
        named = {row["stream"]: (row["name"], row["settings"]) for row in self._rows["streams"]}
        batches = {key // schema.STAGES for key in self._places}
        heads = {row["stream"] for row in self._rows["heads"]}
        issues = {key // schema.STAGES for key in self._issue_places}
        numbers = {*named, *heads, *self._marks, *batches, *issues}
        return [
            self._stream(number, *named.get(number, (None, "")))
            for number in range(1, max(numbers, default=0) + 1)
        ]

    def batch(self, place: Place) -> tuple[Batch, bytes]:
        """The batch at a place, and its checksum."""
        found = row_at(self._pages, place)
        assert found is not None  # it was read before
        _, _, *fields, chain, context = self._batch_table.whole(*found)
        return Batch(*(*fields, context)), chain  # type: ignore[arg-type, return-value]

    def issue(self, place: Place) -> tuple[Issue, bytes]:
        """The issued decision at a place, and its checksum."""
        found = row_at(self._pages, place)
        assert found is not None  # it was read before
        _, _, *fields, chain = self._issue_table.whole(*found)
        return Issue(*fields), chain  # type: ignore[arg-type, return-value]

    def _stream(self, number: int, name: str | None, settings: str) -> StreamPart:
        end, mark = self._end(number), self._marks.get(number)
        places, chains = self._chain(number, None if end is None else end.stage)
        kept = len(places)
        seen = [key % schema.STAGES for key in self._places if key // schema.STAGES == number]
        stages = max(seen, default=0) if end is None else end.stage
        lost = [
            batch.id
            for stage in sorted(seen)
            if kept < stage <= stages and (batch := self._following(number, stage)) is not None
        ]
        states = [
            state
            for state in [*self._checkpoints.get(number, []), *self._heads.get(number, [])]
            if state.saved.stage <= kept and state.chain == chains[state.saved.stage]
            and (state.saved.fixed_since == 0 or (number, state.saved.fixed_since) in self.fixed)
        ]  # fmt: skip
        states.sort(key=lambda state: (state.saved.stage, state.commits))
        events, count = self._events(number)
        issues, issued = self._issues(number)
        commits = 1 + stages + issued if end is None else end.commits
        return StreamPart(
            number=number,
            name=name,
            settings=settings,
            places=tuple(places),
            chains=tuple(chains),
            states=tuple(states),
            stages=stages,
            commits=commits,
            missing=0 if mark is None else self._missing(number, mark, commits, stages, issued),
            lost_ids=tuple(lost),
            events=events,
            lost_events=count - len(events),
            issues=issues,
            lost_issues=issued - len(issues),
        )

    def _missing(self, number: int, mark: Mark, commits: int, stages: int, issued: int) -> int:
        """How many commits are marked of which there are neither states, batches nor decisions."""
        head = self._latest(number)
        if head is not None and head["commits"] < mark.commits == commits:
            # The batches are all there; what was committed without a batch may not be.
            if stages < head["stage"]:
                return 0
            commits = head["commits"] + stages - head["stage"] + issued - head["issued"]
        return max(0, mark.commits - commits)

    def _latest(self, number: int) -> dict[str, Any] | None:
        """The latest state of a stream, if it is good."""
        found = [row for row in self._rows["heads"] if row["stream"] == number]
        return max(found, key=lambda row: row["commits"], default=None)

    def _issues(self, number: int) -> tuple[tuple[Place, ...], int]:
        """Where the good issued decisions of a stream are, in order, and how many there were.

        One that follows from the one before it is good, whatever that followed from.
        """
        head, mark = self._latest(number), self._marks.get(number)
        first = number * schema.STAGES
        last = known = 0 if head is None else head["issued"]
        if head is None or (mark is not None and mark.commits > head["commits"]):
            last = schema.STAGES - 1
        places, before = [], (first, [chain_start(self.identity, number)])
        keys = (key for key in self._issue_places if first < key <= first + last)
        for key in sorted(keys):
            found = [(place, *self.issue(place)) for place in self._issue_places[key]]
            chains = before[1] if before[0] == key - 1 else []
            for place, issue, chain in found:
                if any(chain == next_issued(one, key, issue) for one in chains):
                    places.append(place)
                    known = max(known, key - first)
                    break
            before = (key, [chain for _, _, chain in found])
        return tuple(places), known

    def _events(self, number: int) -> tuple[tuple[Event, ...], int]:
        """The good events of a stream, in order, and how many there were."""
        found = {
            row["place"] % schema.STAGES: Event(
                row["stage"], row["time"], row["kind"], row["content"]
            )
            for row in self._rows["events"]
            if row["place"] // schema.STAGES == number
        }
        heads = [row["events"] for row in self._rows["heads"] if row["stream"] == number]
        return tuple(found[key] for key in sorted(found)), max([*heads, *found, 0])

    def _end(self, number: int) -> _End | None:
        """Where a stream ended: at its latest state, or where its mark says; None if not known."""
        head = self._latest(number)
        end = None if head is None else _End(head["stage"], head["commits"], head["chain"])
        mark = self._marks.get(number)
        if mark is not None and mark.chain is not None and mark.identity == self.identity:
            stage = self._stage_of(number, mark.chain)
            if stage is not None and (end is None or mark.commits > end.commits):
                return _End(stage, mark.commits, mark.chain)
        return end

    def _chain(self, number: int, end: int | None) -> tuple[list[Place], list[bytes]]:
        """Places and checksums of the batches up to the first damaged one, or to the end."""
        places: list[Place] = []
        chains = [digest(self.identity, number)]
        first = number * schema.STAGES
        while end is None or len(places) < end:
            key = first + len(places) + 1
            for place in self._places.get(key, []):
                batch, chain = self.batch(place)
                if chain == next_chain(chains[-1], key, batch):
                    places.append(place)
                    chains.append(chain)
                    break
            else:
                break
        return places, chains

    def _following(self, number: int, stage: int) -> Batch | None:
        """The batch of a stage that follows from the one before it, whatever that followed from."""
        key = number * schema.STAGES + stage
        for place in self._places.get(key, []):
            batch, chain = self.batch(place)
            for before in self._places.get(key - 1, []):
                if chain == next_chain(self.batch(before)[1], key, batch):
                    return batch
        return None

    def _stage_of(self, number: int, chain: bytes | None) -> int | None:
        """The stage after which a stream has a checksum; None if it cannot be told."""
        if chain == digest(self.identity, number):
            return 0
        for key, places in self._places.items():
            if key // schema.STAGES == number and any(self.batch(p)[1] == chain for p in places):
                return key % schema.STAGES
        return None

    def _states(self, table: str, headers: Mapping[int, str]) -> dict[int, list[StreamHead]]:
        """The good states of each stream, in order, whose headers are good too."""
        found: dict[int, list[StreamHead]] = defaultdict(list)
        for row in self._rows[table]:
            if row["header"] in headers and row["report_header"] in headers:
                saved = StoredState(
                    stage=row["stage"],
                    header=headers[row["header"]],
                    state=row["state"],
                    report_header=headers[row["report_header"]],
                    report=row["report"],
                    counters=row["counters"],
                    fixed_since=row["fixed_since"],
                )
                if not saved.is_missing:
                    counts = (row["events"], row["issued"])
                    head = StreamHead(saved, row["commits"], row["chain"], *counts)
                    found[row["stream"]].append(head)
        for states in found.values():
            states.sort(key=lambda state: state.commits)
        return found


def _is_identity(row: list[Field]) -> bool:
    return len(row) == 2 and isinstance(row[0], bytes) and row[1] == digest(row[0])


def _tables() -> tuple[list[_Table], _Table, _Table]:
    """The tables whose rows have a checksum of their own, and those of batches and decisions."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in schema.TABLES.values():
            connection.execute(statement)
        tables = []
        for name, statement in schema.TABLES.items():
            if statement.startswith("CREATE TABLE"):
                columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
                key = next((number for number, *_, is_key in columns if is_key), None)
                fractions = tuple(number for number, _, kind, *_ in columns if kind == "REAL")
                names = tuple(column for _, column, *_ in columns)
                added = int(name == "batches")  # earlier formats had no contexts
                tables.append(_Table(name, names, key, fractions, added))
    finally:
        connection.close()
    named = {table.name: table for table in tables}
    chained = (named.pop("batches"), named.pop("decisions"))
    return [table for name, table in named.items() if name != "store"], *chained

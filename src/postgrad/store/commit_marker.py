"""The last commit of each stream, in a small file beside the database.

SQLite's log ends at its first damaged page: what follows is dropped without an error, as if it had
never been committed. A marker ahead of the database proves that acknowledged commits were lost. So
does one of as many commits that were others: then two have written that share no locks. The marker
is not forced to the disk: after a crash of the machine it may be behind, which does no harm.
"""

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from postgrad.store.checksum import SIZE, digest
from postgrad.store.stored_state import Commit, StreamHead

# Identity, stream, number of the commit, end of the chain, checksum. Earlier versions wrote no
# chain; their slots are as wide, and still read.
_SLOT = struct.Struct(f"<16sqq{SIZE}s{SIZE}s")
_WIDTH = _SLOT.size
_WITHOUT_CHAIN = struct.Struct(f"<16sqq{SIZE}s")


class Mark(NamedTuple):
    """What is marked of a stream.

    Attributes:
        identity: The identity of the store.
        commits: How many transactions have changed the stream.
        chain: The checksum of all batches so far; None if an earlier version wrote the mark.
    """

    identity: bytes
    commits: int
    chain: bytes | None

    def allows(self, head: StreamHead) -> bool:
        """Whether no commit is marked that a state has not seen."""
        same = self.chain is None or self.chain == head.chain
        return self.commits < head.commits or (self.commits == head.commits and same)


class CommitMarker:
    """The file `<database>-acknowledged`, with a slot for each stream.

    Attributes:
        path: The file.
    """

    def __init__(self, database: str):
        self.path = f"{database}-acknowledged"
        self._written: dict[bytes, Mark] = {}

    def read(self) -> dict[int, Mark]:
        """What is marked of each stream; damaged slots are left out."""
        try:
            data = Path(self.path).read_bytes()
        except FileNotFoundError:
            return {}
        marks = {}
        for stream, start in enumerate(range(0, len(data), _WIDTH), start=1):
            if (mark := _mark(data[start : start + _WIDTH], stream)) is not None:
                marks[stream] = mark
        return marks

    def is_ahead(self, identity: bytes, commits: Sequence[Commit]) -> str | None:
        """What is wrong if more is marked than was there before some commits; else None.

        The open transaction keeps out all writers that share its locks, and they mark a commit only
        once it is in the database. A marker that cannot be read tells nothing.
        """
        before = {commit.stream: commit.before for commit in reversed(commits)}
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            for stream, head in before.items():
                slot = os.pread(file, _WIDTH, _place(stream))
                mark = self._written.get(slot) or _mark(slot, stream)
                if mark is None or head is None:
                    continue
                if mark.identity != identity or not mark.allows(head):
                    return (
                        f"{self.path} tells of commits that the database has not: another writer, "
                        f"which shares no locks with this one, has written. Nothing of this batch "
                        f"counts. End the other writer, compare what each has in history(), and "
                        f"use one host and a local file system"
                    )
        except OSError:
            return None
        finally:
            os.close(file)
        return None

    def write(self, identity: bytes, commits: Iterable[Commit]) -> None:
        """Mark commits."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._written.clear()
        try:
            for stream, head in {commit.stream: commit.after for commit in commits}.items():
                fields = (identity, stream, head.commits, head.chain)
                slot = _SLOT.pack(*fields, digest(*fields))
                self._written[slot] = Mark(identity, head.commits, head.chain)
                os.pwrite(file, slot, _place(stream))
        finally:
            os.close(file)

    def clear(self) -> None:
        """Delete the file."""
        Path(self.path).unlink(missing_ok=True)


def _place(stream: int) -> int:
    return _WIDTH * (stream - 1)


def _mark(data: bytes, stream: int) -> Mark | None:
    """What a slot says about a stream; None if it is damaged."""
    for slot in (_SLOT, _WITHOUT_CHAIN):
        if len(data) >= slot.size:
            *fields, checksum = slot.unpack_from(data)
            identity, found, commits, *chain = fields
            if checksum == digest(*fields) and found == stream:
                return Mark(identity, commits, chain[0] if chain else None)
    return None

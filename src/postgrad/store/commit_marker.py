"""The last commit of each stream, in a small file beside the database.

SQLite's log ends at its first damaged page: what follows is dropped without an error, as if it had
never been committed. A marker ahead of the database proves that acknowledged commits were lost. So
does one of as many commits that were others: then two have written that share no locks. The marker
is not forced to the disk: after a crash of the machine it may be behind, which does no harm.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from postgrad.errors import StoreError
from postgrad.store.checksum import SIZE, digest
from postgrad.store.stored_state import Commit, StreamHead

# Identity, stream, number of the commit, end of the chain, checksum. Earlier versions wrote no
# chain; their slots are as wide, and still read.
_SLOT = struct.Struct(f"<16sqq{SIZE}s{SIZE}s")
_WIDTH = _SLOT.size
_WITHOUT_CHAIN = struct.Struct(f"<16sqq{SIZE}s")
# Links are not followed, and a pipe is not waited for; systems without such flags have none.
_CAREFULLY = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# What comes of a link, a pipe or socket, a folder.
_NO_PLAIN_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)


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
        """What is marked of each stream; damaged slots are left out.

        Raises:
            StoreError: If the file is no plain file: what a link leads to is not ours.
        """
        try:
            with self._opened(os.O_RDONLY) as number, open(number, "rb", closefd=False) as file:
                data = file.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            if error.errno not in _NO_PLAIN_FILE:
                raise
            what = f"{self.path} must be a plain file, and no link, pipe or device"
            raise StoreError(f"{what}; see what has put it there, and remove it") from error
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
        with suppress(OSError), self._opened(os.O_RDONLY) as file:
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
        return None

    def write(self, identity: bytes, commits: Iterable[Commit]) -> None:
        """Mark commits.

        Raises:
            OSError: If they cannot be written, or the file is no plain file.
        """
        self._written.clear()
        with self._opened(os.O_WRONLY | os.O_CREAT) as file:
            for stream, head in {commit.stream: commit.after for commit in commits}.items():
                fields = (identity, stream, head.commits, head.chain)
                slot = _SLOT.pack(*fields, digest(*fields))
                self._written[slot] = Mark(identity, head.commits, head.chain)
                os.pwrite(file, slot, _place(stream))

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        """The descriptor of the file, which is opened without following links, or waiting."""
        file = os.open(self.path, flags | _CAREFULLY, 0o644)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path)
            yield file
        finally:
            os.close(file)


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

"""The number of the last commit of each stream, in a small file beside the database.

SQLite's log ends at its first damaged page: what follows is dropped without an error, as if it had
never been committed. A marker ahead of the database proves that acknowledged commits were lost. The
marker is not forced to the disk: after a crash of the machine it may be behind, which does no harm.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from postgrad.errors import StoreError
from postgrad.store.checksum import SIZE, digest

_SLOT = struct.Struct(f"<16sqq{SIZE}s")
_WIDTH = 64
# Links are not followed, and a pipe is not waited for; systems without such flags have none.
_CAREFULLY = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# What comes of a link, a pipe or socket, a folder.
_NO_PLAIN_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)


class CommitMarker:
    """The file `<database>-acknowledged`, with a slot for each stream.

    Attributes:
        path: The file.
    """

    def __init__(self, database: str):
        self.path = f"{database}-acknowledged"

    def read(self) -> dict[int, tuple[bytes, int]]:
        """The store's identity and the last commit of each stream; damaged slots are left out.

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
        slots = {}
        for start in range(0, len(data) - _SLOT.size + 1, _WIDTH):
            identity, stream, commits, checksum = _SLOT.unpack_from(data, start)
            if checksum == digest(identity, stream, commits) and start == _WIDTH * (stream - 1):
                slots[stream] = (identity, commits)
        return slots

    def write(self, identity: bytes, commits: Mapping[int, int]) -> None:
        """Write the numbers of the last commits of some streams.

        Raises:
            OSError: If they cannot be written, or the file is no plain file.
        """
        with self._opened(os.O_WRONLY | os.O_CREAT) as file:
            for stream, number in commits.items():
                slot = _SLOT.pack(identity, stream, number, digest(identity, stream, number))
                os.pwrite(file, slot, _WIDTH * (stream - 1))

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

    def clear(self) -> None:
        """Delete the file."""
        Path(self.path).unlink(missing_ok=True)

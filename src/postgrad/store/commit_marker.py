"""The number of the last commit of each stream, in a small file beside the database.

SQLite's log ends at its first damaged page: what follows is dropped without an error, as if it had
never been committed. A marker ahead of the database proves that acknowledged commits were lost. The
marker is not forced to the disk: after a crash of the machine it may be behind, which does no harm.
"""

import os
import struct
from pathlib import Path

from postgrad.store.checksum import SIZE, digest

_SLOT = struct.Struct(f"<16sqq{SIZE}s")
_WIDTH = 64


class CommitMarker:
    """The file `<database>-acknowledged`, with a slot for each stream.

    Attributes:
        path: The file.
    """

    def __init__(self, database: str):
        self.path = f"{database}-acknowledged"
        self._file: int | None = None

    def read(self) -> dict[int, tuple[bytes, int]]:
        """The store's identity and the last commit of each stream; damaged slots are left out."""
        try:
            data = Path(self.path).read_bytes()
        except FileNotFoundError:
            return {}
        slots = {}
        for start in range(0, len(data) - _SLOT.size + 1, _WIDTH):
            identity, stream, commits, checksum = _SLOT.unpack_from(data, start)
            if checksum == digest(identity, stream, commits) and start == _WIDTH * (stream - 1):
                slots[stream] = (identity, commits)
        return slots

    def open(self) -> int:
        """Open the file for writing, if it is not open; returns its descriptor."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._file

    def write(self, identity: bytes, stream: int, commits: int) -> None:
        """Write the number of a stream's last commit."""
        slot = _SLOT.pack(identity, stream, commits, digest(identity, stream, commits))
        os.pwrite(self.open(), slot, _WIDTH * (stream - 1))

    def clear(self) -> None:
        """Delete the file."""
        self.close()
        Path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

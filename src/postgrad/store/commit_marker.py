"""The number of the last commit of each stream, in a small file beside the database.

SQLite's log ends at its first damaged page: what follows is dropped without an error, as if it had
never been committed. A marker ahead of the database proves that acknowledged commits were lost. The
marker is not forced to the disk: after a crash of the machine it may be behind, which does no harm.
"""

import os
import struct
from collections.abc import Mapping
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

    def write(self, identity: bytes, commits: Mapping[int, int]) -> None:
        """Write the numbers of the last commits of some streams."""
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            for stream, number in commits.items():
                slot = _SLOT.pack(identity, stream, number, digest(identity, stream, number))
                os.pwrite(file, slot, _WIDTH * (stream - 1))
        finally:
            os.close(file)

    def clear(self) -> None:
        """Delete the file."""
        Path(self.path).unlink(missing_ok=True)

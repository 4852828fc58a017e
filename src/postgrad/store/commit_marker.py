"""What was acknowledged, noted beside the database.

SQLite's log ends at its first damaged page: what comes after is dropped without a word, as if it
had never been committed. So after each commit its number goes into a small file of its own, one
slot for each stream. It is not forced to the disk: after a crash of the machine it may be behind,
which does no harm. A witness ahead of the database proves that something acknowledged was lost.
"""

import os
import struct
from pathlib import Path

from postgrad.store.checksum import SIZE, digest

_SLOT = struct.Struct(f"<16sqq{SIZE}s")
_WIDTH = 64


class Witness:
    """The file `<database>-acknowledged`. A slot that is damaged testifies nothing."""

    def __init__(self, database: str):
        self.path = f"{database}-acknowledged"
        self._file: int | None = None

    def read(self) -> dict[int, tuple[bytes, int]]:
        """The store's identity and the last commit, for each stream."""
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

    def open(self) -> None:
        """Opens the file for writing."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, identity: bytes, stream: int, commits: int) -> None:
        """Notes a commit."""
        self.open()
        assert self._file is not None
        slot = _SLOT.pack(identity, stream, commits, digest(identity, stream, commits))
        os.pwrite(self._file, slot, _WIDTH * (stream - 1))

    def clear(self) -> None:
        """Forgets everything, where the database that it told of is given up."""
        self.close()
        Path(self.path).unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

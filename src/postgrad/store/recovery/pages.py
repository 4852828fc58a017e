"""The pages of a damaged database, read without SQLite: it gives up where one page is damaged.

A page is taken from the log if the log has it, else from the database. The formats are those of
https://sqlite.org/fileformat2.html.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LOG_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_MAGIC = 0x377F0682  # of the log, if its checksums are of little-endian words; else one more
_SIZES = [1 << power for power in range(9, 17)]
_USUAL = 4096


class _Frame(NamedTuple):
    """A page in the log.

    Attributes:
        page: The number of the page.
        commits: Whether the frame ends a commit.
        data: The page.
        follows: Whether no frame before it is damaged.
    """

    page: int
    commits: bool
    data: bytes
    follows: bool


class Pages:
    """The pages of a database and its log.

    Attributes:
        size: The size of a page.
    """

    def __init__(self, database: Path, *, all_frames: bool):
        """Read both files.

        Args:
            database: The database.
            all_frames: Whether to take pages from the log behind damaged ones, too. SQLite does
                not, and commits that were broken off may be among them.
        """
        self._data = database.read_bytes() if database.exists() else b""
        log = Path(f"{database}-wal")
        logged = log.read_bytes() if log.exists() else b""
        self.size = _page_size(self._data, logged)
        frames = list(_frames(logged, self.size))
        if not all_frames:
            frames = [frame for frame in frames if frame.follows]
        last = max((i for i, frame in enumerate(frames) if frame.commits), default=-1)
        self._logged = {frame.page: frame.data for frame in frames[: last + 1]}

    def page(self, number: int) -> bytes:
        """A page; empty if there is none of that number."""
        if number in self._logged:
            return self._logged[number]
        data = self._data[(number - 1) * self.size : number * self.size] if number > 0 else b""
        return data.ljust(self.size, b"\0") if data else b""

    def numbers(self) -> Iterator[int]:
        """The numbers of all pages but those that are known to be free."""
        free = self._free()
        last = max(-(-len(self._data) // self.size), *self._logged, 0)
        return (number for number in range(1, last + 1) if number not in free)

    def _free(self) -> set[int]:
        """Pages that hold what was deleted, as far as the list of them can be read."""
        free: set[int] = set()
        trunk = int.from_bytes(self.page(1)[32:36], "big")
        while trunk and trunk not in free and (page := self.page(trunk)):
            following, count = struct.unpack_from(">2I", page)
            if count > self.size // 4 - 2:
                break
            free |= {trunk, *struct.unpack_from(f">{count}I", page, 8)}
            trunk = following
        return free


def _page_size(data: bytes, logged: bytes) -> int:
    """What the database says, or its log, if that can be."""
    stated = [int.from_bytes(data[16:18], "big"), int.from_bytes(logged[8:12], "big")]
    return next((1 << 16 if size == 1 else size for size in stated if size in (*_SIZES, 1)), _USUAL)


def _frames(logged: bytes, size: int) -> Iterator[_Frame]:
    """The frames of the log's last beginning that are not damaged themselves."""
    if len(logged) < _LOG_HEADER.size:
        return
    magic, *_, salt_1, salt_2, first, second = _LOG_HEADER.unpack_from(logged)
    words = "<" if magic == _MAGIC else ">"
    before, follows = (first, second), True
    if _checksum((0, 0), logged[:24], words) != before:
        return
    width = _FRAME_HEADER.size + size
    for start in range(_LOG_HEADER.size, len(logged) - width + 1, width):
        page, length, one, two, *stored = _FRAME_HEADER.unpack_from(logged, start)
        if (one, two) != (salt_1, salt_2):  # left from before the log began anew
            return
        data = logged[start + _FRAME_HEADER.size : start + width]
        whole = _checksum(before, logged[start : start + 8] + data, words) == tuple(stored)
        follows = follows and whole
        if whole:
            yield _Frame(page, length > 0, data, follows)
        before = (stored[0], stored[1])


def _checksum(before: tuple[int, int], data: bytes, words: str) -> tuple[int, int]:
    """SQLite's checksum of some bytes after the checksum of those before them."""
    first, second = before
    numbers = iter(struct.unpack(f"{words}{len(data) // 4}I", data))
    for one, two in zip(numbers, numbers, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second

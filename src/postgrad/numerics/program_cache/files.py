"""Compiled programs as files. Several processes may use the same folder.

A file is written under another name and then renamed, so that nobody reads half of it, and begins
with a checksum. A file that is damaged is removed and reads as if it were not there; so does all
that cannot be read, and what cannot be written is not kept.
"""

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from pathlib import Path

# The endings of files, and of those that are being written.
_KEPT, _NEW = ".program", ".new"
_CHECKSUM = 16
# Once the files take more than the limit, those that were not used for longest are removed until
# they take this share of it.
_SHARE = 0.8
# How old, in seconds, the note of a file's last use may be, and a file that is being written.
_USED, _ABANDONED = 3600.0, 3600.0


class ProgramFiles:
    """The programs of one folder; the limit is that of all folders beside it too."""

    def __init__(self, folder: Path, limit: int):
        """Args: the folder, and how many bytes the files of all folders beside it may take."""
        self.folder, self._limit = folder, limit
        self._taken: int | None = None  # by all files, as of when this process last counted
        self._given: set[str] = set()
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The program of a key; None if there is none, or it is damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            checksum, program = content[:_CHECKSUM], content[_CHECKSUM:]
            if checksum != _digest(program):
                path.unlink()
                return None
            if time.time() - path.stat().st_mtime > _USED:
                os.utime(path)
        except OSError:
            return None
        self._given.add(key)
        return program

    def put(self, key: str, program: bytes) -> None:
        """Keep a program. One that is there stays, unless it was given and is of no use."""
        path = self._path(key)
        with contextlib.suppress(OSError):
            if path.exists() and key not in self._given:
                return
            number, name = tempfile.mkstemp(_NEW, dir=self.folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(_digest(program) + program)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
            self._count(_CHECKSUM + len(program))

    def _path(self, key: str) -> Path:
        # JAX's keys begin with the name of a function, which may be long.
        return self.folder / f"{hashlib.blake2b(key.encode(), digest_size=20).hexdigest()}{_KEPT}"

    def _count(self, added: int) -> None:
        """Count what was added, and make room if it is too much."""
        with self._lock:
            if self._taken is not None and self._taken + added <= self._limit:
                self._taken += added
                return
            files = sorted(_files(self.folder.parent))
            taken = sum(size for _, size, _ in files)
            room = self._limit if taken <= self._limit else int(_SHARE * self._limit)
            for last_used, size, path in files:
                abandoned = path.suffix == _NEW and time.time() - last_used > _ABANDONED
                if abandoned or (taken > room and path.suffix == _KEPT):
                    with contextlib.suppress(OSError):  # another process was faster
                        path.unlink()
                    taken -= size
            self._taken = taken


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """When each file was last used, its size and its path."""
    found = []
    for path in folder.glob("*/*"):
        if path.suffix in (_KEPT, _NEW):
            with contextlib.suppress(OSError):  # another process has removed it
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    return found


def _digest(program: bytes) -> bytes:
    return hashlib.blake2b(program, digest_size=_CHECKSUM).digest()

"""Whether a database is still the file that was opened, and has one name only.

SQLite's locks belong to a file and the log to a name. Under another name (a hard link) there is
another log. A process that opens and closes its own database by other means, such as to copy it,
loses its locks: then others may delete the log that it goes on writing to. In both cases batches
that were acknowledged would be lost without a word.
"""

import os

_LINKED = (
    "the file has another name (a hard link), and who writes under that name has another log; "
    "remove the other name, or copy the file instead"
)
_REPLACED = (
    "{name} was moved, deleted or replaced while it was open (a process that copies its own "
    "database loses its locks, and then others may do so). What is written now would be lost: "
    "open the file anew, and deliver again, with the same id, what was not acknowledged"
)


def hard_linked(path: str) -> str | None:
    """What is wrong if a file has several names; None if nothing is, or there is no file."""
    try:
        return _LINKED if os.stat(path).st_nlink > 1 else None
    except FileNotFoundError:
        return None


class OpenedFile:
    """The file of a database and its log, as they are when this is made."""

    def __init__(self, path: str):
        """Args: the file, which must be open already."""
        self._names = (path, f"{path}-wal")
        self._opened = [_inode(os.stat(name)) for name in self._names]

    def wrong(self) -> str | None:
        """What is wrong if the files are not those that were opened; None if they are."""
        for name, opened in zip(self._names, self._opened, strict=True):
            try:
                found = os.stat(name)
            except FileNotFoundError:
                return _REPLACED.format(name=name)
            if _inode(found) != opened:
                return _REPLACED.format(name=name)
            if found.st_nlink > 1:
                return _LINKED
        return None


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino

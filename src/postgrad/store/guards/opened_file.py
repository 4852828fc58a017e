"""Whether a database is still the file that was opened, and has one name only.

SQLite's locks belong to a file, its log to a name. Under another name (a hard link) there is
another log. A process that opens and closes its own database by other means, such as to copy it,
loses its locks: then others may delete the log that it goes on writing to. In both cases batches
that were acknowledged would be lost without a word.
"""

import os
import stat
import weakref

_NO_FILE = "it must be a plain file, and is a folder, a pipe or a device; choose another path"
_LINKED = (
    "the file has another name (a hard link), and who writes under that name has another log; "
    "remove the other name, or copy the file instead"
)
_REPLACED = (
    "{name} was moved, deleted or replaced while it was open (a process that copies its own "
    "database loses its locks, and then others may do so). What is written now would be lost: "
    "close it, open the file anew, and deliver again, with the same id, what was not acknowledged"
)


def wrong_before_opening(path: str) -> str | None:
    """What is wrong with a file that is to be opened; None if nothing is, or there is no file.

    SQLite shares what it knows of a file within a process: so an agent of this process that has it
    open must not be one whose log is gone.
    """
    for other in list(_all):
        if other.names[0] == path and (wrong := other.wrong()) is not None:
            return wrong
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return _NO_FILE
    return _LINKED if found.st_nlink > 1 else None


class OpenedFile:
    """The file of a database and its log, if it has one, as they are when this is made.

    Attributes:
        names: Their names.
    """

    def __init__(self, path: str):
        """Args: the file, which is open, and from which something was read."""
        log = f"{path}-wal"
        self.names = (path, log) if os.path.exists(log) else (path,)
        self._opened = [_inode(os.stat(name)) for name in self.names]
        _all.add(self)

    def wrong(self) -> str | None:
        """What is wrong if the files are not those that were opened; None if they are."""
        for name, opened in zip(self.names, self._opened, strict=True):
            try:
                found = os.stat(name)
            except FileNotFoundError:
                return _REPLACED.format(name=name)
            if _inode(found) != opened:
                return _REPLACED.format(name=name)
            if found.st_nlink > 1:
                return _LINKED
        return None


_all: "weakref.WeakSet[OpenedFile]" = weakref.WeakSet()


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def is_open_here(path: str) -> bool:
    """Whether a database of this process has a file open."""
    return any(other.names[0] == path for other in list(_all))

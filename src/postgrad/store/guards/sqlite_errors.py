"""What errors of SQLite and of the system mean for a store, and what to do about them."""

import sqlite3

# What to do about damage. Both commands keep what they replace.
WAY_OUT = "restore a backup with `postgrad store restore`, or run `postgrad store recover`"

_ADVICE = {
    "SQLITE_BUSY": "another process has kept it locked for {patience:g} s; try again, or end it",
    "SQLITE_LOCKED": "another process keeps it locked; try again, or end it",
    "SQLITE_FULL": "the disk is full; nothing of this batch counts: make room and observe it again",
    "SQLITE_READONLY": "it cannot be written to; check the permissions of file and folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and may be written to",
    "SQLITE_NOTADB": f"it is no SQLite database, or its first bytes are damaged; {WAY_OUT}",
    "SQLITE_CORRUPT": f"it is damaged; {WAY_OUT}",
    "SQLITE_IOERR": "the disk failed or is full; nothing of this batch counts: observe it again",
}

# What comes of values of other types, lengths or depths than those that are written.
NEVER_WRITTEN = (
    ArithmeticError, AttributeError, LookupError,
    RecursionError, SyntaxError, TypeError, ValueError,
)  # fmt: skip


def code(error: BaseException) -> str:
    """The name of SQLite's error, without what details it; empty for other errors."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


def advice(error: BaseException, patience: float) -> str | None:
    """What an error says about a file, and what to do; None if it is not about the file.

    Args:
        error: The error.
        patience: How long another process was waited for, in seconds.
    """
    if isinstance(error, sqlite3.Error):
        text = _ADVICE.get(code(error), "SQLite failed; restore a backup if it fails again")
        return f"{text.format(patience=patience)} ({error})"
    if isinstance(error, UnicodeDecodeError):  # damaged text, quoted in SQLite's own message
        return _ADVICE["SQLITE_CORRUPT"]
    if isinstance(error, OSError):
        return f"{error}; check the disk and the folder"
    return None


def doubt(error: BaseException, without_id: bool) -> str:
    """What is known after a commit that failed, and what to do.

    Args:
        error: What the commit failed with.
        without_id: Whether a batch of the commit has no id.
    """
    text = (
        f"the disk failed or is full, and the commit was broken off ({error}). What it wrote may "
        f"count or not: make sure of the disk, and deliver it again with the same id"
    )
    if without_id:
        text += (
            ". A batch without an id is among it, which may count twice if it is delivered again: "
            "see first whether history() has it"
        )
    return text


STILL_IN_DOUBT = (
    "the disk failed at a commit, and again when what that left in the log was to be overwritten. "
    "The last batches may count or not: make sure of the disk, reopen the file, and deliver them "
    "again with the same ids"
)

"""Files that are written: never over what they were made from, and with text that stays text."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from postgrad.errors import SettingError


def refuse_overwriting(out: Path, inputs: Iterable[Path]) -> None:
    """Check that a file to be written is none of those that are read, by whatever name or link.

    Raises:
        SettingError: If it is.
    """
    for path in inputs:
        with contextlib.suppress(OSError):  # one of the two is not there
            if out.samefile(path):
                raise SettingError(f"{out} is the same file as {path}, and would be overwritten")


def text_cell(value: Any) -> Any:
    """A cell of a CSV file that spreadsheets do not take for a formula.

    Text that begins like one gets an apostrophe in front; numbers stay as they are.
    """
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value

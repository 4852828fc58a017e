"""Progress as lines of a log, where standard error is no terminal."""

import contextlib
import threading
import time
from types import TracebackType
from typing import Self

import typer

# A line at least this often, also while a program is compiled and nothing else is to be said.
_EVERY_S = 8.0


class ProgressLog:
    """A line for each new label, and every few seconds one that says how far that step is.

    Lines are also written while nothing is reported, from a thread of their own: compiling takes
    seconds, and a silent program looks like one that hangs.
    """

    def __init__(self, every: float = _EVERY_S):
        self._every, self._ended, self._lock = every, threading.Event(), threading.Lock()
        self._label, self._done, self._total = "starting", 0, 0
        self._start = self._last = time.monotonic()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def report(self, label: str, done: int, total: int) -> None:
        """What is being done, and how much of everything is done."""
        with self._lock:
            new = label != self._label
            self._label, self._done, self._total = label, done, total
            if new:
                self._say(label)

    def _repeat(self) -> None:
        while not self._ended.wait(self._every / 8):
            with self._lock, contextlib.suppress(OSError):  # whoever reads the log has ended
                if time.monotonic() - self._last >= self._every:
                    share = f"{self._done / self._total:.0%} of all, " if self._total else ""
                    seconds = time.monotonic() - self._start
                    self._say(f"{self._label} ({share}{seconds:.0f} s)")

    def _say(self, line: str) -> None:
        self._last = time.monotonic()
        typer.echo(line, err=True)

"""How long computations report how far they are: one form of callback for all of them."""

from collections.abc import Callable
from typing import Any

# Called with what is being run, and the run-stages done and to do.
Progress = Callable[[str, int, int], None]


def silent(label: str, done: int, total: int) -> None:
    """Reports nothing."""
    del label, done, total


class RunStages:
    """Run-stages counted over several simulations in a row, and reported as one total.

    Attributes:
        progress: Who is told.
        total: The run-stages of all simulations together.
        done: Those of the simulations that have ended.
    """

    def __init__(self, progress: Progress, total: int):
        self.progress, self.total, self.done = progress, total, 0

    def tell(self, label: str) -> None:
        """Reports what is being done, and nothing more as done."""
        self.progress(label, self.done, self.total)

    def simulating(self, label: str) -> Callable[..., None]:
        """The argument `progress` of the next simulation."""
        self.tell(label)
        before = self.done

        def tell(*call: Any) -> None:
            # SHIM until `simulate` calls progress(label, done, total): its run-stages since last.
            self.done = before + call[1] if len(call) == 3 else self.done + call[0]
            self.tell(label)

        return tell

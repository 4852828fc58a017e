"""A lock for threads and for the tasks of asyncio.

Tasks of one thread take turns wherever they await. To a lock of threads they are one holder: what a
task observes would join the transaction that another has open, and be undone with it.
"""

import sys
import threading
from contextlib import AbstractContextManager
from typing import Any

from postgrad.errors import StoreError

# Between two looks, in seconds, at whether the holder is a task that awaits.
_LOOK_S = 0.1

_MIXED = (
    "another task of asyncio has a transaction open and awaits something, and this would become "
    "part of it; nothing of this counts. Hold no transaction across an await, and call agents in "
    "threads: await asyncio.to_thread(agent.observe, batch, id=...)"
)


class TaskLock(AbstractContextManager["TaskLock"]):
    """Held by one thread at a time, and in it by one task; who holds it may take it again.

    Threads wait for each other. A task cannot wait for another of its thread, and a thread not for
    a task that awaits, perhaps that very thread: these are refused.

    Attributes:
        threads: The lock of threads below it.
    """

    def __init__(self) -> None:
        self.threads = threading.RLock()
        self._depth = self._turn = 0
        self._task: Any = None

    def __enter__(self) -> "TaskLock":
        """Take the lock.

        Raises:
            StoreError: If another task holds it, and awaits something.
        """
        task = _current_task()
        while not self.threads.acquire(timeout=_LOOK_S):
            if self._holder_awaits():
                raise StoreError(_MIXED)
        if self._depth and self._task is not task:
            self.threads.release()
            raise StoreError(_MIXED)
        self._depth += 1
        if self._depth == 1:
            self._task, self._turn = task, self._turn + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._task = None
        self.threads.release()

    def _holder_awaits(self) -> bool:
        task, turn = self._task, self._turn
        awaits = task is not None and _current_task(task.get_loop()) is not task
        return awaits and (task, turn) == (self._task, self._turn)


def _current_task(loop: Any = None) -> Any:
    """The task that runs in this thread, or in a loop; None if none does."""
    asyncio = sys.modules.get("asyncio")  # who has tasks has imported it
    if asyncio is None:
        return None
    try:
        return asyncio.current_task(loop)
    except RuntimeError:  # no loop runs here
        return None

"""How busy a machine is with what is not ours, since seconds on the clock need idle cores."""

import os
import resource
import time
from pathlib import Path


class OtherWork:
    """Watches the machine from here on."""

    def __init__(self) -> None:
        self._clock, self._all, self._ours = time.perf_counter(), _all(), _ours()

    def cores(self) -> float:
        """How many cores others have kept busy so far, on the mean; NaN where that is not told.

        What the machine's owner took from it counts too. Children count once they have ended.
        """
        seconds = time.perf_counter() - self._clock
        return (_all() - self._all - (_ours() - self._ours)) / seconds


def _all() -> float:
    """Processor seconds of everybody since the machine was started."""
    try:
        words = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    except OSError:
        return float("nan")
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _ours() -> float:
    """Those of this process and of its children that have ended."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)

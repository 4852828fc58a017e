"""Simulations side by side: one compiles its program, on one core, while another runs."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from postgrad.research.progress import RunStages

_WORKERS = 2

T = TypeVar("T")


def side_by_side(
    jobs: Mapping[str, Callable[[], T]], counter: RunStages
) -> Iterator[tuple[str, T]]:
    """Does all jobs, two at a time, and gives the name and the result of each when it is done.

    Args:
        jobs: Functions by name.
        counter: What the jobs report to; if one fails, or on an interrupt, it stops the others.
    """

    def done(job: Callable[[], T]) -> T:
        try:
            return job()
        finally:
            counter.end()

    with ThreadPoolExecutor(_WORKERS) as pool:
        running = {pool.submit(done, job): name for name, job in jobs.items()}
        try:
            for result in as_completed(running):
                yield running[result], result.result()
        except BaseException:
            counter.stop()
            raise

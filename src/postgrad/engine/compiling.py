"""How XLA compiles programs of one stream and of many, on a processor.

*One stream, and simulations of a search.* XLA's newer way to emit code takes up to twice as long as
its older one, and the code is no faster for it where draws are computed once
(`numerics.draw_barrier`).
Backtests keep the newer one: the other rounds differently, and totals change in the fourth digit.

*Few numbers.* To learn from a batch takes less than a millisecond where the belief has few numbers.
Not optimised at all it takes up to twice as long, which a search hides, and a third of the time to
compile.

*All.* XLA hands sums to a library (YNNPACK) that writes down what is summed before it sums it, and
so reads and writes all draws several times. Without it searches take 0.6 times as long. More
optimisation than the least makes no program faster, and takes a sixth more time.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from postgrad.numerics.program_cache.compiler_options import (
    FEW_PARTS,
    LEVEL,
    SOON,
    SUMS_AT_ONCE,
    SUMS_IN_PLACE,
    known,
)

_IN_PLACE = (SUMS_IN_PLACE, SUMS_AT_ONCE)
_SOON = (*_IN_PLACE, SOON, FEW_PARTS)
# A belief and a batch with so many numbers are small.
_SMALL = 8192
# Objects that are made where a program is traced; a stage makes fewer than a hundred.
_TRACED = 10_000


def compiled_soon(function: Callable[..., Any]) -> Any:
    """`jax.jit` for streams, to be used once arrays exist: it asks which device computes."""
    return jax.jit(function, compiler_options=known(*_SOON, (LEVEL, 1)))


class CompiledBySize:
    """The same, and not optimised at all for arguments that have few numbers.

    Attributes:
        of_few: The program for these.
        of_many: The program for others.
    """

    def __init__(self, function: Callable[..., Any]):
        few = known(*_SOON, (LEVEL, 0))
        self.of_few = jax.jit(function, compiler_options=few)
        self.of_many = compiled_soon(function)

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns."""
        size = sum(np.size(leaf) for leaf in jax.tree.leaves(arguments))
        return (self.of_few if size <= _SMALL else self.of_many)(*arguments)


def compiled_for_many(function: Callable[..., Any]) -> Any:
    """The same by the newer code generator, for stages of one draw in many runs of a simulation.

    On the paper's quadratics 10,000 runs take .8 of the time that the older one's code takes; 100
    runs take longer.
    """
    return jax.jit(function, compiler_options=known(*_IN_PLACE, FEW_PARTS, (LEVEL, 1)))


def compiled_for_grids(function: Callable[..., Any]) -> Any:
    """The same as XLA does by itself, if beliefs are large grids: the library sums their weights.

    On the paper's newsvendors, with two million points, stages of one draw take .75 to .95 of the
    processor time, compiling included. Elsewhere they take up to three times as long.
    """
    return jax.jit(function, compiler_options=known((LEVEL, 1)))


def compiled_well(function: Callable[..., Any]) -> Any:
    """The same by the newer code generator, for backtests."""
    return jax.jit(function, compiler_options=known(SUMS_IN_PLACE, (LEVEL, 1)))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """A block that may trace programs: Python looks for no cycles among what tracing makes.

    That would take a tenth of the time of a first decision, some of it right after the block. What
    tracing makes lives as long as the program, so it is counted among what is old already.
    """
    collects = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        # What somebody has frozen would be thawed as well. Counting that takes a look at all of it,
        # and so is not for every stage.
        if gc.get_count()[0] - before > _TRACED and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if collects:
            gc.enable()

"""How many draws each gradient averages over, and the descent that suits as many."""

import math

from postgrad.algorithm.descents.descent import Descent
from postgrad.algorithm.descents.newton import Newton
from postgrad.algorithm.descents.search.search import Search
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count

# With fewer draws a stage does not compare places, and takes every step.
_FEW = 32


def usual_descent(samples: int | tuple[int, int] | None) -> Descent:
    """A search, if there are draws enough to compare places by them."""
    total = math.prod(samples) if isinstance(samples, tuple) else samples
    return Newton() if isinstance(total, int) and total < _FEW else Search()


def sample_sizes(samples: int | tuple[int, int] | None, descent: Descent) -> tuple[int, int]:
    """How many thetas, and how many draws of xi for each."""
    if samples is None:
        return descent.usual_samples
    if isinstance(samples, tuple) and len(samples) == 2:
        thetas, draws = (as_count(count, SettingError, "samples") for count in samples)
        if draws > 1 and not descent.fixes_draws:
            raise SettingError(f"samples must be one number for steps of this kind, got {samples}")
        return thetas, draws
    count = as_count(samples, SettingError, "samples")
    usual = descent.usual_samples[0]
    if descent.fixes_draws and 1 < usual < count and count % usual == 0:
        return usual, count // usual
    return count, 1

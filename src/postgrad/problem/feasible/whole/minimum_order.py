"""Nothing, or at least so much."""

import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.validate import as_array, is_concrete
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Values
from postgrad.problem.feasible.whole.whole_set import WholeSet


class MinimumOrder(WholeSet):
    """X = {x in set : x_i = 0 or x_i >= least_i, for each entry i}.

    `MinimumOrder(Lots(Box(0.0, 500.0), 6), 10)` is 0, 12, 18, ..., 498. Zero is left out where the
    set leaves it out.

    Args:
        set: A `Box`, a `Budget`, a `Product` of these, or `Integers` or `Lots` of such a set, that
            has no negative numbers.
        least: The minimum order, a number or an array that broadcasts to x; 0 for none.

    Raises:
        FeasibleSetError: On other sets, on a minimum or a lower bound that is negative, and if
            some entry has no value between its bounds.
    """

    least: Float[Array, "..."]

    def __init__(self, set: FeasibleSet, least: npt.ArrayLike):  # noqa: A002
        self.set = set
        self.least = as_array(least, FeasibleSetError, "least")
        if is_concrete(self.least) and not np.all(np.asarray(self.least) >= 0):
            raise FeasibleSetError(f"least must not be negative, got {np.min(self.least)}")
        self._check(f"zero, or numbers of at least {least!r},")
        low = self.set.bounds()[0]
        if is_concrete(low) and np.any(np.asarray(low) < 0):
            raise FeasibleSetError(
                f"with a minimum order no entry may be negative, got the lower bound {np.min(low)}"
            )

    def values(self) -> Values:
        """Those of the set, without what lies between zero and the minimum."""
        values = self.set.values() or Values.any_within(*self.set.bounds())
        return values._replace(least=self.least)

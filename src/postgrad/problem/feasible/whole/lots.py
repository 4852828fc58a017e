"""Multiples of a lot size."""

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.validate import as_array, is_concrete
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Values
from postgrad.problem.feasible.whole.whole_set import WholeSet


class Lots(WholeSet):
    """X = {x in set : x_i is a multiple of size_i, for each entry i}.

    `Lots(Box(0.0, 500.0), 6)` is 0, 6, 12, ..., 498: multiples are counted from zero.

    Args:
        set: A `Box`, a `Budget`, `Reals`, a `Product` of these, or a `MinimumOrder`.
        size: The lot size, a positive number or an array that broadcasts to x.

    Raises:
        FeasibleSetError: On other sets, on sizes that are not positive, and if some entry has no
            multiple between its bounds.
    """

    size: Float[Array, "..."]

    def __init__(self, set: FeasibleSet, size: npt.ArrayLike):  # noqa: A002
        self.set = set
        self.size = as_array(size, FeasibleSetError, "size")
        if is_concrete(self.size) and not np.all(np.asarray(self.size) > 0):
            raise FeasibleSetError(f"size must be positive, got {np.min(self.size)}")
        self._check(f"multiples of {size!r}")

    def values(self) -> Values:
        """Multiples of the size."""
        return multiples(self.set, self.size)


def multiples(set: FeasibleSet, size: Float[Array, "..."]) -> Values:  # noqa: A002
    """The values of a set that are multiples of a lot size.

    Raises:
        FeasibleSetError: If the set has lot sizes of its own.
    """
    values = set.values() or Values.any_within(*set.bounds())
    if is_concrete(values.step) and np.any(np.asarray(values.step) > 0):
        raise FeasibleSetError(
            f"entries must have one lot size each, got another one for {set!r}; give the lot size "
            f"that is a multiple of both"
        )
    shape = jnp.broadcast_shapes(size.shape, values.low.shape, values.high.shape)
    return values._replace(step=jnp.broadcast_to(size, shape), all_lots=True)

"""What sets of whole numbers, lots and minimum orders have in common."""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import is_concrete
from postgrad.problem.feasible.box import as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Line, Values, fits


class WholeSet(FeasibleSet):
    """The points of a set whose entries have certain values alone, such as whole numbers.

    Proj_X(x) rounds: the relaxation's projection of x, each entry to the value that is nearest;
    where entries share a budget, downwards first, and then those upwards that are nearest to the
    value above, as long as the budget lasts.

    Attributes:
        set: The set, of which `Box`, `Reals`, `Budget` and products of these will do.
    """

    set: FeasibleSet

    @abc.abstractmethod
    def values(self) -> Values:
        """Which values entries may take."""

    def _check(self, text: str) -> None:
        """Refuse a set that has no such points, or cannot say.

        Args:
            text: What points these are.
        """
        if not isinstance(self.set, FeasibleSet):
            raise FeasibleSetError(f"{text} must be taken of a feasible set, got {self.set!r}")
        if self.set.relaxation.within(*self.set.relaxation.bounds()) is None:
            raise FeasibleSetError(
                f"{text} can be taken of a Box, Reals, a Budget or a Product of these, got "
                f"{self.set!r}"
            )
        values = self.values()
        if is_concrete(*values[:4]) and np.any(none := np.asarray(values.none())):
            low, high = (np.broadcast_to(side, none.shape)[none][0] for side in values[:2])
            raise FeasibleSetError(
                f"{text} must exist between the bounds of each entry, got none from {low} to {high}"
            )
        _ = self.relaxation  # a budget that does not buy the least values is refused

    @property
    def relaxation(self) -> FeasibleSet:
        """The set itself, its bounds rounded inwards to values that entries may take."""
        smaller = self.set.relaxation.within(*self.values().ends())
        assert smaller is not None  # the constructor has tried
        return smaller

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """The projection onto the relaxation, rounded."""
        near = self.relaxation.project(x, metric)
        flat = jnp.ravel(near)
        line = self.values().spread(flat.size).line(flat)
        found = line.value(rounded(line, flat, *self.budgets(flat.size)))
        return jnp.where(line.whole, found, flat).reshape(near.shape).astype(near.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The same values of the set with these entries given."""
        return replaced(self, set=self.set.with_given(mask, values))

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """That of the relaxation, or how far an entry is from the nearest value."""
        outside = self.relaxation.violation(x)
        flat = jnp.ravel(as_decision(x, ()))
        line = self.values().spread(flat.size).line(flat)
        position = line.position(flat)
        between = jnp.minimum(
            jnp.abs(flat - line.value(jnp.floor(position))),
            jnp.abs(flat - line.value(jnp.ceil(position))),
        )
        return jnp.maximum(outside, jnp.max(jnp.where(line.whole, between, 0.0)))

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The bounds of the set, rounded inwards to values that entries may take."""
        values, (low, high) = self.values(), self.relaxation.bounds()
        return values._replace(low=low, high=high).ends()

    def budgets(self, size: int) -> tuple[Float[Array, "b {size}"], Float[Array, " b"]]:
        """Those of the set."""
        return self.set.budgets(size)


def rounded(
    line: Line,
    x: Float[Array, " d"],
    weights: Float[Array, "b d"],
    totals: Float[Array, " b"],
) -> Float[Array, " d"]:
    """Positions near a point of the relaxation, at values that keep all budgets.

    Args:
        line: The values.
        x: The point.
        weights: What a unit of each entry costs, row by row.
        totals: The budgets.
    """
    place = line.position(x)
    below = jnp.floor(place)
    share = place - below
    up: Bool[Array, " d"] = share > 0.5
    if weights.shape[0] == 0:
        return below + up
    order = jnp.argsort(-share)

    def raised(i: Array, positions: Array) -> Array:
        more = positions.at[order[i]].add(up[order[i]])
        value = jnp.where(line.whole, line.value(more), x)
        return jnp.where(fits(value, weights, totals), more, positions)

    return jax.lax.fori_loop(0, x.size, raised, below)

"""Several sets side by side, each with its own entries of the decision."""

import itertools
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count
from postgrad.problem.feasible.box import as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Values, joined


class Product(FeasibleSet):
    """X = X_1 x X_2 x ...: the first sizes[0] entries of x in X_1, the next sizes[1] in X_2, ...

    Proj_X(x) = (Proj_{X_1}(x_1), Proj_{X_2}(x_2), ...), since |z - x|^2 is a sum over the blocks.

    `Product((Simplex(), Box(0.0, 5.0)), (3, 1))` is three shares and a level.

    Args:
        sets: X_1, X_2, ...
        sizes: How many entries of the vector x each has.

    Raises:
        FeasibleSetError: If a set is not a `FeasibleSet`, a size is not a positive whole number,
            there is no set, or there is not one size for each set.
    """

    sets: tuple[FeasibleSet, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, sets: Sequence[FeasibleSet], sizes: Sequence[int]):
        self.sets = tuple(sets)
        self.sizes = tuple(as_count(size, FeasibleSetError, "a size") for size in sizes)
        for each in self.sets:
            if not isinstance(each, FeasibleSet):
                raise FeasibleSetError(f"sets must be feasible sets, got {each!r}")
        if len(self.sets) != len(self.sizes) or not self.sets:
            raise FeasibleSetError(
                f"there must be one size for each set, got {len(self.sets)} sets and "
                f"{len(self.sizes)} sizes"
            )

    def project(
        self, x: Float[Array, " d"], metric: Float[Array, " d"] | None = None
    ) -> Float[Array, " d"]:
        """Block by block, each with its entries of the metric."""
        if metric is None:
            return jnp.concatenate([each.project(block) for each, block in self._blocks(x)])
        pairs = zip(self._blocks(x), self._blocks(metric), strict=True)
        return jnp.concatenate([each.project(block, part) for (each, block), (_, part) in pairs])

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """Block by block."""
        from postgrad.problem.fixed import given  # made of this room

        ends = list(itertools.accumulate(self.sizes))[:-1]
        parts = zip(self.sets, np.split(mask, ends), np.split(values, ends), strict=True)
        return replaced(self, sets=tuple(given(*part) for part in parts))

    def violation(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """The largest violation of a block."""
        return jnp.max(jnp.stack([each.violation(block) for each, block in self._blocks(x)]))

    def bounds(self) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """The bounds of the blocks, one after the other."""
        pairs = [
            [jnp.broadcast_to(side, size) for side in each.bounds()]
            for each, size in zip(self.sets, self.sizes, strict=True)
        ]
        low, high = (jnp.concatenate(sides) for sides in zip(*pairs, strict=True))
        return low, high

    @property
    def relaxation(self) -> FeasibleSet:
        """The product of the blocks' relaxations."""
        if self.values() is None:
            return self
        return replaced(self, sets=tuple(each.relaxation for each in self.sets))

    def values(self) -> Values | None:
        """Those of the blocks; any within the bounds for a block that is convex."""
        each = [block.values() for block in self.sets]
        if all(values is None for values in each):
            return None
        return joined(
            (values or Values.any_within(*block.bounds())).spread(size)
            for values, block, size in zip(each, self.sets, self.sizes, strict=True)
        )

    def budgets(self, size: int) -> tuple[Float[Array, "b {size}"], Float[Array, " b"]]:
        """Those of the blocks, each for its own entries."""
        weights, totals, start = [], [], 0
        for block, count in zip(self.sets, self.sizes, strict=True):
            rows, total = block.budgets(count)
            weights.append(jnp.pad(rows, ((0, 0), (start, size - start - count))))
            totals.append(total)
            start += count
        return jnp.concatenate(weights), jnp.concatenate(totals)

    def within(self, low: Float[Array, "..."], high: Float[Array, "..."]) -> "Product | None":
        """Block by block."""
        low, high = (jnp.broadcast_to(side, sum(self.sizes)) for side in (low, high))
        pairs = zip(self._blocks(low), self._blocks(high), strict=True)
        sets = [block.within(below, above) for (block, below), (_, above) in pairs]
        smaller = tuple(each for each in sets if each is not None)
        return Product(smaller, self.sizes) if len(smaller) == len(sets) else None

    def _blocks(self, x: Float[Array, " d"]) -> Iterator[tuple[FeasibleSet, Float[Array, " k"]]]:
        """Each set with its entries of x."""
        x = as_decision(x, (sum(self.sizes),), exact=True)
        ends = list(itertools.accumulate(self.sizes))[:-1]
        return zip(self.sets, jnp.split(x, ends), strict=True)

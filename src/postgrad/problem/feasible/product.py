"""Several sets side by side, each with its own entries of the decision."""

import itertools
from collections.abc import Iterator, Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.validate import as_count
from postgrad.problem.feasible.box import as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet


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

    def _blocks(self, x: Float[Array, " d"]) -> Iterator[tuple[FeasibleSet, Float[Array, " k"]]]:
        """Each set with its entries of x."""
        x = as_decision(x, (sum(self.sizes),), exact=True)
        ends = list(itertools.accumulate(self.sizes))[:-1]
        return zip(self.sets, jnp.split(x, ends), strict=True)

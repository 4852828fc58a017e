"""Shares of a whole."""

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.validate import as_positive, on_device
from postgrad.problem.feasible.box import as_decision, as_metric
from postgrad.problem.feasible.budget import priced_twice
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Simplex(FeasibleSet):
    """X = {x : x >= 0, sum(x) = total}.

    Proj_X(x) = max(x - tau, 0), with tau such that the entries sum to total; in a metric,
    max(x - tau / metric, 0).

    Args:
        total: What the entries sum to, a positive number.

    Raises:
        FeasibleSetError: On a total that is not positive and finite.
    """

    total: Float[Array, ""]

    def __init__(self, total: npt.ArrayLike = 1.0):
        self.total = as_positive(total, FeasibleSetError, "total")

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """max(x - tau / metric, 0)."""
        from optax.projections import projection_simplex  # slow to import, and few sets need it

        x = as_decision(x, ())
        if metric is not None:  # a budget that must be spent, of which no entry gets more than all
            one, pull = jnp.ones(x.size), 1.0 / jnp.ravel(as_metric(metric, x))
            sides = jnp.zeros(x.size), self.total * one
            p = priced_twice(jnp.ravel(x), one, pull, *sides, self.total, equal=True)
            return p.reshape(x.shape).astype(x.dtype)
        # A common shift changes only tau, and entries more than `total` below the largest end at
        # zero wherever they start. So y holds numbers of the size of `total`, and the sum is exact
        # to rounding however far away x is.
        y = jnp.clip(x - jnp.max(x), -self.total, 0.0)
        return projection_simplex(y, self.total).astype(x.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The shares in which these entries have no width."""
        from postgrad.problem.fixed import ExactSum  # made of this room

        low, high = (
            on_device(np.where(mask, values, side)) for side in (0.0, np.asarray(self.total))
        )
        return ExactSum(low, high, self.total)

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest of -x and |sum(x) - total|."""
        x = as_decision(x, ())
        return jnp.maximum(jnp.max(-x), jnp.abs(jnp.sum(x) - self.total))

    def bounds(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(0, total); an x of one entry is always `total`."""
        return jnp.zeros(()), self.total

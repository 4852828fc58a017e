"""Everything: no constraint at all."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from postgrad.problem.feasible.box import Box, as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Reals(FeasibleSet):
    """X = R^n, for any n.

    Proj_X(x) = x
    """

    separates: ClassVar[bool] = True

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """x itself, in every metric."""
        return as_decision(x, ())

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """Everything: other entries are free."""
        del mask, values
        return self

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """Zero; NaN if an entry of x is not finite, so that a diverged x is not called feasible."""
        return jnp.where(jnp.all(jnp.isfinite(x)), 0.0, jnp.nan)

    def bounds(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(-inf, inf)."""
        return jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)

    def within(self, low: Float[Array, "..."], high: Float[Array, "..."]) -> Box:
        """A box."""
        return Box(low, high)

"""Everything: no constraint at all."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.problem.feasible.box import as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Reals(FeasibleSet):
    """X = R^n, for any n.

    Proj_X(x) = x
    """

    def project(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """What was given."""
        return as_decision(x, ())

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """Zero; NaN where x is no real number, so that a diverged x does not pass for feasible."""
        return jnp.where(jnp.all(jnp.isfinite(x)), 0.0, jnp.nan)

    def bounds(self) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(-inf, inf)."""
        return jnp.asarray(-jnp.inf), jnp.asarray(jnp.inf)

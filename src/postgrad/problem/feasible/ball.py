"""All points within a distance of a centre."""

import jax.numpy as jnp
import numpy.typing as npt
from jaxtyping import Array, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.validate import as_array, as_positive
from postgrad.problem.feasible.box import as_decision
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Ball(FeasibleSet):
    """X = {x : |x - center| <= radius}, in the Euclidean norm over all entries of x.

    Proj_X(x) = center + (x - center) * min(1, radius / |x - center|)

    Args:
        center: A number or an array that broadcasts to x.
        radius: A positive number.

    Raises:
        FeasibleSetError: On numbers that are not finite and on a radius that is not positive.
    """

    center: Float[Array, "..."]
    radius: Float[Array, ""]

    def __init__(self, center: npt.ArrayLike, radius: npt.ArrayLike):
        self.center = as_array(center, FeasibleSetError, "center")
        self.radius = as_positive(radius, FeasibleSetError, "radius")

    def project(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Along the straight line to the centre."""
        # Not optax's projection_l2_ball: it squares |x|, which sends 1e200 to the centre, and it
        # moves points inside the ball by a rounding error.
        x = as_decision(x, self.center.shape)
        distance = _norm(x - self.center)
        nearest = self.center + (x - self.center) * (self.radius / distance)
        return jnp.where(distance <= self.radius, x, nearest).astype(x.dtype)

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """|x - center| - radius, or zero."""
        x = as_decision(x, self.center.shape)
        return jnp.maximum(_norm(x - self.center) - self.radius, 0.0)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """center - radius and center + radius."""
        return self.center - self.radius, self.center + self.radius


def _norm(y: Float[Array, "..."]) -> Float[Array, ""]:
    """|y|, without overflow for entries whose square is beyond float64."""
    largest = jnp.max(jnp.abs(y), initial=0.0)
    unit = jnp.where(largest == 0, 1.0, largest)
    return unit * jnp.sqrt(jnp.sum((y / unit) ** 2))

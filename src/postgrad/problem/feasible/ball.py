"""All points within a distance of a centre."""

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, as_positive, on_device
from postgrad.problem.feasible.box import as_decision, as_metric
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Ball(FeasibleSet):
    """X = {x : |x - center| <= radius}, in the Euclidean norm over all entries of x.

    Proj_X(x) = center + (x - center) * min(1, radius / |x - center|)

    In a metric m it is center + (x - center) m / (m + mu), entry by entry, with the mu >= 0 that
    puts it onto the sphere.

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

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """Along the straight line to the centre; in a metric, along a curve to the centre."""
        # Not optax's projection_l2_ball: it squares |x|, which sends 1e200 to the centre, and it
        # moves points inside the ball by a rounding error.
        x = as_decision(x, self.center.shape)
        distance = length = _norm(arm := x - self.center)
        edge = self.radius
        if metric is not None:
            # A point that is outside by rounding stays: another entry would make up for it, and
            # might have to move a long way.
            edge = edge + 8.0 * jnp.finfo(x.dtype).eps * (edge + jnp.max(jnp.abs(self.center)))
            arm = _bent(arm / distance, as_metric(metric, x), self.radius / distance)
            length = _norm(arm)
        nearest = self.center + arm * (self.radius / length)
        return jnp.where(distance <= edge, x, nearest).astype(x.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The ball of the other entries, whose radius is sqrt(radius^2 - |v - center|^2)."""
        center = np.broadcast_to(np.asarray(self.center), mask.shape)
        off = np.sum(np.square(np.where(mask, values - center, 0.0)))
        left = np.sqrt(np.maximum(np.square(np.asarray(self.radius)) - off, 0.0))
        about = on_device(np.where(mask, values, center))
        return replaced(self, center=about, radius=on_device(left))

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """|x - center| - radius, or zero."""
        x = as_decision(x, self.center.shape)
        return jnp.maximum(_norm(x - self.center) - self.radius, 0.0)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """center - radius and center + radius."""
        return self.center - self.radius, self.center + self.radius


def _bent(
    y: Float[Array, "..."], m: Float[Array, "..."], radius: Float[Array, ""]
) -> Float[Array, "..."]:
    """A multiple of s = y m / (m + mu), with mu such that |s| = radius, for |y| = 1 > radius.

    1 / |s| grows with mu, and is concave (by Cauchy and Schwarz). So Newton's method for
    1 / |s| = 1 / radius stays below the solution if it starts there, and from within a few per
    cent of it it doubles the digits with every step: the error is at most 3/2 its square. Bisection
    of log(mu) leads there from far away.
    """
    radius = jnp.clip(radius, 1e-200, 1.0)  # with less, mu is so large that it does not matter
    # No entry is divided by less than 1 + mu / max(m), nor by more than 1 + mu / min(m).
    ratio = jnp.maximum(1.0 / radius - 1.0, 1e-17)

    def over(mu: Array) -> tuple[Array, Array]:
        """|s| / radius - 1, and the derivative of its logarithm's negative."""
        s = y * (m / (m + mu))
        length = _norm(s)
        return length / radius - 1.0, jnp.sum((s / length) ** 2 / (m + mu))

    def closer(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        excess, slope = over(low)
        low = jnp.clip(low + excess / slope, low, high)
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        above = over(middle)[0] > 0
        return jnp.where(above, middle, low), jnp.where(above, high, middle)

    mu, _ = jax.lax.fori_loop(0, 16, closer, (jnp.min(m) * ratio, jnp.max(m) * ratio))
    return y * (m / (m + mu))


def _norm(y: Float[Array, "..."]) -> Float[Array, ""]:
    """|y|, without overflow for entries whose square is beyond float64."""
    largest = jnp.max(jnp.abs(y), initial=0.0)
    unit = jnp.where(largest == 0, 1.0, largest)
    return unit * jnp.sqrt(jnp.sum((y / unit) ** 2))

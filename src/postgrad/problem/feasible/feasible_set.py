"""The contract of a feasible set."""

import abc
from typing import ClassVar

from jaxtyping import Array, Float

from postgrad.numerics.module import Module


class FeasibleSet(Module):
    """Where decisions may lie: a closed convex set X.

    Laws, checked for every final class of this room: the projection is feasible, idempotent,
    non-expansive, and equals the solution of the quadratic programme min_z |z - x|^2, z in X; it
    lies within the bounds, and each finite bound is attained. In a metric m it is feasible and
    idempotent as well, and equals the solution of min_z sum_i m_i (z_i - x_i)^2, z in X; so it does
    not depend on the units of x, if m is in the same units: with x_i in units of s_i, and m_i
    times s_i^2, it is the same point.

    Attributes:
        separates: Whether each entry of x may be chosen on its own.
    """

    separates: ClassVar[bool] = False

    @abc.abstractmethod
    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """Proj_X(x): the point z of X with the least sum_i metric_i (z_i - x_i)^2.

        Args:
            x: Any point.
            metric: Positive numbers in the shape of x, of which only the ratios matter, and those
                up to 1e30. None counts all entries alike: the Euclidean norm.
        """

    @abc.abstractmethod
    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """How far x is from satisfying the constraints: zero inside, the largest excess outside."""

    @abc.abstractmethod
    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The least and the largest value of each entry of x in X; -inf or inf where unbounded.

        Two arrays that broadcast to the shape of x.
        """

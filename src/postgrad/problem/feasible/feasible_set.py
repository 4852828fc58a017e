"""The contract of a feasible set."""

import abc

from jaxtyping import Array, Float

from postgrad.numerics.module import Module


class FeasibleSet(Module):
    """Where decisions may lie: a closed convex set X.

    Laws, checked for every final class of this room: the projection is feasible, idempotent,
    non-expansive, and equals the solution of the quadratic programme min_z |z - x|^2, z in X; it
    lies within the bounds, and each finite bound is attained.
    """

    @abc.abstractmethod
    def project(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Proj_X(x): the point of X nearest to x in the Euclidean norm, in the shape of x."""

    @abc.abstractmethod
    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """How far x is from satisfying the constraints: zero inside, the largest excess outside."""

    @abc.abstractmethod
    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The least and the largest value of each entry of x in X; -inf or inf where unbounded.

        Two arrays that broadcast to the shape of x.
        """

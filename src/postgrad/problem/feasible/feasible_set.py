"""The contract of a feasible set."""

import abc

import equinox as eqx
from jaxtyping import Array, Float


class FeasibleSet(eqx.Module):
    """Where decisions may lie: a closed convex set X.

    Laws, checked for every final class of this room: the projection is feasible, idempotent,
    non-expansive, and equals the solution of the quadratic programme min_z |z - x|^2, z in X.
    """

    @abc.abstractmethod
    def project(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Proj_X(x): the point of X nearest to x in the Euclidean norm, in the shape of x."""

    @abc.abstractmethod
    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """How far x is from satisfying the constraints: zero inside, the largest excess outside."""

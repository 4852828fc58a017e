"""The contract of a feasible set."""

import abc
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from postgrad.numerics.module import Module
from postgrad.numerics.validate import on_device
from postgrad.problem.feasible.whole.values import Values


class FeasibleSet(Module):
    """Where decisions may lie: a closed set X.

    X is convex, unless entries of x are whole numbers or the like: then `relaxation` is a convex
    set around it, in which descents work, and `values` says which values entries may take. The
    projection onto such an X leads to a point of X near x: it is feasible and idempotent, and the
    nearest one where entries share nothing, but not non-expansive. Convex sets state neither.

    Laws of convex sets, checked for every final class of this room: the projection is feasible,
    idempotent, non-expansive, and equals the solution of the quadratic programme min_z |z - x|^2,
    z in X; it lies within the bounds, and each finite bound is attained. In a metric m it is
    feasible and idempotent as well, and equals the solution of min_z sum_i m_i (z_i - x_i)^2,
    z in X; so it does not depend on the units of x, if m is in the same units: with x_i in units of
    s_i, and m_i times s_i^2, it is the same point.

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

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> "FeasibleSet":
        """A set R such that Proj_R(x), for x_i = v_i, is the nearest point of X that has these v_i.

        Of entries that are given, what Proj_R says does not matter. By Dykstra's algorithm, unless
        a set knows better.

        Args:
            mask: Which entries are given, in the shape of x.
            values: v, in the shape of x.
        """
        from postgrad.problem.fixed import ByTurns  # of which this class is the base

        return ByTurns(self, on_device(mask), on_device(values))

    @property
    def relaxation(self) -> "FeasibleSet":
        """A convex set around X; X itself where it is convex."""
        return self

    def values(self) -> Values | None:
        """Which values entries of x may take; None where X is convex."""
        return None

    def budgets(self, size: int) -> tuple[Float[Array, "b {size}"], Float[Array, " b"]]:
        """Weights and totals of what entries share: rows of sum_i weights_i x_i <= total.

        Args:
            size: How many entries x has.
        """
        return jnp.zeros((0, size)), jnp.zeros(0)

    def within(self, low: Float[Array, "..."], high: Float[Array, "..."]) -> "FeasibleSet | None":
        """The points of X with low <= x <= high, tighter bounds than those of X.

        None where `bounds` and `budgets` do not say all about X: such a set has no whole numbers.
        """
        del low, high
        return None

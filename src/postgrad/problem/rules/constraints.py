"""What planners ask of decisions: service levels, and how far a decision may move at once."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from postgrad.errors import SettingError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_array, as_number
from postgrad.problem.outcomes import Outcomes
from postgrad.problem.own_identity import of_itself

# A decision that has moved by less, relative to its size, has stayed.
_STAYED = 1e-12


class AtMost(Module):
    """E[outcome] <= limit, over theta and xi, for each decision: "short on at most 5 % of days".

    Attributes:
        outcome: The name of the outcome; see `Problem.outcomes`.
        limit: The limit: a chance, where the outcome is an event.
    """

    outcome: str = eqx.field(static=True)
    limit: Float[Array, ""]

    def __init__(self, outcome: str, limit: npt.ArrayLike):
        self.outcome, self.limit = outcome, as_number(limit, SettingError, "limit")

    def excess(self, expected: Any) -> Any:
        """E[outcome] - limit."""
        return expected - np.asarray(self.limit)

    def in_words(self) -> str:
        """`E[short] <= 0.05`."""
        return f"E[{self.outcome}] <= {float(self.limit):g}"


class AtLeast(Module):
    """E[outcome] >= limit, over theta and xi, for each decision: "98 % of demand is served".

    Attributes:
        outcome: The name of the outcome; see `Problem.outcomes`.
        limit: The limit: a chance, where the outcome is an event.
    """

    outcome: str = eqx.field(static=True)
    limit: Float[Array, ""]

    def __init__(self, outcome: str, limit: npt.ArrayLike):
        self.outcome, self.limit = outcome, as_number(limit, SettingError, "limit")

    def excess(self, expected: Any) -> Any:
        """limit - E[outcome]."""
        return np.asarray(self.limit) - expected

    def in_words(self) -> str:
        """`E[fill] >= 0.98`."""
        return f"E[{self.outcome}] >= {float(self.limit):g}"


class Change(Module):
    """What it costs to leave the previous decision, and how far a decision may move at once.

    Attributes:
        cost: What a unit of change costs, a number or one for each entry; or a function of (x,
            previous). It is paid on top of the cost, by the decision that moves.
        least: Each entry stays, or moves by at least so much.
        most: Each entry moves by at most so much.
    """

    cost: Any
    least: Float[Array, "..."]
    most: Float[Array, "..."]

    def __init__(self, cost: Any = 0.0, least: npt.ArrayLike = 0.0, most: npt.ArrayLike = np.inf):
        """See the attributes.

        Raises:
            SettingError: On negative numbers, and if least exceeds most.
        """
        self.cost = of_itself(cost) if callable(cost) else as_array(cost, SettingError, "cost")
        self.least = as_array(least, SettingError, "least")
        self.most = as_array(most, SettingError, "most", infinite=np.inf)
        for name in ("cost", "least", "most"):
            value = getattr(self, name)
            if not callable(value) and np.any(np.asarray(value) < 0.0):
                raise SettingError(f"{name} must not be negative, got {np.asarray(value)}")
        if np.any(np.asarray(self.least) > np.asarray(self.most)):
            raise SettingError(f"least must not exceed most, got {self.least} > {self.most}")

    def price(self, x: Float[Array, "..."], previous: Float[Array, "..."]) -> Float[Array, ""]:
        """What it costs to go from the previous decision to x."""
        if callable(self.cost):
            return jnp.asarray(self.cost(x, previous), float)
        return jnp.sum(self.cost * jnp.abs(x - previous))

    def excess(self, x: np.ndarray, previous: np.ndarray) -> float:
        """By how much x is nearer to the previous decision than allowed, or farther; or zero."""
        moved = np.abs(x - previous)
        off = np.maximum(np.asarray(self.least) - moved, moved - np.asarray(self.most))
        # The ends themselves are allowed, however they are rounded.
        rounding = _STAYED * (1.0 + np.abs(previous) + np.abs(x))
        return float(np.max(np.where((moved <= rounding) | (off <= rounding), 0.0, off)))


Constraints = tuple[AtMost | AtLeast, ...]


def as_constraints(constraints: Any) -> Constraints:
    """Constraints, one or several, as a tuple.

    Raises:
        SettingError: If they are none.
    """
    given = (constraints,) if isinstance(constraints, AtMost | AtLeast) else constraints
    if not isinstance(given, list | tuple) or not all(
        isinstance(each, AtMost | AtLeast) for each in given
    ):
        raise SettingError(
            f'constraints must be a list such as [AtMost("short", 0.05)], got {constraints!r}'
        )
    return tuple(given)


def check_rules(constraints: Any, change: Any, outcomes: Outcomes) -> None:
    """Raises: SettingError, if a constraint names no outcome, or `change` is none."""
    for each in constraints:
        if each.outcome not in outcomes.names:
            known = ", ".join(map(repr, outcomes.names)) or "none"
            raise SettingError(f"{each} names no outcome of the problem; there are: {known}")
    if not isinstance(change, Change | None):
        raise SettingError(f"change must be one such as Change(cost=2.0), got {change!r}")

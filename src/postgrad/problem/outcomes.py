"""Named outcomes: what planners ask about besides the cost, such as "short" or "fill"."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.errors import CostError, SettingError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.module import Module
from postgrad.problem.contexts import in_context
from postgrad.problem.own_identity import of_itself

Outcome = Callable[..., Any]


class Outcomes(Module):
    """Functions of (x, xi), or of (x, xi, z), by their names.

    Their expectations under what is believed are told, explained and constrained. A function whose
    values are true or false is an event, and its expectation a chance.

    Attributes:
        names: The names.
        functions: The functions, in the order of the names.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    functions: tuple[Outcome, ...]

    def __init__(self, outcomes: "Mapping[str, Outcome] | Outcomes | None" = None):
        """Give each function a name.

        Raises:
            SettingError: If a name is not a text, or what it names is no function.
        """
        if not isinstance(outcomes, Mapping | Outcomes | None):
            raise SettingError(f"outcomes must be functions by their names, got {outcomes!r}")
        named = dict(() if outcomes is None else outcomes.items())
        for name, function in named.items():
            if not isinstance(name, str) or not name.strip():
                raise SettingError(f"the name of an outcome must be a text, got {name!r}")
            if not callable(function):
                raise SettingError(f"outcome {name!r} must be a function, got {function!r}")
        self.names = tuple(named)
        self.functions = tuple(map(of_itself, named.values()))

    def items(self) -> Iterator[tuple[str, Outcome]]:
        """Names and functions."""
        return zip(self.names, self.functions, strict=True)

    def at(self, context: PyTree) -> "Outcomes":
        """The outcomes in a context."""
        return Outcomes({name: in_context(f, context) for name, f in self.items()})

    def values(self, x: Float[Array, "..."], xi: Array) -> Float[Array, " k"]:
        """All outcomes at (x, xi), as numbers."""
        if not self.names:
            return jnp.zeros(0)
        return jnp.stack([jnp.asarray(f(x, xi), float) for f in self.functions])

    def check(self, x: Float[Array, "..."], xi: Array) -> None:
        """Try all at (x, xi).

        Raises:
            CostError: If an outcome is not one finite number or truth value.
        """
        if not self.names:
            return
        answers = _answers(self, x, xi)
        for name, answer in zip(self.names, answers, strict=True):
            said = f"outcome {name!r}(x, xi) must be one finite number, or true or false, got"
            if jnp.ndim(answer) != 0:
                raise CostError(f"{said} the shape {jnp.shape(answer)} at x = {x}")
            if jnp.iscomplexobj(answer) or not jnp.isfinite(answer):
                raise CostError(f"{said} {answer} at x = {x}, xi = {xi}")


def stated(problem: Any) -> tuple[Any, ...]:
    """The functions of a problem that may take a context, but for its feasible set."""
    return problem.cost, *problem.models.values(), *problem.outcomes.functions


def check_outcomes(problem: Any, x: Float[Array, "..."], thetas: PyTree) -> None:
    """Try the outcomes of a problem at x; see `Outcomes.check`."""
    if problem.outcomes.names:
        problem.outcomes.check(x, problem.check_models(x, thetas)["model"])


@compiled_at_once
def _answers(outcomes: Outcomes, x: Float[Array, "..."], xi: Array) -> list[Array]:
    return [jnp.asarray(function(x, xi)) for function in outcomes.functions]

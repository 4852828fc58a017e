"""Quantiles of what a belief foresees: the decisions of newsvendors, many at once."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.regression.mode import LOG_SHARES, NODES
from postgrad.beliefs.regression.regression import Regression
from postgrad.beliefs.regression.vocabulary import in_vocabulary
from postgrad.errors import PriorError, SettingError
from postgrad.numerics.validate import as_numbers, is_concrete
from postgrad.problem.problem import Decision, Model

# How many whole numbers are summed over at a time, and the largest that is looked at.
_BLOCK, _LARGEST = 32, 1e8
_HALVINGS = 100


class Components(NamedTuple):
    """A predictive law as a sum of laws of the family: sum_i share_i f(.; eta_i, numbers_i).

    Attributes:
        share: The weights, which sum to one.
        law: The laws, as one distribution of a batch shape like that of `share`.
    """

    share: Float[Array, " n"]
    law: Any


def predictive_quantile(
    belief: Belief, model: Model, levels: Any, x: Decision | None = None
) -> Float[Array, " k"]:
    """Quantiles of the predictive law: the smallest y with P(xi <= y) >= level.

    Where the data are whole numbers so is y. This is the decision that is best under a newsvendor's
    cost, whose `service_level` is the level. The law is the mixture over a belief's members, each
    in closed form (normal, lognormal) or over seven Gauss-Hermite nodes of the linear predictor.
    Whole numbers are summed over from zero, which takes time in proportion to the quantile.

    Args:
        belief: A `Regression`, or a `Mixture` of `Regression`.
        model: The model in a context: `problem.at(z).model`.
        levels: Numbers between 0 and 1.
        x: The decision, if the model depends on it.

    Raises:
        SettingError: If a level is not between 0 and 1.
        PriorError: If the belief is another one.
    """
    if is_concrete(levels):
        numbers = as_numbers(levels, SettingError, "levels")
        if not ((numbers > 0) & (numbers < 1)).all():
            raise SettingError(f"levels must be numbers between 0 and 1, got {levels!r}")
    at = jnp.asarray(levels, float)
    parts = components(belief, model, x)
    found = _whole if parts.law.support.is_discrete else _real
    return found(parts, at.ravel()).reshape(at.shape)


@functools.singledispatch
def components(belief: Belief, model: Model, x: Decision | None) -> Components:
    """The predictive law of a belief about the coefficients of a regression.

    Raises:
        PriorError: If the belief is another one.
    """
    raise PriorError(
        f"quantiles are those of a Regression or a Mixture of Regression, got {belief!r}"
    )


@components.register
def _(belief: Regression, model: Model, x: Decision | None) -> Components:
    shares, parts = _of_one(belief, model, x)
    return _as_components(model, shares, parts)


@components.register
def _(belief: Mixture, model: Model, x: Decision | None) -> Components:
    if not isinstance(belief.beliefs, Regression):
        return components(belief.beliefs, model, x)  # says what is wrong

    def of_member(member: Any) -> tuple[Array, Any]:
        return _of_one(member, model, x)

    shares, parts = belief.each(of_member)
    return _as_components(model, belief.probabilities[:, None] * shares, parts)


def predictors(belief: Belief, model: Model, x: Decision | None) -> tuple[Array, Array]:
    """The means and variances of the linear predictor under each member of a mixture.

    Raises:
        PriorError: If the belief is no `Mixture` of `Regression`.
    """
    if not isinstance(belief, Mixture) or not isinstance(belief.beliefs, Regression):
        raise PriorError(f"predictors are those of a Mixture of Regression, got {belief!r}")

    def of_member(member: Any) -> tuple[Array, Array]:
        eta = member.eta(model, x)
        return eta.mean, eta.variance

    mean, variance = belief.each(of_member)
    return mean, variance


def _of_one(belief: Regression, model: Model, x: Decision | None) -> tuple[Array, Any]:
    """Shares of the components of one member, and what their laws are made from."""
    law, _ = in_vocabulary(model)
    eta = belief.eta(model, x)
    if law.averaged(eta.mean, eta.variance, belief.numbers) is not None:
        return jnp.ones(1), ((eta.mean[None], eta.variance[None]), _wide(belief.numbers, 1))
    nodes = eta.mean + jnp.sqrt(eta.variance) * NODES
    return jnp.exp(jnp.asarray(LOG_SHARES)), ((nodes,), _wide(belief.numbers, nodes.size))


def _wide(numbers: dict[str, Array], size: int) -> dict[str, Array]:
    return {name: jnp.broadcast_to(number, (size,)) for name, number in numbers.items()}


def _as_components(model: Model, shares: Array, parts: Any) -> Components:
    law, _ = in_vocabulary(model)
    etas, numbers = jax.tree.map(jnp.ravel, parts)
    made: Callable[..., Any] = law.law if len(etas) == 1 else law.averaged
    return Components(jnp.ravel(shares), made(*etas, numbers))


def _whole(parts: Components, levels: Float[Array, " k"]) -> Float[Array, " k"]:
    """By adding up probabilities; NaN if they are no numbers."""
    support = parts.law.support

    def masses(values: Float[Array, " n"]) -> Float[Array, " n"]:
        wide = values[:, None]
        density = jnp.exp(parts.law.log_prob(jnp.where(support(wide), wide, 0.0)))
        return jnp.sum(jnp.where(support(wide), parts.share * density, 0.0), axis=1)

    def go_on(state: tuple[Array, Array, Array]) -> Array:
        first, total, _ = state
        return (total < jnp.max(levels)) & (first < _LARGEST)

    def add(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        first, total, below = state
        sums = total + jnp.cumsum(masses(first + np.arange(_BLOCK)))
        below = below + jnp.sum(sums < levels[:, None], axis=1)
        return first + _BLOCK, sums[-1], below

    start = jnp.zeros(()), jnp.zeros(()), jnp.zeros_like(levels)
    _, total, below = lax.while_loop(go_on, add, start)
    return jnp.where(jnp.isnan(total), jnp.nan, below)


def _real(parts: Components, levels: Float[Array, " k"]) -> Float[Array, " k"]:
    """By halving the range of the components' own quantiles."""
    own = parts.law.icdf(levels[:, None])
    ends = jnp.min(own, axis=1), jnp.max(own, axis=1)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        reached = jnp.sum(parts.share * parts.law.cdf(middle[:, None]), axis=1) >= levels
        return jnp.where(reached, low, middle), jnp.where(reached, middle, high)

    low, high = lax.fori_loop(0, _HALVINGS, halve, ends)
    return jnp.where(jnp.isnan(low), jnp.nan, high)

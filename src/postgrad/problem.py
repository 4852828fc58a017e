"""The problem: what the user states."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.density import Distribution, log_density
from postgrad.errors import CostError, ModelError
from postgrad.feasible import FeasibleSet, Reals

Decision = Float[Array, "..."]
Cost = Callable[[Decision, Array], Float[Array, ""]]
Model = Callable[[Decision, PyTree], Any]


class Problem(eqx.Module):
    """Minimise H(x) = E_{xi ~ f(.; x, theta_c)} h(x, xi) over x in X, theta_c unknown.

    Attributes:
        cost: h(x, xi), a scalar. Any callable; one that carries numbers is best an
            `equinox.Module`, so that one compiled program serves all numbers.
        model: f(.; x, theta), any function that returns a distribution with numpyro's protocol.
            A model that ignores x is the decision-independent case.
        feasible: X.
        observation: The distribution of what is seen, as a function of (x, theta), where that is
            not xi itself.
    """

    cost: Cost
    model: Model
    feasible: FeasibleSet = Reals()
    observation: Model | None = None

    @property
    def likelihood(self) -> Model:
        """The distribution of the data, as a function of (x, theta)."""
        return self.model if self.observation is None else self.observation

    def depends_on_decision(self, x: Decision, theta: PyTree) -> bool:
        """Whether the distribution of xi is a function of x (as the program is written)."""
        traced = jax.make_jaxpr(lambda x: self.model(x, theta).sample(random.key(0)))(x).jaxpr
        reached = set(traced.invars)
        for equation in traced.eqns:
            if any(isinstance(v, jax.extend.core.Var) and v in reached for v in equation.invars):
                reached.update(equation.outvars)
        return any(v in reached for v in traced.outvars if isinstance(v, jax.extend.core.Var))

    def check(self, x: Decision, thetas: PyTree) -> None:
        """Try the cost and the model at x, at each theta stacked along the leading axis.

        Raises:
            ModelError: If some theta gives no proper distribution, e.g. a covariance that is not
                positive definite, a negative scale, or a stack of distributions.
            CostError: If the cost is not one number.
        """
        first = jax.tree.map(lambda leaf: leaf[0], thetas)
        for name in ("model", "observation"):
            model = getattr(self, name)
            if model is not None:
                _check_shapes(name, _traced(model, x, first))
                _check_numbers(name, model, x, thetas)
        xi, cost = _try_cost(self, x, first)
        if cost.shape != ():
            raise CostError(f"cost(x, xi) must be one number, got shape {cost.shape} at x = {x}")
        if not jnp.isfinite(cost):
            raise CostError(f"cost(x, xi) must be finite, got {cost} at x = {x}, xi = {xi}")


@eqx.filter_jit
def _try_cost(problem: Problem, x: Decision, theta: PyTree) -> tuple[Array, Array]:
    xi = problem.model(x, theta).sample(random.key(0))
    return xi, jnp.asarray(problem.cost(x, xi))


def _traced(model: Model, x: Decision, theta: PyTree) -> Any:
    """What the model returns, for its kind and shapes: numpyro does not judge traced numbers."""
    returned = []
    jax.eval_shape(lambda x, theta: returned.append(model(x, theta)), x, theta)
    return returned[0]


def _check_shapes(name: str, distribution: Distribution) -> None:
    if not (hasattr(distribution, "sample") and hasattr(distribution, "log_prob")):
        raise ModelError(
            f"{name}(x, theta) must return a distribution, got {type(distribution).__name__}"
        )
    if distribution.batch_shape != ():
        raise ModelError(
            f"{name}(x, theta) returned a stack {distribution.batch_shape} of distributions, "
            f"expected one; if these are the coordinates of xi, add .to_event("
            f"{len(distribution.batch_shape)})"
        )


@eqx.filter_jit
def _are_proper(model: Model, x: Decision, thetas: PyTree) -> Bool[Array, " n"]:
    """Whether each theta gives a distribution with proper parameters, draws and densities."""
    from numpyro.distributions.constraints import is_dependent

    def is_proper(theta: PyTree) -> Array:
        distribution = model(x, theta)
        draw = distribution.sample(random.key(0))
        constraints = getattr(distribution, "arg_constraints", {})
        arguments = [
            jnp.all(constraint(getattr(distribution, argument)))
            for argument, constraint in constraints.items()
            if argument in vars(distribution) and not is_dependent(constraint)
        ]
        parts = [jnp.all(jnp.isfinite(draw)), jnp.isfinite(log_density(distribution, draw))]
        return jnp.all(jnp.stack([*parts, *arguments]))

    return jax.vmap(is_proper)(thetas)


def _check_numbers(name: str, model: Model, x: Decision, thetas: PyTree) -> None:
    proper = np.asarray(_are_proper(model, x, thetas))
    if not proper.all():
        worst = int(np.argmin(proper))
        theta = jax.tree.map(lambda leaf: np.asarray(leaf[worst]).tolist(), thetas)
        kind = type(_traced(model, x, jax.tree.map(lambda leaf: leaf[0], thetas))).__name__
        raise ModelError(
            f"{name}(x, theta) is no proper {kind} at theta = {theta}, x = {np.asarray(x)}: its "
            f"parameters must lie in their range (scales positive, covariances positive definite)"
        )

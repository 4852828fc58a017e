"""The problem: what the user states."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.extend.core as jec
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from jaxtyping import Array, Bool, Float, PyTree
from numpyro.distributions.constraints import is_dependent

from postgrad.distributions.density import log_density
from postgrad.distributions.inversion import by_inversion
from postgrad.errors import ContextError, CostError, FeasibleSetError, ModelError, SettingError
from postgrad.numerics.cache_by_shape import compiled_at_once, once_per_shape
from postgrad.numerics.module import Module, replaced
from postgrad.numerics.program_cache.lowered import kept_fact
from postgrad.numerics.validate import as_key, is_concrete, on_device
from postgrad.problem.contexts import context_of, in_context, takes_context, trial_contexts
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.reals import Reals
from postgrad.problem.outcomes import Outcomes, stated
from postgrad.problem.own_identity import of_itself
from postgrad.problem.rules.constraints import Change, Constraints, as_constraints, check_rules

# How many decisions near the first one an assumption is tried on, and how many all over the set;
# how far the set is taken to reach where it has no bound; the thetas at which a model is proper.
NEAR, _FAR, _REACH, _THETAS = 16, 48, 1000.0, 16

Decision = Float[Array, "..."]
# With a context, functions of one more argument: see `Problem.at`.
Cost = Callable[..., Float[Array, ""]]
Model = Callable[..., Any]


class Problem(Module):
    """Minimise H(x) = E_{xi ~ f(.; x, theta_c)} h(x, xi) over x in X, theta_c unknown.

    What is known before a decision, such as the weekday or a promotion, is a context z: any PyTree
    of arrays. Functions with one more argument are given it: cost(x, xi, z), model(x, theta, z),
    observation(x, theta, z); `feasible` may be a function of z that returns a set.

    Attributes:
        cost: h(x, xi), a scalar. Any callable; a cost with parameters is best an
            `equinox.Module`, so that one compiled program serves all values of them.
        model: f(.; x, theta), any function that returns a distribution with numpyro's protocol.
            A model that ignores x is the decision-independent case.
        feasible: X.
        observation: The distribution of the data as a function of (x, theta), if the data are not
            xi itself.
        outcomes: Functions of (x, xi) by their names, whose expectations are told: see `Outcomes`.
        constraints: What their expectations must keep to: see `pg.rules`.
        change: What it costs to change the decision, and how far it may move: see `pg.rules`.
        in_context: Whether this is a problem in a given context: see `at`.
    """

    cost: Cost = eqx.field(converter=of_itself)
    model: Model = eqx.field(converter=of_itself)
    feasible: FeasibleSet = eqx.field(converter=of_itself, default=Reals())
    observation: Model | None = eqx.field(converter=of_itself, default=None)
    outcomes: Outcomes = eqx.field(converter=Outcomes, default=Outcomes())
    constraints: Constraints = eqx.field(converter=as_constraints, default=())
    change: Change | None = None
    in_context: bool = eqx.field(static=True, default=False, kw_only=True)

    def __check_init__(self) -> None:
        if not (isinstance(self.feasible, FeasibleSet) or callable(self.feasible)):
            expected = "a feasible set, or a function of the context that returns one"
            raise FeasibleSetError(f"feasible must be {expected}, got {self.feasible!r}")
        for name, error in (("cost", CostError), ("model", ModelError)):
            if not callable(getattr(self, name)):
                raise error(f"{name} must be a function, got {getattr(self, name)!r}")
        check_rules(self.constraints, self.change, self.outcomes)

    @property
    def relaxed(self) -> "Problem":
        """The problem in a convex set, where descents work: itself, unless x has whole numbers."""
        relaxation = self.feasible.relaxation
        return self if relaxation is self.feasible else replaced(self, feasible=relaxation)

    @property
    def takes_context(self) -> bool:
        """Whether a function of the problem needs a context that it has not been given."""
        return not isinstance(self.feasible, FeasibleSet) or any(map(takes_context, stated(self)))

    @property
    def context(self) -> PyTree:
        """z, if the problem is one in a context; else None."""
        return next((z for f in stated(self) if (z := context_of(f)) is not None), None)

    def at(self, context: PyTree) -> "Problem":
        """The problem in a context: that of functions of two arguments, z given."""
        feasible: Any = self.feasible
        if not isinstance(feasible, FeasibleSet):
            feasible = feasible(context)
            if not isinstance(feasible, FeasibleSet):
                raise FeasibleSetError(f"feasible(z) must return a feasible set, got {feasible!r}")
        parts = {"cost": self.cost, **self.models}
        new = {name: in_context(part, context) for name, part in parts.items()}
        new |= {"outcomes": self.outcomes.at(context), "feasible": feasible}
        return replaced(self, in_context=True, **new)

    def check_context(self) -> None:
        """Raise `ContextError` if a function takes a context, and the problem is in none."""
        if self.takes_context:
            missing = "cost, model or feasible set take a context: give an example"
            raise ContextError(f"{missing}, Agent(..., context=z) or problem.at(z)")

    def in_trial_contexts(self, x: Decision, thetas: PyTree) -> list["Problem"]:
        """The problem in the contexts that an assumption is tried in; without one, itself alone.

        Contexts around the given one in which the model is not proper at x are left out.
        """
        context = self.context
        if context is None:
            return [self]
        others = [self.at(z) for z in trial_contexts(context)[1:]]
        place = np.asarray(x)[None]

        def is_proper(problem: Problem) -> bool:
            each = [_are_proper_at(m, place, thetas) for m in problem.models.values()]
            return bool(np.all(each))

        return [self, *filter(is_proper, others)]

    @property
    def likelihood(self) -> Model:
        """The distribution of the data, as a function of (x, theta)."""
        return self.model if self.observation is None else self.observation

    @property
    def models(self) -> dict[str, Model]:
        """The model, and the observation model if there is one, by the names of their fields."""
        models = {"model": self.model, "observation": self.observation}
        return {name: model for name, model in models.items() if model is not None}

    def kind(self, x: Decision, theta: PyTree) -> "Kind":
        """What kind of distribution the model returns at (x, theta)."""
        return kind_of(self.model, x, theta)

    def event_shape(self, x: Decision, theta: PyTree) -> tuple[int, ...]:
        """The shape of one observation."""
        return kind_of(self.likelihood, x, theta).event_shape

    def near(self, x: Decision) -> Float[Array, "k ..."]:
        """Feasible decisions near x."""
        noise = np.asarray(random.normal(as_key(0, SettingError), (NEAR, *x.shape)))
        scales = np.geomspace(0.01, 1.0, NEAR).reshape(-1, *(1,) * x.ndim)
        middle = np.asarray(x)
        steps = (1.0 + np.max(np.abs(middle))) * scales * noise
        return _nearest(self.feasible, middle + steps)

    def decisions(self, x: Decision, thetas: PyTree) -> Float[Array, "k ..."]:
        """Decisions to try an assumption on: those near x, then some all over the feasible set.

        Of the latter, half are spread over the set evenly, and half lie between x and such a one,
        their distances from x spread evenly on a logarithmic scale. Those at which the model is not
        proper at some of the thetas (along the leading axis) are left out.
        """
        far = _all_over(self.feasible, np.asarray(x))
        count = jax.tree.leaves(thetas)[0].shape[0]
        chosen = np.linspace(0, count - 1, min(count, _THETAS)).astype(int)
        some = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], thetas)
        proper = [np.asarray(_are_proper_at(m, far, some)).all(1) for m in self.models.values()]
        return on_device(np.concatenate([self.near(x), far[np.all(proper, axis=0)]]))

    def check_models(self, x: Decision, thetas: PyTree) -> dict[str, Array]:
        """Try the model, and the observation model, at x and each theta; see `check`.

        Returns:
            A draw of each at x and the first theta.
        """
        return {name: _check_model(name, m, x, thetas) for name, m in self.models.items()}

    def check(self, x: Decision, thetas: PyTree) -> None:
        """Try the cost and the model at x, at each theta stacked along the leading axis.

        Raises:
            ModelError: If some theta gives no proper distribution, e.g. a covariance that is not
                positive definite, a negative scale, or a stack of distributions.
            CostError: If the cost is not one number.
            ContextError: If a function takes a context, and the problem is in none.
        """
        self.check_context()
        xi = self.check_models(x, thetas)["model"]
        cost = _cost(self.cost, x, xi)
        if not jnp.issubdtype(cost.dtype, jnp.floating):
            raise CostError(f"cost(x, xi) must be a real number, got type {cost.dtype} at x = {x}")
        if cost.shape != ():
            raise CostError(f"cost(x, xi) must be one number, got shape {cost.shape} at x = {x}")
        if not np.isfinite(cost):
            raise CostError(f"cost(x, xi) must be finite, got {cost} at x = {x}, xi = {xi}")


@compiled_at_once
def _nearest(feasible: FeasibleSet, points: Float[Any, "k ..."]) -> Float[Array, "k ..."]:
    """The feasible decision that is nearest to each point."""
    return jax.vmap(feasible.project)(points)


def _all_over(feasible: FeasibleSet, x: np.ndarray) -> Float[np.ndarray, "k ..."]:
    """Feasible decisions as far as the set reaches; see `Problem.decisions`."""
    step = 1.0 + np.max(np.abs(x))
    low, high = (np.broadcast_to(bound, x.shape) for bound in feasible.bounds())
    low = np.where(np.isfinite(low), low, np.minimum(x, high) - _REACH * step)
    high = np.where(np.isfinite(high), high, np.maximum(x, low) + _REACH * step)
    rng, column = np.random.default_rng(0), (-1, *(1,) * x.ndim)
    share = rng.random((_FAR, *x.shape))
    share[::3] = np.linspace(0.0, 1.0, len(share[::3])).reshape(column)  # the diagonal
    ends = np.asarray(_nearest(feasible, low + share * (high - low)))
    # The set is convex, so what lies between is feasible.
    length = np.maximum(np.abs(ends - x).reshape(_FAR, -1).max(axis=1), step)
    shorter = (step / length) ** rng.permutation(np.linspace(0.0, 1.0, _FAR))
    return x + np.where(np.arange(_FAR) % 2, shorter, 1.0).reshape(column) * (ends - x)


@compiled_at_once
def _cost(cost: Cost, x: Decision, xi: Array) -> Array:
    return jnp.asarray(cost(x, xi))


class Kind(NamedTuple):
    """What tracing a model tells about the distributions that it returns, whatever x and theta.

    Attributes:
        family: The class of the distribution.
        coordinate_family: The class of each coordinate's distribution, if coordinates are
            independent; else `family`.
        is_distribution: Whether `family` has numpyro's protocol.
        batch_shape: The shape of the stack of distributions; () for one.
        event_shape: The shape of one observation.
        has_rsample: Whether draws are differentiable in the parameters.
        depends_on_decision: Whether x enters the computation of a draw.
        support_depends_on_decision: Whether x enters the support; then no score exists.
        values: The number of values of a draw, if these are single numbers that can be listed;
            else zero.
    """

    family: type
    coordinate_family: type
    is_distribution: bool
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    has_rsample: bool
    depends_on_decision: bool
    support_depends_on_decision: bool
    values: int

    @property
    def name(self) -> str:
        """The name of the family."""
        return self.family.__name__

    @property
    def coordinate(self) -> str:
        """The name of the coordinates' family."""
        return self.coordinate_family.__name__


@once_per_shape
@kept_fact
def kind_of(model: Model, x: Decision, theta: PyTree) -> Kind:
    """The kind of `model(x, theta)`, by tracing it.

    Raises:
        ModelError: If the model cannot be evaluated at a theta of this structure.
    """
    returned = []

    def draw(x: Decision, theta: PyTree) -> Any:
        try:
            returned.append(model(x, theta))  # numpyro does not validate traced parameters
            return returned[0].sample(random.key(0)) if hasattr(returned[0], "sample") else 0.0
        except (TypeError, LookupError, AttributeError) as problem:
            shapes = jax.tree.map(jax.typeof, theta)
            raise ModelError(
                f"the model cannot be evaluated at a theta like {shapes}, as the belief has it: "
                f"{problem!r}"
            ) from problem

    def inside(x: Decision, theta: PyTree) -> Any:
        distribution = model(x, theta)
        if not hasattr(distribution, "support"):
            return False
        return distribution.support(jnp.ones(distribution.event_shape))

    depends = _uses_first(draw, x, theta)
    distribution = returned[0]
    return Kind(
        family=type(distribution),
        coordinate_family=type(coordinates(distribution)),
        is_distribution=hasattr(distribution, "sample") and hasattr(distribution, "log_prob"),
        batch_shape=getattr(distribution, "batch_shape", ()),
        event_shape=getattr(distribution, "event_shape", ()),
        has_rsample=getattr(distribution, "has_rsample", False),
        depends_on_decision=depends,
        support_depends_on_decision=_uses_first(inside, x, theta),
        values=_count_values(model, x, theta),
    )


def _count_values(model: Model, x: Decision, theta: PyTree) -> int:
    """The number of values in the support; zero if it depends on parameters or is infinite."""

    def listed(x: Decision, theta: PyTree) -> Array:
        return jnp.asarray(model(x, theta).enumerate_support(expand=False))

    try:
        shape = jax.eval_shape(listed, x, theta).shape
    except (NotImplementedError, AttributeError, TypeError, jax.errors.JAXTypeError):
        return 0
    return shape[0] if len(shape) == 1 else 0


def coordinates(distribution: Any) -> Any:
    """The distribution of each coordinate, if they are independent; else the whole."""
    return distribution.base_dist if isinstance(distribution, dist.Independent) else distribution


def _uses_first(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the first argument enters the computation of the result."""
    traced = jax.make_jaxpr(function)(*arguments).jaxpr
    reached = {traced.invars[0]}
    for equation in traced.eqns:
        if any(isinstance(v, jec.Var) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    return any(isinstance(v, jec.Var) and v in reached for v in traced.outvars)


def _layers(distribution: Any) -> Iterator[Any]:
    """A distribution and the distributions that it is made of."""
    yield distribution
    for name in ("base_dist", "mixing_distribution", "component_distribution"):
        if hasattr(distribution, name):
            yield from _layers(getattr(distribution, name))
    for component in getattr(distribution, "component_distributions", ()):
        yield from _layers(component)


def _is_proper(model: Model, x: Decision, theta: PyTree) -> tuple[Bool[Array, ""], Array]:
    """Whether theta gives proper parameters, a finite draw and a finite density there; the draw."""
    distribution = model(x, theta)
    draw = by_inversion(distribution).sample(random.key(0))
    finite = jnp.all(jnp.isfinite(draw)) & jnp.isfinite(log_density(distribution, draw))
    return finite & has_proper_parameters(distribution), draw


@compiled_at_once
def _are_proper(model: Model, x: Decision, thetas: PyTree) -> tuple[Bool[Array, " n"], Array]:
    """Whether each theta gives a proper distribution; and a draw at the first."""
    proper, draws = jax.vmap(lambda theta: _is_proper(model, x, theta))(thetas)
    return proper, draws[0]


@compiled_at_once
def _are_proper_at(model: Model, xs: Float[Any, "k ..."], thetas: PyTree) -> Bool[Array, "k n"]:
    return jax.vmap(lambda x: jax.vmap(lambda theta: _is_proper(model, x, theta)[0])(thetas))(xs)


def has_proper_parameters(distribution: Any) -> Any:
    """Whether the parameters lie in the range that the distribution states for them."""
    proper: Any = True
    for part in _layers(distribution):
        for argument, constraint in getattr(part, "arg_constraints", {}).items():
            if argument in vars(part) and not is_dependent(constraint):
                value = getattr(part, argument)
                if is_concrete(value):  # on the host, where nothing is to be compiled
                    proper &= np.all(constraint(np.asarray(value)))
                else:
                    proper &= jnp.all(constraint(value))
    return proper


def _check_model(name: str, model: Model, x: Decision, thetas: PyTree) -> Array:
    kind = kind_of(model, x, jax.tree.map(lambda leaf: np.asarray(leaf)[0], thetas))
    if not kind.is_distribution:
        raise ModelError(f"{name}(x, theta) must return a distribution, got {kind.name}")
    if kind.batch_shape != ():
        raise ModelError(
            f"{name}(x, theta) returned a stack {kind.batch_shape} of distributions, expected one; "
            f"if these are the coordinates of xi, add .to_event({len(kind.batch_shape)})"
        )
    found, draw = _are_proper(model, x, thetas)
    proper = np.asarray(found)
    if not proper.all():
        worst = int(np.argmin(proper))
        theta = jax.tree.map(lambda leaf: np.asarray(leaf[worst]).tolist(), thetas)
        raise ModelError(
            f"{name}(x, theta) is no proper {kind.name} at theta = {theta}, x = {np.asarray(x)}: "
            f"its parameters must lie in their range (scales positive, covariances positive "
            f"definite)"
        )
    return draw

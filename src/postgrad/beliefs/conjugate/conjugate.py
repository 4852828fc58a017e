"""Beliefs whose form no data can change: a few sums are the whole posterior."""

import abc
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import BeliefWithMemory, first
from postgrad.beliefs.forgetting import Memory, fade
from postgrad.distributions.density import log_density, log_formula, settle
from postgrad.distributions.inversion import by_inversion
from postgrad.errors import ModelError, PriorError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem, kind_of

# How closely the model's log-density must be the family's, relative to its size.
_TOLERANCE = 1e-7


class Conjugate(BeliefWithMemory):
    """A conjugate prior: exact, with a few sums to update for each batch.

    If log f(y; x, theta) = psi(theta) . S(y; x) + log b(y; x) for some features psi of theta, then

        pi_0(theta)  ~  exp(psi(theta) . chi)   gives   pi_t(theta)  ~  exp(psi(theta) . chi_t),
        chi_t  =  chi + sum_{s <= t} S(y_s; x_s).

    Decisions may shift and scale the data: S depends on them, psi does not. When the belief is
    bound to a model, this form is tested on decisions near and far, parameters and data.

    Sums are compensated for rounding, so that a million batches are as accurate as their total.

    Attributes:
        prior: chi, or the numbers that define chi.
        data: The sum of S.
        memory: How much of the past counts.
        form: The models that the belief is for, in words.
        read: A `functools.singledispatch` function of (distribution of a coordinate, y) that
            returns what `statistics` needs. A model of another class is admitted once it is
            registered: `Gamma.read.register(MyDistribution, function)`.
    """

    prior: PyTree = fixed()
    data: Sum
    memory: Memory
    form: eqx.AbstractClassVar[str]
    read: eqx.AbstractClassVar[Callable[..., Any]]

    def __init__(self, prior: PyTree, statistics: PyTree, forget: Any):
        """No data yet.

        Args:
            prior: chi, or the numbers that define chi.
            statistics: Arrays of the shapes that S has.
            forget: What remains of the evidence after one unit of time; everything, if None.
        """
        self.prior = prior
        self.data = Sum.zeros_like(statistics)
        self.memory = Memory(forget)

    @abc.abstractmethod
    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """S(y; x) of one observation inside the support."""

    @abc.abstractmethod
    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Float[Array, ""]:
        """psi(theta) . S."""

    @abc.abstractmethod
    def log_predictive(self, model: Model, x: Decision, y: Array) -> Float[Array, ""]:
        """log f_hat(y; x) of one observation inside the support."""

    @abc.abstractmethod
    def estimate(self) -> PyTree:
        """argmax_theta psi(theta) . sum S, the maximum-likelihood estimate without the prior."""

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Adds the batch's statistics."""
        del key
        each = jax.vmap(lambda y: self.statistics(likelihood, batch.x, y))(batch.y)
        data = self.data.add(jax.tree.map(batch.total, each))
        return replaced(self, data=data, memory=self.memory.after(batch))

    def _faded(self, share: Array) -> Self:
        return replaced(self, data=fade(self.data, share))

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """In closed form."""
        safe, inside = settle(model(x, first(self.examples())), xi)
        return jnp.where(inside, self.log_predictive(model, x, safe), -jnp.inf)

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether log f - psi . S is the same for all theta, for the observations of a batch."""
        member = likelihood(batch.x, first(self.examples()))
        safe, inside = settle(member, batch.y)
        rests, sizes = jax.vmap(lambda y: _rest(self, likelihood, batch.x, y))(safe)
        # Of impossible data something else is said.
        counts = inside if batch.weight is None else inside & (batch.weight > 0)
        return jnp.all(_is_same(rests, sizes) | ~counts)

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Test whether the model has the form that the belief is for.

        Raises:
            ModelError: Naming both, if it has not.
        """
        kind = kind_of(problem.likelihood, x, first(self.examples()))
        stated = f"{type(self).__name__} is the belief of {self.form}"
        found, dispatch = kind.coordinate, self.read.dispatch  # type: ignore[attr-defined]
        if dispatch(kind.coordinate_family) is dispatch(object):
            raise ModelError(f"{stated}, but the model is {found}")
        stated += f"; the model is a {found}, but"
        try:
            places = problem.decisions(x, self.examples())
            tried = problem.in_trial_contexts(x, self.examples())
            agrees = all(bool(_agrees(self, one.likelihood, places)) for one in tried)
        except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
            raise ModelError(f"{stated} cannot be read so: {error}") from error
        if not agrees:
            raise ModelError(f"{stated} another function of theta or x")
        return self


def unknown(member: Any, *_: Array) -> Any:
    """The case of `read` for classes that are not registered."""
    raise ModelError(f"no conjugate form is registered for {type(member).__name__}")


@compiled_at_once
def _agrees(belief: Conjugate, likelihood: Model, xs: Float[Array, "k ..."]) -> Bool[Array, ""]:
    """Whether log f - psi . S is the same for all theta, at several decisions and data."""
    thetas = belief.examples()
    count = jax.tree.leaves(thetas)[0].shape[0]

    def draw(x: Decision, theta: PyTree, key: Array) -> Array:
        return jnp.asarray(by_inversion(likelihood(x, theta)).sample(key), float)

    def holds(x: Decision, key: Array) -> Array:
        ys = jax.vmap(draw, in_axes=(None, 0, 0))(x, thetas, random.split(key, count))
        return jnp.all(_is_same(*jax.vmap(lambda y: _rest(belief, likelihood, x, y))(ys)))

    return jnp.all(jax.vmap(holds)(xs, random.split(random.key(0), xs.shape[0])))


def _rest(
    belief: Conjugate, likelihood: Model, x: Decision, y: Array
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """log f - psi . S of one observation at each example of theta; how large its parts are."""
    thetas, statistics = belief.examples(), belief.statistics(likelihood, x, y)
    for known, new in zip(*map(jax.tree.leaves, (belief.data.value, statistics)), strict=True):
        if known.shape != new.shape:
            raise ValueError(
                f"an observation tells numbers of shape {new.shape}, and the prior is of shape "
                f"{known.shape}; give each coordinate a theta of its own, or use Particles"
            )
    log_f = jax.vmap(lambda theta: log_density(likelihood(x, theta), y))(thetas)
    kernel = jax.vmap(lambda theta: belief.log_kernel(theta, statistics))(thetas)
    return log_f - kernel, jnp.max(jnp.abs(log_f)) + jnp.max(jnp.abs(kernel))


def _is_same(rests: Float[Array, "D n"], sizes: Float[Array, " D"]) -> Bool[Array, " D"]:
    """Whether the numbers of each row are the same, up to rounding."""
    gaps = jnp.max(rests, axis=1) - jnp.min(rests, axis=1)
    return gaps <= _TOLERANCE * (1.0 + sizes)  # False if a gap is NaN


def hyperparameters(positive: dict[str, Any], **real: Any) -> dict[str, Array]:
    """The prior's numbers or arrays, broadcast to one shape.

    Args:
        positive: Those that must be positive, by name.
        **real: Those that may be any real number.

    Raises:
        PriorError: If a value is not a finite number, shapes do not fit together, or one that must
            be positive is not.
    """
    values = {**real, **positive}
    arrays = {name: as_array(value, PriorError, name) for name, value in values.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError as problem:
        raise PriorError(f"the prior's numbers must have one shape, got {shapes}") from problem
    for name in positive:
        if is_concrete(arrays[name]) and not (np.asarray(arrays[name]) > 0).all():
            raise PriorError(f"{name} must be positive, got {np.asarray(arrays[name])}")
    return {name: jnp.broadcast_to(array, shape) for name, array in arrays.items()}


def difference_of_normalisers(
    belief: Conjugate, model: Model, x: Decision, y: Array, theta: PyTree, gained: Array
) -> Float[Array, ""]:
    """log f_hat(y; x) = A(chi + S) - A(chi) + log b(y; x), with A the log-normaliser of pi.

    Args:
        belief: pi.
        model: f.
        x: The decision.
        y: The observation.
        theta: Some theta, from whose log-density log b is read.
        gained: A(chi + S) - A(chi).
    """
    kernel = belief.log_kernel(theta, belief.statistics(model, x, y))
    return gained + log_formula(model(x, theta), y) - kernel


def along_axis(values: Any, like: Array) -> Array:
    """Numbers along a leading axis, followed by as many axes of length one as an array has."""
    return on_device(np.asarray(values, float).reshape(-1, *(1,) * like.ndim))

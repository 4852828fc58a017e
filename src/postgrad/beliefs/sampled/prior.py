"""Priors as the user states them: distributions of theta."""

import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.tree_util import keystr, tree_flatten_with_path
from jaxtyping import Array, Bool, Float, PyTree
from numpyro.distributions import Distribution, biject_to

from postgrad.errors import PriorError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.fixed import fixed
from postgrad.numerics.validate import is_concrete, on_device
from postgrad.problem.problem import has_proper_parameters

# Stands for an infinite z, as of a gamma draw that underflows to zero: about the logarithm of the
# smallest positive float64.
_EDGE = 700.0


class Prior(eqx.Module):
    """pi_0, and its density over all of R^d.

    theta is a number, an array, or a PyTree of them, each entry with its own distribution. Random
    walks and gradients need a space without bounds, so they use z in R^d, with theta = c(z) the
    transform of numpyro's constraint (exp for positive numbers, a logistic curve for an interval,
    stick-breaking for a simplex), and

        log p(z)  =  log pi_0(c(z))  +  log |det c'(z)|.

    Attributes:
        numbers: The parameters of the distributions, in the order of their names: numpyro's own
            order differs from process to process, and a saved belief must not depend on it.
        tree: The structure of which the numbers are the leaves.
        order: The position of each leaf among the numbers.
        shapes: The shapes of the entries of z.
    """

    numbers: tuple[Array, ...] = fixed()
    tree: Any = eqx.field(static=True)
    order: tuple[int, ...] = eqx.field(static=True, metadata={"of_this_process": True})
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, prior: PyTree):
        """Checks the distributions.

        Args:
            prior: A numpyro distribution, or a dictionary (or tuple) of them. A stack of
                distributions is an array of independent entries.

        Raises:
            PriorError: If an entry is not a distribution of real numbers, or not a proper one.
        """
        entries, tree = tree_flatten_with_path(prior, is_leaf=_is_leaf)
        if not entries:
            raise PriorError(
                f"prior must be a distribution, or a dictionary of them, got {prior!r}"
            )
        parts = [_checked(f"prior{keystr(path)}", entry) for path, entry in entries]
        numbers, self.tree = jax.tree.flatten(jax.tree.unflatten(tree, parts))
        names = [f"{i}.{name}" for i, part in enumerate(parts) for name in _names(part)]
        ranks = sorted(range(len(names)), key=names.__getitem__)
        self.numbers = tuple(numbers[i] for i in ranks)
        self.order = tuple(ranks.index(i) for i in range(len(names)))
        self.shapes = tuple(
            biject_to(part.support).inverse_shape(part.event_shape) for part in parts
        )

    @property
    def parts(self) -> PyTree:
        """The distributions."""
        return jax.tree.unflatten(self.tree, [self.numbers[i] for i in self.order])

    @property
    def size(self) -> int:
        """d, the number of coordinates of z."""
        return sum(math.prod(shape) for shape in self.shapes)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Independent draws theta ~ pi_0, stacked in `shape` before theta's own axes."""
        parts, tree = jax.tree.flatten(self.parts, is_leaf=_is_leaf)
        keys = random.split(key, len(parts))
        draws = [part.sample(k, shape) for part, k in zip(parts, keys, strict=True)]
        return jax.tree.unflatten(tree, draws)

    def draw(self, key: Array, count: int) -> Float[Array, "count d"]:
        """Independent draws of z."""
        return jax.vmap(self.unconstrain)(self.sample(key, (count,)))

    def start(self, key: Array, count: int) -> Float[Array, "count d"]:
        """Independent draws of z, checked.

        Raises:
            PriorError: If a distribution has no draws, or they are not finite, or all the same.
        """
        try:
            z, finite = _draw(self, key, count)
        except NotImplementedError as problem:
            raise PriorError(f"prior must have draws, which {self._kinds} has not") from problem
        if is_concrete(z):
            if not bool(finite):
                raise PriorError(f"prior must have finite draws, which {self._kinds} has not")
            numbers = np.asarray(z)
            same = np.all(numbers == numbers[0], axis=0)
            if count > 1 and same.any():
                value = jax.tree.map(lambda leaf: leaf.tolist(), self.constrain(z[0]))
                raise PriorError(
                    f"prior must not be certain, but coordinate {int(same.argmax())} of theta = "
                    f"{value} is always the same: write it into the model"
                )
        return z

    def log_density(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """log p(z)."""
        total = jnp.zeros(())
        for part, entry in self._split(z):
            transform = biject_to(part.support)
            theta = transform(entry)
            total += jnp.sum(part.log_prob(theta))
            total += jnp.sum(transform.log_abs_det_jacobian(entry, theta))
        return total

    def constrain(self, z: Float[Array, " d"]) -> PyTree:
        """theta = c(z)."""
        tree = jax.tree.structure(self.parts, is_leaf=_is_leaf)
        entries = [biject_to(part.support)(entry) for part, entry in self._split(z)]
        return jax.tree.unflatten(tree, entries)

    def unconstrain(self, theta: PyTree) -> Float[Array, " d"]:
        """The z of a theta inside the support; finite even if theta is on its boundary."""
        parts = jax.tree.leaves(self.parts, is_leaf=_is_leaf)
        pairs = zip(parts, jax.tree.leaves(theta), strict=True)
        z = jnp.concatenate([biject_to(part.support).inv(entry).ravel() for part, entry in pairs])
        return jnp.nan_to_num(z, nan=jnp.nan, posinf=_EDGE, neginf=-_EDGE)

    @property
    def _kinds(self) -> PyTree:
        return jax.tree.map(lambda part: type(part).__name__, self.parts, is_leaf=_is_leaf)

    def _split(self, z: Float[Array, " d"]) -> Iterator[tuple[Any, Array]]:
        """Each distribution with its entry of z."""
        parts = jax.tree.leaves(self.parts, is_leaf=_is_leaf)
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        for part, shape, entry in zip(parts, self.shapes, jnp.split(z, ends[:-1]), strict=True):
            yield part, entry.reshape(shape)


@compiled_at_once
def _draw(prior: Prior, key: Array, count: int) -> tuple[Float[Array, "count d"], Bool[Array, ""]]:
    """Draws of z, and whether those of theta are finite."""
    theta = prior.sample(key, (count,))
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(theta)])
    return jax.vmap(prior.unconstrain)(theta), jnp.all(finite)


def _is_leaf(node: Any) -> bool:
    return node is None or isinstance(node, Distribution)


def _names(part: Any) -> Iterator[str]:
    """A name for each leaf of a distribution, in the order of the leaves."""
    for name in type(part).gather_pytree_data_fields():
        value = vars(part).get(name)
        if isinstance(value, Distribution):
            yield from (f"{name}.{inner}" for inner in _names(value))
        else:
            yield from (f"{name}.{i}" for i in range(len(jax.tree.leaves(value))))


def _as_float64(leaf: Any) -> Array:
    return on_device(np.asarray(leaf, float)) if is_concrete(leaf) else leaf.astype(jnp.float64)


def _checked(name: str, entry: Any) -> Any:
    """A proper distribution of real numbers with float64 parameters, or an error."""
    if not isinstance(entry, Distribution):
        raise PriorError(f"{name} must be a distribution, got {entry!r}")
    kind = type(entry).__name__
    part = jax.tree.map(_as_float64, entry.to_event())
    if part.support is None or part.support.is_discrete:
        raise PriorError(f"{name} must be a distribution of real numbers, got {kind}")
    try:
        biject_to(part.support)
    except NotImplementedError as problem:
        raise PriorError(f"{name} must have a support that R^k maps onto, got {kind}") from problem
    if is_concrete(part) and not bool(has_proper_parameters(part)):
        raise PriorError(
            f"{name} is no proper {kind}: its parameters must lie in their range (scales positive, "
            f"covariances positive definite)"
        )
    return part

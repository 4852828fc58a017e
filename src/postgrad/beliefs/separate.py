"""A belief for each of several items."""

from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import BatchBelief, Belief, check_arrays_stay, check_belief, first
from postgrad.errors import ContextError, ModelError, PriorError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import context_of, in_context
from postgrad.problem.items import Items
from postgrad.problem.problem import Decision, Model, Problem


class Separate(BatchBelief):
    """Independent beliefs about theta_1, ..., theta_n, one for each item.

        pi_t(theta)  =  prod_i pi_{t,i}(theta_i)

    Exact for a model `Items(f)` and a prior that is a product over items. A grid of m points for
    each item has n m points; a grid over all items at once would have m^n.

    Attributes:
        beliefs: pi_i, stacked along the leading axis of each leaf.
    """

    beliefs: Belief

    def __init__(self, belief: Belief, count: int):
        """The same prior for each item.

        Args:
            belief: The prior of one item.
            count: n.

        Raises:
            PriorError: If `belief` is not a belief, or `count` not a positive whole number.
        """
        check_belief(belief)
        n = as_count(count, PriorError, "count")
        self.beliefs = jax.tree.map(lambda leaf: jnp.stack([leaf] * n), belief)

    @property
    def count(self) -> int:
        """n."""
        return jax.tree.leaves(self.beliefs)[0].shape[0]

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule, item by item."""
        each = _each(likelihood)
        keys = None if key is None else random.split(key, self.count)

        def learn(belief: Belief, x: Array, y: Array, key: Array | None, z: PyTree) -> Belief:
            return belief.update(_at(each, z), x, y, batch.weight, key)

        axes = (0, 0, 1, None if keys is None else 0, 0)
        items = self._items(batch.x), batch.y, keys, _contexts(each)
        new = jax.vmap(learn, in_axes=axes)(self.beliefs, *items)
        return replaced(self, beliefs=new)

    def advance(self, elapsed: Any) -> Self:
        """Item by item."""
        return replaced(
            self, beliefs=jax.vmap(lambda belief: belief.advance(elapsed))(self.beliefs)
        )

    @property
    def is_comparable(self) -> bool:
        """If the items' beliefs are."""
        return self.beliefs.is_comparable

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether the model of each item is what its belief takes it for."""
        each = _each(likelihood)

        def fit(belief: Belief, x: Array, y: Array, z: PyTree) -> Array:
            return belief.fits(_at(each, z), Batch(x, y, batch.weight))

        items = self._items(batch.x), batch.y, _contexts(each)
        return jnp.all(jax.vmap(fit, in_axes=(0, 0, 1, 0))(self.beliefs, *items))

    def _items(self, x: Decision) -> Float[Array, " n"]:
        """The decision on each item; one number is the same for all."""
        return jnp.broadcast_to(x, (self.count,))

    @property
    def effective_size(self) -> Array:
        """The mean over items."""
        return jnp.mean(jax.vmap(lambda belief: belief.effective_size)(self.beliefs))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Independent draws, the items along the axis behind `shape`."""
        draw = jax.vmap(lambda belief, key: belief.sample(key, shape), out_axes=len(shape))
        return draw(self.beliefs, random.split(key, self.count))

    def mean(self) -> PyTree:
        """Item by item."""
        return jax.vmap(lambda belief: belief.mean())(self.beliefs)

    def spread(self) -> PyTree:
        """Item by item."""
        return jax.vmap(lambda belief: belief.spread())(self.beliefs)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """The sum over items."""
        each = _each(model)
        log_f = jax.vmap(lambda belief, x, xi, z: belief.log_mixture(_at(each, z), x, xi))
        return jnp.sum(log_f(self.beliefs, self._items(x), xi, _contexts(each)))

    def examples(self) -> PyTree:
        """The items' first examples together, their second together, and so on."""
        return jax.vmap(lambda belief: belief.examples(), out_axes=1)(self.beliefs)

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Each belief bound to the model of its item.

        Raises:
            ModelError: If the model is not `Items`, x has not one entry for each item, or the
                belief of an item changes its arrays when bound.
        """
        each = _each(problem.likelihood)
        if x.shape != (self.count,):
            raise ModelError(f"Separate has {self.count} items, but x has shape {x.shape}")
        for leaf in jax.tree.leaves(_contexts(each)):
            if jnp.shape(leaf)[:1] != (self.count,):
                raise ContextError(
                    f"each array of the context must have one entry for each of {self.count} items "
                    f"along its leading axis, got shape {jnp.shape(leaf)}"
                )
        each = _at(each, jax.tree.map(lambda leaf: leaf[0], _contexts(each)))
        check_arrays_stay(first(self.beliefs), Problem(_nothing, each), x[0], "Separate")
        return self


def _nothing(x: Decision, xi: Any) -> Array:
    return jnp.zeros(()) * x * xi


def _contexts(each: Model) -> PyTree:
    """The contexts of all items, along the leading axis of each array; None without contexts."""
    return context_of(each)


def _at(each: Model, context: PyTree) -> Model:
    """The model of one item, in the item's context."""
    return each if context is None else in_context(each, context)


def _each(model: Model) -> Model:
    if not isinstance(model, Items):
        raise ModelError(f"Separate is the belief of a model Items(f), got {model!r}")
    return model.each

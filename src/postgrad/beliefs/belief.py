"""The contract of a belief, and the likelihood that all of them read."""

import abc
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.beliefs.forgetting import Memory
from postgrad.distributions.density import log_density
from postgrad.errors import ModelError, PriorError
from postgrad.numerics.module import Module, replaced
from postgrad.numerics.validate import as_array, is_concrete, on_device
from postgrad.problem.batch import Batch, by_rows
from postgrad.problem.problem import Decision, Model, Problem


class Belief(Module):
    """What is believed about theta: pi_t.

    Laws, checked for every final class of this room: the order of batches does not matter; a split
    batch equals the whole; an observation of weight zero is no observation; `vmap` equals a loop;
    saved and restored is bit-identical; `update` and `advance` leave the arrays of `fixed()` fields
    as they are; `advance(a)` and then `advance(b)` is `advance(a + b)`, and `advance(0)` changes
    nothing; `mean`, `spread` and `log_mixture` are those of the draws.
    """

    @abc.abstractmethod
    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Float[Array, "D ..."],
        weight: Float[Array, " D"] | None = None,
        key: Array | None = None,
    ) -> Self:
        """pi_t from pi_{t-1} and a batch that arose under the decision x.

        Args:
            likelihood: f(.; x, theta), the distribution of one observation.
            x: The decision in force when the batch arose.
            batch: D observations along the leading axis.
            weight: How much each observation counts; None counts all once. Zero weights are
                how batches of varying size share one compiled program.
            key: For beliefs that draw random numbers; a new key for each batch.
        """

    def advance(self, elapsed: Any) -> Self:
        """What is believed after some time without data; `update` itself lets no time pass.

        A belief that does not change with time returns itself.

        Args:
            elapsed: How many units of time pass, zero or more. One a batch, where there are no
                dates.
        """
        del elapsed
        return self

    def predict_and_update(
        self, likelihood: Model, batch: Batch, key: Array | None = None
    ) -> tuple[Self, Float[Array, " D"]]:
        """pi_t, and log f_hat_{t-1}(y_j; x) of each observation: `update` and `log_mixture`.

        A belief that reads the same densities for both has a method of its own: XLA does not find
        out by itself that they are the same.
        """
        foreseen = by_rows(lambda y: self.log_mixture(likelihood, batch.x, y), batch.y)
        return self.update(likelihood, *batch, key), foreseen

    @property
    def is_comparable(self) -> bool:
        """Whether `log_mixture` says how well a belief foresaw, next to others of its class.

        Not if some of its values are densities and others probabilities.
        """
        return True

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether what `bind` found out about the model holds under the decision of a batch.

        Asked in contexts, of which `bind` can try some only. Beliefs that assume nothing fit.
        """
        del likelihood, batch
        return jnp.ones((), bool)

    @property
    @abc.abstractmethod
    def effective_size(self) -> Float[Array, ""]:
        """The number of observations that the posterior counts; less than seen, if it forgets."""

    @abc.abstractmethod
    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Independent draws theta ~ pi_t, stacked in `shape` before theta's own axes."""

    @abc.abstractmethod
    def mean(self) -> PyTree:
        """E theta under pi_t, number by number; NaN where the mean is infinite or undefined."""

    @abc.abstractmethod
    def spread(self) -> PyTree:
        """The standard deviation of each number of theta under pi_t."""

    @abc.abstractmethod
    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """log f_hat(xi; x), the log of E_{pi_t} f(xi; x, theta), at one xi."""

    @abc.abstractmethod
    def examples(self) -> PyTree:
        """Values of theta along a leading axis, on which a model is tried before it is used."""

    def sample_among(self, axes: PyTree, which: Int[Array, " k"], key: Array) -> PyTree:
        """Draws from members of a stack, each from another one: `sample(key, (k,))` of these.

        Args:
            axes: The axis of each leaf along which members are stacked; None of shared leaves.
            which: The member that each draw is from.
            key: Randomness.
        """
        draw = jax.vmap(lambda member: member.sample(key, which.shape), (axes,))
        return jax.tree.map(lambda leaf: leaf[which, jnp.arange(which.size)], draw(self))

    def wide(self) -> "Belief | None":
        """A belief whose draws are pairs (theta, `Drawn`), with unlikely thetas more often.

        None where draws from the belief itself do.
        """
        return None

    @abc.abstractmethod
    def bind(self, problem: Problem, x: Decision) -> Self:
        """The same belief, in the form that is fastest for the problem.

        Args:
            problem: The problem, already tried on `examples`.
            x: The initial decision.

        Raises:
            ModelError: If the belief's formulas do not hold for the model.
        """


class BatchBelief(Belief):
    """A belief that takes all there is to know about a batch in one piece."""

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Float[Array, "D ..."],
        weight: Float[Array, " D"] | None = None,
        key: Array | None = None,
    ) -> Self:
        """pi_t from pi_{t-1} and a batch; see `Belief`."""
        return self._learn(likelihood, Batch(x, batch, weight), key)

    @abc.abstractmethod
    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """pi_t from pi_{t-1} and a batch."""


class BeliefWithMemory(BatchBelief):
    """A belief that may forget.

    Attributes:
        memory: How much of the past counts.
    """

    memory: eqx.AbstractVar[Memory]

    @property
    def effective_size(self) -> Float[Array, ""]:
        """As many observations as the memory counts."""
        return self.memory.size

    def advance(self, elapsed: Any) -> Self:
        """The evidence fades; see `Memory`."""
        share = self.memory.share(elapsed)
        if share is None:
            return self
        return replaced(self._faded(share), memory=self.memory.faded(share))

    @abc.abstractmethod
    def _faded(self, share: Float[Array, ""]) -> Self:
        """With this share of the evidence; prior and memory stay as they are."""


def log_likelihood(likelihood: Model, theta: PyTree, batch: Batch) -> Float[Array, ""]:
    """sum_j w_j log f(y_j; x, theta)."""
    member = likelihood(batch.x, theta)
    return batch.total_of(lambda y: log_density(member, y))


def as_points(points: PyTree) -> PyTree:
    """Values of theta along a leading axis, as float64 arrays with one leading length."""
    points = as_theta(points, "points")
    lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(points)}
    if len(lengths) != 1 or lengths <= {(), (0,)}:
        raise PriorError(
            f"points must be values of theta along one leading axis, got lengths {sorted(lengths)}"
        )
    return points


def select(points: PyTree, index: Array, valid: Array) -> PyTree:
    """The points at an index; NaN where not valid, so that no point stands for a lost posterior."""

    def at(leaf: Array) -> Array:
        wide = valid.reshape(*valid.shape, *(1,) * (leaf.ndim - 1))
        return jnp.where(wide, leaf[index], jnp.nan)

    return jax.tree.map(at, points)


def check_arrays_stay(belief: Belief, problem: Problem, x: Decision, stack: str) -> None:
    """Tries to bind a belief of which a stack is made.

    Raises:
        ModelError: If the bound belief has other arrays, or of other shapes or types.
    """
    both = (belief, belief.bind(problem, x))
    if not eqx.tree_equal(*(jax.tree.map(jax.typeof, one) for one in both)):
        raise ModelError(
            f"{type(belief).__name__} changes its arrays for this model, which {stack} does not "
            f"support"
        )


def check_belief(belief: Any) -> Belief:
    """The argument itself.

    Raises:
        PriorError: If the argument is no belief.
    """
    if not isinstance(belief, Belief):
        raise PriorError(f"belief must be a belief such as Grid(...), got {belief!r}")
    return belief


def as_rows(points: PyTree) -> Float[np.ndarray, "n p"]:
    """All numbers of each theta in one row, for points along the leading axis of each leaf."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(points)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def first(points: PyTree) -> PyTree:
    """The first of the points."""

    def first_row(leaf: Array) -> Array:  # on the host, if it can be: nothing is to be compiled
        plain = is_concrete(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return on_device(np.asarray(leaf)[0]) if plain else leaf[0]

    return jax.tree.map(first_row, points)


def as_theta(theta: PyTree, what: str = "theta") -> PyTree:
    """One value of theta, as float64 arrays; `what` is its name in error messages."""
    return jax.tree.map(lambda leaf: as_array(leaf, PriorError, what), theta, is_leaf=_is_leaf)


def _is_leaf(node: object) -> bool:
    # a list of numbers is an array to the user, and None a mistake: neither is a tree of arrays
    return node is None or isinstance(node, list)

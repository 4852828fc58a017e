"""Several beliefs at once, weighed by how well each of them foresaw the data."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import BatchBelief, Belief
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.beliefs.mixture.stacking import difference, one_of, stacked
from postgrad.beliefs.sufficient_totals import SufficientTotals
from postgrad.errors import ModelError, PriorError
from postgrad.numerics.fixed import fixed, fixed_leaves
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_number, is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem


class Mixture(BatchBelief):
    """Beliefs that differ in numbers, each weighted by how well it predicted the data.

        pi_t  =  sum_m v_{t,m} pi_t^(m),
        v_{t,m}  ~  v_{t-1,m}^(discount^idle) prod_j f_hat^(m)(y_{t,j}; x_t),

    where idle is the time since the weights last learned.

    The members may differ in their rates of forgetting, in the scales of their priors, in numbers
    that each of them takes for known, such as a dispersion: what would have to be tuned is weighed
    by the data.

        Mixture([Grid(points, forget=rate) for rate in (1.0, 0.99, 0.98, 0.96, 0.92)])

    The product is over predictive densities before the batch (the prequential likelihood of Dawid,
    1984), so with a discount of 1 this is Bayesian model averaging; the observations of a batch are
    predicted independently of each other. With a smaller discount a member that did not fit once
    may come back: what was learned of the weights counts for less when new data come. Until then
    the weights stay as they were learned, however far ahead a decision looks.

    A member for which the data are impossible has weight zero from then on, and learns no more.

    Attributes:
        beliefs: pi^(m), stacked along the leading axis of each leaf that members do not share.
        log_weights: log v_m, the largest zero.
        shared: Of each leaf of `beliefs`, whether the members share it.
        discount: What remains of log v_m when data come after one unit of time; None is exactly 1.
        idle: The time since the weights last learned; None if they are not discounted.
    """

    beliefs: Belief
    log_weights: Float[Array, " m"]
    # Follows from the members, and is not part of an agent's settings.
    shared: tuple[bool, ...] = eqx.field(static=True, metadata={"of_this_process": True})
    discount: Float[Array, ""] | None = fixed(default=None)
    idle: Float[Array, ""] | None = None

    def __init__(self, members: Iterable[Belief], discount: Any = 1):
        """Members of equal weight.

        Args:
            members: Beliefs of one class and one shape, which differ in numbers only.
            discount: What remains of the logarithms of the weights when data come after one unit of
                time.

        Raises:
            PriorError: If a member is no belief, differs from the first in more than numbers, or
                their predictions cannot be compared; if the discount is not in (0, 1].
        """
        self.beliefs, self.shared = stacked(beliefs := _checked(members))
        self.log_weights = on_device(np.zeros(len(beliefs)))
        rate = as_number(
            discount, PriorError, "discount", "a number in (0, 1]", lambda rate: 0 < rate <= 1
        )
        self.discount = None if is_concrete(rate) and float(rate) == 1.0 else rate
        self.idle = None if self.discount is None else on_device(np.float64(0.0))

    @property
    def members(self) -> tuple[Belief, ...]:
        """pi^(m), one by one."""
        return tuple(self._member(i) for i in range(self.log_weights.shape[0]))

    @property
    def probabilities(self) -> Float[Array, " m"]:
        """v_m."""
        return jax.nn.softmax(self.log_weights)

    @property
    def weights(self) -> LogWeights:
        """v_m, up to a constant."""
        return LogWeights(self.log_weights)

    @property
    def is_comparable(self) -> bool:
        """If the members are."""
        return self.beliefs.is_comparable

    @property
    def axes(self) -> PyTree:
        """The axis of each leaf along which members are stacked; None of shared leaves."""
        axes = [None if is_shared else 0 for is_shared in self.shared]
        return jax.tree.unflatten(jax.tree.structure(self.beliefs), axes)

    def each(self, function: Callable[[Belief], PyTree], out_axes: PyTree = 0) -> PyTree:
        """`function(belief)` of each member."""
        return jax.vmap(function, (self.axes,), out_axes)(self.beliefs)

    def _member(self, index: int) -> Belief:
        def own(leaf: Array, axis: int | None) -> Array:
            return leaf if axis is None else one_of(leaf, index)

        member: Belief = jax.tree.map(own, self.beliefs, self.axes)
        return member

    def advance(self, elapsed: Any) -> Self:
        """Member by member; the weights stay until data come, which discounts them."""
        beliefs = self.each(lambda belief: belief.advance(elapsed), self.axes)
        idle = None if self.idle is None else self.idle + elapsed
        return replaced(self, beliefs=beliefs, idle=idle)

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule for every member, and for the weights of the members."""
        return self.predict_and_update(likelihood, batch, key)[0]

    def predict_and_update(
        self, likelihood: Model, batch: Batch, key: Array | None = None
    ) -> tuple[Self, Float[Array, " D"]]:
        """Both from the members' own predictions."""
        learned, log_f = self.each(
            lambda belief: belief.predict_and_update(likelihood, batch, key), (self.axes, 0)
        )
        before, idle = self._discounted(batch)
        log_weights = before + jax.vmap(batch.total)(log_f)
        new = replaced(
            self,
            beliefs=self._unless(log_weights == -jnp.inf, learned),
            log_weights=log_weights - jnp.max(log_weights),
            idle=idle,
        )
        return new, jax.vmap(self._mixed, in_axes=1)(log_f)

    def _discounted(self, batch: Batch) -> tuple[Float[Array, " m"], Float[Array, ""] | None]:
        """The weights on which a batch builds, and the time since; a batch of no rows brings none.

        Observations of weight zero fill up batches, and are no data.
        """
        if self.discount is None or self.idle is None:
            return self.log_weights, None
        elapsed = jnp.where(batch.size > 0, self.idle, 0.0)
        return self.discount**elapsed * self.log_weights, self.idle - elapsed

    def _unless(self, impossible: Array, learned: Belief) -> Belief:
        """What was learned, but for members without weight, which would be NaN."""

        def unless(new: Array, old: Array, is_fixed: bool) -> Array:
            wide = impossible.reshape(-1, *(1,) * (new.ndim - 1))
            return new if is_fixed else jnp.where(wide, old, new)

        belief: Belief = jax.tree.map(unless, learned, self.beliefs, fixed_leaves(self.beliefs))
        return belief

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether the model is what all members take it for."""
        return jnp.all(self.each(lambda belief: belief.fits(likelihood, batch)))

    @property
    def effective_size(self) -> Array:
        """The members' sizes, averaged with the weights v_m."""
        return jnp.sum(self.probabilities * self.each(lambda belief: belief.effective_size))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """A member by inversion, then a draw from it."""
        key_member, key_theta = random.split(key)
        which, _ = self.weights.pick(random.uniform(key_member, (math.prod(shape),)))
        thetas = self.beliefs.sample_among(self.axes, which, key_theta)
        return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), thetas)

    def mean(self) -> PyTree:
        """sum_m v_m E_m theta."""
        return self.weights.average(self.each(lambda belief: belief.mean()))

    def spread(self) -> PyTree:
        """From the variance within members and that of their means."""
        means = self.each(lambda belief: belief.mean())
        spreads = self.each(lambda belief: belief.spread())
        squares = jax.tree.map(lambda m, s, e: s**2 + (m - e) ** 2, means, spreads, self.mean())
        return jax.tree.map(jnp.sqrt, self.weights.average(squares))

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """log sum_m v_m f_hat^(m)(xi; x)."""
        return self._mixed(self.each(lambda belief: belief.log_mixture(model, x, xi)))

    def _mixed(self, log_f: Float[Array, " m"]) -> Float[Array, ""]:
        """log sum_m v_m f_m."""
        return logsumexp(self.log_weights + log_f) - logsumexp(self.log_weights)

    def examples(self) -> PyTree:
        """Those of the first member."""
        return self._member(0).examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Binds all members.

        Raises:
            ModelError: If a member's formulas do not hold for the model, bound members differ in
                more than numbers, or keep what a mixture cannot hold.
        """
        before = self.members
        bound = [member.bind(problem, x) for member in before]
        if all(new is old for new, old in zip(bound, before, strict=True)):
            return self
        for i, member in enumerate(bound[1:], 2):
            if said := difference(bound[0], member):
                raise ModelError(
                    f"members of a Mixture must have one shape, but bound to this model member {i} "
                    f"{said}"
                )
        _check_holds(bound[0])
        beliefs, shared = stacked(bound)
        return replaced(self, beliefs=beliefs, shared=shared)


def _checked(members: Any) -> Sequence[Belief]:
    """The members, as a sequence, or an error."""
    beliefs = list(members) if isinstance(members, Iterable) else []
    if not beliefs:
        raise PriorError(
            f"members must be beliefs in a list, such as [Gamma(2, 1), Gamma(4, 2)], got "
            f"{members!r}"
        )
    for i, member in enumerate(beliefs, 1):
        if not isinstance(member, Belief):
            raise PriorError(f"members must be beliefs, but member {i} is {member!r}")
        if said := difference(beliefs[0], member):
            raise PriorError(
                f"members of a Mixture must be of one class and one shape and differ in numbers "
                f"only, but member {i} {said}"
            )
    if not beliefs[0].is_comparable:
        raise PriorError(
            f"members of a Mixture are compared by their predictive densities, but what "
            f"{type(beliefs[0]).__name__} predicts is a density at new values and a probability at "
            f"values seen: use one of them, or a discrete base"
        )
    return beliefs


def _check_holds(member: Belief) -> None:
    """Whether a bound member has only arrays that stay as many, whatever the data.

    Raises:
        ModelError: If the loops over stages enlarge its arrays, search them or do without them.
    """

    def is_node(node: Any) -> bool:
        return isinstance(node, KeptRows | SufficientWeights | SufficientTotals)

    for node in filter(is_node, jax.tree.leaves(member, is_leaf=is_node)):
        name = type(member).__name__
        if isinstance(node, SufficientWeights):
            raise ModelError(
                f"a Mixture needs members that compute all their points: make each {name} with "
                f"forget=1.0"
            )
        if isinstance(node, KeptRows) or node.shift is not None:
            raise ModelError(
                f"a Mixture cannot hold a {name} for this model, which would have to keep all data "
                f"to be sure; {name} by itself can, and so can a Mixture of Grid or Gaussian"
            )

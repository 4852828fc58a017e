"""Any model, any prior: sequential Monte Carlo."""

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief, select
from postgrad.beliefs.forgetting import Memory
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.kept_likelihood import Evidence, History, renewed
from postgrad.beliefs.sampled.markov_moves import (
    Bridge,
    effective_count,
    is_thin,
    kernel_of,
    move,
    next_temperature,
    spread_of,
    systematic,
)
from postgrad.beliefs.sampled.prior import Prior
from postgrad.errors import SettingError
from postgrad.numerics.fixed import fixed
from postgrad.numerics.validate import as_count, as_key
from postgrad.problem.problem import Decision, Model, Problem

# Temperatures on the way to one posterior, at most: some hundred take a prior to one that is a
# million times narrower in twenty dimensions.
_MOST_ROUNDS = 1000


class _Cloud(eqx.Module):
    """Particles on their way from one posterior to the next; see `Bridge` for past and present."""

    positions: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    past: Float[Array, " n"] | None
    present: Float[Array, " n"]
    step: Float[Array, ""]


class Particles(Belief):
    """Weighted particles (theta_i, w_i) whose law approaches pi_t as their number grows.

    Each batch multiplies the weights by its likelihood. When the effective number of particles

        (sum w_i)^2 / sum w_i^2

    would fall below half, the batch is taken in at temperatures 0 < phi_1 < phi_2 < ... <= 1, each
    as far from the last as half of the particles' worth allows: particles are drawn anew by weight
    (systematic resampling) and moved by Markov chains that leave the tempered posterior as it is.
    The chains measure distances by the particles' own spread, and go on until the particles have
    forgotten where they were.

    A batch costs one likelihood for each particle. Moves are rare, since posteriors change slowly:
    their number grows with the logarithm of that of the data. A move computes the likelihood of
    *all* data so far. If the model is of an exponential family, that is one product with the sums
    of its statistics; if not (`stores_history`), all data are kept, and it takes as many terms as
    there are data.

    Attributes:
        prior: pi_0.
        evidence: What the data said; None before `bind`.
        positions: The particles in R^d; see `Prior`.
        log_weights: log w_i, the largest zero.
        gained: The log-likelihood of all data at each particle, for those who forget.
        step: The size of a move, as a multiple of the theoretical one.
        memory: How much of the past counts.
        move: Which Markov chain.
        moves: How many of its steps at each temperature; None is as many as it takes.
    """

    prior: Prior = fixed()
    evidence: Evidence | None
    positions: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    gained: Float[Array, " n"] | None
    step: Float[Array, ""]
    memory: Memory
    move: str = eqx.field(static=True)
    moves: int | None = eqx.field(static=True)

    def __init__(
        self,
        prior: PyTree,
        count: int = 1000,
        *,
        move: str = "random-walk",
        moves: int | None = None,
        forget: Any = None,
        seed: int | Array = 0,
    ):
        """Particles from a prior.

        Args:
            prior: A numpyro distribution, or a dictionary of them: theta then is one, too.
            count: How many particles.
            move: "random-walk"; "mala" or "hmc", which use the gradient of the log-density in theta
                and pay from some ten dimensions on.
            moves: Steps of the chain at each temperature; as many as it takes, if not given.
            forget: What remains of the evidence after one more batch; everything, if not given.
            seed: Of the first draws, a whole number or a JAX key. The first batch replaces them by
                others that depend on its key.

        Raises:
            PriorError: If the prior is no proper distribution of real numbers.
            SettingError: If a setting is outside its range.
        """
        self.prior = Prior(prior)
        count = as_count(count, SettingError, "count")
        if count < 2:
            raise SettingError(f"count must be at least 2, got {count}")
        kernel_of(move, self.prior.size)
        self.move = move
        self.moves = None if moves is None else as_count(moves, SettingError, "moves")
        self.evidence = None
        self.positions = self.prior.start(as_key(seed, SettingError), count)
        self.log_weights = jnp.zeros(count)
        self.memory = Memory(forget)
        self.gained = None if forget is None else jnp.zeros(count)
        self.step = jnp.ones(())

    @property
    def particles(self) -> PyTree:
        """theta_i, along the leading axis."""
        return jax.vmap(self.prior.constrain)(self.positions)

    @property
    def probabilities(self) -> Float[Array, " n"]:
        """w_i / sum w."""
        return jax.nn.softmax(self.log_weights)

    @property
    def effective_particles(self) -> Float[Array, ""]:
        """(sum w_i)^2 / sum w_i^2: how many particles of equal weight would be as good."""
        return effective_count(self.log_weights)

    @property
    def effective_size(self) -> Array:
        """That of the memory."""
        return self.memory.size

    @property
    def stores_history(self) -> bool:
        """Whether all data are kept, and each move costs time in proportion to them."""
        return isinstance(self.evidence, History)

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Array,
        weight: Array | None = None,
        key: Array | None = None,
    ) -> Self:
        """Weighs the particles, and moves them when few of them matter.

        Raises:
            SettingError: Without a key, or before `bind`.
        """
        if key is None:
            raise SettingError("Particles need a key to learn from a batch, got none")
        if self.evidence is None:
            raise SettingError("Particles must be bound to a problem first: bind(problem, x)")
        key_first, key = random.split(key)
        bridge = Bridge(self.prior, self.evidence, self.memory, likelihood, x, batch, weight)
        kernel = kernel_of(self.move, self.prior.size)
        n = self.log_weights.shape[0]

        # Before any data, draws with this key: runs that share a belief do not share its draws.
        positions = lax.cond(
            self.memory.size > 0,
            lambda: self.positions,
            lambda: self.prior.draw(key_first, n),
        )
        present = jax.vmap(bridge.present)(positions)
        cloud = _Cloud(positions, self.log_weights, self.gained, present, self.step)

        def is_far(carry: tuple[Array, Array, _Cloud]) -> Array:
            i, phi, cloud = carry
            change = bridge.change(cloud.past, cloud.present)
            return (i < _MOST_ROUNDS) & is_thin(cloud.log_weights + (1.0 - phi) * change)

        def approach(carry: tuple[Array, Array, _Cloud]) -> tuple[Array, Array, _Cloud]:
            i, phi, cloud = carry
            key_resample, key_move = random.split(random.fold_in(key, i))
            # Temper: as far as half of the particles' worth remains.
            change = bridge.change(cloud.past, cloud.present)
            target = next_temperature(cloud.log_weights, change, phi)
            log_weights = cloud.log_weights + (target - phi) * change
            # Resample, and move: each a draw from the tempered posterior.
            spread = spread_of(cloud.positions, log_weights)
            positions, step = move(
                kernel,
                lambda z: bridge.log_density(z, target),
                cloud.positions[systematic(key_resample, log_weights)],
                spread,
                key_move,
                cloud.step,
                self.moves,
            )
            past = None if cloud.past is None else jax.vmap(bridge.past)(positions)
            present = jax.vmap(bridge.present)(positions)
            return i + 1, target, _Cloud(positions, jnp.zeros(n), past, present, step)

        start = (jnp.zeros((), jnp.int32), jnp.zeros(()), cloud)
        _, phi, cloud = lax.while_loop(is_far, approach, start)
        log_weights = cloud.log_weights + (1.0 - phi) * bridge.change(cloud.past, cloud.present)
        evidence = bridge.crossed()
        log_weights = jnp.where(evidence.is_whole, log_weights, jnp.nan)
        gained = None if cloud.past is None else self.memory.fade(cloud.past) + cloud.present
        return eqx.tree_at(
            _moving,
            self,
            (
                evidence,
                cloud.positions,
                log_weights - jnp.max(log_weights),
                gained,
                cloud.step,
                self.memory.after(batch, weight),
            ),
            is_leaf=lambda node: node is None,
        )

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Draws by weight."""
        index, valid = self._weights.pick(random.uniform(key, (math.prod(shape),)))
        return select(self.particles, index.reshape(shape), jnp.broadcast_to(valid, shape))

    def mean(self) -> PyTree:
        """Over the particles."""
        return self._weights.average(self.particles)

    def spread(self) -> PyTree:
        """Over the particles."""
        return self._weights.spread(self.particles)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log sum_i w_i f(xi; x, theta_i) / sum_i w_i."""
        return self._weights.log_mixture(model, self.particles, x, xi)

    def examples(self) -> PyTree:
        """All particles."""
        return self.particles

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Finds out what has to be kept of the data: sums of statistics, or all of them.

        Raises:
            ModelError: If the data so far are of another kind than the problem's.
        """
        evidence = renewed(self.evidence, self.memory, problem, self.particles, x)
        return eqx.tree_at(
            lambda self: self.evidence, self, evidence, is_leaf=lambda node: node is None
        )

    @property
    def _weights(self) -> LogWeights:
        return LogWeights(self.log_weights)


def _moving(belief: Particles) -> tuple[PyTree, ...]:
    """What a batch changes."""
    return (
        belief.evidence,
        belief.positions,
        belief.log_weights,
        belief.gained,
        belief.step,
        belief.memory,
    )

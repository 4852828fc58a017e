"""Any model, any prior: sequential Monte Carlo."""

from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.forgetting import Memory
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.sampled.markov_moves import (
    effective_count,
    is_thin,
    kernel_of,
    move,
    next_temperature,
    spread_of,
    systematic,
)
from postgrad.beliefs.sampled.moved_draws import MOST_ROUNDS, MovedDraws
from postgrad.errors import SettingError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model


class _Cloud(eqx.Module):
    """Particles on their way from one posterior to the next; see `Bridge` for past and present."""

    positions: Float[Array, "n d"]
    log_weights: Float[Array, " n"]
    past: Float[Array, " n"] | None
    present: Float[Array, " n"]
    step: Float[Array, ""]


class Particles(MovedDraws):
    """Weighted particles (theta_i, w_i) whose law approaches pi_t as their number grows.

    Each batch multiplies the weights by its likelihood. When the effective number of particles

        (sum w_i)^2 / sum w_i^2

    would fall below half, the batch is taken in at temperatures 0 < phi_1 < phi_2 < ... <= 1, each
    as far from the last as leaves half of the effective number: particles are drawn anew by weight
    (systematic resampling) and moved by Markov chains that leave the tempered posterior invariant.
    The chains measure distances by the particles' own covariance, and go on until the particles are
    nearly uncorrelated with where they were.

    A batch costs one likelihood for each particle. Moves are rare, since posteriors change slowly:
    their number grows with the logarithm of that of the data. A move computes the likelihood of
    *all* data so far. If the model is of an exponential family, that is one product with the sums
    of its statistics; if not (`stores_history`), all data are kept, and it takes as many terms as
    there are data.

    Attributes:
        prior: pi_0.
        kept: What is kept of the data, to compute their likelihood; None before `bind`.
        positions: The particles in R^d; see `Prior`.
        log_weights: log w_i, the largest zero.
        gained: The log-likelihood of all data at each particle, if the past fades; else None.
        step: The size of a move, as a multiple of the theoretical one.
        memory: How much of the past counts.
        move: Which Markov chain.
        moves: How many of its steps at each temperature; None is as many as it takes.
    """

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
            forget: What remains of the evidence after one unit of time; everything, if not given.
            seed: Of the first draws, a whole number or a JAX key. The first batch replaces them by
                others that depend on its key.

        Raises:
            PriorError: If the prior is no proper distribution of real numbers.
            SettingError: If a setting is outside its range.
        """
        super().__init__(prior, count, seed)
        kernel_of(move, self.prior.size)
        self.move = move
        self.moves = None if moves is None else as_count(moves, SettingError, "moves")
        self.log_weights = on_device(np.zeros(count))
        self.memory = Memory(forget)
        self.gained = None if forget is None else on_device(np.zeros(count))
        self.step = on_device(np.ones(()))

    @property
    def weights(self) -> LogWeights:
        """w_i."""
        return LogWeights(self.log_weights)

    @property
    def effective_particles(self) -> Float[Array, ""]:
        """(sum w_i)^2 / sum w_i^2: how many particles of equal weight would be as good."""
        return effective_count(self.log_weights)

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Weighs the particles, and moves them when the effective number is below half.

        Raises:
            SettingError: Without a key, or before `bind`.
        """
        bridge, positions, key = self.bridge(likelihood, batch, key)
        kernel = kernel_of(self.move, self.prior.size)
        present = jax.vmap(bridge.present)(positions)
        cloud = _Cloud(positions, self.log_weights, self.gained, present, self.step)

        def is_far(carry: tuple[Array, Array, _Cloud]) -> Array:
            i, phi, cloud = carry
            return (i < MOST_ROUNDS) & is_thin(cloud.log_weights + (1.0 - phi) * cloud.present)

        def approach(carry: tuple[Array, Array, _Cloud]) -> tuple[Array, Array, _Cloud]:
            i, phi, cloud = carry
            key_resample, key_move = random.split(random.fold_in(key, i))
            # Temper: as far as leaves half of the effective number.
            target = next_temperature(cloud.log_weights, cloud.present, phi)
            log_weights = cloud.log_weights + (target - phi) * cloud.present
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
            even = jnp.zeros_like(log_weights)
            return i + 1, target, _Cloud(positions, even, past, present, step)

        start = (jnp.zeros((), jnp.int32), jnp.zeros(()), cloud)
        _, phi, cloud = lax.while_loop(is_far, approach, start)
        log_weights = cloud.log_weights + (1.0 - phi) * cloud.present
        kept = bridge.crossed()
        log_weights = jnp.where(kept.is_whole, log_weights, jnp.nan)
        gained = None if cloud.past is None else cloud.past + cloud.present
        return replaced(
            self,
            kept=kept,
            positions=cloud.positions,
            log_weights=log_weights - jnp.max(log_weights),
            gained=gained,
            step=cloud.step,
            memory=self.memory.after(batch),
        )

    def _faded(self, share: Array) -> Self:
        """Weighs the particles by what has faded; the next batch moves them, if that is much."""
        assert self.gained is not None  # kept if the past fades
        possible = self.gained > -jnp.inf  # and 0 times infinity is NaN
        lost = jnp.where(possible, (1.0 - share) * self.gained, 0.0)
        log_weights = self.log_weights - lost
        return replaced(
            super()._faded(share),
            log_weights=log_weights - jnp.max(log_weights),
            gained=jnp.where(possible, share * self.gained, -jnp.inf),
        )

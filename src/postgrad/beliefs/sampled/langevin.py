"""Langevin chains on the posterior: the paper's own suggestion where it has no closed form."""

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.forgetting import Memory
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.sampled.markov_moves import (
    LogDensity,
    next_temperature,
    spread_of,
    systematic,
)
from postgrad.beliefs.sampled.moved_draws import MOST_ROUNDS, MovedDraws
from postgrad.errors import SettingError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count, as_number
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model

# The first step sizes, times d^(-1/3), and the acceptance probability that goes with the first.
_ADJUSTED, _UNADJUSTED, _ACCEPTANCE = 0.5 * 1.65**2, 0.1, 0.574
# The largest drift of a chain in one step, in standard deviations of each coordinate.
_FARTHEST = 4.0


class Langevin(MovedDraws):
    """Chains that follow the posterior, each batch from where the last one left them.

    In coordinates u in which the chains have unit spread, a step is

        u'  =  u + e grad log pi_t(u) + sqrt(2 e) noise,

    taken `steps` times for each batch. With `adjusted`, steps are accepted or refused by the
    rule of Metropolis, and the chains converge to pi_t. Without, all steps are accepted, and the
    chains converge to a wider law: on a normal posterior its variances are too large by a factor

        (1 - sqrt(1 - 2 e)) / e  =  1 + e/2 + e^2/2 + ...,

    in which the chains' own standard deviation is the unit. The standard deviation is 2.7 % too
    large at e = 0.1, and from e = 1/2 on there is no such law. For other posteriors the mean is off
    by a multiple of e, too. A chain needs about 1/e steps to become uncorrelated with where it was:
    with fewer for each batch, the chains also lag behind the posterior.

    If a batch narrows the posterior much (the first one after a wide prior), the chains are far out
    in its tails. The batch is then taken in at several temperatures as in `Particles`, with `steps`
    steps at each. Chains are neither weighted nor resampled.

    Every step computes the gradient of the likelihood of *all* data so far: in one product with
    sums of statistics if the model is of an exponential family, else from the kept rows
    (`stores_history`). `Particles` do so much less often.

    Attributes:
        prior: pi_0.
        kept: What is kept of the data, to compute their likelihood; None before `bind`.
        positions: The chains in R^d; see `Prior`.
        step_size: e.
        memory: How much of the past counts.
        steps: Steps for each batch, and each temperature.
        adjusted: Whether steps may be refused.
        adapts: Whether e follows the acceptance probability, whose best value is 0.574.
    """

    step_size: Float[Array, ""]
    memory: Memory
    steps: int = eqx.field(static=True)
    adjusted: bool = eqx.field(static=True)
    adapts: bool = eqx.field(static=True)

    def __init__(
        self,
        prior: PyTree,
        count: int = 100,
        *,
        steps: int = 10,
        adjusted: bool = True,
        step_size: Any = None,
        forget: Any = None,
        seed: int | Array = 0,
    ):
        """Chains from a prior.

        Args:
            prior: A numpyro distribution, or a dictionary of them: theta then is one, too.
            count: How many chains.
            steps: Steps for each batch.
            adjusted: Whether steps may be refused, which takes the bias away.
            step_size: e; if not given, 1.36 d^(-1/3) to begin with, adapted as steps are accepted,
                or 0.1 d^(-1/3) if unadjusted.
            forget: What remains of the evidence after one unit of time; everything, if not given.
            seed: Of the first draws; see `Particles`.

        Raises:
            PriorError: If the prior is no proper distribution of real numbers.
            SettingError: If a setting is outside its range.
        """
        super().__init__(prior, count, seed)
        self.steps = as_count(steps, SettingError, "steps")
        if not isinstance(adjusted, bool):
            raise SettingError(f"adjusted must be True or False, got {adjusted!r}")
        self.adjusted = adjusted
        self.adapts = adjusted and step_size is None
        if step_size is None:
            step_size = (_ADJUSTED if adjusted else _UNADJUSTED) / self.prior.size ** (1 / 3)
        most = math.inf if adjusted else 0.5
        allowed = f"a number in (0, {most})"
        self.step_size = as_number(
            step_size, SettingError, "step_size", allowed, lambda size: 0 < size < most
        )
        self.memory = Memory(forget)

    @property
    def weights(self) -> LogWeights:
        """All the same."""
        return LogWeights(jnp.zeros(self.positions.shape[0]))

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Takes steps on the new posterior, from the chains' positions.

        Raises:
            SettingError: Without a key, or before `bind`.
        """
        bridge, positions, key = self.bridge(likelihood, batch, key)
        n = positions.shape[0]

        def is_far(carry: PyTree) -> Array:
            i, phi, _, _ = carry
            return (i < MOST_ROUNDS) & (phi < 1.0)

        def approach(carry: PyTree) -> PyTree:
            i, phi, z, step_size = carry
            key_lost, key_steps = random.split(random.fold_in(key, i))
            change = jax.vmap(bridge.present)(z)
            # A chain where the data are impossible goes on from one where they are not.
            lost = jnp.where(change == -jnp.inf, -jnp.inf, 0.0)
            index = jnp.where(lost < 0, systematic(key_lost, lost), jnp.arange(n))
            z, change = jnp.where(jnp.all(lost < 0), jnp.nan, z[index]), change[index]
            # Temper, and let the chains run in coordinates whitened by the tempered posterior.
            target = next_temperature(jnp.zeros(n), change, phi)
            spread = spread_of(z, (target - phi) * change)
            u, step_size = self._run(
                lambda u: bridge.log_density(spread.colour(u), target),
                spread.whiten(z),
                step_size,
                key_steps,
            )
            return i + 1, target, jax.vmap(spread.colour)(u), step_size

        start = (jnp.zeros((), jnp.int32), jnp.zeros(()), positions, self.step_size)
        _, _, positions, step_size = lax.while_loop(is_far, approach, start)
        kept = bridge.crossed()
        positions = jnp.where(kept.is_whole, positions, jnp.nan)
        memory = self.memory.after(batch)
        return replaced(self, kept=kept, positions=positions, step_size=step_size, memory=memory)

    def _run(
        self,
        log_density: LogDensity,
        u: Float[Array, "n d"],
        step_size: Float[Array, ""],
        key: Array,
    ) -> tuple[Float[Array, "n d"], Float[Array, ""]]:
        """`steps` steps of all chains.

        blackjax's kernel can neither leave out Metropolis' rule nor limit the drift. Far out in a
        tail that falls faster than a normal one, a whole step would overshoot and be refused again
        and again; with limited drift it is a valid proposal.
        """
        n, d = u.shape
        evaluate = jax.vmap(jax.value_and_grad(log_density))

        def drift(gradient: Array, e: Array) -> Array:
            whole = e * jnp.nan_to_num(gradient)
            length = jnp.linalg.norm(whole, axis=-1, keepdims=True)
            return whole / jnp.maximum(1.0, length / (_FARTHEST * d**0.5))

        def step(carry: tuple[Array, Array, Array, Array], key: Array) -> tuple[Any, None]:
            u, log_f, g, e = carry
            key_noise, key_accept = random.split(key)
            noise = random.normal(key_noise, (n, d))
            new = u + drift(g, e) + jnp.sqrt(2.0 * e) * noise
            new_log_f, new_g = evaluate(new)
            back = (u - new - drift(new_g, e)) / jnp.sqrt(2.0 * e)  # the noise that leads back
            ratio = new_log_f - log_f + 0.5 * jnp.sum(noise**2 - back**2, axis=-1)
            chance = jnp.where(jnp.isnan(ratio), 0.0, jnp.exp(jnp.minimum(ratio, 0.0)))
            if self.adjusted:
                accepted = random.uniform(key_accept, (n,)) < chance
            else:
                accepted = new_log_f > -jnp.inf
            if self.adapts:
                e = jnp.clip(e * jnp.exp(jnp.mean(chance) - _ACCEPTANCE), 1e-6, 10.0)
            kept = accepted[:, None]
            u, g = jnp.where(kept, new, u), jnp.where(kept, new_g, g)
            return (u, jnp.where(accepted, new_log_f, log_f), g, e), None

        start = (u, *evaluate(u), step_size)
        (u, _, _, step_size), _ = lax.scan(step, start, random.split(key, self.steps))
        return u, step_size

"""Moves of draws from one posterior to the next, by tempering and Markov chains.

Everything here happens in R^d, where z stands for theta = c(z); see `Prior`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float

from postgrad.beliefs.belief import log_likelihood
from postgrad.beliefs.kept_likelihood import KeptLikelihood
from postgrad.beliefs.sampled.prior import Prior
from postgrad.errors import SettingError
from postgrad.numerics.small_matrices import cholesky, solve_lower
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model

LogDensity = Callable[[Float[Array, " d"]], Float[Array, ""]]

# Moves are repeated until the correlation of draws with their first positions is below this number
# (plus two standard errors of a zero correlation), but not more often than the second number.
_CORRELATION, _MOST_MOVES = 0.1, 200
# Bisections in the search for a temperature, on a logarithmic scale of this many nats.
_HALVINGS, _NATS = 30, 60.0


class Bridge(eqx.Module):
    """Posteriors between pi_{t-1} and pi_t, by temperature phi.

        log pi(z; phi)  =  log pi_0(z) + l_{t-1}(z) + phi l(y_t; z)

    up to a constant: pi_{t-1} at phi = 0, and pi_t at phi = 1, with l the log-likelihoods.

    Attributes:
        prior: pi_0.
        kept: l_{t-1}.
        likelihood: f.
        batch: y_t.
    """

    prior: Prior
    kept: KeptLikelihood
    likelihood: Model
    batch: Batch

    def past(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """l_{t-1}(z)."""
        theta = self.prior.constrain(z)
        return _or_impossible(self.kept.log_likelihood(self.likelihood, theta))

    def present(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        """l(y_t; z)."""
        theta = self.prior.constrain(z)
        return _or_impossible(log_likelihood(self.likelihood, theta, self.batch))

    def log_density(self, z: Float[Array, " d"], phi: Array) -> Float[Array, ""]:
        """Log pi(z; phi), for phi > 0."""
        past, present = self.past(z), self.present(z)
        return _or_impossible(self.prior.log_density(z) + past + phi * present)

    def crossed(self) -> KeptLikelihood:
        """l_t."""
        return self.kept.add(self.likelihood, self.batch)


def _or_impossible(log_f: Array) -> Array:
    """A density that is NaN, from parameters that overflow, is taken for zero."""
    return jnp.where(jnp.isnan(log_f), -jnp.inf, log_f)


def effective_count(log_weights: Float[Array, " n"]) -> Float[Array, ""]:
    """(sum w)^2 / sum w^2: as many draws of equal weight are as good. NaN if all w are zero."""
    weights = jnp.exp(log_weights - jnp.max(log_weights))
    return jnp.sum(weights) ** 2 / jnp.sum(weights**2)


def is_thin(log_weights: Float[Array, " n"]) -> Array:
    """Whether the effective count is below half of the number of draws."""
    return effective_count(log_weights) < 0.5 * log_weights.shape[0]


def next_temperature(
    log_weights: Float[Array, " n"], change: Float[Array, " n"], phi: Float[Array, ""]
) -> Float[Array, ""]:
    """The next phi, at which the effective count is half of the number of draws, by bisection."""
    top = jnp.log1p(-phi)

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        thin = is_thin(log_weights + jnp.exp(middle) * change)
        return jnp.where(thin, low, middle), jnp.where(thin, middle, high)

    _, step = lax.fori_loop(0, _HALVINGS, halve, (top - _NATS, top))
    return jnp.minimum(phi + jnp.exp(step), 1.0)


class Spread(NamedTuple):
    """Mean and root of the covariance of draws: z = mean + lower u with whitened u."""

    mean: Float[Array, " d"]
    lower: Float[Array, "d d"]

    def whiten(self, z: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The u of each z."""
        return solve_lower(self.lower, (z - self.mean).T).T

    def colour(self, u: Float[Array, " d"]) -> Float[Array, " d"]:
        """The z of one u."""
        return self.mean + self.lower @ u


def spread_of(z: Float[Array, "n d"], log_weights: Float[Array, " n"]) -> Spread:
    """Weighted mean, and a root of the weighted covariance.

    Correlations are shrunk towards zero, the more so the fewer draws there are. Variances have a
    floor at the resolution of floating-point numbers.
    """
    d = z.shape[1]
    weights = jax.nn.softmax(log_weights)
    mean = weights @ z
    gap = z - mean
    covariance = gap.T @ (weights[:, None] * gap)
    variance = jnp.diagonal(covariance)
    known = effective_count(log_weights) / (effective_count(log_weights) + d)
    floor = 1e-9 * variance + (1e-9 * (1.0 + jnp.abs(mean))) ** 2
    matrix = known * covariance + jnp.diag((1.0 - known) * variance + floor)
    return Spread(mean, cholesky(matrix))


def systematic(key: Array, log_weights: Float[Array, " n"]) -> Array:
    """Indices of n draws by weight, from one uniform number and equal strides."""
    n = log_weights.shape[0]
    cumulated = jnp.cumsum(jnp.exp(log_weights - jnp.max(log_weights)))
    places = (random.uniform(key) + jnp.arange(n)) / n * cumulated[-1]
    return jnp.minimum(jnp.searchsorted(cumulated, places, side="right"), n - 1)


class Kernel(NamedTuple):
    """A Markov kernel, for whitened coordinates.

    Attributes:
        algorithm: (log-density, step size) -> `init` and `step`, as blackjax has them.
        size: The optimal step size for a normal target in d dimensions.
        acceptance: The acceptance probability at that step size.
        most: The largest multiple of that step size.
    """

    algorithm: Callable[[LogDensity, Any], Any]
    size: float
    acceptance: float
    most: float = 1e3


def kernel_of(name: str, d: int) -> Kernel:
    """The kernel of a name.

    Raises:
        SettingError: If no kernel has that name, or blackjax is not installed.
    """
    if name not in _KERNELS:
        raise SettingError(f"move must be one of {', '.join(map(repr, _KERNELS))}, got {name!r}")
    try:
        return _KERNELS[name](d)
    except ImportError as problem:
        raise SettingError(
            f"{name} needs the package blackjax, which is not installed"
        ) from problem


class _Place(NamedTuple):
    """Where a chain is."""

    position: Float[Array, " d"]
    log_density: Float[Array, ""]


class _Told(NamedTuple):
    """What a step tells."""

    acceptance_rate: Float[Array, ""]


class _RandomWalk(NamedTuple):
    """A normal step of each coordinate, accepted by Metropolis' rule.

    What blackjax's `normal_random_walk` computes, bit for bit: blackjax takes a fifth of a second
    to import, and the default should not need it.
    """

    target: LogDensity
    size: Any

    def init(self, position: Float[Array, " d"]) -> _Place:
        """The chain at its first position."""
        return _Place(position, self.target(position))

    def step(self, key: Array, here: _Place) -> tuple[_Place, _Told]:
        """The chain after one step, and with which probability the step was to be accepted."""
        key_step, key_accept = random.split(key)
        noise = random.normal(key_step, here.position.shape)
        there = self.init(here.position + self.size * noise)
        gain = there.log_density - here.log_density
        chance = jnp.minimum(jnp.exp(jnp.where(jnp.isnan(gain), -jnp.inf, gain)), 1.0)
        accepted = random.bernoulli(key_accept, chance)
        place = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), there, here)
        return place, _Told(chance)


def _random_walk(d: int) -> Kernel:
    """A normal step; 2.38 / sqrt(d) is optimal, and accepted 0.234 of the time for large d."""
    return Kernel(_RandomWalk, 2.38 / d**0.5, 0.234 + 0.206 / d)


def _mala(d: int) -> Kernel:
    """size times gradient + sqrt(2 size) noise; 2 size = 1.65^2 / d^(1/3) is optimal."""
    from blackjax.mcmc import mala

    return Kernel(mala.as_top_level_api, 0.5 * 1.65**2 / d ** (1 / 3), 0.574)


def _hmc(d: int) -> Kernel:
    """A quarter of a normal target's period, after which z is uncorrelated with its start."""
    from blackjax.mcmc import hmc

    quarter = 0.5 * math.pi
    count = math.ceil(quarter * d**0.25)

    def algorithm(target: LogDensity, size: Any) -> Any:
        return hmc.as_top_level_api(target, size, jnp.ones(d), count)

    return Kernel(algorithm, quarter / count, 0.75, 1.0)


_KERNELS = {"random-walk": _random_walk, "mala": _mala, "hmc": _hmc}


def move(
    kernel: Kernel,
    log_density: LogDensity,
    z: Float[Array, "n d"],
    spread: Spread,
    key: Array,
    size: Float[Array, ""],
    moves: int | None,
) -> tuple[Float[Array, "n d"], Float[Array, ""]]:
    """Moves each draw by a kernel that leaves the density invariant.

    Args:
        kernel: The kernel.
        log_density: The log-density of z, up to a constant.
        z: The draws.
        spread: An estimate of their mean and covariance.
        key: The random key.
        size: The step size, as a multiple of the optimal one.
        moves: How many moves; if None, until draws and first positions are nearly uncorrelated.

    Returns:
        The draws, and the step size adapted to the acceptance probability.
    """
    n = z.shape[0]
    start = spread.whiten(z)

    def target(u: Array) -> Array:
        return log_density(spread.colour(u))

    def go_on(carry: tuple[Array, Any, Array]) -> Array:
        i, state, _ = carry
        if moves is not None:
            return i < moves
        correlation = jnp.max(jnp.abs(_correlations(start, state.position)))
        forgot = correlation < _CORRELATION + 2.0 / n**0.5
        return (i < _MOST_MOVES) & ((i == 0) | ~forgot)

    def once(carry: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
        i, state, size = carry
        keys = random.split(random.fold_in(key, i), n)
        step = kernel.algorithm(target, size * kernel.size).step
        state, told = jax.vmap(step)(keys, state)
        wanted = size * jnp.exp(jnp.mean(told.acceptance_rate) - kernel.acceptance)
        return i + 1, state, jnp.clip(wanted, 1e-3, kernel.most)

    begun = jax.vmap(kernel.algorithm(target, kernel.size).init)(start)
    _, state, size = lax.while_loop(go_on, once, (jnp.zeros((), jnp.int32), begun, size))
    return jax.vmap(spread.colour)(state.position), size


def _correlations(one: Float[Array, "n d"], other: Float[Array, "n d"]) -> Float[Array, " d"]:
    a, b = one - jnp.mean(one, axis=0), other - jnp.mean(other, axis=0)
    return jnp.sum(a * b, axis=0) / jnp.sqrt(jnp.sum(a**2, axis=0) * jnp.sum(b**2, axis=0))

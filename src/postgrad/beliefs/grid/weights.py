"""The weights of finitely many points."""

import abc
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.beliefs.belief import log_likelihood
from postgrad.distributions.density import log_density
from postgrad.numerics.fixed import fixed
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model

# Up to this many entries a running sum is a product with a small triangular matrix: more arithmetic
# than needed, but it vectorises over runs.
_SMALL = 128
# Of more entries, running sums are taken of parts of so many.
_PART = 16


class Weights(eqx.Module):
    """Weights w_i of points theta_1, ..., theta_n: their posterior up to a constant."""

    @property
    @abc.abstractmethod
    def log_weights(self) -> Float[Array, " n"]:
        """log w_i; the largest is zero."""

    @abc.abstractmethod
    def update(self, likelihood: Model, points: PyTree, batch: Batch) -> Self:
        """Bayes' rule: w_i prod_j f(y_j; x, theta_i)."""

    @abc.abstractmethod
    def pick(self, u: Float[Array, " k"]) -> tuple[Int[Array, " k"], Bool[Array, ""]]:
        """Indices of points with probabilities w_i / sum w, by inversion of u.

        And whether these are valid: not if all weights are zero or NaN, as no point explains the
        data.
        """

    @abc.abstractmethod
    def mode(self) -> tuple[Int[Array, ""], Bool[Array, ""]]:
        """The index of the first point of the largest weight, and whether that is positive."""

    @abc.abstractmethod
    def average(self, values: PyTree) -> PyTree:
        """sum_i w_i v_i / sum_i w_i, with v_i along the leading axis; NaN if all w_i are zero."""

    def spread(self, points: PyTree) -> PyTree:
        """The standard deviation of each number of theta."""
        squares = jax.tree.map(lambda leaf, m: (leaf - m) ** 2, points, self.average(points))
        return jax.tree.map(jnp.sqrt, self.average(squares))

    @abc.abstractmethod
    def log_mixture(self, model: Model, points: PyTree, x: Decision, xi: Array) -> Array:
        """log sum_i w_i f(xi; x, theta_i) / sum_i w_i."""


class LogWeights(Weights):
    """The logarithm of each weight, in float64 with the largest at zero, for any model.

    Products of densities underflow after a few dozen batches; sums of their logarithms do not.

    Attributes:
        values: The logarithms.
        prior: The logarithms of the prior's weights, if the past fades; else None.
    """

    values: Float[Array, " n"]
    prior: Float[Array, " n"] | None = fixed(default=None)

    @property
    def log_weights(self) -> Array:
        """The logarithms."""
        return self.values

    def faded(self, share: Float[Array, ""]) -> Self:
        """w_i^share p_i^(1 - share), with p the prior."""
        assert self.prior is not None  # kept if the past fades
        impossible = self.prior == -jnp.inf  # and -inf - -inf is NaN
        gained = jnp.where(impossible, 0.0, self.values - self.prior)
        values = share * gained + self.prior
        return type(self)(values - jnp.max(values), self.prior)

    def update(self, likelihood: Model, points: PyTree, batch: Batch) -> Self:
        """Adds the batch's log-likelihood at each point."""
        log_f = jax.vmap(lambda theta: log_likelihood(likelihood, theta, batch))
        return self.added(log_f(points))

    def added(self, log_f: Float[Array, " n"]) -> Self:
        """w_i exp(log f_i)."""
        values = self.values + log_f
        return type(self)(values - jnp.max(values), self.prior)

    def pick(self, u: Array) -> tuple[Array, Array]:
        """The first point at which the running sum of weights exceeds u times their total."""
        if self.values.size > _SMALL:
            row = jnp.zeros(u.shape, jnp.int32)
            index, total = pick_in_rows(jnp.exp(self.values)[None], row, u)
            return index, total[0] > 0
        # compared with all running sums, which vectorises over runs
        cumulated = cumulate(jnp.exp(self.values))
        index = jnp.sum(cumulated[:, None] <= u * cumulated[-1], axis=0, dtype=jnp.int32)
        return index, cumulated[-1] > 0

    def pick_among(self, which: Int[Array, " k"], u: Array) -> tuple[Array, Bool[Array, " k"]]:
        """`pick` from the `which`-th of several weights, stacked along the leading axis."""
        if self.values.shape[1] > _SMALL:
            index, total = pick_in_rows(jnp.exp(self.values), which, u)
            return index, total[which] > 0
        index, valid = jax.vmap(lambda values: type(self)(values).pick(u))(self.values)
        return index[which, jnp.arange(which.size)], valid[which]

    def mode(self) -> tuple[Array, Array]:
        """The first log-weight that is zero."""
        index = first_mark(self.values >= 0)
        return index, index < self.values.size

    def average(self, values: PyTree) -> PyTree:
        """Over all points."""
        shares = jax.nn.softmax(self.values)
        return jax.tree.map(
            lambda leaf: jnp.sum(shares.reshape(-1, *(1,) * (leaf.ndim - 1)) * leaf, axis=0), values
        )

    def log_mixture(self, model: Model, points: PyTree, x: Decision, xi: Array) -> Array:
        """From the density at each point."""
        return self.log_mean(log_densities(model, points, x, xi))

    def log_mean(self, log_f: Float[Array, " n"]) -> Float[Array, ""]:
        """log sum_i w_i f_i / sum_i w_i."""
        return logsumexp(self.values + log_f) - logsumexp(self.values)


def log_densities(model: Model, points: PyTree, x: Decision, xi: Array) -> Float[Array, " n"]:
    """log f(xi; x, theta_i) at each point."""
    return jax.vmap(lambda theta: log_density(model(x, theta), xi))(points)


def first_mark(marked: Bool[Array, " n"]) -> Int[Array, ""]:
    """The index of the first True, n if all are False."""
    # `argmax` does not vectorise over runs.
    n = marked.shape[0]
    return jnp.min(jnp.where(marked, jnp.arange(n, dtype=jnp.int32), n))


def pick_in_rows(
    mass: Float[Array, "r n"], row: Int[Array, " k"], u: Float[Array, " k"]
) -> tuple[Int[Array, " k"], Float[Array, " r"]]:
    """The first entry of a row at which the row's running sum exceeds u times its total.

    First a part of 16 entries, by bisection of running sums of parts, then an entry of that part:
    running sums of all entries would take longer than everything else.

    Returns:
        The index of each draw, and the total of each row.
    """
    parts = jnp.pad(mass, ((0, 0), (0, -mass.shape[1] % _PART))).reshape(len(mass), -1, _PART)
    count = parts.shape[1]
    ends = jnp.cumsum(jnp.sum(parts, axis=2), axis=1)
    target = u * ends[row, -1]

    def halve(_: Array, between: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = between
        middle = (low + high) // 2
        is_above = ends[row, middle] > target
        return jnp.where(is_above, low, middle + 1), jnp.where(is_above, middle, high)

    none = jnp.zeros_like(row)
    part, _ = lax.fori_loop(0, (count - 1).bit_length(), halve, (none, none + (count - 1)))
    place = none
    running = jnp.where(part > 0, ends[row, part - 1], 0.0)
    # By `lax`: functions of `jax.numpy` take several times as long to trace.
    for i, column in enumerate(lax.split(parts[row, part], (1,) * _PART, axis=1)):
        # The last entry with weight before which the sum does not exceed the target: rounding may
        # keep the sum of the entries below that of their part.
        entry = lax.squeeze(column, (1,))
        is_before = lax.bitwise_and(lax.gt(entry, 0.0), lax.le(running, target))
        place = lax.select(is_before, lax.full_like(place, i), place)
        running = lax.add(running, entry)
    return _PART * part + place, ends[:, -1]


def cumulate(mass: Float[Array, " n"]) -> Float[Array, " n"]:
    """Running sums."""
    n = mass.shape[0]
    return jnp.tril(jnp.ones((n, n))) @ mass if n <= _SMALL else jnp.cumsum(mass)

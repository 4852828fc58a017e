"""When to say that the data do not look like the model, and how often that is said in error.

If belief and model are right, the u of `Surprise` are independent and uniform on [0, 1], and so is
each of

    q  =  u,  1 - u,  2 min(u, 1 - u)   of the location,      q  =  u,  1 - u   of the spread.

A small q is evidence against the model. A bet with exponent epsilon in (0, 1) multiplies its
stake by

    e(q)  =  epsilon q^(epsilon - 1),   whose mean is one if q is uniform:

no bet gains on average while the model is right, and some gain exponentially when it is wrong. Two
stakes are kept of each bet:

    W_t  =  W_{t-1} e(q_t)              since the beginning,
    C_t  =  max(C_{t-1}, 1) e(q_t)      since the stage from which it has gained most.

The mean of W over all bets and coordinates is a martingale that starts at one; by Ville's
inequality it ever exceeds 1 / alpha with probability alpha at most. The mean of C is below an
e-detector of Shiryaev-Roberts type, so the average number of batches until it exceeds 1 / alpha is
1 / alpha at least (Shin, Ramdas and Rinaldo, *E-detectors*, 2023).

A rank among M replicates cannot be rarer than 1 / (M + 1), so the u of one batch is weak evidence,
however far off the batch is. A batch with z^2 >= 1 / alpha therefore raises an alarm by itself: by
Chebyshev's inequality its probability is alpha at most for each z, provided that the replicates
show the mean and the standard deviation as they are.
"""

from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float, Int

from postgrad.algorithm.surprise import Surprise
from postgrad.errors import SettingError
from postgrad.numerics.module import Module, replaced
from postgrad.numerics.validate import as_number, on_device
from postgrad.records.alarm import Alarm

# epsilon: the first gains most from a few large surprises, the second from many small ones.
_EXPONENTS = np.asarray([0.2, 0.6])
# What each of the five q is about.
_STATISTICS = ("location", "location", "location", "spread", "spread")
# Smaller q are rounded up to this, so that no stake becomes infinite.
_SMALLEST = 1e-12
# The number of batches without bets after an alarm; it doubles after each further alarm of misfit.
_REST = 10

_KINDS = (None, "misfit", "change", "outlier")
_NONE, _MISFIT, _CHANGE, _OUTLIER = np.arange(4)


class MisspecificationWarning(UserWarning):
    """The data do not look like the model: the prior excludes them, or the world has changed.

    Attributes:
        alarm: What was noticed.
    """

    def __init__(self, alarm: Alarm):
        super().__init__(str(alarm))
        self.alarm = alarm


class Monitor(Module):
    """A sequential test of whether batches come as foreseen.

    An alarm is on in the state after the batch that raised it. Then all stakes return to one, and
    for `rest` batches there are no bets, so that one cause does not raise an alarm at every batch.

    Attributes:
        alpha: The bound on false alarms: a right model ever raises a first alarm of misfit with
            probability alpha at most, and alarms of change are at least 1 / alpha batches apart
            on average.
        stage: The number of batches seen.
        start: The number of batches seen before the first bet in W.
        since_start: log W of each bet.
        since_best: log C of each bet.
        best: The number of the first batch in each C.
        rest: The length of the next rest, in batches, if the next alarm is one of misfit too.
        asleep: The number of batches that are left of the present rest.
        outlying: Whether the last batch was an outlier, whether or not that raised an alarm.
        raised: The number of the alarm that is on, a place in `_KINDS`; 0 for none.
        surprise: The surprise of the last batch.
    """

    alpha: Float[Array, ""]
    stage: Int[Array, ""]
    start: Int[Array, ""]
    since_start: Float[Array, "2 5 ..."]
    since_best: Float[Array, "2 5 ..."]
    best: Int[Array, "2 5 ..."]
    rest: Int[Array, ""]
    asleep: Int[Array, ""]
    outlying: Bool[Array, ""]
    raised: Int[Array, ""]
    surprise: Surprise

    def __init__(self, event_shape: tuple[int, ...] = (), *, alpha: Any = 1e-3):
        """Before the first batch.

        Args:
            event_shape: The shape of one observation.
            alpha: The bound on false alarms. With the default, a right model raises alarms of
                change once in a thousand batches, or more rarely.

        Raises:
            SettingError: If alpha is not between 0 and 1.
        """
        self.alpha = as_number(
            alpha, SettingError, "alpha", "a number between 0 and 1", lambda a: 0 < a < 1
        )
        bets = (len(_EXPONENTS), len(_STATISTICS), *event_shape)
        self.stage, self.start, self.asleep, self.raised = (on_device(np.int64(0)),) * 4
        self.since_start = self.since_best = on_device(np.zeros(bets))
        self.best = on_device(np.ones(bets, int))
        self.rest = on_device(np.int64(_REST))
        self.outlying = on_device(np.bool_(False))
        unknown = on_device(np.full(event_shape, np.nan))
        self.surprise = Surprise(unknown, unknown, unknown, unknown)

    def update(self, surprise: Surprise) -> Self:
        """The monitor after one more batch."""
        old = self._restarted()
        stage = old.stage + 1
        gained = jnp.where(old.asleep > 0, 0.0, _gains(surprise))
        since_start = old.since_start + gained
        since_best = jnp.maximum(old.since_best, 0.0) + gained

        limit = 1.0 / self.alpha
        misfit, change = (_mean(account) >= limit for account in (since_start, since_best))
        outlying = jnp.max(_squares(surprise)) >= limit
        kinds = [misfit, change, outlying & ~old.outlying]
        return replaced(
            old,
            stage=stage,
            since_start=since_start,
            since_best=since_best,
            best=jnp.where(old.since_best > 0, old.best, stage),
            asleep=jnp.maximum(old.asleep - 1, 0),
            outlying=outlying,
            raised=jnp.select(kinds, [_MISFIT, _CHANGE, _OUTLIER], _NONE),
            surprise=surprise,
        )

    def _restarted(self) -> Self:
        """With all stakes at one and a rest, if the last batch raised an alarm of bets."""
        over = (self.raised == _MISFIT) | (self.raised == _CHANGE)
        rest = jnp.where(self.raised == _MISFIT, self.rest, _REST)
        return replaced(
            self,
            start=jnp.where(over, self.stage + rest, self.start),
            since_start=jnp.where(over, 0.0, self.since_start),
            since_best=jnp.where(over, 0.0, self.since_best),
            asleep=jnp.where(over, rest, self.asleep),
            rest=jnp.where(over, 2 * rest, self.rest),
        )

    def alarm(self) -> Alarm | None:
        """The alarm that the last batch raised, if any; not for use inside compiled programs."""
        kind = _KINDS[int(self.raised)]
        if kind is None:
            return None
        if kind == "outlier":
            squares = _squares(self.surprise)
            which, *coordinate = np.unravel_index(int(jnp.argmax(squares)), squares.shape)
            statistic, evidence = ("location", "spread")[which], float(jnp.max(squares))
            since = int(self.stage)
        else:
            account = self.since_start if kind == "misfit" else self.since_best
            bet = np.unravel_index(int(jnp.argmax(account)), account.shape)
            _, which, *coordinate = bet
            statistic, evidence = _STATISTICS[which], float(_mean(account))
            since = int(self.start) + 1 if kind == "misfit" else int(self.best[bet])
        index = tuple(int(i) for i in coordinate)
        return Alarm(
            kind=kind,
            stage=int(self.stage),
            since=since,
            evidence=evidence,
            statistic=statistic,
            coordinate=index,
            pit=float(getattr(self.surprise, f"pit_{statistic}")[index]),
            z=float(getattr(self.surprise, f"z_{statistic}")[index]),
            alpha=float(self.alpha),
        )


def _gains(surprise: Surprise) -> Float[Array, "2 5 ..."]:
    """log e(q) of each bet; zero where q is NaN."""
    location, spread = surprise.pit_location, surprise.pit_spread
    both = 2.0 * jnp.minimum(location, 1.0 - location)
    q = jnp.stack([location, 1.0 - location, both, spread, 1.0 - spread])
    epsilon = _EXPONENTS.reshape(-1, *(1,) * q.ndim)
    gains = jnp.log(epsilon) + (epsilon - 1.0) * jnp.log(jnp.maximum(q, _SMALLEST))
    return jnp.where(jnp.isnan(q), 0.0, gains)


def _squares(surprise: Surprise) -> Float[Array, "2 ..."]:
    """z^2, whose mean is one as well: Chebyshev's inequality is Ville's for a single batch."""
    z = jnp.stack([surprise.z_location, surprise.z_spread])
    return jnp.where(jnp.isnan(z), 0.0, z**2)


def _mean(account: Float[Array, "..."]) -> Float[Array, ""]:
    """The mean of all stakes, from their logarithms."""
    return jnp.exp(logsumexp(account)) / account.size

"""How much of the past counts."""

from typing import Any, Self, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.errors import PriorError
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_number, on_device
from postgrad.problem.batch import Batch

T = TypeVar("T", bound=PyTree)


class Memory(eqx.Module):
    """A power prior: with time, evidence counts for less.

        pi_t  is proportional to  pi_0 prod_{s <= t} f(y_s; x_s, .)^(lambda^(tau_t - tau_s)),
        n_t   =  sum_{s <= t} lambda^(tau_t - tau_s) D_s

    with tau_s the time of batch s, which is s where batches have no dates. With lambda = 1 nothing
    is forgotten and this is Bayes' rule. The prior itself does not fade: without new data the
    belief returns to it.

    Attributes:
        forget: lambda, what remains of the evidence after one unit of time; None is exactly 1.
        size: n_t, the effective sample size. With lambda < 1 and a batch at each unit of time it
            converges to D / (1 - lambda).
    """

    forget: Float[Array, ""] | None = fixed()
    size: Float[Array, ""]

    def __init__(self, forget: Any = None):
        """No observations yet.

        Raises:
            PriorError: If lambda is not in (0, 1].
        """
        if forget is not None:
            forget = as_number(
                forget, PriorError, "forget", "a number in (0, 1]", lambda rate: 0 < rate <= 1
            )
        self.forget = forget
        self.size = on_device(np.float64(0.0))

    def share(self, elapsed: Any) -> Float[Array, ""] | None:
        """lambda^elapsed, what remains of the evidence; None if nothing is ever forgotten."""
        return None if self.forget is None else self.forget**elapsed

    def faded(self, share: Float[Array, ""]) -> Self:
        """With all observations counted at this share."""
        return replaced(self, size=fade(self.size, share))

    def after(self, batch: Batch) -> Self:
        """With one more batch counted."""
        return replaced(self, size=self.size + batch.size)


def fade(evidence: T, share: Float[Array, ""]) -> T:
    """Sums over the past, multiplied by the share that remains."""
    return jax.tree.map(lambda leaf: share * leaf, evidence)

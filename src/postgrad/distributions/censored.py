"""Numbers that are seen only up to a limit, as sales are demand up to the stock."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jaxtyping import Array, Bool
from numpyro.distributions import constraints

from postgrad.distributions.tail_probabilities import ROUNDING, knows_tails, log_tails
from postgrad.errors import ModelError
from postgrad.numerics.module import shown
from postgrad.numerics.validate import as_array, is_concrete


class Censored(dist.Distribution):
    """The distribution of min(xi, upper), of max(xi, lower), or of both, for xi ~ base.

        log f(y)  =  log f_base(y)            below the limit,
                     log P(xi >= upper)       at the limit,

    and accordingly at a lower limit. As the observation of a problem, with the decision as the
    limit, it is the distribution of sales = min(demand, stock):

        model = lambda x, theta: dist.Normal(theta, 3.0)
        observation = lambda x, theta: pg.distributions.Censored(dist.Normal(theta, 3.0), upper=x)

    The limit may be any number, even if xi is a whole number: a stock of 7.3 sells 7.3 to a demand
    of 8, and P(xi >= 7.3) is P(xi >= 8). A shop that sells whole units only has upper=jnp.floor(x).

    Data equal the limit if they do so to twelve digits. Data above the limit are outside the
    support.

    Tail probabilities are accurate as logarithms, however small, for normal, lognormal,
    exponential, Weibull, gamma, logistic, Poisson, geometric and negative binomial numbers. For
    other families 1 - cdf is taken, which is rounded to zero below exp(-36).

    Attributes:
        base_dist: The distribution of xi, a single number.
        upper: The upper limit, or None.
        lower: The lower limit, or None.
    """

    pytree_data_fields = ("base_dist", "upper", "lower")

    def __init__(
        self, base: Any, upper: Any = None, lower: Any = None, *, validate_args: bool | None = None
    ):
        """Censor a distribution.

        Args:
            base: A numpyro distribution of a family named above, or with a `cdf`.
            upper: The upper limit, if there is one.
            lower: The lower limit, if there is one.
            validate_args: As in numpyro.

        Raises:
            ModelError: If there is no limit, the limits are not finite or not in order, or the
                base is no distribution of single numbers whose tails are known.
        """
        if upper is None and lower is None:
            raise ModelError("Censored needs a limit: upper, lower or both")
        if getattr(base, "event_shape", None) != ():
            raise ModelError(
                f"Censored needs a distribution of single numbers, got {shown(base)}; for several "
                f"independent numbers use Censored(..., upper=x).to_event(1)"
            )
        self.base_dist = base
        self.upper = None if upper is None else as_array(upper, ModelError, "upper")
        self.lower = None if lower is None else as_array(lower, ModelError, "lower")
        limits = [limit for limit in (self.lower, self.upper) if limit is not None]
        if len(limits) == 2 and is_concrete(limits) and not jnp.all(limits[0] < limits[1]):
            raise ModelError(f"lower must be below upper, got {lower} and {upper}")
        if not knows_tails(base):
            raise ModelError(
                f"Censored needs the tails of its base, but {type(base).__name__} has no cdf"
            )
        shape = jnp.broadcast_shapes(base.batch_shape, *(jnp.shape(limit) for limit in limits))
        super().__init__(shape, (), validate_args=validate_args)

    __repr__ = shown

    @property
    def has_rsample(self) -> bool:
        """As the base: a minimum is differentiable except at one point."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> constraints.Constraint:
        """The limits, and the support of the base between them."""
        return _Seen(self.base_dist.support, self.upper, self.lower)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """min(xi, upper), max(xi, lower)."""
        xi = self.base_dist.expand(self.batch_shape).sample(key, sample_shape)
        if self.lower is not None:
            xi = jnp.maximum(xi, self.lower)
        return xi if self.upper is None else jnp.minimum(xi, self.upper)

    def log_prob(self, value: Array) -> Array:
        """The density between the limits, the probability at them."""
        value = jnp.asarray(value, float)
        at_upper, at_lower = _at_limits(value, self.upper, self.lower)
        # At a limit the density is not used, and is evaluated at some number in the support: NaN in
        # a branch that is not taken would still be NaN in the gradient.
        elsewhere = lax.stop_gradient(self.base_dist.support.feasible_like(value))
        seen = jnp.where(at_upper | at_lower, elsewhere, value)
        log_f = self.base_dist.log_prob(seen)
        if self.upper is not None:  # the tail of the limit, not of the value: once for all data
            log_f = jnp.where(at_upper, log_tails(self.base_dist, self.upper)[0], log_f)
        if self.lower is not None:
            log_f = jnp.where(at_lower, log_tails(self.base_dist, self.lower)[1], log_f)
        return log_f


class _Seen(constraints.Constraint):
    """The support of a censored distribution."""

    def __init__(self, base: constraints.Constraint, upper: Array | None, lower: Array | None):
        self.base, self.upper, self.lower = base, upper, lower

    @property
    def is_discrete(self) -> bool:
        return self.base.is_discrete

    def __call__(self, x: Array) -> Bool[Array, "..."]:
        x = jnp.asarray(x, float)
        at_upper, at_lower = _at_limits(x, self.upper, self.lower)
        inside = at_upper | at_lower | self.base(x)
        if self.upper is not None:
            inside &= x <= self.upper + ROUNDING * jnp.abs(self.upper)
        if self.lower is not None:
            inside &= x >= self.lower - ROUNDING * jnp.abs(self.lower)
        return inside

    def feasible_like(self, prototype: Array) -> Array:
        limit = self.lower if self.upper is None else self.upper
        return jnp.broadcast_to(jnp.asarray(limit), jnp.shape(prototype))

    def tree_flatten(self) -> Any:
        return (self.base, self.upper, self.lower), (("base", "upper", "lower"), {})


def _at_limits(
    value: Array, upper: Array | None, lower: Array | None
) -> tuple[Bool[Array, "..."], Bool[Array, "..."]]:
    """Whether a value is at the upper limit or above, and whether at the lower limit or below."""
    never = jnp.zeros(jnp.shape(value), bool)
    at_upper = never if upper is None else value >= upper - ROUNDING * jnp.abs(upper)
    at_lower = never if lower is None else value <= lower + ROUNDING * jnp.abs(lower)
    return at_upper, at_lower

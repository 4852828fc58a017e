"""How fast to serve customers who arrive at an unknown rate.

Twenty customers come to a server who starts with an empty queue. A service rate x costs x, and
the time that customers spend waiting and being served costs, too:

    h(x, xi)  =  x + 1/20 sum_k (w_k + s_k / x),
    w_1 = 0,    w_{k+1}  =  max(w_k + s_k / x - a_k, 0)

(Lindley, 1952), where xi holds the gaps a_k ~ Exp(theta) between arrivals and the work
s_k ~ Exp(1) that customers bring. Seen are gaps alone, five a stage.

In the testbed because the cost is a simulation: a recursion over customers whose derivative goes
through all of it (infinitesimal perturbation analysis; Suri and Zazanis, 1988). Still its mean is
known exactly, by Spitzer's identity (1956),

    E w_{k+1}  =  sum_{j <= k} E max(S_j, 0) / j,    S_j = sum_{i <= j} (s_i / x - a_i).

S_j > 0 if the j-th arrival comes before the j-th end of service of a server who never rests. Each
event is an arrival with probability p = theta / (theta + x), so i services ended before that
arrival with probability C(j - 1 + i, i) p^j (1 - p)^i, and j - i more take (j - i) / x on average.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from postgrad.beliefs.conjugate.gamma import Gamma
from postgrad.problem.feasible.box import Box
from postgrad.problem.problem import Problem
from postgrad.research.problems.instance import Instance

_CUSTOMERS = 20


def _gaps_and_work(x: Array, theta: Array) -> dist.Distribution:
    del x
    rates = jnp.stack([theta, jnp.ones_like(theta)])[:, None]
    rates = jnp.broadcast_to(rates, (2, _CUSTOMERS))
    return dist.Exponential(rates, validate_args=False).to_event(2)


def _gap(x: Array, theta: Array) -> dist.Distribution:
    del x
    return dist.Exponential(theta, validate_args=False)


def _cost(x: Float[Array, ""], xi: Float[Array, "2 n"]) -> Float[Array, ""]:
    gaps, services = xi[0], xi[1] / x

    # Spelled out rather than a scan: it then fuses, and vectorises over thousands of draws.
    wait, total = jnp.zeros_like(x), jnp.zeros_like(x)
    for k in range(_CUSTOMERS):
        time = wait + services[k]
        total = total + time
        wait = jnp.maximum(time - gaps[k], 0.0)
    return x + total / _CUSTOMERS


def _expected_cost(x: Float[Array, ""], theta: Float[Array, ""]) -> Float[Array, ""]:
    """Spitzer's identity, averaged over customers: E max(S_j, 0) / j counts for all after the j-th.

    The double sum over i < j is one over pairs.
    """
    j, i = (each + 0.0 for each in np.tril_indices(_CUSTOMERS - 1))
    j = j + 1.0
    log_arrival, log_service = jnp.log(theta / (theta + x)), jnp.log(x / (theta + x))
    log_ways = gammaln(j + i) - gammaln(i + 1.0) - gammaln(j)
    probability = jnp.exp(log_ways + j * log_arrival + i * log_service)
    after = (_CUSTOMERS - j) / _CUSTOMERS
    waiting = jnp.sum(after / j * probability * (j - i) / x)
    return x + waiting + 1.0 / x


def rate() -> Instance:
    """Customers arrive at the rate theta_c = 1.

    The prior Gamma(2, 1) is conjugate. Were theta its mean, 2, the best service rate would be 2.40.
    """
    theta = jnp.asarray(1.0)
    return Instance(
        problem=Problem(_cost, _gaps_and_work, Box(0.5, 6.0), _gap),
        theta=theta,
        x_star=jnp.asarray(1.839340336407),
        x=jnp.asarray(4.0),
        expected_cost=lambda x: _expected_cost(x, theta),
        points=jnp.arange(0.25, 4.25, 0.25),
        prior=Gamma(2.0, 1.0),
        batch_size=5,
    )


TESTBED: dict[str, Callable[[], Instance]] = {"queue-rate": rate}

"""Strategic classification: applicants change their features in response to the classifier.

A lender scores applicants by w'z + b and asks of the score to be high for those who will default
(label y = 1) and low for those who will not (y = -1):

    h(x, (z, y))  =  log(1 + exp(-y (w'z + b))) + gamma / 2 |x|^2,    x = (w_1, w_2, b)

Whoever is scored moves the first feature where that lowers the score, as far as theta times the
weight on it; the second feature cannot be moved. So the population depends on the classifier,

    y = +-1 with probability 1/2,    z  ~  N(y m - theta (w_1, 0), I),

and the response theta is unknown (Hardt et al., 2016; Perdomo et al., 2020, whose applicants move
so). In the testbed because retraining on the applicants under the last classifier does not converge
to x*, but to the performatively stable point (0.855, 0.652, 1.124).
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints
from scipy.special import softmax

from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.problem.feasible.box import Box
from postgrad.problem.problem import Problem
from postgrad.research.problems.instance import Instance

_PENALTY = 0.05
_CENTER = np.asarray([1.0, 0.5])
_MOVABLE = np.asarray([1.0, 0.0])


class Population(dist.Distribution):
    """(z, y), the features followed by the label: y = +-1, z ~ N(y center - shift, I).

    Draws are differentiable in both parameters, since the label is drawn without them.

    Attributes:
        center: m, the mean of the features where y = 1; where y = -1 it is -m.
        shift: How far the features of all applicants have moved.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "center": constraints.real_vector,
        "shift": constraints.real_vector,
    }
    reparametrized_params: ClassVar[list[str]] = ["center", "shift"]
    pytree_data_fields = ("center", "shift")

    def __init__(self, center: Array, shift: Array, *, validate_args: bool | None = None):
        self.center, self.shift = jnp.asarray(center), jnp.asarray(shift)
        super().__init__((), (self.center.shape[-1] + 1,), validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Real features, and a label of 1 or -1."""
        return _Labelled()

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """A label, then features around the mean of its class."""
        key_label, key_noise = random.split(key)
        label = random.rademacher(key_label, (*sample_shape, 1), float)
        noise = random.normal(key_noise, sample_shape + self.center.shape)
        return jnp.concatenate([label * self.center - self.shift + noise, label], axis=-1)

    def log_prob(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """log N(z; y m - shift, I) - log 2."""
        z, label = value[..., :-1], value[..., -1:]
        mean = label * self.center - self.shift
        return jnp.sum(norm.logpdf(z, mean), axis=-1) - jnp.log(2.0)


class _Labelled(constraints.Constraint):
    """Vectors that end with 1 or -1."""

    event_dim = 1

    def __call__(self, x: Array) -> Bool[Array, "..."]:
        return jnp.all(jnp.isfinite(x), axis=-1) & (jnp.abs(x[..., -1]) == 1.0)

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype).at[..., -1].set(1.0)

    def tree_flatten(self) -> Any:
        return (), ((), {})


def _cost(x: Float[Array, "3"], xi: Float[Array, "3"]) -> Float[Array, ""]:
    z, label = xi[:-1], xi[-1]
    return jax.nn.softplus(-label * (x[:-1] @ z + x[-1])) + 0.5 * _PENALTY * x @ x


def _moved(x: Float[Array, "3"], theta: Float[Array, ""]) -> dist.Distribution:
    return Population(jnp.asarray(_CENTER), theta * _MOVABLE * x[:-1], validate_args=False)


# Nodes and weights of E g(Z), Z standard normal: the trapezoidal rule. For the logistic loss of
# scores with a spread s its error is of the order exp(-2 pi^2 / (s h)), with h = 1/20: below 1e-30
# for all x of the feasible set (Trefethen and Weideman, 2014).
_NODES = np.arange(-200, 201) / 20.0
_WEIGHTS = softmax(-0.5 * _NODES**2)


def _expected_cost(x: Float[Array, "3"], theta: Float[Array, ""]) -> Float[Array, ""]:
    """One integral for each class, since the score w'z + b is normal in each."""
    w, b = x[:-1], x[-1]
    # 1e-300 keeps the derivative of the square root finite at w = 0.
    spread = jnp.sqrt(w @ w + 1e-300)
    total = 0.5 * _PENALTY * x @ x
    for label in (1.0, -1.0):
        mean = w @ (label * _CENTER - theta * _MOVABLE * w) + b
        total += 0.5 * jnp.sum(_WEIGHTS * jax.nn.softplus(-label * (mean + spread * _NODES)))
    return total


def classification() -> Instance:
    """Two features, of which the first moves by theta_c = 2 times its weight.

    log f is quadratic in theta, so Laplace's approximation is the posterior. At the prior's mean 1
    the best classifier would be (0.959, 0.640, 0.699).
    """
    theta = jnp.asarray(2.0)
    return Instance(
        problem=Problem(_cost, _moved, Box(-3.0, 3.0)),
        theta=theta,
        x_star=jnp.asarray([0.7410857786394, 0.6532996802367, 0.8536328452153]),
        x=jnp.asarray([1.0, -1.0, 0.0]),
        expected_cost=lambda x: _expected_cost(x, theta),
        points=jnp.arange(0.0, 4.25, 0.25),
        prior=Gaussian(1.0, 1.0),
    )


TESTBED: dict[str, Callable[[], Instance]] = {"strategic-classification": classification}

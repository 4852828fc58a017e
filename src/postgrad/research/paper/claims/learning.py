"""The claim that what is left to learn is bounded: E sum_t d_t <= -log pi_0(theta_c)."""

from typing import cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from postgrad.algorithm.bayesian_sgd import State
from postgrad.beliefs.grid.grid import Grid
from postgrad.research.paper.claims.claim import Claim, Statement, listed
from postgrad.research.paper.claims.verdicts import Estimate, Within, Zero
from postgrad.research.problems import Instance

_STAGES = 100  # over more stages the sum is too near to its bound to be told from it
_NODES = 40
_SHARE = 0.1  # of the bound: an error in the balance that must be detected


class Learning(eqx.Module):
    """Records (pi_t(theta_c), d_t), where d_t = KL(f(.; x_{t+1}, theta_c) || f_hat_t(.; x_{t+1})).

    For the 1-D dependent quadratic, whose data are y = x + theta + sigma z with z standard normal.
    There x cancels in f(y; x, theta_i) / f(y; x, theta_c), and with Gauss-Hermite nodes z_k

        d_t  =  - sum_k w_k log sum_i pi_t(theta_i) f(y_k; x, theta_i) / f(y_k; x, theta_c).
    """

    theta: Float[Array, ""]
    ratios: Float[Array, "points nodes"]
    weights: Float[Array, " nodes"]

    def __init__(self, instance: Instance):
        z, w = np.polynomial.hermite_e.hermegauss(_NODES)
        sigma = np.sqrt(instance.problem.model(instance.x, instance.theta).variance)
        shift = (np.asarray(instance.points) - np.asarray(instance.theta))[:, None] / sigma
        self.theta = instance.theta
        self.ratios = jnp.exp(z * shift - shift**2 / 2)
        self.weights = jnp.asarray(w / w.sum())

    def __call__(self, state: State) -> tuple[Array, Array]:
        """pi_t(theta_c) and d_t of a state."""
        grid = cast(Grid, state.belief)
        d = -jnp.dot(jnp.log(grid.probabilities @ self.ratios), self.weights)
        return grid.probability(self.theta), d


def bounded(truth: np.ndarray, d: np.ndarray) -> Claim:
    """The bound, and the balance that proves it: E sum_{t < T} d_t = w_0 - E w_T.

    Args:
        truth: pi_t(theta_c) = exp(-w_t), (run, stage).
        d: d_t, likewise.
    """
    w = -np.log(truth[:, [0, _STAGES]])
    bound = float(w[0, 0])
    total = d[:, :_STAGES].sum(axis=1)
    balance = total - (bound - w[:, 1])
    statements = [
        Statement(f"sum of d_t over t < {_STAGES}", Estimate.mean(total), Within(high=bound)),
        Statement("that sum less the fall of w_t", Estimate.mean(balance), Zero(_SHARE * bound)),
    ]
    text = (
        "With w_t = -log pi_t(theta_c) and d_t the divergence of what is foreseen from the truth, "
        "each stage takes E d_t from E w_t, so that E sum_t d_t is at most w_0."
    )
    measured = f"w_t = -log pi_t(theta_c) starts at {bound:.4f}; {listed(statements, len(d))}"
    return Claim("learning-bounded", text, measured, len(d), statements)

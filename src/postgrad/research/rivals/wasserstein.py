"""Distributionally robust orders of a newsvendor, over a Wasserstein ball around the data."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.policy import first_stage
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.errors import CostError, FeasibleSetError
from postgrad.problem.batch import Batch
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.reals import Reals
from postgrad.problem.problem import Decision
from postgrad.research.problems.newsvendor import Newsvendor
from postgrad.research.rivals.model_free import ModelFree, ModelFreeState, Told, average, setting
from postgrad.research.rivals.solver import AverageCost, bisect


class WassersteinState(ModelFreeState):
    """t, x_t and all data."""

    data: KeptRows


class Wasserstein(ModelFree):
    """Distributionally robust orders: the least worst cost over a type-2 Wasserstein ball.

        x_{t+1}  =  argmin_x  sup { E_Q h(x, xi) : W_2(Q, data) <= e }

    By duality (Blanchet and Murthy, 2019; Gao and Kleywegt, 2023) the worst cost is

        inf_{l >= 0}  l e^2 + (1/n) sum_j sup_z [h(x, z) - l |z - y_j|^2].

    The newsvendor's h is (c - p)'x + b'(x - z)^+ with b = p - s, so that the inner supremum is
    sum_i max(0, b_i (x_i - y_ji) + b_i^2 / 4l). With q_i the empirical quantile (p_i - c_i) / b_i,
    the minimum over l and x is at

        x_i  =  q_i - e b_i / (2 sqrt(sum_k (p_k - c_k) b_k)),

    in closed form: the order of sample-average approximation, less a margin. Orders outside the box
    are projected, which is exact for one item. Demand is assumed not to depend on orders.

    The ball shrinks as e_n = radius * sqrt(tr Cov) / sqrt(n), with Cov the covariance of the data:
    the rate at which the truth stays near the ball for such costs (Gao, 2022), in the data's unit.

    Attributes:
        problem: With the cost `Newsvendor`, in a box.
        radius: See above.
    """

    radius: Float[Array, ""] = setting("radius", 1.0)

    def __check_init__(self) -> None:
        """Refuses other problems.

        Raises:
            CostError: If the cost is not a newsvendor's.
            FeasibleSetError: If the feasible set is not a box.
        """
        cost, feasible = type(self.problem.cost).__name__, type(self.problem.feasible).__name__
        if not isinstance(self.problem.cost, Newsvendor):
            known = "Wasserstein has a closed form for the cost Newsvendor(...) only"
            raise CostError(f"{known}, got a {cost}")
        if not isinstance(self.problem.feasible, Box | Reals):
            raise FeasibleSetError(f"Wasserstein needs a box, got a {feasible}")

    def start(self, x: Decision) -> WassersteinState:
        """The state before the first stage, with x_1 in force."""
        return WassersteinState(first_stage(), x, self.no_data(x))

    def advance(self, state: WassersteinState, batch: Batch) -> tuple[WassersteinState, Told]:
        """Keeps the batch and solves again. The stage tells the radius of the ball."""
        problem, cost = self.problem, self.problem.cost
        assert isinstance(cost, Newsvendor)  # checked at the door
        data = state.data.add(problem.likelihood, batch)
        n = jnp.sum(data.weight)
        spread = average((data.y - average(data.y, data.weight)) ** 2, data.weight)
        radius = self.radius * jnp.sqrt(jnp.sum(spread) / jnp.where(n > 0, n, 1.0))

        quantile = bisect(AverageCost(cost, data.y, data.weight), batch.x, Reals())
        loss, gain = cost.price - cost.salvage, cost.price - cost.cost
        margin = radius * loss / (2.0 * jnp.sqrt(jnp.sum(gain * loss)))
        best = problem.feasible.project(quantile - margin)
        best = jnp.where(n > 0, best, state.decision)
        return WassersteinState(state.stage + 1, best, data), {"radius": radius}

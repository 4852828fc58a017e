"""Several items with one model each, decided together."""

from typing import Any

from jaxtyping import Array, Float, PyTree

from postgrad.numerics.module import Module
from postgrad.problem.problem import Model


class Items(Module):
    """The joint law of items that are independent given theta.

        f(xi; x, theta)  =  prod_i f(xi_i; x_i, theta_i)

    Attributes:
        each: f, the model of one item, written so that it also takes arrays of decisions and
            parameters, entry by entry.
    """

    each: Model

    def __call__(self, x: Float[Array, " n"], theta: PyTree) -> Any:
        """The law of all items, with theta_i along the leading axis of each leaf."""
        return self.each(x, theta).to_event(1)

"""Several items with one model each, decided together."""

from typing import Any

from jaxtyping import Array, Float, PyTree

from postgrad.numerics.module import Module
from postgrad.problem.contexts import context_of, in_context, takes_context
from postgrad.problem.problem import Model


class Items(Module):
    """The joint distribution of items that are independent given theta.

        f(xi; x, theta)  =  prod_i f(xi_i; x_i, theta_i)

    In a context z, each item has its own: items lie along the leading axis of each array of z.

    Attributes:
        each: f, the model of one item. Given arrays of decisions and parameters (and of contexts)
            it returns a stack of distributions, one for each entry.
    """

    each: Model

    @property
    def takes_context(self) -> bool:
        """Whether the model of one item needs a context."""
        return takes_context(self.each)

    @property
    def context(self) -> PyTree:
        """The contexts of all items; None if they are in none."""
        return context_of(self.each)

    def in_context(self, context: PyTree) -> "Items":
        """The items, each in its context."""
        return Items(in_context(self.each, context))

    def __call__(self, x: Float[Array, " n"], theta: PyTree) -> Any:
        """The joint distribution of all items; theta_i lies along the leading axis of each leaf."""
        return self.each(x, theta).to_event(1)

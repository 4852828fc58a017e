"""The plug-in estimate in closed form, on a continuous parameter space."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.families import Family
from postgrad.density import log_density
from postgrad.errors import ModelError
from postgrad.problem import Decision, Model, kind_of


class FreeMaximumLikelihood(Belief):
    """A point mass at the maximum-likelihood estimate over all of a family's parameters.

    The state is two sums (`families.Family`), so a million batches cost what one does. There is no
    estimate before the first observation: theta is then NaN.
    """

    family: Family
    statistics: PyTree
    exposure: Float[Array, ""]

    def __init__(self, family: Family):
        self.family = family
        self.statistics = jnp.zeros(())
        self.exposure = jnp.zeros(())

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.family.estimate(self.statistics, self.exposure)

    def update(
        self, likelihood: Model, x: Decision, batch: Array, weight: Array | None = None
    ) -> Self:
        """Adds the batch's statistics."""
        weight = jnp.ones(batch.shape[0]) if weight is None else weight
        statistics = jax.vmap(lambda y: self.family.statistics(likelihood, x, y))(batch)
        exposure = self.family.exposure(likelihood, x)
        return eqx.tree_at(
            lambda self: (self.statistics, self.exposure),
            self,
            (
                self.statistics + jnp.tensordot(weight, statistics, axes=1),
                self.exposure + jnp.sum(weight) * exposure,
            ),
        )

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """theta_hat_t, every time."""
        del key
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), self.theta)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log f(xi; x, theta_hat_t)."""
        return log_density(model(x, self.theta), xi)

    def examples(self) -> PyTree:
        """A few values of theta."""
        return self.family.examples()

    def check(self, likelihood: Model, x: Decision) -> None:
        """The model must be the family, and read theta the way the family does.

        Raises:
            ModelError: Naming both, if it is not.
        """
        family = type(self.family).__name__
        kind = kind_of(likelihood, x, self.family.examples()[0])
        if kind.name != self.family.distribution:
            raise ModelError(
                f"{family} describes a {self.family.distribution}, but the model is {kind.name}"
            )
        for theta in self.family.examples():
            mean = likelihood(x, theta).mean
            implied = self.family.mean(likelihood, x, theta)
            if not np.allclose(implied, mean, rtol=1e-9):
                raise ModelError(
                    f"{family} needs a model with {self.family.form}, but at theta = {theta} the "
                    f"model's mean is {mean}, not {implied}"
                )

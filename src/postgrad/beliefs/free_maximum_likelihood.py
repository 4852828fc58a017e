"""The plug-in estimate in closed form, on a continuous parameter space."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.families import Family
from postgrad.beliefs.point_mass import PointMass
from postgrad.errors import ModelError
from postgrad.problem import Decision, Model, Problem, kind_of


class FreeMaximumLikelihood(PointMass):
    """A point mass at the maximum-likelihood estimate over all of a family's parameters.

    The state is two sums (`families.Family`), so a million batches cost what one does. There is no
    estimate before the first observation: theta is then NaN.
    """

    family: Family
    statistics: Float[Array, "..."]
    exposure: Float[Array, ""]

    def __init__(self, family: Family):
        self.family = family
        theta = jax.tree.leaves(family.examples())
        self.statistics = jnp.zeros((len(theta),) if len(theta) > 1 else ())
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

    def examples(self) -> PyTree:
        """A few values of theta."""
        return self.family.examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """The model must be the family, and read theta the way the family does.

        Raises:
            ModelError: Naming both, if it is not.
        """
        family, likelihood = type(self.family).__name__, problem.likelihood
        thetas = self.family.examples()
        count = jax.tree.leaves(thetas)[0].shape[0]
        kind = kind_of(likelihood, x, jax.tree.map(lambda leaf: leaf[0], thetas))
        if kind.name != self.family.distribution:
            raise ModelError(
                f"{family} describes a {self.family.distribution}, but the model is {kind.name}"
            )
        for place in (x, problem.feasible.project(x + 1.0), problem.feasible.project(x - 1.0)):
            for i in range(count):
                theta = jax.tree.map(lambda leaf, i=i: leaf[i], thetas)
                model = likelihood(place, theta)
                implied = self.family.moments(likelihood, place, theta)
                found = (model.mean, model.variance)
                if not np.allclose(implied, found, rtol=1e-9):
                    raise ModelError(
                        f"{family} needs a model with {self.family.form}, but at x = {place}, "
                        f"theta = {theta} mean and variance are {found}, not {implied}"
                    )
        return self

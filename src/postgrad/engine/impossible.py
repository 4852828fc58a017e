"""What is wrong with a batch that cannot have happened."""

from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from postgrad.errors import ImpossibleDataError, SupportError
from postgrad.problem.problem import Decision, Problem


def refuse(
    problem: Problem, place: Decision, thetas: PyTree, rows: Float[np.ndarray, "D ..."]
) -> NoReturn:
    """Find out what is wrong with a batch, and say so.

    Args:
        problem: The problem, in the context of the batch.
        place: The decision in force.
        thetas: Values of theta that the belief has, along the leading axis.
        rows: The batch.

    Raises:
        ModelError, SupportError, ImpossibleDataError: What is wrong.
    """
    problem.check_models(place, thetas)
    for number, row in enumerate(rows):
        y = jnp.asarray(row)
        inside = jax.vmap(lambda theta, y=y: problem.likelihood(place, theta).support(y))(thetas)
        if not np.any(inside):
            raise SupportError(
                f"row {number} of the batch, {row}, lies outside the model's support "
                f"for every theta, at x = {np.asarray(place)}"
            )
    raise ImpossibleDataError(
        f"no theta in the belief's support explains the batch {rows.tolist()} "
        f"at x = {np.asarray(place)}: each has density zero"
    )

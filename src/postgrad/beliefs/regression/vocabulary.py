"""Models of `pg.models` among all functions that a belief may be given."""

from typing import Any

from jaxtyping import PyTree

from postgrad.errors import ModelError
from postgrad.models.regression_model import RegressionModel
from postgrad.problem.contexts import InContext


def in_vocabulary(likelihood: Any) -> tuple[RegressionModel, PyTree]:
    """A model of `pg.models` and the context in which it is asked.

    Raises:
        ModelError: If it is another model, or one without a context.
    """
    if not isinstance(likelihood, InContext) or not isinstance(
        likelihood.function, RegressionModel
    ):
        raise ModelError(
            f"Regression needs a model of pg.models (or a class of your own derived from "
            f"pg.models.RegressionModel) in a context, got {likelihood!r}; other smooth models "
            f"take Gaussian"
        )
    return likelihood.function, likelihood.context

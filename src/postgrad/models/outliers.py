"""Observations of which a small share has another cause: festivals, closed days, typing errors."""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float

from postgrad.distributions.density import log_density
from postgrad.errors import ModelError
from postgrad.models.predictor import Predictor
from postgrad.models.regression_model import Curve, Known, RegressionModel, curve_of
from postgrad.numerics.validate import as_number


class WithOutliers(RegressionModel):
    """A model of the data that expects outliers: an `observation`, where decisions expect none.

        y  ~  (1 - share) f(.; eta)  +  share g(.; eta),

    where g is much wider than f. Without outliers in the observation a closed day makes a belief
    take all days for less certain than they are, and keep to that.

    Attributes:
        model: f, a model of the vocabulary.
        share: The share of outliers.
    """

    model: RegressionModel
    share: Float[Array, ""]

    def __init__(self, model: RegressionModel, share: Any = 0.005):
        """The model, and a share of outliers.

        Raises:
            ModelError: If the share is not between 0 and 1, or the model no model of `pg.models`.
        """
        if not isinstance(model, RegressionModel):
            raise ModelError(f"model must be one of pg.models, such as Poisson, got {model!r}")
        self.model = model
        self.share = as_number(
            share, ModelError, "share", "a number between 0 and 1", lambda part: 0 < part < 1
        )

    @property  # type: ignore[misc]
    def predictor(self) -> Predictor:  # type: ignore[override]  # mypy knows no AbstractVar
        """That of the model."""
        return self.model.predictor

    @property
    def known(self) -> tuple[str, ...]:
        """Those of the model."""
        return self.model.known

    @property
    def usual(self) -> RegressionModel:
        """The model."""
        return self.model

    @property
    def longest_step(self) -> float:
        """That of the model."""
        return self.model.longest_step

    def law(self, eta: Array, numbers: Known) -> Any:
        """The mixture of both laws."""
        usual, wide = self.model.law(eta, numbers), self.model.outlier(eta, numbers)
        probs = jnp.stack([1.0 - self.share, self.share])
        mixing = dist.CategoricalProbs(probs, validate_args=False)
        return dist.MixtureGeneral(mixing, [usual, wide], validate_args=False)

    def log_f(self, y: Array, eta: Array, numbers: Known) -> Array:
        """The logarithm of the sum of both densities."""
        usual = self.model.log_f(y, eta, numbers) + jnp.log1p(-self.share)
        return jnp.logaddexp(usual, self._log_wide(y, eta, numbers) + jnp.log(self.share))

    def curve(self, y: Array, eta: Array, numbers: Known) -> Curve:
        """The mixture of both curves, by how likely each law is to be the cause of y.

        Where it is doubtful which of them is, log f is not concave. The curvature without that
        doubt is what an EM step has, which always leads uphill.
        """
        usual = self.model.curve(y, eta, numbers)
        wide = curve_of(lambda at: self._log_wide(y, at, numbers), eta)
        first, second = usual.value + jnp.log1p(-self.share), wide.value + jnp.log(self.share)
        value = jnp.logaddexp(first, second)
        p = jnp.exp(first - value)
        safe = p * usual.safe_bend + (1.0 - p) * wide.safe_bend
        doubt = p * (1.0 - p) * (usual.slope - wide.slope) ** 2
        bend = p * usual.bend + (1.0 - p) * wide.bend - doubt
        return Curve(value, p * usual.slope + (1.0 - p) * wide.slope, bend, safe)

    def _log_wide(self, y: Array, eta: Array, numbers: Known) -> Array:
        return log_density(self.model.outlier(eta, numbers), y)

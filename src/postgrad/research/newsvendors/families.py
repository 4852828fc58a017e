"""Laws of demand, and which of them fits a data set."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from postgrad import models
from postgrad.research.newsvendors.protocol import Demand


class Family(NamedTuple):
    """A law of demand, and how its decisions are found.

    Attributes:
        name: The law, in words.
        model: The class of the model.
        number: The name of the number that members differ in.
        is_standardised: Whether demand is learned in units of its own spread.
    """

    name: str
    model: Any
    number: str
    is_standardised: bool = False


COUNTS = Family("negative binomial", models.NegativeBinomial, "concentration")
POSITIVE = Family("log-normal", models.LogNormal, "scale")
ANY = Family("normal", models.Normal, "scale", is_standardised=True)


def family_of(demands: Sequence[Demand]) -> Family:
    """Whole numbers are counts; other positive numbers log-normal; all else is normal."""
    values = np.concatenate([demand.values for demand in demands])
    if (values < 0).any():
        return ANY
    if (values == np.floor(values)).all():
        return COUNTS
    return POSITIVE if (values > 0).all() else ANY

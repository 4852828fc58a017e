"""What the two halves of a stage tell: learning, and descending."""

from typing import NamedTuple

from jaxtyping import Array, Float

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.descent import Course
from postgrad.algorithm.surprise import Surprise


class Learned(NamedTuple):
    """What learning from a batch tells.

    Attributes:
        log_predictive: log f_hat(y_j; x_t), how well each observation was foreseen by pi_{t-1},
            after the time that has passed since.
        surprise: Where the batch lies among those that were foreseen.
    """

    log_predictive: Float[Array, " D"]
    surprise: Surprise


class Descended(NamedTuple):
    """What a descent tells.

    Attributes:
        course: How it went: gradients and their noise, curvature, gain.
        outlook: What is uncertain about the decision, and what it costs not to know.
    """

    course: Course
    outlook: Outlook

"""Where a batch lay among those that were foreseen."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Surprise:
    """Where a batch lies among the batches that were foreseen, for each coordinate of its rows.

    Two numbers stand for a batch y_1, ..., y_D with weights w_j: its location, and its spread
    around a centre c that is the same for all batches that are compared,

        location  =  sum_j w_j y_j / sum_j w_j,    spread  =  sum_j w_j |y_j - c| / sum_j w_j.

    Attributes:
        pit_location: The share of foreseen batches whose location is lower; uniform on [0, 1] if
            the belief and the model are right.
        pit_spread: Likewise of the spread.
        z_location: (location - mean of the foreseen) / their standard deviation. It tells how far
            out a batch is that lies beyond all replicates.
        z_spread: Likewise of the spread.
    """

    pit_location: Any
    pit_spread: Any
    z_location: Any
    z_spread: Any

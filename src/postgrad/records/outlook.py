"""What is uncertain about a decision, and what it costs."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Outlook:
    """Uncertainty about theta, in terms of the decision and its cost.

    x*(theta) is the best decision if theta were known, found by a few steps from x for each of some
    thetas ~ pi_t, in the valley of x. All are NaN where the descent does not look for them; where
    steps by slopes lead nowhere (jumps, plateaus, sharp kinks), all but `aleatoric` are.

    Attributes:
        epistemic: The standard deviation of x*(theta): what more data narrow.
        low: The 2.5 % quantile of x*(theta), entry by entry.
        high: The 97.5 % quantile.
        aleatoric: The standard deviation of the cost with theta known: what no data change.
        cost_of_not_knowing: E H(x, theta) - H(x*(theta), theta): the expected saving if theta were
            known from now on, for each decision.
        value_of_a_batch: What one more batch, of the size of the last and seen under x, is expected
            to save of that.
    """

    epistemic: Any
    low: Any
    high: Any
    aleatoric: Any
    cost_of_not_knowing: Any
    value_of_a_batch: Any

"""Mean and spread of what is believed, as they are stored with a stage's report."""

import numpy as np

# Mean and standard deviation of each part of theta.
Moments = dict[str, tuple[np.ndarray, np.ndarray]]
# How the names of stored arrays begin: moments before the last batch, and after it.
MOMENTS = ("before.", "after.")


def read_moments(told: dict[str, np.ndarray], when: str) -> Moments:
    """The moments among the arrays of a report; none, if they are not there.

    Args:
        told: The arrays.
        when: "before" or "after".
    """
    start = f"{when}.mean."
    names = [name.removeprefix(start) for name in told if name.startswith(start)]
    return {name: (told[start + name], told[f"{when}.spread.{name}"]) for name in names}

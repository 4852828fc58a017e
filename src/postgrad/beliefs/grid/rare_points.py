"""Points of a small grid that are unlikely, and yet may decide: a regime of one in a thousand."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# The share of draws that is spread over the points, almost whatever their probabilities: these are
# raised to a small power, so that points that the data exclude are hardly ever drawn.
_SPREAD, _POWER = 0.25, 0.0625
# So few points are regimes, and each group of draws has all of them. More points stand for a
# number: neighbours are much alike, and draws that all count alike, in mirrored pairs, are better.
MOST_POINTS = 8


class Drawn(NamedTuple):
    """How a point of a grid was drawn.

    Attributes:
        which: The number of the point.
        share: pi, its probability.
        density: q, with what probability it was drawn.
    """

    which: Int[Array, " m"]
    share: Float[Array, " m"]
    density: Float[Array, " m"]


def wide_density(share: Float[Array, " n"]) -> Float[Array, " n"]:
    """q  =  (1 - e) pi  +  e pi^a / sum pi^a."""
    flat = share**_POWER
    return (1.0 - _SPREAD) * share + _SPREAD * flat / jnp.sum(flat)


def weights_in_groups(drawn: Drawn, groups: int) -> Float[Array, " m"]:
    """How much each draw counts, one on average in each group of draws, draw i in group i mod G.

    pi / q. Where a group of k draws is expected to have a point at least once, k pi divided by how
    often the group has drawn the point: then each group counts the point as it should.

    Args:
        drawn: The draws, one for each row.
        groups: G.
    """
    which, share, density = (leaf.reshape(-1, groups) for leaf in drawn)
    each = which.shape[0]
    own = jnp.sum(which[:, None, :] == which, axis=1)
    weight = jnp.where(each * density >= 1.0, each * share / own, share / density)
    return (weight / jnp.mean(weight, axis=0)).ravel()

"""When a decision gets nowhere: the descent does not settle, or nothing more can be learned."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.descent import Doubt
from postgrad.problem.problem import Decision

# For so many stages in a row before anything is said.
_PATIENCE = 20
# Not knowing theta must cost this much of the cost's own spread to be worth a word.
_WORTH = 1e-3
# Ordinarily one more batch saves about D / (N + D) of the cost of not knowing; locked in, less than
# this share of that.
_TEACHES = 0.15
# x stands still if it moves less than this share of what is uncertain about it.
_STILL = 0.1


class ConvergenceWarning(UserWarning):
    """The decision of this stage may not be the minimiser of the averaged cost."""


class LockInWarning(UserWarning):
    """x has stopped moving, and at this x the data no longer tell what would change it."""


class ConstraintWarning(UserWarning):
    """No decision keeps to the rules of the problem; the one of this stage breaks them least."""


def broken_rules(words: str | None) -> ConstraintWarning | None:
    """What there is to say about rules that cannot be kept."""
    return None if words is None else ConstraintWarning(f"no decision keeps to {words}")


class Teaching(NamedTuple):
    """What data seen at a decision are good for.

    Attributes:
        stands: Whether x stands still while not knowing theta costs something.
        value: What one more batch saves.
        usual: What it would save if it taught as batches ordinarily do.
    """

    stands: Bool[Array, ""]
    value: Float[Array, ""]
    usual: Float[Array, ""]


def teaching(
    ahead: Outlook, moved: Decision, size: Float[Array, ""], new: Float[Array, ""]
) -> Teaching:
    """What the data of a stage were good for.

    Args:
        ahead: What is uncertain about the decision after the stage.
        moved: x_{t+1} - x_t.
        size: N, how many observations the belief counts.
        new: D, how many of them are new.
    """
    costs = ahead.cost_of_not_knowing > _WORTH * ahead.aleatoric
    still = jnp.sum(jnp.square(moved)) <= _STILL**2 * jnp.sum(jnp.square(ahead.epistemic))
    usual = ahead.cost_of_not_knowing * new / (size + new)
    return Teaching(costs & still, ahead.value_of_a_batch, usual)


_WHY = {
    Doubt.UNRESOLVED: (
        "groups of draws disagree by more than 2 % of the cost about the best decision, or by more "
        "than 10 % about the cost itself: rare events or a heavy tail may not have been drawn; "
        "more samples may help"
    ),
    Doubt.RESTLESS: (
        "one more step would save more than 2 % of the cost, or the search has just leapt to "
        "another place and not come to rest there; more iterations may help"
    ),
}


def doubt_warning(doubt: Doubt) -> ConvergenceWarning | None:
    """What there is to say about a decision in doubt."""
    if doubt not in _WHY:
        return None
    return ConvergenceWarning(f"the decision of this stage may be wrong: {_WHY[doubt]}")


class Stall(NamedTuple):
    """Counts stages in a row without learning, and speaks once for each such time.

    Attributes:
        standing: Stages in a row at which the decision stood still though knowing more would help.
        value: What batches were worth in these.
        usual: What they would ordinarily have been worth.
        said: Whether this was said.
    """

    standing: int = 0
    value: float = 0.0
    usual: float = 0.0
    said: bool = False

    def after(
        self, doubt: Doubt, stands: bool, value: float, usual: float
    ) -> tuple["Stall", UserWarning | None]:
        """The counts after a stage, and what there is to say."""
        new = Stall()
        if stands:
            # Each value is the average of few scouts; their sum over stages is a better one.
            value, usual = self.value + value, self.usual + usual
            new = Stall(self.standing + 1, value, usual, self.said)
        if (warning := doubt_warning(doubt)) is not None:
            return new, warning
        locked = new.standing >= _PATIENCE and new.value < _TEACHES * new.usual
        if locked and not new.said:
            return new._replace(said=True), LockInWarning(
                f"for {new.standing} stages x has hardly moved, and data seen at this x tell next "
                f"to nothing about what would change it, though not knowing it costs; "
                f"output=Perturbed(...) explores"
            )
        return new, None

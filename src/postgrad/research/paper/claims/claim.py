"""One claim of the paper: what it says, what was measured, what follows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from postgrad.research.paper.claims.verdicts import Estimate, Rule, Verdict, together

_MOST_NAMES = 5


@dataclasses.dataclass(frozen=True)
class Statement:
    """One thing that must be true if the claim is: a named estimate, and what is asked of it."""

    what: str
    estimate: Estimate
    rule: Rule

    @property
    def verdict(self) -> Verdict:
        """What the rule makes of the estimate."""
        return self.rule.judge(self.estimate)


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim and the statements it stands on.

    Attributes:
        id: A short name, unique among the claims.
        claim: What the paper says, in our words.
        measured: The measurements in words.
        runs: How many runs, or draws, each estimate rests on.
        statements: What must be true if the claim is; none, if there was nothing to measure.
    """

    id: str
    claim: str
    measured: str
    runs: int
    statements: Sequence[Statement] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain strings and numbers, with the verdict that follows from them."""
        return {
            "id": self.id,
            "claim": self.claim,
            "measured": self.measured,
            "verdict": together(s.verdict for s in self.statements).value,
            "rule": self._rule(),
            "runs": self.runs,
            "numbers": {s.what: [s.estimate.value, s.estimate.error] for s in self.statements},
        }

    def _rule(self) -> str:
        """What is asked, of which estimates, and when it holds."""
        if not self.statements:
            return "Inconclusive if there is nothing to measure."
        names: dict[str, list[str]] = {}
        for statement in self.statements:
            names.setdefault(str(statement.rule), []).append(statement.what)
        asked = "; ".join(f"{rule}: {_named(of)}" for rule, of in names.items())
        verdicts = dict.fromkeys(statement.rule.verdicts for statement in self.statements)
        several = ". One failure refutes, and all must hold" if len(self.statements) > 1 else ""
        return f"Asked to be {asked}. {'. '.join(verdicts)}{several}."


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"each of {len(names)} estimates"


def listed(statements: Sequence[Statement], runs: int) -> str:
    """The statements' estimates in words."""
    return f"{'; '.join(f'{s.what}: {s.estimate}' for s in statements)} ({runs} runs)"

"""Whether decisions on counts come to rest at the kinks of their cost, and how good they are there.

The examples on `yaz` as `postgrad run` runs them: each of seven ingredients by itself (yaz.toml),
and all under one budget (yaz-capacity.toml). After every row from the eleventh on: does the agent
say that its search has not come to rest, and by how much does

    F(x)  =  sum_i E[b_i (D_i - x_i)^+ + h_i (x_i - D_i)^+],    D_i from the posterior predictive,

exceed its minimum? Both are computed here, from the posterior's probabilities of the grid and the
negative binomial's of scipy; F is convex with kinks at whole numbers, so the minimum is found by
adding one portion after the other where it saves most.

    python benchmarks/rest.py [--rows 765] [--json]
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from postgrad.beliefs import Mixture, Separate
from postgrad.spec import load
from postgrad.spec.reading.stream_names import ALL_ITEMS
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows

EXAMPLES = Path(__file__).parent.parent / "examples"
# Portions that are looked at; the demand of an ingredient is below 200.
_MOST = 600
_SKIPPED = 10


class ExpectedCost:
    """F of single items, at 0, 1, ..., `_MOST` portions."""

    def __init__(self, points: Any, underage: np.ndarray, overage: np.ndarray):
        mean, size = np.asarray(points["mean"]), np.asarray(points["concentration"])
        upto = stats.nbinom.cdf(np.arange(_MOST), size[:, None], (size / (size + mean))[:, None])
        # E min(D, x), of each point of the grid.
        self.sold = np.pad(np.cumsum(1 - upto, axis=1), ((0, 0), (1, 0)))
        self.mean, self.underage, self.overage = mean, underage, overage

    def of_item(self, i: int, probabilities: np.ndarray) -> np.ndarray:
        """F_i at 0, 1, ..., given the probabilities of the points."""
        sold = probabilities @ self.sold
        left = np.arange(_MOST + 1) - sold
        return self.underage[i] * (probabilities @ self.mean - sold) + self.overage[i] * left


def probabilities(belief: Any) -> np.ndarray:
    """Of each point of the grid, one row for each item."""
    if isinstance(belief, Separate):
        members = belief.beliefs.beliefs.weights.log_weights
        rates = belief.beliefs.log_weights
    else:
        assert isinstance(belief, Mixture)
        members, rates = belief.beliefs.weights.log_weights[None], belief.log_weights[None]
    each, rate = (
        np.exp(np.asarray(w) - np.max(w, axis=-1, keepdims=True)) for w in (members, rates)
    )
    each, rate = each / each.sum(-1, keepdims=True), rate / rate.sum(-1, keepdims=True)
    return np.einsum("ir,irp->ip", rate, each)


def least(costs: np.ndarray, total: float) -> float:
    """The minimum over whole portions, at most `total` of them, portion by portion."""
    steps = np.sort(np.diff(costs, axis=1).ravel())  # convex: the best come first
    steps = steps[: int(total)] if np.isfinite(total) else steps
    return float(costs[:, 0].sum() + steps[steps < 0].sum())


def measured(name: str, count: int) -> dict[str, Any]:
    """Of the stages after the tenth: how many say that they do not rest, and the excess in %."""
    spec = load(EXAMPLES / f"{name}.toml")
    underage, overage = (np.array(getattr(spec.cost, side)) for side in ("underage", "overage"))
    total, restless, excess = getattr(spec.feasible, "total", np.inf), 0, []
    with (
        tempfile.TemporaryDirectory() as folder,
        SpecAgents(spec, Path(folder) / "state") as agents,
    ):
        names = [ALL_ITEMS] if agents.together else list(spec.data.item_names)
        cost = None
        source = dated_rows(rows(str(EXAMPLES / "yaz.csv")), spec.data, None)
        for stage, row in enumerate(itertools.islice(source, count), 1):
            list(agents.deliver([row], at_once=1))
            if stage <= _SKIPPED:
                continue
            for i, agent in enumerate(map(agents.agent, names)):
                belief = agent.belief
                if cost is None:
                    grid = (
                        belief.beliefs.beliefs if isinstance(belief, Separate) else belief.beliefs
                    )
                    points = grid.points
                    if isinstance(belief, Separate):
                        points = {name: leaf[0] for name, leaf in points.items()}
                    cost = ExpectedCost(points, underage, overage)
                whole = np.array(
                    [cost.of_item(i + k, p) for k, p in enumerate(probabilities(belief))]
                )
                x = np.atleast_1d(agent.decision)
                ours = sum(
                    np.interp(x_i, np.arange(_MOST + 1), f) for x_i, f in zip(x, whole, strict=True)
                )
                excess.append(100 * (ours / least(whole, total) - 1))
                restless += not agent.info.course.settled
    return {
        "stages": len(excess),
        "not_at_rest": restless,
        "worst_excess": max(excess),
        "mean_excess": float(np.mean(excess)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=765)
    parser.add_argument("--json", action="store_true", help="one line, for other programs")
    arguments = parser.parse_args()
    results = {name: measured(name, arguments.rows) for name in ("yaz", "yaz-capacity")}
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"{'':14} {'stages':>7} {'not at rest':>12} {'worst excess, %':>16} {'mean':>9}")
    for name, found in results.items():
        print(
            f"{name:14} {found['stages']:7} {found['not_at_rest']:12} "
            f"{found['worst_excess']:16.3f} {found['mean_excess']:9.4f}"
        )


if __name__ == "__main__":
    main()

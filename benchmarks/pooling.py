"""What short histories cost with and without a population to lean on: live agents, real demand.

Newsvendors. Either half of a shop's products have been sold for some weeks when the others are
new, or (`--weekdays`) each weekday of a new product has a decision of its own. Each row is learned
after the decision in force has been scored, by live agents in a store: once each for itself, and
once with `pool=`. Printed are mean costs over the rows of new members, by how many rows of its own
the member had learned from; lower is better.

    python benchmarks/pooling.py DATA.csv [--item sku --value orders] [--weekdays] [--belief gaussian]
                                          [--starts 3] [--underage 4] [--overage 1] [--json]

DATA has a column `date`, and either a column for each item (`--items a,b,c`), or one that names it.
"""  # noqa: E501

import argparse
import csv
import datetime
import json
import warnings
from collections import defaultdict
from typing import Any

import jax.numpy as jnp
import numpy as np

import postgrad as pg
from postgrad.research.problems.newsvendor import Mismatch

# Days that the old products are known for when the others begin; rows of the new ones.
BEFORE, ROWS = 60, 28
WINDOWS = ((1, 3), (4, 7), (8, 14), (15, 28))


def counts(order: Any, theta: Any) -> Any:
    del order
    return pg.distributions.NegativeBinomial(
        theta["mean"], theta["concentration"], validate_args=False
    )


def log_counts(order: Any, theta: Any) -> Any:
    del order
    return pg.distributions.NegativeBinomial(
        jnp.exp(theta["mean"]), jnp.exp(theta["concentration"]), validate_args=False
    )


def prior(kind: str) -> tuple[Any, pg.beliefs.Belief]:
    """The model and the belief: as in the examples, untuned."""
    if kind == "gaussian":
        loc, scale = {"mean": 2.0, "concentration": 1.0}, {"mean": 2.0, "concentration": 1.0}
        return log_counts, pg.beliefs.Gaussian(loc, scale)
    levels = {"mean": np.geomspace(0.1, 1000, 80), "concentration": np.geomspace(0.1, 100, 12)}
    points, rates = pg.beliefs.product_grid(levels), (1, 0.99, 0.98, 0.96, 0.92)
    return counts, pg.beliefs.Mixture([pg.beliefs.Grid(points, forget=rate) for rate in rates])


def read(options: argparse.Namespace) -> tuple[list[str], list[datetime.date], np.ndarray]:
    """Names, dates, and demand by day and item."""
    with open(options.data) as file:
        rows = list(csv.DictReader(file))
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if options.items is None:
            found[row["date"]][row[options.item]] = float(row[options.value])
        else:
            found[row["date"]].update({name: float(row[name]) for name in options.items.split(",")})
    dates = sorted(found)
    names = sorted({name for day in found.values() for name in day})
    table = [[found[date].get(name, np.nan) for name in names] for date in dates]
    return names, [datetime.date.fromisoformat(date) for date in dates], np.asarray(table)


def live(
    problem: pg.Problem,
    belief: pg.beliefs.Belief,
    rows: list[tuple[str, str, float, bool]],
    pool: pg.Pool | None,
) -> tuple[dict[int, list[float]], float]:
    """Costs of scored rows by how many rows the member had learned from; largest of all decisions.

    Args:
        problem: Of every member.
        belief: Of every member.
        rows: Member, population, demand and whether the row is scored.
        pool: How members lean on each other.
    """  # fmt: skip
    cost: Any = problem.cost
    found: dict[int, list[float]] = defaultdict(list)
    with pg.Database() as database:
        agents: dict[str, pg.Agent] = {}
        for number, (member, population, demand, scored) in enumerate(rows):
            if member not in agents:
                shared = None if pool is None else pg.Pool(pool.strength, population)
                place: Any = {"path": database, "name": member}
                agents[member] = pg.Agent(problem, belief, 5.0, **place, pool=shared)
            agent = agents[member]
            if scored:
                over, under = max(agent.decision - demand, 0.0), max(demand - agent.decision, 0.0)
                found[agent.stage].append(float(cost.overage * over + cost.underage * under))
            agent.observe([demand], id=str(number))
    return found, max(float(agent.decision) for agent in agents.values())


def jobs(
    options: argparse.Namespace,
) -> list[list[tuple[str, str, float, bool]]]:
    """The rows of each run, in order."""
    names, dates, demand = read(options)
    if options.weekdays:
        days = 7 * ROWS // 2
        firsts = np.linspace(0, len(dates) - days, options.starts).astype(int)
        return [
            [
                (f"{name} {dates[day].weekday()}", name, float(demand[day, i]), True)
                for day in range(first, first + days)
                for i, name in enumerate(names)
                if not np.isnan(demand[day, i])
            ]
            for first in firsts
        ]
    found = []
    for number, first in enumerate(
        np.linspace(BEFORE, len(dates) - ROWS - 1, options.starts).astype(int)
    ):
        new = {i for i in range(len(names)) if i % 2 == number % 2}
        found.append(
            [
                (name, "all", float(demand[day, i]), i in new)
                for day in range(first - BEFORE, first + ROWS + 1)
                for i, name in enumerate(names)
                if (day >= first or i not in new) and not np.isnan(demand[day, i])
            ]
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("--items")
    parser.add_argument("--item", default="item")
    parser.add_argument("--value", default="demand")
    parser.add_argument("--weekdays", action="store_true")
    parser.add_argument("--belief", choices=["grid", "gaussian"], default="grid")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--underage", type=float, default=4.0)
    parser.add_argument("--overage", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    model, belief = prior(options.belief)
    cost = Mismatch(jnp.asarray(options.underage), jnp.asarray(options.overage))
    problem = pg.Problem(cost, model, pg.feasible.Box(0.0, 2000.0))
    sums: dict[str, dict[int, list[float]]] = {}
    for name, pool in (("alone", None), ("pooled", pg.Pool(options.strength))):
        sums[name] = defaultdict(list)
        for rows in jobs(options):
            for stage, costs in live(problem, belief, rows, pool)[0].items():
                sums[name][stage] += costs
    result = {}
    for first, last in WINDOWS:
        means = {}
        for name, by_stage in sums.items():
            some = [c for stage in range(first, last + 1) for c in by_stage.get(stage, [])]
            means[name] = float(np.mean(some)) if some else float("nan")
            means["rows"] = len(some)
        pairs = [
            (pooled, alone)
            for stage in range(first, last + 1)
            for pooled, alone in zip(sums["pooled"][stage], sums["alone"][stage], strict=True)
        ]
        apart = [pooled - alone for pooled, alone in pairs]
        means["error"] = float(np.std(apart) / np.sqrt(max(len(apart), 1)))
        result[f"{first} to {last}"] = means
    if options.json:
        print(json.dumps(result))
        return
    print(f"{'rows of its own':>16}{'rows':>8}{'alone':>10}{'pooled':>10}{'change':>9}")
    for window, means in result.items():
        if means["rows"]:
            change = 100 * (means["pooled"] / means["alone"] - 1)
            costs = f"{means['alone']:>10.3f}{means['pooled']:>10.3f}{change:>8.1f}%"
            error = 100 * means["error"] / means["alone"]
            print(f"{window:>16}{means['rows']:>8}{costs} (+- {error:.1f})")


if __name__ == "__main__":
    main()

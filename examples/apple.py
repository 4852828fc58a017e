"""Two prices for apples, learned from the households that they are charged to.

    python examples/apple.py ../shared/data/apple.csv

660 families were each quoted a price of regular and one of eco-labelled apples, one of nine pairs
at random, and asked how many pounds of each they would buy (Blend and van Ravenswaay, 1998; `apple`
of the R package wooldridge, not shipped here). Every round the shop sets its prices, a family that
was quoted the nearest of the nine pairs answers, and the shop learns from the answer. So the
decision changes the data: prices that settle too early do not reveal the slopes of demand.

Result: perturbed prices lose 7.8 %, less than all references but one; Thompson sampling on nine
free means loses 6.3 %. The size of the perturbation was chosen after early runs: a smaller one lost
less under this prior and more under a vaguer one, since less exploration is better until the prices
get stuck. Half the width of the box is the safer choice.
"""

import argparse
import csv
import json
import warnings
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import lax, random
from jaxtyping import Array, Float, Int

import postgrad as pg
from postgrad.algorithm.bayesian_sgd import State

# Regular apples first, eco-labelled ones second, as everywhere below; dollars a pound.
UNIT_COST, LOW, HIGH = np.asarray([[0.35, 0.45], [0.59, 0.59], [1.19, 1.59]])
MIDDLE, MOST_POUNDS = (LOW + HIGH) / 2, 10.0

# Linear demand. Its scale and prior are round numbers that a grocer might name, fitted to nothing:
# two pounds of each at middling prices, less if dearer, more if the other kind is; all +- 2.
PROBLEM = pg.Problem(
    cost=lambda price, pounds: -jnp.sum((price - UNIT_COST) * pounds),
    model=lambda price, theta: dist.Normal(
        theta["level"] + theta["slope"] @ (price - MIDDLE), 2.0
    ).to_event(1),
    feasible=pg.feasible.Box(LOW, HIGH),
)
PRIOR = pg.beliefs.Gaussian({"level": [2.0, 2.0], "slope": [[-2.0, 1.0], [1.0, -2.0]]}, 2.0)

# Ways to explore: a belief, and options of the algorithm. At first, perturbed prices are spread
# over the whole box, a standard deviation to each side of its middle.
WAYS = {
    "linear demand, no exploration": (PRIOR, {}),
    "linear demand, Thompson": (pg.beliefs.Thompson(PRIOR), {}),
    "linear demand, perturbed prices": (PRIOR, {"output": pg.outputs.Perturbed((HIGH - LOW) / 2)}),
}
# What others lose in 1000 rounds, in % of the clairvoyant's profit (100 runs; data/apple.md).
REFERENCE = {
    "nine means, uniform": 39.78,
    "nine means, greedy": 11.78,
    "nine means, explore 90 rounds": 10.45,
    "nine means, Thompson, unit variance": 6.33,
    "linear demand, certainty equivalent": 17.93,
}


class Market(NamedTuple):
    """The families, by the pair of prices that they were quoted.

    Attributes:
        pairs: The nine pairs.
        size: How many families were quoted each.
        bought: Pounds that each family would buy; zeros after the last of a pair.
        profit: The mean profit of each pair.
    """

    pairs: Float[Array, "9 2"]
    size: Int[Array, " 9"]
    bought: Float[Array, "9 n 2"]
    profit: Float[Array, " 9"]

    def charge(self, prices: Float[Array, "2"]) -> Int[Array, ""]:
        """The number of the pair nearest to some prices."""
        return jnp.argmin(jnp.sum(jnp.square(self.pairs - prices), axis=1))

    def answer(self, arm: Int[Array, ""], key: Array) -> Float[Array, "1 2"]:
        """What a family buys, drawn from those who were quoted this pair."""
        return self.bought[arm, random.randint(key, (1,), 0, self.size[arm])]


def read(path: str) -> Market:
    """The market, from the table of families."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("regprc", "ecoprc", "reglbs", "ecolbs")
    numbers = np.asarray([[float(row[name]) for name in columns] for row in rows])
    prices, pounds = numbers[:, :2].round(2), np.minimum(numbers[:, 2:], MOST_POUNDS)
    pairs, which, size = np.unique(prices, axis=0, return_inverse=True, return_counts=True)
    bought = np.zeros((len(pairs), size.max(), 2))
    for arm in range(len(pairs)):
        bought[arm, : size[arm]] = pounds[which == arm]
    profit = np.sum((pairs - UNIT_COST) * bought.sum(axis=1), axis=1) / size
    return Market(*map(jnp.asarray, (pairs, size, bought, profit)))


def live(market: Market, rounds: int, seed: int) -> tuple[pg.Agent, np.ndarray]:
    """One run with an agent, as a shop would use it: the agent, and the pairs that were charged."""
    belief, options = WAYS["linear demand, perturbed prices"]
    agent = pg.Agent(PROBLEM, belief, x=MIDDLE, seed=seed, **options)
    charged = []
    for key in random.split(random.key(seed), rounds):
        arm = int(market.charge(agent.decision))
        agent.observe(market.answer(arm, key), x=market.pairs[arm])
        charged.append(arm)
    return agent, np.asarray(charged)


@eqx.filter_jit
def replicate(
    algorithm: pg.BayesianSGD, start: State, market: Market, keys: Array, rounds: int
) -> Int[Array, "runs rounds"]:
    """The pairs that were charged in many runs: the loop of `live`, as one program."""

    def run(key: Array) -> Array:
        key_market, key_algorithm = random.split(key)
        seeded = eqx.tree_at(lambda a: a.key, algorithm, key_algorithm)

        def stage(state: State, key: Array) -> tuple[State, Array]:
            arm = market.charge(state.decision)
            return seeded.step(state, market.answer(arm, key), x=market.pairs[arm])[0], arm

        return lax.scan(stage, start, random.split(key_market, rounds))[1]

    return jax.vmap(run)(keys)


def main(arguments: list[str] | None = None) -> None:
    """One agent, then many runs of each way, next to the reference."""
    parser = argparse.ArgumentParser(description="Two prices for apples, learned by charging them.")
    parser.add_argument("data", help="apple.csv")
    for name, default in (("--rounds", 1000), ("--replications", 100), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--json", action="store_true", help="numbers only")
    chosen = parser.parse_args(arguments)
    market = read(chosen.data)
    best = float(market.profit.max())
    regret = np.asarray(100 * (1 - market.profit / best))  # of each pair, in %

    with warnings.catch_warnings(record=True) as caught:  # demand is not normal: the agent warns
        warnings.simplefilter("always")
        agent, charged = live(market, chosen.rounds, chosen.seed)
    kinds = sorted({type(warning.message).__name__ for warning in caught})
    one = {
        "regret": regret[charged].mean(),
        "prices": agent.decision.round(4).tolist(),
        "warnings": kinds,
    }

    keys, ours = random.split(random.key(chosen.seed), chosen.replications), {}
    for name, (belief, options) in WAYS.items():
        algorithm = pg.BayesianSGD(PROBLEM, samples=1024, **options)
        start = algorithm.init(belief, MIDDLE)
        lost = regret[replicate(algorithm, start, market, keys, chosen.rounds)]
        error = lost.mean(axis=1).std(ddof=1) / np.sqrt(len(lost))
        late = lost[:, -max(1, chosen.rounds // 10) :].mean()
        ours[name] = {"regret": lost.mean(), "error": error, "late": late}
    if chosen.json:
        print(json.dumps({"clairvoyant": best, "agent": one, "ways": ours}))
        return
    lines = {f"{name:36}{value:6.2f}  reference": value for name, value in REFERENCE.items()}
    for name, way in ours.items():
        text = "{regret:6.2f} +- {error:.2f}, {late:.2f} in the last tenth".format(**way)
        lines[f"{name:36}{text}"] = way["regret"]
    print("One agent: regret {regret:.2f} %, at last {prices}, warned {warnings}".format(**one))
    print(f"Expected regret in % of {best:.4f} a household; {chosen.rounds} rounds,", end=" ")
    print(f"{chosen.replications} replications (the reference: 1000, 100)")
    print(*sorted(lines, key=lines.get), sep="\n")


if __name__ == "__main__":
    main()

"""Is the decision the best one, and if not, is anything said? Hard problems against brute force.

python benchmarks/hard.py [NAME ...] [--theme T ...] [--stages 1 5 20] [--seeds 1] [--json FILE]
                          [--verbose] [--check]

The excess is (F_t(x) - min F_t) / |min F_t|: how much more the decision costs than the best one
under the agent's own posterior. Silently wrong is an excess above 5 % from stage 5 on, without a
warning at that stage; a warning is needless where the excess is below 1 %.
"""

import argparse
import dataclasses
import json
import time
import warnings
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from hard_problems import GALLERY, THEMES, Hard

import postgrad as pg

WRONG, FINE, FROM = 0.05, 0.01, 5

# By how much of the scale an agent or a random point may beat the brute force: rounding.
_ROUNDING = 1e-5

# Warnings that say nothing about a decision.
_IDLE = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)


@dataclasses.dataclass
class Row:
    """What came of one stage of one run.

    Attributes:
        name: Of the problem.
        theme: Of the problem.
        start: Which of the starts.
        seed: Of the data and of the agent.
        stage: How many batches were seen.
        decision: Of the agent.
        best: By brute force.
        cost: F_t at the decision.
        least: F_t at the best.
        excess: (cost - least) / scale; infinite if refused or not feasible.
        warned: The classes of the warnings of this very stage.
        spoken: How many stages up to this one warned.
        refused: The class and text of an error of this or an earlier stage.
        doubt: By how much of the scale the brute force was beaten; zero if it is sound.
    """

    name: str
    theme: str
    start: int
    seed: int
    stage: int
    decision: Any = None
    best: Any = None
    cost: float = np.nan
    least: float = np.nan
    excess: float = np.inf
    warned: tuple[str, ...] = ()
    spoken: int = 0
    refused: str = ""
    doubt: float = 0.0

    @property
    def silently_wrong(self) -> bool:
        """Too dear, late enough, and nothing was said."""
        spoken = self.warned or self.refused
        return self.stage >= FROM and not self.excess <= WRONG and not spoken


def run(hard: Hard, stages: Sequence[int] = (1, 5, 20), seeds: Iterable[int] = (0,)) -> list[Row]:
    """One agent for each start and seed, held against the brute force at the asked stages."""
    known: dict[bytes, tuple[np.ndarray, float, float]] = {}
    rows = []
    for seed in seeds:
        for start in range(len(hard.starts)):
            rows += _one(hard, sorted(set(stages)), seed, start, known)
    return rows


def _one(hard: Hard, stages: Sequence[int], seed: int, start: int, known: dict) -> list[Row]:
    rng = np.random.default_rng([seed, zlib.crc32(hard.name.encode())])
    empty = Row(hard.name, hard.theme, start, seed, 0)
    rows: list[Row] = []
    try:
        x = np.asarray(hard.starts[start], float)
        agent = pg.Agent(hard.problem, hard.belief(), x, seed=seed, **hard.options)
        spoken = 0
        for t in range(1, stages[-1] + 1):
            data = hard.batch(rng, t, np.asarray(agent.decision))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                agent.observe(data)
            said = {w.category.__name__ for w in caught if not issubclass(w.category, _IDLE)}
            spoken += bool(said)
            if t in stages:
                row = dataclasses.replace(empty, stage=t, warned=tuple(sorted(said)), spoken=spoken)
                rows.append(_judge(hard, agent, row, known))
    except pg.errors.PostgradError as error:
        text = f"{type(error).__name__}: {error}"
        missing = stages[len(rows) :]
        rows += [dataclasses.replace(empty, stage=t, refused=text) for t in missing]
    return rows


def _judge(hard: Hard, agent: pg.Agent, row: Row, known: dict) -> Row:
    stage = hard.stage(agent.belief)
    if stage.key not in known:
        best = np.asarray(hard.search(stage), float)
        least = stage(best)
        known[stage.key] = best, least, least - _random_search(hard, stage, best)
    best, least, beaten = known[stage.key]
    x = np.asarray(agent.decision, float)
    cost = stage(x)
    scale = abs(least) if hard.scale is None else hard.scale
    excess = (cost - least) / scale
    doubt = max(beaten, least - cost) / scale
    outside = float(hard.problem.feasible.violation(x)) > 1e-6 * (1 + np.abs(x).max())
    if outside or not np.isfinite(excess):
        excess, doubt = np.inf, max(beaten, 0.0) / scale
    return dataclasses.replace(
        row,
        decision=x.tolist(),
        best=best.tolist(),
        cost=cost,
        least=least,
        excess=float(excess),
        doubt=float(doubt) if doubt > _ROUNDING else 0.0,
    )


def _random_search(hard: Hard, stage: Any, best: np.ndarray) -> float:
    """The least of F at feasible points near the best one and far from it, and at the starts."""
    rng = np.random.default_rng(1)
    spans = np.abs(np.asarray(hard.starts, float) - best).max(axis=0) + 1e-9
    sizes = np.geomspace(1e-4, 2.0, 96).reshape(-1, *(1,) * best.ndim)
    points = best + sizes * spans * rng.standard_normal((96, *best.shape))
    points = np.concatenate([points, np.asarray(hard.starts, float)])
    points = np.asarray(jax.vmap(hard.problem.feasible.project)(points))
    values = stage.many(points)
    return float(np.nanmin(values))


def disagreement(hard: Hard, draws: int = 200_000) -> tuple[float, float]:
    """How far H is from the mean cost of draws of the model: the farthest where it matters.

    At three thetas of the prior, at the starts and halfway between each and the first. Events that
    none of the draws shows cannot be judged so.

    Returns:
        The gap as a share of how much H varies over all these, or of H; and in standard errors.
    """
    theta, weights = hard.support(hard.belief())
    starts = [np.asarray(start, float) for start in hard.starts]
    xs = starts + [(starts[0] + start) / 2 for start in starts[1:]]
    keys = jax.random.split(jax.random.key(0), draws)

    @jax.jit
    def costs(x: Any, value: Any) -> Any:
        law = hard.problem.model(x, value)
        return jax.vmap(lambda key: hard.problem.cost(x, law.sample(key)))(keys)

    found = []
    for j in {len(weights) // 2, len(weights) // 3, 2 * len(weights) // 3}:
        one = jax.tree.map(lambda leaf, j=j: np.asarray(leaf, float)[j], theta)
        several = jax.tree.map(lambda leaf: leaf[None], one)
        for x in xs:
            seen = np.asarray(costs(x, one))
            stated = float(np.squeeze(hard.expected_cost(x[None, None], several)))
            found.append((stated, seen.mean(), seen.std() / np.sqrt(draws)))
    stated, seen, error = np.array(found).T
    gaps = np.abs(seen - stated)
    shares = gaps / (np.ptp(stated) + 1e-9 * np.abs(stated) + 1e-300)
    shares = np.minimum(shares, gaps / np.abs(stated + 1e-300))
    worst = int(np.argmax(shares * (gaps > 4 * error)))
    return float(shares[worst]), float(min(gaps[worst] / (error[worst] + 1e-300), 999.0))


def summary(rows: list[Row]) -> list[str]:
    """What the whole gallery says."""
    late = [row for row in rows if row.stage >= FROM]
    silent = [row for row in late if row.silently_wrong]
    refused = [row for row in late if row.refused]
    doubts = sorted({row.name for row in rows if row.doubt > 0})
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    # all stages of problems whose decisions are fine count, those between the ones shown too
    fine = [group for group in groups.values() if np.mean([row.excess for row in group]) < FINE]
    last = max(row.stage for row in rows)
    ends = [row for group in fine for row in group if row.stage == last]
    needless = sum(row.spoken for row in ends)
    problems = {row.name for row in rows}
    lines = [
        f"{len(problems)} problems, {len(late)} decisions from stage {FROM} on",
        f"silently wrong: {len(silent)} decisions of {len({row.name for row in silent})} problems",
        f"refused: {len(refused)} decisions of {len({row.name for row in refused})} problems",
        f"warned needlessly: {needless} of {last * len(ends)} stages of the {len(fine)} problems "
        f"whose mean excess is below {100 * FINE:.0f} %",
    ]
    for theme in THEMES:
        names = {row.name for row in rows if row.theme == theme}
        wrong = {row.name for row in silent if row.theme == theme}
        if names:
            lines.append(f"  {theme:11} {len(wrong):2} of {len(names):2} problems silently wrong")
    if doubts:
        lines.append("BRUTE FORCE BEATEN: " + ", ".join(doubts))
    return lines


def _show(hard: Hard, rows: list[Row], stages: Sequence[int], seconds: float) -> str:
    worst = []
    for t in stages:
        excesses = [row.excess for row in rows if row.stage == t]
        worst.append(f"{100 * np.nanmax(excesses):9.3g} %")
    silent = sum(row.silently_wrong for row in rows)
    verdict = f"{silent} silently wrong" if silent else "ok"
    warned = sum(bool(row.warned) for row in rows)
    refused = next((row.refused for row in rows if row.refused), "")
    doubt = max(row.doubt for row in rows)
    line = f"{hard.theme:10} {hard.name:24} {hard.dimension:3}-D {' '.join(worst)}"
    line += f"  {verdict:17} {f'warned {warned}' if warned else 'silent':9} {seconds:5.1f} s"
    if refused:
        line += f"  refused: {refused[:80]}"
    if doubt:
        line += f"  BRUTE FORCE BEATEN by {100 * doubt:.2g} %"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--theme", nargs="+", choices=THEMES, default=[])
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--json", metavar="FILE", help="where to write every decision")
    parser.add_argument(
        "--check", action="store_true", help="only compare each stated H with draws of the model"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each decision, too")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in GALLERY]:
        parser.error(f"no such problem: {', '.join(unknown)}; there are {', '.join(GALLERY)}")
    names = arguments.names or [
        name
        for name, build in GALLERY.items()
        if not arguments.theme or build.theme in arguments.theme
    ]
    if arguments.check:
        for name in names:
            share, errors = disagreement(GALLERY[name]())
            look = "  LOOK" if share > 1e-3 and errors > 4 else ""
            print(f"{name:24} {100 * share:8.2g} %, {errors:8.2g} errors{look}", flush=True)
            jax.clear_caches()
        return
    stages = sorted(set(arguments.stages))
    rows: list[Row] = []
    for name in names:
        began = time.perf_counter()
        hard = GALLERY[name]()
        found = run(hard, stages, range(arguments.seeds))
        print(_show(hard, found, stages, time.perf_counter() - began), flush=True)
        for row in found if arguments.verbose else ():
            print(
                f"    start {_short(hard.starts[row.start])} t = {row.stage}: "
                f"{_short(row.decision)} for {row.cost:.6g}, best {_short(row.best)} "
                f"for {row.least:.6g} {row.warned}",
                flush=True,
            )
        rows += found
        jax.clear_caches()  # else many compiled programs use up the memory maps of a process
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump([dataclasses.asdict(row) for row in rows], file)
    print("\n".join(summary(rows)))


def _short(x: Any) -> str:
    text = np.array2string(np.asarray(x, float), precision=5, threshold=8, edgeitems=3)
    return text.replace("\n", "")


if __name__ == "__main__":
    main()

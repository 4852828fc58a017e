"""Simulation-based calibration: is each posterior the right one?

python benchmarks/calibration.py [FAMILY ...] [--replications 100000] [--json]

theta is drawn from the prior, data from the model at theta (both by NumPy, which knows nothing of
postgrad), the belief is updated batch by batch at decisions that vary, and theta is ranked among
draws of the posterior. If the posterior is right, ranks are uniform (Talts et al., 2018), for every
function of theta. The chi^2 test's p-values are multiplied by the number of tests (Bonferroni).

Then bugs are planted: a spread 2 % too large, one observation counted twice, the prior ignored.
"""

import argparse
import functools
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from calibration_cases import EXACT, Case, approximate
from jax import random
from scipy import stats

import postgrad as pg
from postgrad.beliefs.kept_likelihood import with_room
from postgrad.problem.contexts import in_context

BATCHES = (1, 10, 1000)
DRAWS = 63  # of the posterior, so there are 64 ranks
THRESHOLD = 1e-3
# The standard deviation of a normal number, standardised by the mean and spread of so many others.
_STUDENT = np.sqrt((1.0 + 1.0 / DRAWS) * (DRAWS - 1.0) / (DRAWS - 3.0))
_LANES = 2500  # replications in one compiled call


class Result(NamedTuple):
    """What was found, by the number of batches.

    Attributes:
        replications: How many.
        p: The smallest p-value over functions of theta, corrected for their number.
        bias: The mean of (theta - posterior mean) / posterior standard deviation: zero if right.
        spread: The standard deviation of that: about one, more if the posterior is too narrow.
    """

    replications: int
    p: dict[int, float]
    bias: dict[int, float]
    spread: dict[int, float]


def decision(stage: Any) -> Any:
    """Decisions that vary from batch to batch: 0.2, 1.1, 2.0, 0.2, ..."""
    return 0.2 + 0.9 * (stage % 3)


class Bug(NamedTuple):
    """What may be planted."""

    spread: float = 1.0
    first_counts: float = 1.0
    prior_ignored: bool = False


HEALTHY = Bug()
BUGS = {
    "spread": Bug(spread=1.02),
    "counted twice": Bug(first_counts=2.0),
    "prior ignored": Bug(prior_ignored=True),
}


@eqx.filter_jit
def _ranks(
    case: Case,
    belief: pg.beliefs.Belief,
    data: jax.Array,
    contexts: Any,
    direction: jax.Array,
    theta: Any,
    key: jax.Array,
    spread: jax.Array,
    first_counts: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The rank of each function of theta among draws of the posterior, for each replication.

    And by how many of the posterior's standard deviations the first is off its mean.
    """

    def one(data: jax.Array, zs: Any, direction: jax.Array, theta: Any, key: jax.Array) -> Any:
        key_draws, key_belief = random.split(key)

        def learn(belief: pg.beliefs.Belief, stage: jax.Array) -> tuple[pg.beliefs.Belief, None]:
            weight = jnp.where(stage == 0, first_counts, 1.0)[None]
            key = random.fold_in(key_belief, stage)
            batch = data[stage][None]
            model = in_context(case.model, jax.tree.map(lambda z: z[stage], zs))
            return belief.update(model, decision(stage), batch, weight, key), None

        learned, _ = jax.lax.scan(learn, belief, jnp.arange(data.shape[0]))
        draws = learned.sample(key_draws, (DRAWS,))
        draws = jax.tree.map(lambda d: d.mean(0) + spread * (d - d.mean(0)), draws)

        def functions(theta: Any) -> jax.Array:
            # Functions of theta alone are blind to an ignored prior, if the model is a shift; so
            # they are looked at once more in the direction in which the data pull.
            values = case.functions(theta)
            return jnp.concatenate([values, direction * values])

        found, truth = jax.vmap(functions)(draws), functions(theta)
        z = (truth - found.mean(axis=0)) / found.std(axis=0, ddof=1) / _STUDENT
        return jnp.sum(found < truth, axis=0), z[0]

    return jax.vmap(one)(data, contexts, direction, theta, random.split(key, data.shape[0]))


def calibrate(
    case: Case, replications: int, batches: int, bug: Bug = HEALTHY
) -> tuple[np.ndarray, np.ndarray]:
    """p-values, one for each function of theta, and the first one's standardised errors."""
    rng = np.random.default_rng([replications, batches])
    ranks, errors = [], []
    lanes = min(_LANES if batches <= 100 else 500, replications)
    xs = decision(np.arange(batches))[:, None]
    belief = with_room(case.weak if bug.prior_ignored else case.belief, batches)
    for chunk in range(-(-replications // lanes)):
        theta = case.draw_theta(rng, lanes)
        zs = case.draw_contexts(rng, (batches, lanes))
        given = (theta, xs) if zs is None else (theta, xs, zs)
        data = np.asarray(case.draw_data(rng, *given), float)  # (batches, lanes, ...)
        means = data.mean(axis=0).reshape(lanes, -1)[:, 0]
        direction = np.where(means > np.median(means), 1.0, -1.0)
        key = random.fold_in(random.key(batches), chunk)
        found = _ranks(
            case,
            belief,
            jnp.asarray(np.moveaxis(data, 0, 1)),
            jax.tree.map(lambda z: jnp.asarray(np.moveaxis(z, 0, 1)), zs),
            jnp.asarray(direction),
            jax.tree.map(jnp.asarray, theta),
            key,
            jnp.asarray(bug.spread),
            jnp.asarray(bug.first_counts),
        )
        ranks.append(np.asarray(found[0]))
        errors.append(np.asarray(found[1]))
    p = np.asarray([_uniformity(column) for column in np.concatenate(ranks).T])
    return p, np.concatenate(errors)


def _uniformity(ranks: np.ndarray) -> float:
    bins = np.bincount(ranks, minlength=DRAWS + 1)
    if len(ranks) < 30 * (DRAWS + 1):  # too few for so many bins
        bins = bins.reshape(16, -1).sum(axis=1)
    return float(stats.chisquare(bins).pvalue)


def assess(case: Case, replications: int, watch: Callable[[str], None]) -> Result:
    """The smallest p-value at each number of batches, corrected for the functions of theta."""
    result = Result(replications, {}, {}, {})
    for batches in case.batches or BATCHES:
        p, z = calibrate(case, replications, batches)
        result.p[batches] = min(1.0, float(p.min()) * len(p))
        result.bias[batches], result.spread[batches] = float(z.mean()), float(z.std())
        watch(
            f"{batches} batches: p = {result.p[batches]:.2g}, bias {z.mean():+.3f}, "
            f"spread {z.std():.3f}"
        )
    return result


def caught(case: Case, bug: Bug, replications: int) -> float:
    """The smallest p-value with a bug planted, at one batch or ten, corrected."""
    values = np.concatenate([calibrate(case, replications, n, bug)[0] for n in (1, 10)])
    return min(1.0, float(values.min()) * len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", help="some of them; all, if not given")
    parser.add_argument("--replications", type=int, default=100_000)
    parser.add_argument("--approximate-replications", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    say = functools.partial(print, flush=True) if not options.json else lambda *_: None

    report: dict[str, Any] = {}
    exact = {name: case for name, case in EXACT.items() if _wanted(name, options.families)}
    others = {n: case for n, case in approximate().items() if _wanted(n, options.families)}
    start = time.perf_counter()
    for name, case in (exact | others).items():
        count = options.replications if name in exact else options.approximate_replications
        say(f"{name}, {count} replications")
        found = assess(case, count, lambda text: say(f"    {text}"))
        tests = len(exact) * len(BATCHES) if name in exact else len(found.p)
        worst = min(found.p, key=lambda batches: found.p[batches])
        report[name] = {
            "batches": max(found.p),
            "replications": found.replications,
            "p": min(1.0, found.p[worst] * tests),
            "p_at": found.p,
            "bias_at": found.bias,
            "spread_at": found.spread,
            "kind": "exact" if name in exact else case.kind,
        }
    planted = {
        f"{name}: {bug}": caught(case, BUGS[bug], options.replications)
        for name, case in exact.items()
        for bug in BUGS
    }
    missed = [bug for bug, p in planted.items() if p > THRESHOLD]
    report["planted"] = {
        "caught": len(planted) - len(missed),
        "planted": len(planted),
        "missed": missed,
    }
    report["seconds"] = round(time.perf_counter() - start, 1)
    if options.json:
        print(json.dumps(report))
        return
    for name in exact | others:
        entry = report[name]
        verdict = "calibrated" if entry["p"] > THRESHOLD else "not calibrated"
        print(f"{name:34} {entry['kind']:12} p = {entry['p']:<8.2g} {verdict}")
    print(f"planted bugs: {report['planted']['caught']} of {len(planted)} caught; missed: {missed}")


def _wanted(name: str, families: list[str]) -> bool:
    return not families or any(family in name for family in families)


if __name__ == "__main__":
    main()

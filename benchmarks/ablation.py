"""Each trick of the engine switched off: how much slower whole jobs and steady states become.

    python benchmarks/ablation.py [--jobs NAME ...] [--variants NAME ...] [--rounds 2] [--json]
    python benchmarks/ablation.py --job NAME --variant NAME
    python benchmarks/ablation.py --accuracy 256 --variant "no lattice"

The second form does one job once, in this process, and prints its times as JSON: the first call
since the start of the process (imports and compiling included) and the best of later calls, as
processor time and by the clock. The first form does this in a fresh process for each variant of
each job, takes the least of several rounds, and prints times and ratios to the variant "as is". A
trick pays if without it a first call takes 1.3 times or a later one 1.5 times as long. The third
form prints how far decisions are from the best ones, which evenly spread draws are there for.
"""

import time

_BEGAN = time.perf_counter()

import argparse  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402
import plain_engine  # noqa: E402
from jax import random  # noqa: E402

import postgrad as pg  # noqa: E402
from postgrad.paper.experiments import EXPERIMENTS  # noqa: E402
from postgrad.paper.limit import LIMITS  # noqa: E402

Job = Callable[[], object]


def _module(name: str) -> Any:
    return importlib.import_module(f"postgrad.{name}")


# Tricks, each replaced by the plain way of doing it.


def _replace(original: str, plain: Any, *users: str) -> None:
    """Puts `plain` where the modules `users`, or all that are loaded, have the function."""
    home, name = original.rsplit(".", 1)
    trick = getattr(_module(home), name)
    modules = [_module(user) for user in users] or [
        module for key, module in list(sys.modules.items()) if key.startswith("postgrad")
    ]
    for module in modules:
        for key, value in list(vars(module).items()):
            if value is trick:
                setattr(module, key, plain)


def _not_split(function: Any, early: Any, late: Any) -> Any:
    """A function that is not split: all of it is done late."""
    del early, late
    return lambda early: early, function


def _mapped(function: Any, *examples: Any) -> Any:
    del examples
    return jax.vmap(function, in_axes=-1, out_axes=-1)


def _independent_keys(key: Any, shape: tuple[int, ...], first: int = 0) -> Any:
    return random.split(random.fold_in(key, first), shape)


def _one_size(few: bool) -> None:
    simulation = _module("simulation")
    size = simulation._SIZE_FOR_FEW if few else simulation._SIZE_FOR_MANY
    simulation._SIZE_FOR_FEW = simulation._SIZE_FOR_MANY = size


def _jax_gamma() -> None:
    for user in ("beta", "dirichlet", "dirichlet_process", "gamma", "normal_inverse_gamma"):
        _module(f"beliefs.{user}")
    _replace("draws.gamma", random.gamma)
    _replace("draws.log_gamma", random.loggamma)


@jax.tree_util.register_pytree_node_class
class _Leaves:
    """Arrays that a program returns one by one, and that are made words of on the host."""

    def __init__(self, arrays: list[Any]):
        self.arrays = arrays

    @property
    def size(self) -> int:
        return sum(array.size for array in self.arrays)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        host = [np.asarray(array) for array in self.arrays]
        wide = [a if a.itemsize == 8 else a.astype(np.int64) for a in host]
        return np.frombuffer(b"".join([a.tobytes() for a in wide]), np.uint64)

    def tree_flatten(self) -> tuple[list[Any], None]:
        return self.arrays, None

    @classmethod
    def tree_unflatten(cls, _: None, arrays: Any) -> "_Leaves":
        return cls(list(arrays))


def _no_packing() -> None:
    """The agent's program returns each array by itself instead of one array of words."""
    runner, words = _module("runner"), _module("store.words")

    class Words:
        header_of, unpacked, as_leaf = words.header_of, words.unpacked, words.as_leaf

        @staticmethod
        def packed(arrays: Any) -> _Leaves:
            return _Leaves([words._plain(array) for array in arrays.values()])

    class Numbers:
        def __getattr__(self, name: str) -> Any:
            return getattr(jax.numpy, name)

        def concatenate(self, parts: list[_Leaves]) -> _Leaves:
            return _Leaves([array for part in parts for array in part.arrays])

    runner.words, runner.jnp = Words, Numbers()


SWITCHES: dict[str, Callable[[], None]] = {
    "as is": lambda: None,
    "no split in simulation": lambda: _replace("hoist.hoist", _not_split, "simulation"),
    "no split in stage": lambda: _replace("hoist.hoist", _not_split, "landscape"),
    "no runs last": lambda: _replace("lanes.vmap_last", _mapped),
    "no own threefry": lambda: _replace("threefry.like", lambda key: key, "threefry"),
    "no lattice": lambda: _replace("quasi.lattice_keys", _independent_keys),
    "no division": lambda: _replace("hoist.once", lambda draws, key: draws),
    "no vector width": lambda: setattr(_module("simulation"), "_COMPILER_OPTIONS", {}),
    "no packing": _no_packing,
    "no own gamma": _jax_gamma,
    "no small chunks": lambda: _one_size(few=False),
    "no large chunks": lambda: _one_size(few=True),
}
_L = plain_engine.Layout
# The engine in another file, in several layouts; every other trick is as it is.
LAYOUTS = {
    "plain": _L(),
    "plain, scan inside": _L(inside=True),
    "plain, runs last": _L(axis=-1),
    "plain, chunks of 10": _L(chunk=10),
    "plain, chunks of 25": _L(chunk=25),
    "plain, chunks of 200": _L(chunk=200),
    "plain, chunks of 1000": _L(chunk=1000),
    "plain, one thread": _L(threads=1),
    "plain, runs last, chunks of 200": _L(axis=-1, chunk=200),
    "plain, runs last, one thread": _L(axis=-1, threads=1),
}
# Combinations with the plain engine.
STAGES: dict[str, tuple[str, ...]] = {
    "plain, no split in stage": ("no split in stage",),
    "plain, no division": ("no division",),
    "plain, no split, no division": ("no split in stage", "no division"),
}


# Jobs: each returns what is timed, a first and later times.


def _simulation(
    name: str, runs: int, horizon: int, *, untuned: bool = False, gamma: bool = False
) -> Callable[[plain_engine.Layout | None], Job]:
    def prepare(layout: plain_engine.Layout | None) -> Job:
        kept: list[Any] = []

        def run() -> object:
            if not kept:
                experiment = EXPERIMENTS[name]
                instance = experiment.instance(experiment.region.feasible)
                options = {} if untuned else pg.presets.paper(gradient=experiment.gradient)
                algorithm = pg.BayesianSGD(instance.problem, **options)
                prior = pg.InverseGamma(3.0, 20.0) if gamma else pg.Grid(instance.points)
                belief = prior.bind(instance.problem, instance.x)
                start = (algorithm, belief, instance.x, instance.theta)
                sizes = {"runs": runs, "horizon": horizon, "batch_size": experiment.batch_size}
                kept.append(
                    (lambda: pg.simulate(*start, **sizes))
                    if layout is None
                    else plain_engine.simulator(*start, **sizes, layout=layout)
                )
            return kept[0]()

        return run

    return prepare


def _agent(
    batches: int, *, untuned: bool, gamma: bool = False
) -> Callable[[plain_engine.Layout | None], Job]:
    def prepare(layout: plain_engine.Layout | None) -> Job:
        if layout is not None:
            raise SystemExit("an agent has no layout of runs")
        kept: list[pg.Agent] = []
        data = np.random.default_rng(0).exponential(6.0, batches)

        def run() -> object:
            if not kept:
                name = "quadratic-2d-independent" if gamma else "quadratic-1d-dependent"
                experiment = EXPERIMENTS[name]
                instance = experiment.instance(experiment.region.feasible)
                options = {} if untuned else pg.presets.paper(gradient=experiment.gradient)
                prior = pg.InverseGamma(3.0, 20.0) if gamma else pg.Grid(instance.points)
                kept.append(pg.Agent(instance.problem, prior, instance.x, **options))
            for y in data:
                kept[0].observe(y)
            return kept[0].decision

        return run

    return prepare


JOBS: dict[str, Callable[[plain_engine.Layout | None], Job]] = {
    "quadratic": _simulation("quadratic-1d-dependent", 100, 1000),
    "quadratic, independent": _simulation("quadratic-1d-independent", 100, 1000),
    "quadratic, many": _simulation("quadratic-1d-dependent", 10_000, 200),
    "quadratic, independent, many": _simulation("quadratic-1d-independent", 10_000, 200),
    "newsvendor": _simulation("newsvendor-independent", 100, 1000),
    "newsvendor, dependent": _simulation("newsvendor-dependent", 100, 1000),
    "default": _simulation("quadratic-1d-dependent", 50, 100, untuned=True),
    "default, independent": _simulation("quadratic-1d-independent", 50, 100, untuned=True),
    "gamma": _simulation("quadratic-2d-independent", 100, 1000, gamma=True),
    "gamma, many": _simulation("quadratic-2d-independent", 10_000, 200, gamma=True),
    "gamma, default": _simulation("quadratic-2d-independent", 50, 100, untuned=True, gamma=True),
    "agent": _agent(100, untuned=True),
    "agent, paper's": _agent(100, untuned=False),
}


def measure(job: str, variant: str, later: int) -> dict[str, float]:
    """The times of one variant of one job in this process, in seconds."""
    layout = LAYOUTS.get(variant, _L() if variant in STAGES else None)
    for switch in STAGES.get(variant, () if variant in LAYOUTS else (variant,)):
        SWITCHES[switch]()
    run = JOBS[job](layout)
    run()
    result = {"first cpu": time.process_time(), "first": time.perf_counter() - _BEGAN}
    cpu, wall = [], []
    for _ in range(later):
        before, clock = time.process_time(), time.perf_counter()
        run()
        cpu.append(time.process_time() - before)
        wall.append(time.perf_counter() - clock)
    return {**result, "later cpu": min(cpu), "later": min(wall)} if later else result


def accuracy(variant: str, thetas: int, runs: int = 200, horizon: int = 20) -> dict[str, float]:
    """How far the untuned default is from the best decision for the same posterior.

    The root mean square over runs and stages 10, ..., 20, with 16 draws of xi for each theta.
    """
    SWITCHES[variant]()
    result = {}
    for name in ("quadratic-1d-independent", "quadratic-1d-dependent"):
        experiment, limit = EXPERIMENTS[name], LIMITS[name]
        instance = experiment.instance(experiment.region.feasible)
        algorithm = pg.BayesianSGD(instance.problem, samples=(thetas, 16))
        belief = pg.Grid(instance.points)
        seen = pg.simulate(
            algorithm, belief, instance.x, instance.theta,
            runs=runs, horizon=horizon, batch_size=experiment.batch_size, record=limit.record,
        )  # fmt: skip
        start = algorithm.init(belief, instance.x)
        gaps = []
        for t in range(horizon // 2, horizon + 1):
            record = jax.tree.map(lambda leaf, t=t: leaf[:, t], seen.record)
            best = limit.decide(instance, start, record)
            gaps.append(seen.decisions[:, t] - np.asarray(best).reshape(seen.decisions[:, t].shape))
        result[name] = float(np.sqrt(np.mean(np.square(gaps))))
    return result


def _in_fresh_process(job: str, variant: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--job", job, "--variant", variant]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return {}
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _table(jobs: list[str], variants: list[str], rounds: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for job in jobs:
        print(job, flush=True)
        results[job] = {}
        for variant in variants:
            seen = [_in_fresh_process(job, variant) for _ in range(rounds)]
            if not all(seen):
                print(f"  {variant:32} failed", flush=True)
                continue
            best = {key: min(one[key] for one in seen) for key in seen[0]}
            results[job][variant] = best
            base = results[job].get("as is", best)
            cells = [f"{key} {best[key]:8.3f} s ({best[key] / base[key]:5.2f})" for key in best]
            print(f"  {variant:32} {'  '.join(cells)}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", choices=list(JOBS))
    every = [*SWITCHES, *LAYOUTS, *STAGES]
    parser.add_argument("--variant", choices=every, default="as is")
    parser.add_argument("--later", type=int, default=3, help="how many later calls")
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--variants", nargs="+", choices=every, default=every)
    parser.add_argument("--accuracy", type=int, metavar="THETAS", help="errors, not times")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.accuracy:
        print(json.dumps(accuracy(options.variant, options.accuracy)))
        return
    if options.job:
        print(json.dumps(measure(options.job, options.variant, options.later)))
        return
    results = _table(options.jobs, options.variants, options.rounds)
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

"""What a default stage costs beside another commit: `simulate` of the testbed, stages 11 to 100.

    git worktree add ../before c202df6
    python benchmarks/stage_price.py --before ../before [PROBLEM ...] [--runs 50] [--json]

Processor milliseconds of a run-stage, compiling aside, for both trees on one machine: each in a
process of its own, which simulates 10 and then 100 stages whenever it is asked; they are asked in
turns, five times each, and the least difference counts. Printed are the ratios, and their mean.
c202df6 is the last commit whose default went by slopes alone.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FIRST, LAST = 10, 100
ROUNDS = 5
# A run-stage of these takes so long that fewer tell as much: stages, runs, and how often.
SLOW = {"queue-rate": (20, 10, 1)}


def answer(name: str, runs: int) -> None:
    """Processor milliseconds of a later run-stage, in this process, for each line that comes in."""
    import postgrad as pg
    from postgrad.research.problems import testbed

    instance = testbed()[name]()
    policy = pg.BayesianSGD(instance.problem)
    last, runs, _ = SLOW.get(name, (LAST, runs, ROUNDS))

    def seconds(horizon: int) -> float:
        start = time.process_time()
        pg.simulate(
            policy, instance.belief, instance.x, instance.theta, runs=runs, horizon=horizon,
            batch_size=instance.batch_size,
        )  # fmt: skip
        return time.process_time() - start

    seconds(FIRST), seconds(last)  # compiles
    for _ in sys.stdin:
        print(1e3 * (seconds(last) - seconds(FIRST)) / (runs * (last - FIRST)), flush=True)


def in_trees(trees: list[Path], name: str, runs: int) -> list[float]:
    """The least of each tree, by processes that answer in turns."""
    command = [sys.executable, __file__, name, "--runs", str(runs), "--here"]
    least = [float("inf")] * len(trees)
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    command, env=os.environ | {"PYTHONPATH": str(tree / "src")}, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
            )
            for tree in trees
        ]  # fmt: skip
        for _ in range(SLOW[name][2] if name in SLOW else ROUNDS):
            for i, process in enumerate(processes):
                print(file=process.stdin, flush=True)
                least[i] = min(least[i], float(process.stdout.readline()))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="PROBLEM")
    parser.add_argument("--before", type=Path, help="the root of the other tree")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.here:
        answer(options.names[0], options.runs)
        return
    if options.before is None:
        parser.error("--before is needed: a tree of the commit to compare with")
    from postgrad.research.problems import testbed

    results = {}
    for name in options.names or testbed():
        now, before = in_trees([HERE.parent, options.before], name, options.runs)
        results[name] = {"now_ms": now, "before_ms": before, "ratio": now / before}
        if not options.json:
            print(f"{name:28} {now:8.3f} {before:8.3f} ms {now / before:6.2f}", flush=True)
    ratios = [result["ratio"] for result in results.values()]
    mean = {"mean": float(np.mean(ratios)), "geometric": float(np.exp(np.mean(np.log(ratios))))}
    if options.json:
        print(json.dumps({"problems": results} | mean))
    else:
        print("mean ratio {mean:.2f}, geometric {geometric:.2f}".format(**mean))


if __name__ == "__main__":
    main()

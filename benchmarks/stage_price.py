"""What a default stage costs beside another commit: `simulate` of the testbed, stages 11 to 100.

    git worktree add ../before c202df6
    python benchmarks/stage_price.py --before ../before [PROBLEM ...] [--runs 50] [--json]

Processor milliseconds of a run-stage, compiling aside, for both trees in turns on one machine: each
in a fresh process, which simulates 10 and then 100 stages, twice each after a first call that
compiles; the lesser difference counts. Printed are the ratios, and their mean. c202df6 is the last
commit whose default went by slopes alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FIRST, LAST = 10, 100
# A stage of these takes so long that fewer tell as much.
SLOW = {"queue-rate": 20}


def measure(name: str, runs: int) -> float:
    """Processor milliseconds of a later run-stage, in this process."""
    import postgrad as pg
    from postgrad.research.problems import testbed

    instance = testbed()[name]()
    policy, last = pg.BayesianSGD(instance.problem), SLOW.get(name, LAST)
    least = dict.fromkeys((FIRST, last), float("inf"))
    for attempt in range(3):
        for horizon in least:
            start = time.process_time()
            pg.simulate(
                policy, instance.belief, instance.x, instance.theta, runs=runs, horizon=horizon,
                batch_size=instance.batch_size,
            )  # fmt: skip
            if attempt:
                least[horizon] = min(least[horizon], time.process_time() - start)
    return 1e3 * (least[last] - least[FIRST]) / (runs * (last - FIRST))


def in_tree(tree: Path, name: str, runs: int) -> float:
    """The same in a fresh process, with the sources of a tree."""
    command = [sys.executable, __file__, name, "--runs", str(runs), "--here"]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="PROBLEM")
    parser.add_argument("--before", type=Path, help="the root of the other tree")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.here:
        print(measure(options.names[0], options.runs))
        return
    if options.before is None:
        parser.error("--before is needed: a tree of the commit to compare with")
    from postgrad.research.problems import testbed

    results = {}
    for name in options.names or testbed():
        now, before = (in_tree(tree, name, options.runs) for tree in (HERE.parent, options.before))
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

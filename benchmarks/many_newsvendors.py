"""The benchmark of newsvendors on a large data set that is made here: how long it takes.

    python benchmarks/many_newsvendors.py [--items 500] [--days 1800] [--json]

Poisson demand of means 5 to 200 with weekdays, months, and a level that changes from year to year.
The table goes through a file and the command `postgrad bench newsvendors`, as any other would.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from first_decision import processor_of_children

ROOT = Path(__file__).parents[1]
POSTGRAD = [sys.executable, "-c", "from postgrad.cli import main; main()"]


def demand(items: int, days: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Days as dates, and demand, days by items."""
    rng = np.random.default_rng(seed)
    dates = np.datetime64("2013-01-01") + np.arange(days)
    weekday = (dates.astype(int) + 3) % 7
    month = dates.astype("datetime64[M]").astype(int) % 12
    year = dates.astype("datetime64[Y]").astype(int) - 43
    log_mean = rng.uniform(np.log(5.0), np.log(200.0), items) + (
        rng.normal(0.0, 0.15, (7, items))[weekday]
        + rng.normal(0.0, 0.25, (12, items))[month]
        + rng.normal(0.0, 0.08, (year.max() + 1, items)).cumsum(axis=0)[year]
    )
    return dates, rng.poisson(np.exp(log_mean))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--days", type=int, default=1800)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    dates, values = demand(options.items, options.days)
    names = [f"item{i}" for i in range(options.items)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "demand.csv"
        lines = (f"{d},{','.join(map(str, row))}" for d, row in zip(dates, values, strict=True))
        file.write_text("\n".join([f"date,{','.join(names)}", *lines, ""]))
        arguments = ["bench", "newsvendors", str(file), "--items", ",".join(names), "--json"]
        started, before = time.perf_counter(), processor_of_children()
        done = subprocess.run([*POSTGRAD, *arguments], check=True, stdout=subprocess.PIPE)
        seconds, processor = time.perf_counter() - started, processor_of_children() - before
    sums = {f"{r['method']}, {r['kind']}": r["sum"] for r in json.loads(done.stdout)["lines"]}
    result = {"seconds": seconds, "processor_s": processor, "sums": sums}
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"{options.items} items x {options.days} days: {seconds:.0f} s, processor {processor:.0f} s"
    )
    for name, total in sums.items():
        print(f"  {name:32} {total:8.2f}")


if __name__ == "__main__":
    main()

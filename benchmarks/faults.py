"""All faults at full size: what was lost, counted twice, or found in a wrong state.

crash points      a process is killed before, within and after each change of its files
power losses      what was not forced to the disk is torn, reordered or gone
I/O faults        reading, writing or flushing fails; then a kill
... and power     the same, and a second process goes on; then the power is lost
concurrent kills  four processes write to one file; one after the other is killed
kills             an agent is killed at random moments; compared bit for bit with one that was not
sequences         random deliveries, crashes, writers and transactions, against a list
hash seeds        every belief and policy is opened by processes in which sets have other orders

A sample of each is in the tests. Ends with 1 if anything was lost, counted twice or wrong.

python benchmarks/faults.py [--size 1.0] [--seed 0] [--only NAME] [--skip NAME] [--json]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))

from shims import compiled, totals_under  # noqa: E402

# How many of each at full size.
SIZES = {
    "crash points": 1800, "power losses": 3600, "I/O faults": 1600, "I/O faults and power": 1600,
    "concurrent kills": 120, "kills": 200, "sequences": 200, "hash seeds": 10,
}  # fmt: skip


def recorded(kind: str) -> Callable[[Path, int, int], dict[str, Any]]:
    """One of the programs in `tests/recorded_disk.py`."""

    def run(folder: Path, size: int, seed: int) -> dict[str, Any]:
        library = None if kind == "writers" else compiled("recorded_disk", folder)
        total = totals_under(library, "recorded_disk", folder, kind, size, seed)
        wrong = sum(total.get(name, 0) for name in ("wrong", "wrong afterwards", "refused"))
        told = {name: total[name] for name in ("lost", "counted twice")}
        return {"points": total["points"], **told, "wrong": wrong}

    return run


def failing(power: int) -> Callable[[Path, int, int], dict[str, Any]]:
    """Calls that fail, with or without a loss of power."""

    def run(folder: Path, size: int, seed: int) -> dict[str, Any]:
        library, total = compiled("failing_disk", folder), Counter[str]()
        for way in totals_under(library, "failing_disk", folder, size, seed, power).values():
            total.update(way)
        wrong = total["wrong in the end"]
        if not power:  # what was refused and said not to count
            wrong += total["refused, counted"] + total["overwritten, counted"]
        lost = total["acknowledged"] - total["acknowledged, counted"]
        points = {"points": total["points"], "failed calls": total["failures"]}
        return {**points, "lost": lost, "counted twice": total["counted twice"], "wrong": wrong}

    return run


def kills(_: Path, size: int, seed: int) -> dict[str, Any]:
    """See `kills.py`."""
    command = [sys.executable, str(ROOT / "benchmarks" / "kills.py"), "--json"]
    command += ["--trials", str(size), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    told = json.loads(done.stdout)
    wrong = told["different_states"] + (not told["in_order"]) + (not told["replay_identical"])
    named = {"lost": told["lost"], "counted twice": told["counted_twice"], "wrong": wrong}
    return {"points": told["trials"], **named}


def tested(module: str, variable: str) -> Callable[[Path, int, int], dict[str, Any]]:
    """A test module that takes its size from the environment."""

    def run(_: Path, size: int, seed: int) -> dict[str, Any]:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, str(TESTS / module)],
            env={**os.environ, variable: str(size)}, capture_output=True, text=True,
        )  # fmt: skip
        failed = re.search(r"(\d+) (failed|error)", done.stdout)
        wrong = int(failed[1]) if failed else int(done.returncode != 0)
        return {"points": size, "lost": 0, "counted twice": 0, "wrong": wrong}

    return run


RUNS = {
    "crash points": recorded("crash"),
    "power losses": recorded("power"),
    "I/O faults": failing(0),
    "I/O faults and power": failing(1),
    "concurrent kills": recorded("writers"),
    "kills": kills,
    "sequences": tested("test_durable_machine.py", "POSTGRAD_SEQUENCES"),
    "hash seeds": tested("test_hash_seeds.py", "POSTGRAD_HASH_SEEDS"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1.0, help="a share of the full size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=RUNS, action="append")
    parser.add_argument("--skip", choices=RUNS, action="append")
    parser.add_argument("--folder", help="where to write; a temporary folder, if not given")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    columns = ("points", "lost", "counted twice", "wrong", "seconds")
    if not options.json:
        print(f"{'':22}" + "".join(f"{name:>15}" for name in columns))
    for name, run in RUNS.items():
        if name in (options.skip or ()) or (options.only and name not in options.only):
            continue
        size, start = max(4, round(options.size * SIZES[name])), time.perf_counter()
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            results[name] = run(Path(folder), size, options.seed)
        results[name]["seconds"] = round(time.perf_counter() - start, 1)
        if not options.json:
            row = "".join(f"{results[name][column]:>15}" for column in columns)
            more = results[name].get("failed calls")
            print(f"{name:22}{row}{f'   ({more} calls failed)' if more else ''}", flush=True)
    if options.json:
        print(json.dumps(results))
    bad = sum(told[what] for told in results.values() for what in columns[1:4])
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

"""Hostile files: every one must be read, or refused in a sentence, in bounded time and memory.

In one process, whose memory is limited: specifications are loaded and built, CSV and Parquet files
are read and sorted into days. Then some of each go through `postgrad run`. A file fails if it ends
in anything but a result or an error of postgrad, if it takes more than ten seconds (compiling
aside), or more than 500 MB above what good files take. Files that failed are kept in --keep.

python benchmarks/fuzz.py [--specifications 10000] [--csv 10000] [--parquet 2000] [--runs 100]
                          [--seed 0] [--keep FOLDER] [--json]
"""

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from fuzz_inputs import (
    GOOD_CSV,
    GOOD_SPEC,
    csv_file,
    good_specifications,
    parquet_file,
    write_good_parquet,
)
from fuzz_inputs import specification as specification_file
from typer.testing import CliRunner

from postgrad.cli import app
from postgrad.errors import PostgradError
from postgrad.spec import load
from postgrad.spec.build import build
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows, demand_table

SECONDS, MEGABYTES = 10.0, 500
# After which a file is broken off.
_LONGEST = 60
_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class TooLongError(BaseException):
    """A file took so long that it was broken off."""


def read_specification(path: Path) -> None:
    spec = load(path)
    build(spec, spec.data.item_names or ("an item", "another"))


def read_data(path: Path) -> None:
    spec = load(path.with_name("good.toml"))
    demand_table(dated_rows(rows(path), spec.data, spec.split_by), spec.data.item_names or ())


def run_specification(path: Path) -> None:
    _run(path, path.with_name("good.csv"))


def run_data(path: Path) -> None:
    _run(path.with_name("good.toml"), path)


def _run(spec: Path, data: Path) -> None:
    """`postgrad run`, with a file of decisions that is new."""
    state = spec.with_name("state.db")
    for left in spec.parent.glob("state.db*"):
        left.unlink()
    done = CliRunner().invoke(app, ["run", str(spec), str(data), "--state", str(state)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code not in (0, 1, 3, 4, 5):
        raise RuntimeError(f"exit code {done.exit_code}: {done.output}")
    if done.exit_code and "error: " not in done.stderr:
        raise RuntimeError(f"exit code {done.exit_code} without an error: {done.output}")
    if done.exit_code:
        raise PostgradError(done.stderr)


def megabytes(what: str) -> float:
    """What the system says about this process: VmSize, VmRSS or VmHWM."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Lets VmHWM, the peak of VmRSS, begin anew."""
    _FORGET.write_text("5")


@contextmanager
def limited(more: float) -> Iterator[None]:
    """Lets the process have so many megabytes more than it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    most = int((megabytes("VmSize") + more) * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


class Clock:
    """Seconds that were not spent compiling."""

    def __init__(self) -> None:
        self.compiling = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, seconds: float, **_: Any) -> None:
        if "compile" in event or "trace" in event or "lower" in event or "jaxpr" in event:
            self.compiling += seconds

    def now(self) -> float:
        """Seconds since some moment."""
        return time.perf_counter() - self.compiling


def tried(
    path: Path, read: Callable[[Path], None], clock: Clock, usual: float
) -> tuple[str, str, float, float]:
    """What became of a file: read, refused or failed; why; seconds; megabytes above the usual."""

    def break_off(*_: Any) -> None:
        raise TooLongError

    signal.signal(signal.SIGALRM, break_off)
    signal.alarm(_LONGEST)
    forget_peak()
    start = clock.now()
    try:
        read(path)
        fate, why = "read", ""
    except PostgradError as error:
        fate, why = "refused", str(error)
        if not why:
            fate, why = "failed", "an error without words"
    except TooLongError:
        fate, why = "failed", f"more than {_LONGEST} s"
    except BaseException as error:
        fate, why = "failed", "".join(traceback.format_exception(error))
    finally:
        signal.alarm(0)
    seconds, more = clock.now() - start, megabytes("VmHWM") - usual
    if seconds > SECONDS or more > MEGABYTES:
        fate, why = "failed", f"{seconds:.1f} s, {more:.0f} MB more than usual; {fate}: {why}"
    return fate, why, seconds, more


Make = Callable[[np.random.Generator], bytes]


def fuzz(
    name: str, make: Make, read: Callable[[Path], None], count: int, seed: int, keep: Path | None
) -> dict[str, Any]:
    """Tries so many files of a kind, and counts what became of them."""
    clock, fates, slowest, peak = Clock(), Counter[str](), 0.0, 0.0
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.with_name("good.toml").write_text(GOOD_SPEC)
        path.with_name("good.csv").write_text(GOOD_CSV)
        write_good_parquet(path.with_name("good.parquet"))
        forget_peak()
        read(path.with_name("good" + path.suffix))  # compiles; raises if good files are not read
        usual = megabytes("VmHWM")
        for number in range(count):
            path.write_bytes(make(np.random.default_rng([seed, number])))
            with limited(2 * MEGABYTES):
                fate, why, seconds, more = tried(path, read, clock, usual)
            slowest, peak = max(slowest, seconds), max(peak, more)
            fates[fate] += 1
            if fate == "failed":
                failures.append(f"{name} {number}: {why}")
                if keep is not None:
                    keep.mkdir(exist_ok=True)
                    (keep / f"{number}-{name}").write_bytes(path.read_bytes())
    told = {"files": count, **{fate: fates[fate] for fate in ("read", "refused", "failed")}}
    return {**told, "slowest_s": round(slowest, 2), "peak_mb": round(peak), "failures": failures}


def kinds() -> dict[str, tuple[str, Make, Callable[[Path], None]]]:
    """Names of files, what makes them, and what reads them."""
    good = good_specifications()
    return {
        "specifications": ("a.toml", lambda rng: specification_file(rng, good), read_specification),
        "csv": ("a.csv", csv_file, read_data),
        "parquet": ("a.parquet", parquet_file, read_data),
        "specifications, run": (
            "a.toml", lambda rng: specification_file(rng, [GOOD_SPEC]), run_specification,
        ),
        "csv, run": ("a.csv", csv_file, run_data),
        # Rows that are right take their time, as in any other file.
        "parquet, run": ("a.parquet", lambda rng: parquet_file(rng, most=200), run_data),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--specifications", type=int, default=10_000)
    parser.add_argument("--csv", type=int, default=10_000)
    parser.add_argument("--parquet", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=100, help="of each, through `postgrad run`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ["COLUMNS"] = "200"
    results = {}
    columns = ("files", "read", "refused", "failed", "slowest_s", "peak_mb")
    if not options.json:
        print(f"{'':20}" + "".join(f"{column:>11}" for column in columns))
    for kind, (name, make, read) in kinds().items():
        count = options.runs if "run" in kind else getattr(options, kind)
        if count:
            results[kind] = told = fuzz(name, make, read, count, options.seed, options.keep)
            if not options.json:
                print(f"{kind:20}" + "".join(f"{told[name]:>11}" for name in columns), flush=True)
            for failure in told["failures"][:20]:
                print(failure, file=sys.stderr)
    if options.json:
        print(json.dumps(results))
    sys.exit(1 if any(told["failed"] for told in results.values()) else 0)


if __name__ == "__main__":
    main()

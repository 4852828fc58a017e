"""`make demo` as a user meets it: the first figure, the whole, the longest silence, the page.

    python benchmarks/demo.py [--json] [--curves]

Runs `postgrad reproduce` with its output into a pipe, as into a log, and notes when lines come:

    first figure    seconds until the first table is printed; its figure is drawn by then
    total           seconds of everything
    silence         the longest time without a line
    page            bytes of report.html
    other cores     how many others kept busy meanwhile

Seconds are on the clock and of the processor (user and system; the latter on Linux alone for the
first figure), since machines are shared. `--curves` times two curves on each newsvendor instead,
100 runs of 1,000 stages in fresh processes: the paper's Bayesian-SGD, and the untuned default.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from first_decision import processor_of_children
from other_work import OtherWork

COMMAND = [sys.executable, "-c", "from postgrad.cli import main; main()", "reproduce"]
NEWSVENDORS = ("newsvendor-independent", "newsvendor-dependent")


def processor_of(pid: int) -> float | None:
    """Processor seconds of a process that runs; None where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def demo(*options: str) -> dict[str, Any]:
    """When each line of the log comes, and what is left in the end."""
    with tempfile.TemporaryDirectory() as out:
        before, start = processor_of_children(), time.perf_counter()
        last, result = start, {"silence_s": 0.0}
        # No programs are on disk, as when somebody tries it for the first time.
        variables = os.environ | {"POSTGRAD_CACHE": str(Path(out) / "programs")}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(
            [*COMMAND, *options, "--out", out], text=True, env=variables, **pipes
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                now = time.perf_counter()
                result["silence_s"] = max(result["silence_s"], now - last)
                last = now
                # the head of a table
                if line.lstrip().startswith("algorithm ") and "first_figure_s" not in result:
                    result["first_figure_s"] = now - start
                    result["first_figure_processor_s"] = processor_of(process.pid)
                    assert list(Path(out).glob("*.svg"))
        if process.returncode:
            raise SystemExit(f"exit code {process.returncode}")
        result |= {"total_s": time.perf_counter() - start}
        result |= {"total_processor_s": processor_of_children() - before}
        return result | {"page_bytes": (Path(out) / "report.html").stat().st_size}


def curves() -> dict[str, Any]:
    """Seconds of single curves with figure and report, and the ratio of the two."""
    results: dict[str, Any] = {}
    for name in NEWSVENDORS:
        paper, untuned = (
            demo(name, "--algorithms", key, "--untuned-runs", "100")
            for key in ("bayesian-sgd", "postgrad")
        )
        for kind in ("total_s", "total_processor_s"):
            results[f"{name} {kind}"] = {
                "bayesian-sgd": paper[kind],
                "untuned": untuned[kind],
                "ratio": untuned[kind] / paper[kind],
            }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--curves", action="store_true", help="two curves on each newsvendor")
    options = parser.parse_args()
    others = OtherWork()
    result = curves() if options.curves else demo()
    result["other_cores"] = others.cores()
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:42} {value if isinstance(value, dict) else round(value, 2)}")


if __name__ == "__main__":
    main()

"""What a backtest of many items costs: processor seconds of a fresh process, compiling included.

Synthetic daily demand of many items, overdispersed, with a weekly pattern and a level that drifts;
a decision and a belief for each weekday, a negative binomial on a grid of 1,920 points and five
rates of forgetting, as in examples/yaz-weekday.toml. The bar: 36 items and 1,200 days in at most 30
processor seconds, and the first line of progress within 5 seconds, also in a log.

    python benchmarks/backtest.py [--items 36] [--days 1200] [--repeat] [--json]
    python benchmarks/backtest.py --write FOLDER   the same as files, for `postgrad backtest`

Printed are the processor seconds of importing, tracing, compiling, and of all the rest (running);
with `--repeat` those of a second backtest in the same process, which compiles nothing.
"""

import argparse
import datetime
import json
import time
from pathlib import Path

import numpy as np

SPECIFICATION = """\
title = "Synthetic items, by weekday"
start = 30.0

[data]
date = "date"
items = [{items}]

[cost]
kind = "newsvendor"
underage = 4
overage = 1

[model]
kind = "negative-binomial"

[belief]
kind = "grid"
forget = [1, 0.99, 0.98, 0.96, 0.92]

[belief.levels]
mean = {{ from = 0.1, to = 1000, points = 160, spacing = "log" }}
concentration = {{ from = 0.1, to = 100, points = 12, spacing = "log" }}

[feasible]
kind = "box"
low = 0
high = 1000

[split_by]
kind = "weekday"

[backtest]
burn_in = 60
"""


def demand(items: int, days: int, seed: int = 0) -> np.ndarray:
    """Days by items: negative binomial counts around a drifting level, higher at weekends."""
    rng = np.random.default_rng(seed)
    level = np.exp(rng.uniform(np.log(2.0), np.log(200.0), items))
    drift = np.cumsum(rng.normal(0.0, 0.01, (days, items)), axis=0)
    weekly = rng.lognormal(0.0, 0.3, (7, items))[np.arange(days) % 7]
    mean, concentration = level * np.exp(drift) * weekly, rng.uniform(1.0, 20.0, items)
    return rng.poisson(rng.gamma(concentration, mean / concentration)).astype(float)


def write(folder: Path, items: int, days: int) -> tuple[Path, Path]:
    """A specification and a table of demand."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"item{i + 1}" for i in range(items)]
    first = datetime.date(2023, 1, 2)
    dates = [str(first + datetime.timedelta(days=day)) for day in range(days)]
    lines = [",".join(["date", *names])]
    for date, row in zip(dates, demand(items, days), strict=True):
        lines.append(",".join([date, *(f"{value:.0f}" for value in row)]))
    data, specification = folder / "demand.csv", folder / "items.toml"
    data.write_text("\n".join(lines) + "\n")
    specification.write_text(SPECIFICATION.format(items=", ".join(f'"{n}"' for n in names)))
    return specification, data


def measure(items: int, days: int, repeat: bool) -> dict[str, float]:
    """Processor seconds, by what they were spent on; a line of progress on the clock."""
    begun = time.perf_counter()
    import tempfile

    import jax

    from postgrad.spec import load
    from postgrad.spec.spec_backtest import backtest_specification
    from postgrad.spec.tables.files import rows

    spent = {"importing": time.process_time()}
    compiling = {"tracing": 0.0, "compiling": 0.0}
    kinds = {
        "/jax/core/compile/jaxpr_trace_duration": "tracing",
        "/jax/core/compile/jaxpr_to_mlir_module_duration": "tracing",
        "/jax/core/compile/backend_compile_duration": "compiling",
    }
    programs = []

    def listen(event: str, seconds: float, **about: object) -> None:
        if event in kinds:
            compiling[kinds[event]] += seconds
        if kinds.get(event) == "compiling" and seconds > 0.3:
            programs.append((str(about.get("fun_name")), round(seconds, 1)))

    jax.monitoring.register_event_duration_secs_listener(listen)
    first: list[float] = []

    def progress(label: str, done: int, total: int) -> None:
        first.append(time.perf_counter() - begun)

    with tempfile.TemporaryDirectory() as folder:
        specification, data = write(Path(folder), items, days)
        spec = load(specification)
        for again in (False, True)[: 1 + repeat]:
            start = time.process_time()
            done = backtest_specification(spec, rows(str(data)), progress)
            spent["again" if again else "backtest"] = time.process_time() - start
    return spent | compiling | {
        "all": spent["importing"] + spent["backtest"],
        "first line of progress, on the clock": first[0],
        "total cost": done.result.total["postgrad"],
        "programs": programs,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=36)
    parser.add_argument("--days", type=int, default=1200)
    parser.add_argument("--repeat", action="store_true")
    parser.add_argument("--write", type=Path, help="write the files and stop")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.write:
        print(*write(options.write, options.items, options.days))
        return
    result = measure(options.items, options.days, options.repeat)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name}: {value:.1f}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()

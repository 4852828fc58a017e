"""One table of the figures that must never get worse unnoticed, each with its bar.

    python benchmarks/standing.py [--only NAME ...] [--skip NAME ...] [--list] [--out results]

A row has a name, what is measured, a bar, and a function that measures; the functions run commands
and other benchmarks in fresh processes, each once even where several rows read its output. NAME is
the name of a row or its part before the slash. Times are processor seconds (user and system), and
are shown as multiples of something that was measured in the same run. The verdicts:

    holds   the bar is reached
    open    the bar was not reached when the row was recorded, and the value is no worse than it was
            then, give or take the row's noise
    worse   anything else: exit code 1
    skipped, failed   with the reason; a row that failed also means exit code 1

The table is printed row by row, and kept in standing.json in the folder of `--out`. To add a
figure, add a function and a line to `ROWS`.
"""

import argparse
import collections
import functools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from first_decision import BARS, HERE, fresh, processor_of_children
from start import AGAIN, COLD, KEPT, READING, WARM

ROOT = HERE.parent
POSTGRAD = [sys.executable, "-c", "from postgrad.cli import main; main()"]
# The larger data are not part of the repository.
DATA = ROOT.parent / "shared" / "data"
# Commands of fewer processor seconds are run three times.
SHORT = 3.0
QUADRATICS = [
    "quadratic-1d-independent",
    "quadratic-2d-independent",
    "quadratic-1d-dependent",
    "quadratic-2d-dependent",
]
# Of each theme of the gallery a problem or two.
HARD = ["advertising", "two-segments", "stockout-jump", "fixed-cost", "choke-price", "four-nines",
        "spare-part", "unlike-units", "eight-newsvendors", "twenty-on-a-budget", "three-branches",
        "newsvendor-cvar"]  # fmt: skip
NEWSVENDORS = ["newsvendor-independent", "newsvendor-dependent"]


class Skipped(Exception):  # noqa: N818  a reason, not a failure
    """The row cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Row:
    """A figure and its bar.

    Attributes:
        name: The group, a slash, and the figure.
        what: What is measured, in which unit.
        bar: "<= 5" or ">= 2".
        measure: Returns the value, and a note with the absolute figures.
        recorded: The value where the bar was not reached when it was recorded; None where it was.
        noise: The share by which the value may be worse than recorded.
    """

    name: str
    what: str
    bar: str
    measure: Callable[[], tuple[float, str]]
    recorded: float | None = None
    noise: float = 0.25

    def verdict(self, value: float) -> str:
        """Holds, open or worse."""
        sense, limit = self.bar.split()
        sign = 1.0 if sense == "<=" else -1.0
        if sign * value <= sign * float(limit):
            return "holds"
        if self.recorded is None:
            return "worse"
        return "open" if sign * value <= sign * self.recorded * (1 + sign * self.noise) else "worse"


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a job once for given arguments; what it raised is raised again, not run again."""

    @functools.cache
    def outcome(*arguments: Any) -> tuple[Any, Exception | None]:
        try:
            return function(*arguments), None
        except Exception as error:
            return None, error

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        result, error = outcome(*arguments)
        if error is not None:
            raise error
        return result

    return call


@once
def benchmark(script: str, *options: str) -> Any:
    """What a benchmark prints as JSON."""
    return json.loads(fresh([sys.executable, str(HERE / script), *options, "--json"])[0])


@once
def command(*arguments: str) -> tuple[Any, float]:
    """What a postgrad command prints as JSON, and its processor seconds."""
    output, seconds = fresh([*POSTGRAD, *arguments, "--json"])
    return json.loads(output), seconds


@once
def seconds_of(*arguments: str) -> float:
    """Processor seconds of Python with these arguments; the least of three where they are few."""
    times = [fresh([sys.executable, *arguments])[1]]
    while len(times) < 3 and times[0] < SHORT:
        times.append(fresh([sys.executable, *arguments])[1])
    return min(times)


def by_hand() -> float:
    return seconds_of(str(HERE / "plain_jax.py"))


# ---- the rows' functions ----


def first_decision(program: str) -> tuple[float, str]:
    result = benchmark("first_decision.py")
    about = result["programs"][program]
    large = [k for p in about["programs"].values() for k in p["kernels"]]
    compiling = sum(p["compile_s"] for p in about["programs"].values())
    note = f"{about['processor_s']:.1f} s; compiling, on the clock, {compiling:.1f} s"
    return result["ratios"][program], f"{note}; kernels {large}"


def limit(*names: str, runs: int, horizon: int) -> tuple[float, str]:
    """The worst ratio to the limit from stage 10 on; an excess of at most 5e-4 counts as 1."""
    sizes = ("--runs", str(runs), "--horizon", str(horizon))
    worst, where = 1.0, "every excess at most 5e-4"
    for name, result in benchmark("limit.py", *names, *sizes).items():
        for t, row in result["rows"].items():
            if int(t) >= 10 and row["excess"] > 5e-4 and row["ratio"] > worst:
                worst, where = row["ratio"], f"{name}, t = {t}, excess {row['excess']:.1e}"
    return worst, f"{where}; {runs} runs"


def few_draws() -> tuple[float, str]:
    """The error of the default at t = 10 with 16 draws a stage, over the literal algorithm's."""
    sizes = ("--budgets", "16", "--runs", "100", "--horizon", "10")
    found = benchmark("budget.py", "newsvendor-independent", *sizes)["newsvendor-independent"]["16"]
    ours, literal = found["postgrad"][0], min(found["K steps"][0], found["one step"][0])
    return ours / literal, f"{ours:.3f} and {literal:.3f}; 100 runs"


def testbed(*problems: str) -> tuple[float, str]:
    """The share of problems on which no data-driven competitor beats the untuned default."""
    with tempfile.TemporaryDirectory() as out:
        sizes = ("--runs", "20", "--horizon", "100", "--out", out)
        beaten = command("bench", *problems, *sizes)[0]["beaten_by"]
    behind = "; ".join(
        f"{problem} behind {', '.join(f'{r} {when}' for r, when in rivals.items())}"
        for problem, rivals in beaten.items()
        if rivals
    )
    share = sum(not rivals for rivals in beaten.values()) / len(beaten)
    return share, f"{len(beaten)} problems, 20 runs, T = 100{'; ' if behind else ''}{behind}"


def newsvendor(name: str) -> tuple[float, str]:
    """A stage by processor time; 165 is 25 s on two cores where NumPy takes 0.083 s a stage."""
    result = benchmark("newsvendor.py", "--names", name, "--rounds", "1")[name]
    first, later = result["first call, s"], result["later calls, s"]
    return result[
        "NumPy stage / first call, processor"
    ], f"first call {first:.1f} s, later {later:.1f} s"


def newsvendor_from_the_shell() -> tuple[float, str]:
    """Seconds on the clock of 100 runs of 1,000 stages, figure and report included."""
    with tempfile.TemporaryDirectory() as out:
        load, start = os.getloadavg()[0] - 1.0, time.perf_counter()  # one is this run itself
        arguments = ("newsvendor-dependent", "--algorithms", "bayesian-sgd", "--out", out)
        _, processor = command("reproduce", *arguments)
        seconds = time.perf_counter() - start
    if load > 0.5:
        raise Skipped(f"needs idle cores; load {load:.1f}, {processor:.1f} processor seconds")
    return seconds, f"{processor:.1f} processor seconds"


def quadratics() -> tuple[float, str]:
    # Of the four, those in which the decision changes the data: the ones nearest to the bar.
    names = ("--names", *QUADRATICS[2:])
    results = benchmark("quadratics.py", "--runs", "1000", "--rounds", "2", *names)
    ratios = {name: curves["all three"]["ratio"] for name, curves in results.items()}
    return min(ratios.values()), ", ".join(f"{ratio:.1f}" for ratio in ratios.values())


def observe(label: str, ratio: str) -> tuple[float, str]:
    result = benchmark("observe.py", "--count", "1000")[label]
    return result[ratio], f"median {result['median_us']:.0f} us"


def backtest(specification: str, data: Path) -> tuple[float, str]:
    """The total cost of the untuned default."""
    if not data.exists():
        raise Skipped(f"{data.name} is not in {data.parent.name}/ next to the repository")
    result, seconds = command("backtest", str(ROOT / "examples" / specification), str(data))
    total = result["total"]
    return total["postgrad"], f"sample average {total['saa']:,.0f}; {seconds:.0f} s"


def counts(law: str) -> tuple[float, str]:
    """A run-stage of counts that depend on the decision, over that of Bernoulli demand."""
    result = benchmark("counts.py", "--runs", "50", "--horizon", "100")
    ours, least = (result[name]["50"]["ms"] for name in (law, "bernoulli"))
    return ours / least, f"{ours:.2f} and {least:.2f} ms"


def backtest_processor() -> tuple[float, str]:
    """Processor seconds of a backtest of 36 items and 1,200 days, compiling included."""
    result = benchmark("backtest.py")
    first = result["first line of progress, on the clock"]
    return result["all"], f"first line of progress after {first:.1f} s"


def start(name: str) -> tuple[float, str]:
    """Processor seconds of a command over those of `import jax`."""
    result = benchmark("start.py")["commands"][name]
    return result["ratio"], f"{result['processor_s']:.2f} s; {result['wall_s']:.2f} s on the clock"


def kept(name: str) -> tuple[float, str]:
    """Processor seconds with programs kept on disk over those by hand without."""
    result = benchmark("start.py")["kept"][name]
    return result["ratio"], f"{result['processor_s']:.2f} s; {result['wall_s']:.2f} s on the clock"


def demo(name: str, horizon: int) -> tuple[float, str]:
    """Processor seconds of a part of `make demo`, with 10 of its 100 runs, over those by hand."""
    with tempfile.TemporaryDirectory() as out:
        sizes = ("--runs", "10", "--horizon", str(horizon), "--out", out)
        _, seconds = command("reproduce", name, *sizes)
    return seconds / by_hand(), f"{seconds:.1f} processor seconds, {horizon} stages"


def whole_demo(figure: str, size: float = 1.0) -> tuple[float, str]:
    """A figure of `demo.py`; those on the clock need idle cores, and so does nothing else here."""
    load = os.getloadavg()[0] - 1.0  # one is this run itself
    result = benchmark("demo.py")
    processor = f"{result['total_processor_s']:.0f} processor seconds in all"
    if figure.endswith("_s") and max(load, result["load"] - 2.0) > 0.5:
        raise Skipped(f"needs idle cores; {result[figure]:.0f} s, {processor}")
    return result[figure] / size, processor


@once
def hard_rows() -> list[dict[str, Any]]:
    """What `hard.py` finds on a part of the gallery, a row for each decision."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        options = [*HARD, "--stages", "1", "5", "--json", str(out)]
        fresh([sys.executable, str(HERE / "hard.py"), *options])
        return json.loads(out.read_text())


def hard(figure: str) -> tuple[float, str]:
    rows = hard_rows()
    worst = max((row for row in rows if row["stage"] == 5), key=lambda row: row["excess"])
    needless = [row for row in rows if row["warned"] and row["excess"] < 0.01]
    note = f"{len(HARD)} problems; worst: {worst['name']}"
    return (100 * worst["excess"] if figure == "excess" else float(len(needless))), note


def make_test() -> tuple[float, str]:
    last = json.loads((HERE / "make_test_seconds.json").read_text())
    return last["seconds"], f"not measured now: {last['date']}, {last['where']}"


ROWS = [
    Row("first-decision/readme", "README's example / program by hand", f"<= {BARS['readme']:.0f}",
        lambda: first_decision("readme"), recorded=3.0),
    Row("first-decision/own-law", "own law, particles / program by hand",
        f"<= {BARS['own law']:.0f}", lambda: first_decision("own law"), recorded=7.4),
    Row("limit/quadratics", "worst error / the posterior's best, t >= 10", "<= 1.05",
        lambda: limit(*QUADRATICS, runs=100, horizon=200)),
    Row("limit/newsvendor", "the same, newsvendor-dependent", "<= 1.05",
        lambda: limit("newsvendor-dependent", runs=40, horizon=100)),
    Row("hard/excess", "worst excess over brute force at t = 5, %", "<= 2",
        lambda: hard("excess")),
    Row("hard/warned", "stages warned though the excess is < 1 %", "<= 0",
        lambda: hard("warned")),
    Row("testbed/share", "problems where the default is best or tied", ">= 1",
        lambda: testbed("newsvendor-1d-dependent", "quadratic-1d-dependent", "pricing-linear")),
    *(Row(f"newsvendor/{name.split('-')[1]}", "dense NumPy stage / ours, first call", ">= 165",
          lambda name=name: newsvendor(name)) for name in NEWSVENDORS),
    Row("newsvendor/shell", "2 million points, 100 x 1,000, seconds", "<= 25",
        newsvendor_from_the_shell),
    Row("few-draws/newsvendor", "error with 16 draws / the literal algorithm's, t = 10", "<= 1",
        few_draws),
    Row("quadratics/steady", "NumPy / ours, steady state, the least", ">= 2", quadratics),
    Row("observe/default", "observe / plain jitted step", "<= 2",
        lambda: observe("default", "to_plain_step")),
    Row("observe/paper", "observe / plain jitted step, paper's step", "<= 2",
        lambda: observe("mixture-score", "to_plain_step")),
    Row("observe/numpy", "observe / NumPy stage, paper's step", "<= 10",
        lambda: observe("mixture-score", "to_numpy_stage")),
    Row("backtest/yaz", "total cost", "<= 76190",
        lambda: backtest("yaz.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/yaz-weekday", "total cost", "<= 60720",
        lambda: backtest("yaz-weekday.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/yaz-capacity", "total cost", "<= 87006",
        lambda: backtest("yaz-capacity.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/onlineretail-orders", "total cost", "<= 22391",
        lambda: backtest("onlineretail-orders.toml", DATA / "onlineretail.csv")),
    Row("backtest/onlineretail-units", "total cost", "<= 708151",
        lambda: backtest("onlineretail-units.toml", DATA / "onlineretail.csv")),
    *(Row(f"counts/{law}", "run-stage / Bernoulli's, rate depends on x", "<= 5",
          lambda law=law: counts(law)) for law in ("binomial", "poisson")),
    Row("backtest/seconds", "36 items x 1,200 days, processor seconds", "<= 30",
        backtest_processor, recorded=81.0, noise=0.5),
    Row("demo/first-figure", "make demo, first table and figure, seconds", "<= 20",
        lambda: whole_demo("first_figure_s")),
    Row("demo/total", "make demo, seconds", "<= 180", lambda: whole_demo("total_s")),
    Row("demo/silence", "make demo, longest silence in a log, seconds", "<= 10",
        lambda: whole_demo("silence_s")),
    Row("demo/page", "make demo, the page, MB", "<= 1.5", lambda: whole_demo("page_bytes", 1e6)),
    *(Row(f"start/{name.strip('-').replace(' ', '-')}", f"{name} / import jax", f"<= {READING:g}",
          lambda name=name: start(name))
      for name in ("--help", "init", "decide", "history", "explain", "export", "error of form")),
    Row("start/run-again", "run again, nothing new / import jax", f"<= {AGAIN:g}",
        lambda: start("run, again")),
    Row("start/plot", "plot of one item, programs on disk / import jax", f"<= {AGAIN:g}",
        lambda: start("plot"), recorded=10.0),
    Row("start/run-warm", "run, programs on disk / import jax", f"<= {WARM:g}",
        lambda: start("run, warm"), recorded=8.0),
    Row("start/run-other-numbers", "the same, other numbers / import jax", f"<= {WARM:g}",
        lambda: start("run, other numbers"), recorded=7.9),
    Row("start/run-cold", "run, no programs on disk / import jax", f"<= {COLD:g}",
        lambda: start("run, cold"), recorded=27.1),
    Row("kept/readme", "README's example, programs on disk / by hand", f"<= {KEPT['readme']:g}",
        lambda: kept("readme"), recorded=1.7),
    Row("kept/own-law", "own law, programs on disk / by hand", f"<= {KEPT['own law']:g}",
        lambda: kept("own law"), recorded=2.8),
    *(Row(f"demo/{name}", "reproduce, 10 runs / program by hand", "<= 12",
          lambda name=name: demo(name, 1000)) for name in QUADRATICS),
    *(Row(f"demo/{name}", "reproduce, 10 runs / program by hand", "<= 35",
          lambda name=name: demo(name, 100)) for name in NEWSVENDORS),
    Row("make-test/seconds", "make test, seconds, as last measured", "<= 360", make_test,
        recorded=707.0),
]  # fmt: skip


# ---- the table ----


def figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def result_of(row: Row) -> dict[str, Any]:
    """The row's value and verdict; whatever went wrong is part of the result."""
    started, processor = time.perf_counter(), processor_of_children()
    result: dict[str, Any] = {"name": row.name, "what": row.what, "bar": row.bar}
    try:
        value, note = row.measure()
        result |= {"value": value, "verdict": row.verdict(value), "note": note}
    except Skipped as reason:
        result |= {"verdict": "skipped", "note": str(reason)}
    except Exception as error:
        text = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
        result |= {"verdict": "failed", "note": text[-200:]}
    spent = {
        "seconds": time.perf_counter() - started,
        "processor_s": processor_of_children() - processor,
    }
    return result | {"recorded": row.recorded} | spent


def line(result: dict[str, Any]) -> str:
    value = figure(result["value"]) if "value" in result else "-"
    name, what, bar = result["name"], result["what"], result["bar"]
    return f"{name:31} {what:45} {bar:>9} {value:>9}  {result['verdict']:8} {result['note']}"


def main() -> int:
    groups = sorted({row.name.split("/")[0] for row in ROWS})
    known = [*groups, *(row.name for row in ROWS)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=known, default=groups, metavar="NAME")
    parser.add_argument("--skip", nargs="+", choices=known, default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--out", type=Path, default=ROOT / "results")
    options = parser.parse_args()

    def named(row: Row, names: list[str]) -> bool:
        return row.name in names or row.name.split("/")[0] in names

    chosen = [row for row in ROWS if named(row, options.only) and not named(row, options.skip)]
    if options.list:
        print("\n".join(row.name for row in chosen))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{'figure':31} {'what':45} {'bar':>9} {'value':>9}  verdict  note", flush=True)
    results = []
    for row in chosen:
        if sys.stdout.isatty():
            print(f"... {row.name}", end="\r", flush=True)
        results.append(result_of(row))
        print(line(results[-1]), flush=True)
        (options.out / "standing.json").write_text(json.dumps(results, indent=1))
    counts = collections.Counter(result["verdict"] for result in results)
    print(", ".join(f"{number} {verdict}" for verdict, number in counts.items()), end="; ")
    minutes = {key: sum(r[key] for r in results) / 60 for key in ("seconds", "processor_s")}
    print("{seconds:.1f} minutes, {processor_s:.1f} of processor".format(**minutes))
    return int(any(r["verdict"] in ("worse", "failed") for r in results))


if __name__ == "__main__":
    sys.exit(main())

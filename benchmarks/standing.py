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
figure, add a function to `standing_figures.py` and a line to `ROWS`.
"""

import argparse
import collections
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import standing_figures as figures
from first_decision import BARS, processor_of_children
from standing_figures import QUADRATICS, ROOT, Skipped
from start import AGAIN, COLD, KEPT, READING, WARM

# The larger data are not part of the repository.
DATA = ROOT.parent / "shared" / "data"
NEWSVENDORS = ["newsvendor-independent", "newsvendor-dependent"]


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


ROWS = [
    Row("first-decision/readme", "README's example / program by hand", f"<= {BARS['readme']:g}",
        lambda: figures.first_decision("readme")),
    Row("first-decision/own-law", "own law, particles / program by hand",
        f"<= {BARS['own law']:g}", lambda: figures.first_decision("own law")),
    Row("limit/quadratics", "worst error / the posterior's best, t >= 10", "<= 1.05",
        lambda: figures.limit(*QUADRATICS, runs=100, horizon=200)),
    Row("limit/newsvendor", "the same, newsvendor-dependent", "<= 1.05",
        lambda: figures.limit("newsvendor-dependent", runs=40, horizon=100)),
    Row("hard/excess", "worst excess over brute force at t = 5, %", "<= 2",
        lambda: figures.hard("excess")),
    Row("hard/warned", "stages warned though the excess is < 1 %", "<= 0",
        lambda: figures.hard("warned")),
    Row("rest/not-at-rest", "yaz, with a budget and without: stages not at rest", "<= 0",
        lambda: figures.rest("not_at_rest")),
    Row("rest/excess", "the same, worst excess over brute force, %", "<= 1",
        lambda: figures.rest("worst_excess")),
    Row("intervals/first-batch", "95 % interval, log-normal, outside 90-98 %, by", "<= 0",
        lambda: figures.interval("lognormal", 1)),
    Row("stage-price/mean", "a stage / one by slopes alone, on the mean", "<= 1.25",
        figures.stage_price),
    Row("testbed/share", "problems where the default is best or tied", ">= 1",
        lambda: figures.testbed(
            "newsvendor-1d-dependent", "quadratic-1d-dependent", "pricing-linear")),
    *(Row(f"newsvendor/{name.split('-')[1]}", "dense NumPy stage / ours, first call", ">= 165",
          lambda name=name: figures.newsvendor(name)) for name in NEWSVENDORS),
    Row("newsvendor/shell", "2 million points, 100 x 1,000, seconds", "<= 25",
        figures.newsvendor_from_the_shell),
    *(Row(f"curves/{name.split('-')[1]}", "untuned curve / the paper's, 100 x 1,000", "<= 4",
          lambda name=name: figures.curves(name)) for name in NEWSVENDORS),
    Row("few-draws/newsvendor", "error with 16 draws / the literal algorithm's, t = 10", "<= 1",
        figures.few_draws),
    Row("quadratics/steady", "NumPy / ours, steady state, the least", ">= 2",
        figures.quadratics),
    Row("observe/default", "observe / plain jitted step", "<= 2",
        lambda: figures.observe("default", "to_plain_step")),
    Row("observe/paper", "observe / plain jitted step, paper's step", "<= 2",
        lambda: figures.observe("mixture-score", "to_plain_step")),
    Row("observe/default-to-paper", "observe, default / paper's step", "<= 2",
        figures.observe_default_to_paper, recorded=2.3),
    Row("observe/numpy", "observe / NumPy stage, paper's step", "<= 10",
        lambda: figures.observe("mixture-score", "to_numpy_stage")),
    Row("backtest/yaz", "total cost", "<= 76190",
        lambda: figures.backtest("yaz.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/yaz-weekday", "total cost", "<= 60720",
        lambda: figures.backtest("yaz-weekday.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/yaz-capacity", "total cost", "<= 87006",
        lambda: figures.backtest("yaz-capacity.toml", ROOT / "examples" / "yaz.csv")),
    Row("backtest/onlineretail-orders", "total cost", "<= 22391",
        lambda: figures.backtest("onlineretail-orders.toml", DATA / "onlineretail.csv")),
    Row("backtest/onlineretail-units", "total cost", "<= 708151",
        lambda: figures.backtest("onlineretail-units.toml", DATA / "onlineretail.csv")),
    Row("backtest/yaz-calendar", "total cost", "<= 57900",
        lambda: figures.backtest("yaz-calendar.toml", ROOT / "examples" / "yaz.csv")),
    Row("contexts/excess", "decide(z), five problems, worst excess, %", "<= 1",
        lambda: figures.contexts("excess")),
    Row("contexts/scalar", "decide(z), a scalar, median ms", "<= 3",
        lambda: figures.contexts("scalar")),
    Row("contexts/twenty", "decide(z), twenty coordinates, median ms", "<= 20",
        lambda: figures.contexts("twenty")),
    Row("newsvendors/live", "yaz, sum of costs over service levels, live", "<= 86",
        lambda: figures.newsvendors_sum("live")),
    Row("newsvendors/frozen", "the same, frozen after the training rows", "<= 92",
        lambda: figures.newsvendors_sum("frozen")),
    Row("newsvendors/origins", "the same, mean of five origins", "<= 91.19",
        figures.newsvendors_origins),
    Row("newsvendors/live-level", "worst level / best published, live", "<= 0.999",
        lambda: figures.newsvendors_level("live")),
    Row("newsvendors/frozen-level", "worst level / best published, frozen", "<= 1.05",
        lambda: figures.newsvendors_level("frozen")),
    *(Row(f"counts/{law}", "run-stage / Bernoulli's, rate depends on x", "<= 5",
          lambda law=law: figures.counts(law)) for law in ("binomial", "poisson")),
    Row("backtest/seconds", "36 items x 1,200 days, processor seconds", "<= 30",
        figures.backtest_processor),
    Row("demo/first-figure", "make demo, first table and figure, seconds", "<= 20",
        lambda: figures.whole_demo("first_figure_s")),
    Row("demo/total", "make demo, seconds", "<= 180", lambda: figures.whole_demo("total_s")),
    Row("demo/silence", "make demo, longest silence in a log, seconds", "<= 10",
        lambda: figures.whole_demo("silence_s")),
    Row("demo/page", "make demo, the page, MB", "<= 1.5",
        lambda: figures.whole_demo("page_bytes", 1e6)),
    *(Row(f"start/{name.strip('-').replace(' ', '-')}", f"{name} / import jax", f"<= {READING:g}",
          lambda name=name: figures.start(name))
      for name in ("--help", "init", "decide", "history", "explain", "export", "error of form")),
    Row("start/run-again", "run again, nothing new / import jax", f"<= {AGAIN:g}",
        lambda: figures.start("run, again")),
    Row("start/plot", "plot of one item, programs on disk / import jax", f"<= {AGAIN:g}",
        lambda: figures.start("plot")),
    Row("start/run-warm", "run, programs on disk / import jax", f"<= {WARM:g}",
        lambda: figures.start("run, warm")),
    Row("start/run-other-numbers", "the same, other numbers / import jax", f"<= {WARM:g}",
        lambda: figures.start("run, other numbers")),
    Row("start/run-cold", "run, no programs on disk / import jax", f"<= {COLD:g}",
        lambda: figures.start("run, cold")),
    Row("kept/readme", "README's example, programs on disk / by hand", f"<= {KEPT['readme']:g}",
        lambda: figures.kept("readme")),
    Row("kept/own-law", "own law, programs on disk / by hand", f"<= {KEPT['own law']:g}",
        lambda: figures.kept("own law")),
    *(Row(f"demo/{name}", "reproduce, 10 runs / program by hand", "<= 12",
          lambda name=name: figures.demo(name, 1000)) for name in QUADRATICS),
    *(Row(f"demo/{name}", "reproduce, 10 runs / program by hand", "<= 35",
          lambda name=name: figures.demo(name, 100)) for name in NEWSVENDORS),
    Row("make-test/seconds", "make test, seconds, as last measured", "<= 360", figures.make_test),
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

"""What the rows of `standing.py` measure: commands and other benchmarks in fresh processes."""

import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from first_decision import HERE, fresh
from other_work import OtherWork

ROOT = HERE.parent
POSTGRAD = [sys.executable, "-c", "from postgrad.cli import main; main()"]
# Commands of fewer processor seconds are run three times.
SHORT = 3.0
QUADRATICS = [
    "quadratic-1d-independent",
    "quadratic-2d-independent",
    "quadratic-1d-dependent",
    "quadratic-2d-dependent",
]
# More cores than this, kept busy by others, spoil seconds on the clock.
BUSY = 0.1
# Of each theme of the gallery a problem or two.
HARD = ["advertising", "two-segments", "stockout-jump", "fixed-cost", "choke-price", "four-nines",
        "spare-part", "unlike-units", "eight-newsvendors", "twenty-on-a-budget", "three-branches",
        "newsvendor-cvar"]  # fmt: skip
# The last commit whose default went by slopes alone.
SLOPES_ALONE = "c202df6"


class Skipped(Exception):  # noqa: N818  a reason, not a failure
    """The row cannot be measured here; the message says why."""


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


def on_idle_cores(others: float, measured: str, note: str) -> str:
    """The note of a figure on the clock, if others left the cores alone.

    Raises:
        Skipped: If they did not, or nobody tells.
    """
    if not others <= BUSY:
        raise Skipped(f"needs idle cores, others kept {others:.1f} busy; {measured}")
    return note


def newsvendor_from_the_shell() -> tuple[float, str]:
    """Seconds on the clock of 100 runs of 1,000 stages, figure and report included."""
    with tempfile.TemporaryDirectory() as out:
        others, start = OtherWork(), time.perf_counter()
        arguments = ("newsvendor-dependent", "--algorithms", "bayesian-sgd", "--out", out)
        _, processor = command("reproduce", *arguments)
        seconds = time.perf_counter() - start
    note = f"{processor:.1f} processor seconds"
    return seconds, on_idle_cores(others.cores(), f"{seconds:.0f} s, {note}", note)


def quadratics() -> tuple[float, str]:
    # Of the four, those in which the decision changes the data: the ones nearest to the bar.
    names = ("--names", *QUADRATICS[2:])
    results = benchmark("quadratics.py", "--runs", "1000", "--rounds", "2", *names)
    ratios = {name: curves["all three"]["ratio"] for name, curves in results.items()}
    return min(ratios.values()), ", ".join(f"{ratio:.1f}" for ratio in ratios.values())


def observe(label: str, ratio: str) -> tuple[float, str]:
    result = benchmark("observe.py", "--count", "1000")[label]
    return result[ratio], f"median {result['median_us']:.0f} us"


def observe_default_to_paper() -> tuple[float, str]:
    """What `observe` of the default takes over that of the paper's step with its own gradient."""
    found = benchmark("observe.py", "--count", "1000")
    default, paper = (found[label]["median_us"] for label in ("default", "mixture-score"))
    return default / paper, f"medians {default:.0f} and {paper:.0f} us"


def curves(name: str) -> tuple[float, str]:
    """Seconds of the untuned curve over those of the paper's, each in a fresh process."""
    found = benchmark("demo.py", "--curves")[f"{name} total_s"]
    return found["ratio"], f"{found['untuned']:.1f} and {found['bayesian-sgd']:.1f} s"


def backtest(specification: str, data: Path) -> tuple[float, str]:
    """The total cost of the untuned default."""
    if not data.exists():
        raise Skipped(f"{data.name} is not in {data.parent.name}/ next to the repository")
    result, seconds = command("backtest", str(ROOT / "examples" / specification), str(data))
    total = result["total"]
    return total["postgrad"], f"sample average {total['saa']:,.0f}; {seconds:.0f} s"


def contexts(figure: str) -> tuple[float, str]:
    found = dict(benchmark("decisions_in_contexts.py", "--json"))
    times = found.pop("ms")
    if figure != "excess":
        return times[figure], f"processor {times[figure + ' processor']:.2f} ms"
    worst = max(found, key=lambda name: found[name]["worst"])
    return 100 * found[worst]["worst"], f"{worst}; mean {100 * found[worst]['mean']:.2f} %"


def newsvendors() -> dict[str, Any]:
    """The benchmark on the demand of a restaurant, whose published figures are known."""
    return command("bench", "newsvendors", "--origins", "300,369,430,490,553")[0]


def newsvendors_sum(kind: str) -> tuple[float, str]:
    sums = {(row["method"], row["kind"]): row["sum"] for row in newsvendors()["lines"]}
    best = min(total for (_, found), total in sums.items() if found == "published")
    near = sums["64 nearest neighbours", kind]
    return sums["postgrad", kind], f"best published {best:.2f}, 64 neighbours, {kind}, {near:.2f}"


def newsvendors_origins() -> tuple[float, str]:
    """The mean over origins of the sums of frozen look-aheads."""
    found = newsvendors()["origins"]["mean"]
    return found["postgrad"], f"64 neighbours {found['64 nearest neighbours']:.2f}"


def newsvendors_level(kind: str) -> tuple[float, str]:
    ratios = newsvendors()[f"{kind}_to_best_published"]
    return max(ratios), " ".join(f"{ratio:.3f}" for ratio in ratios)


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
    result = benchmark("demo.py")
    note = f"{result['total_processor_s']:.0f} processor seconds in all"
    if figure.endswith("_s"):
        on_idle_cores(result["other_cores"], f"{result[figure]:.0f} s, {note}", note)
    return result[figure] / size, note


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


def rest(figure: str) -> tuple[float, str]:
    """The worse of both examples; after the tenth stage."""
    result = benchmark("rest.py")
    worst = max(result, key=lambda name: result[name][figure])
    stages = sum(found["stages"] for found in result.values())
    return result[worst][figure], f"{worst}; {stages:,} stages"


def make_test() -> tuple[float, str]:
    last = json.loads((HERE / "make_test_seconds.json").read_text())
    return last["seconds"], f"not measured now: {last['date']}, {last['where']}"


def stage_price() -> tuple[float, str]:
    """A default stage over one of the commit that went by slopes alone, on the mean."""
    with tempfile.TemporaryDirectory() as before:
        archive = ["git", "-C", str(ROOT), "archive", SLOPES_ALONE, "src"]
        found = subprocess.run(archive, capture_output=True)
        if found.returncode:
            raise Skipped(f"no commit {SLOPES_ALONE} here, as in a shallow clone")
        subprocess.run(["tar", "-x", "-C", before], input=found.stdout, check=True)
        result = benchmark("stage_price.py", "--before", before)
    ratios = {name: one["ratio"] for name, one in result["problems"].items()}
    worst = max(ratios, key=ratios.__getitem__)
    return result["mean"], f"{len(ratios)} problems; most: {worst}, {ratios[worst]:.2f}"


def interval(name: str, stage: int) -> tuple[float, str]:
    """By how many per cent of cases the coverage of a 95 % interval lies outside 90 to 98."""
    sizes = ("--runs", "300", "--stages", "1", "5")
    covered = 100 * benchmark("intervals.py", name, *sizes)[name][str(stage)]
    return max(90.0 - covered, covered - 98.0, 0.0), f"{covered:.1f} % of 300 runs"

"""The bench runs the field on the testbed, and says where the default is not the best."""

import json
import re

import equinox as eqx
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import postgrad.research.bench
from postgrad import cli, errors
from postgrad.research import plots, problems
from postgrad.research.bench import Bench, bench, plan
from postgrad.research.comparison import Comparison
from postgrad.research.rivals import names


def planted(**regrets):
    """A comparison in which each algorithm has these regrets at stages 1, 2, in all runs."""
    noise = 1e-3 * np.random.default_rng(0).random((10, 1))
    arrays = {name: np.asarray([1.0, *values]) + noise for name, values in regrets.items()}
    for i, name in enumerate(arrays):
        arrays[name] = arrays[name] + 1e-5 * np.random.default_rng(i).normal(size=(10, 3))
    settings = {"runs": 10, "horizon": 2, "batch_size": 1, "seed": 0, "x_star": [0.0]}
    return Comparison(arrays, arrays, dict.fromkeys(arrays, 0), {}, "postgrad", settings)


PLANTED = Bench(
    {
        "won": planted(postgrad=(0.5, 0.1), mle=(0.5, 0.2), known=(0.0, 0.0)),
        "slow": planted(postgrad=(0.5, 0.1), mle=(0.2, 0.3)),
        "lost": planted(postgrad=(0.5, 0.1), mle=(0.9, 0.05), saa=(0.1, 0.01), spsa=(0.9, 0.9)),
    }
)


def test_report_counts_only_whom_the_interval_proves_better():
    assert PLANTED.beaten_by("won") == {}  # who knows the truth does not compete
    assert PLANTED.beaten_by("slow") == {"mle": "on the way"}
    assert PLANTED.beaten_by("lost") == {"mle": "at the end", "saa": "throughout"}
    report = PLANTED.report()
    assert "last stage on 2 of 3 problems (67%)" in report
    assert "all stages on 1 of 3 (33%)" in report
    assert "lost: behind mle at the end, saa throughout" in report
    assert "won" not in report


def files_of(*stems):
    """What a whole bench writes, with these figures."""
    figures = {f"{stem}{suffix}" for stem in stems for suffix in (".png", ".svg")}
    return figures | {"summary.json", "report.txt"}


def in_folder(folder):
    return {path.name for path in folder.iterdir()}


def summary_in(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def test_bench_runs_the_named_ones_and_writes_all(tmp_path):
    name = "quadratic-1d-dependent"
    result = bench(
        [name], algorithms=["greedy", "spsa"], runs=4, horizon=10, seed=1, reference="greedy",
        folder=tmp_path / "out", provenance={"device": "none"},
    )  # fmt: skip
    assert list(result.comparisons[name].regrets) == ["greedy", "spsa"]
    assert in_folder(tmp_path / "out") == files_of(
        f"{name}-progress", f"{name}-terminal", "solvability"
    )
    summary = summary_in(tmp_path / "out")
    assert summary["device"] == "none"
    assert summary["problems"][name]["horizon"] == 10
    assert summary["report"] == result.report()
    text = (tmp_path / "out" / "report.txt").read_text(encoding="utf-8")
    assert result.comparisons[name].table() in text
    assert text.endswith(result.report() + "\n")


ENDS = {
    "few": planted(postgrad=(0.5, 0.1), mle=(0.5, 0.2)),
    "bad": ValueError("no such optimum"),
    "more": planted(postgrad=(0.5, 0.1), mle=(0.5, 0.2), wasserstein=(0.4, 0.3)),
}


@pytest.fixture
def fakes(monkeypatch):
    """A testbed of the problems in ENDS; a comparison is at once what is said there, or raised.

    Figures are drawn, but empty files are written for them, which is quicker.
    """

    def compare(instance, *arguments, **options):
        if isinstance(instance, Exception):
            raise instance
        return instance

    makers = {name: (lambda end=end: end) for name, end in ENDS.items()}
    monkeypatch.setattr(postgrad.research.bench, "testbed", lambda: makers)
    monkeypatch.setattr(postgrad.research.bench, "compare", compare)
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: path.touch())


@pytest.mark.parametrize("order", [["few", "more"], ["more", "few"]])
@pytest.mark.usefixtures("fakes")
def test_problems_may_have_different_algorithms(order, tmp_path):
    result = bench(order, folder=tmp_path)
    assert result.failures == {}
    stems = [f"{name}-{kind}" for name in order for kind in ("progress", "terminal")]
    assert in_folder(tmp_path) == files_of(*stems, "solvability")
    assert list(summary_in(tmp_path)["problems"]) == order
    assert "wasserstein" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_profiles_count_what_diverged_on_all_problems(tmp_path):
    few, more = ENDS["few"], ENDS["more"]
    few = eqx.tree_at(lambda c: c.diverged, few, {"postgrad": 0, "mle": 2})
    more = eqx.tree_at(lambda c: c.diverged, more, {"postgrad": 0, "mle": 3, "wasserstein": 1})
    for i, both in enumerate([{"few": few, "more": more}, {"more": more, "few": few}]):
        with mpl.rc_context({"svg.fonttype": "none"}):
            _, svg = plots.draw_solvability(both, tmp_path / str(i))
        labels = re.findall(r">([a-z]+(?: \(\d diverged\))?)</text>", svg.read_text())
        assert {"postgrad", "mle (5 diverged)", "wasserstein (1 diverged)"} <= set(labels)


@pytest.mark.usefixtures("fakes")
def test_results_are_on_disk_after_each_problem(tmp_path):
    """And one that raises takes nothing away from those before and after it."""
    seen = {}

    def progress(label, done, total):
        if label.endswith("setting up") and (tmp_path / "summary.json").exists():
            seen[label] = summary_in(tmp_path), in_folder(tmp_path)

    result = bench(["few", "bad", "more"], folder=tmp_path, progress=progress)
    first, files = seen["2/3 bad: setting up"]
    assert list(first["problems"]) == ["few"]
    assert (first["failures"], first["pending"]) == ({}, ["bad", "more"])
    assert files == files_of("few-progress", "few-terminal")
    second, _ = seen["3/3 more: setting up"]
    assert list(second["problems"]) == ["few"]
    message = "ValueError: no such optimum"
    assert (second["failures"], second["pending"]) == ({"bad": message}, ["more"])
    last = summary_in(tmp_path)
    assert list(last["problems"]) == list(result.comparisons) == ["few", "more"]
    assert (last["failures"], last["pending"]) == ({"bad": message}, [])


@pytest.mark.usefixtures("fakes")
def test_interruption_leaves_what_was_done(tmp_path):
    def interrupt(label, done, total):
        if label.startswith("2/2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench(["more", "few"], folder=tmp_path, progress=interrupt)
    assert list(summary_in(tmp_path)["problems"]) == ["more"]
    assert "still to run: few" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def broken(*arguments, **options):
    raise KeyError("wasserstein")


@pytest.mark.parametrize("figure", ["progress", "terminal", "solvability"])
@pytest.mark.usefixtures("fakes")
def test_figure_that_fails_loses_nothing(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, f"draw_{figure}", broken)
    done = CliRunner().invoke(cli.app, ["bench", "few", "more", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert ENDS["few"].table() in done.stdout
    assert ENDS["more"].table() in done.stdout
    stems = [f"{name}-{kind}" for name in ("few", "more") for kind in ("progress", "terminal")]
    kept = [stem for stem in [*stems, "solvability"] if not stem.endswith(figure)]
    assert in_folder(tmp_path) == files_of(*kept)
    lost = [stem for stem in [*stems, "solvability"] if stem.endswith(figure)]
    failures = {f"figure {stem}": "KeyError: 'wasserstein'" for stem in lost}
    assert summary_in(tmp_path)["failures"] == failures
    lines = [f"failed: {name}: {message}" for name, message in failures.items()]
    assert done.stderr.splitlines()[-len(lines) :] == lines


@pytest.mark.usefixtures("fakes")
def test_command_says_what_failed_and_how_far_it_is(tmp_path):
    done = CliRunner().invoke(cli.app, ["bench", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 1
    assert list(json.loads(done.stdout)["problems"]) == ["few", "more"]
    lines = done.stderr.splitlines()
    assert lines[-1] == "failed: bad: ValueError: no such optimum"
    order = [lines.index(f"{place}: setting up") for place in ("1/3 few", "2/3 bad", "3/3 more")]
    assert order == sorted(order)


@pytest.mark.usefixtures("fakes")
def test_nothing_finished_is_said(tmp_path):
    done = CliRunner().invoke(cli.app, ["bench", "bad", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "No problem was finished." in done.stdout
    assert in_folder(tmp_path) == files_of()


def test_intervals_of_one_run_can_be_written(tmp_path):
    few = ENDS["few"]
    one = eqx.tree_at(lambda c: c.regrets, few, {k: r[:1] for k, r in few.regrets.items()})
    Bench({"few": one}).write(tmp_path)
    last = summary_in(tmp_path)["problems"]["few"]["against"]["mle"]["last"]
    assert (last["low"], last["high"]) == (None, None)  # infinite, which JSON does not have
    assert last["mean"] == pytest.approx(0.1, rel=1e-2)


def test_wrong_settings_are_errors_not_failures():
    with pytest.raises(errors.SettingError, match="runs"):
        bench(runs=0)
    with pytest.raises(errors.SettingError, match="horizon"):
        bench(horizon=0)
    with pytest.raises(errors.SettingError, match="unknown algorithm 'oracle'"):
        bench(reference="oracle")


def test_reference_is_always_there():
    result = bench(["quadratic-1d-dependent"], algorithms=["spsa"], runs=2, horizon=3,
                   reference="greedy")  # fmt: skip
    assert set(result.comparisons["quadratic-1d-dependent"].regrets) == {"greedy", "spsa"}


def test_plan():
    assert plan([], []) == (list(problems.testbed()), names())
    assert plan(["quadratic-1d-dependent"] * 2, ["mle"]) == (["quadratic-1d-dependent"], ["mle"])
    with pytest.raises(errors.SettingError, match=r"known are .*quadratic-2d-independent"):
        plan(["quadratic-9d"], [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["quadratic-9d"], "quadratic-1d-dependent"),
        (["--algorithms", "greedy,oracle"], names()[-1]),
        (["--runs", "0"], "runs"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_why(arguments, words):
    done = CliRunner().invoke(cli.app, ["bench", *arguments], env={"COLUMNS": "500"})
    assert done.exit_code == 2
    assert words in done.stderr

"""The bench runs the field on the testbed, and says where the default is not the best."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from postgrad import errors
from postgrad.research import problems
from postgrad.research.bench import Bench, bench, plan
from postgrad.research.comparison import Comparison
from postgrad.research.rivals import names

PROGRAM = Path(sys.executable).with_name("postgrad")


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


def test_bench_runs_the_named_ones_and_writes_all(tmp_path):
    result = bench(
        ["quadratic-1d-dependent"], algorithms=["greedy", "spsa"], runs=4, horizon=10, seed=1,
        reference="greedy",
    )  # fmt: skip
    assert list(result.comparisons["quadratic-1d-dependent"].regrets) == ["greedy", "spsa"]
    files = result.write(tmp_path / "out", {"device": "none"})
    assert all(path.exists() for path in files)
    assert len(files) == 7
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["device"] == "none"
    assert summary["problems"]["quadratic-1d-dependent"]["horizon"] == 10
    assert summary["report"] == result.report()


def test_reference_is_always_there():
    result = bench(["quadratic-1d-dependent"], algorithms=["spsa"], runs=2, horizon=3,
                   reference="greedy")  # fmt: skip
    assert set(result.comparisons["quadratic-1d-dependent"].regrets) == {"greedy", "spsa"}


def test_plan():
    assert plan([], []) == (list(problems.testbed()), None)
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
    done = subprocess.run(
        [PROGRAM, "bench", *arguments],
        capture_output=True, text=True, env={"COLUMNS": "500", "PATH": "/usr/bin"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr

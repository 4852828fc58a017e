"""The command line, as a user types it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from postgrad.cli import app, output
from postgrad.cli.progress_log import ProgressLog

PROGRAM = Path(sys.executable).with_name("postgrad")


def run(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=900, **options
    )


def test_help_does_not_wait_for_jax():
    code = "import sys, postgrad.cli; sys.exit(any(m in sys.modules for m in ('jax', 'numpyro')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "reproduce" in run("--help").stdout


def test_progress_is_a_line_for_each_step_where_there_is_no_terminal(capsys):
    with output.progress() as show:
        for label, done in (("learning", 0), ("learning", 1), ("drawing", 2)):
            show(label, done, 2)
    printed = capsys.readouterr()
    assert printed.err == "learning\ndrawing\n"
    assert not printed.out


def test_a_log_has_a_line_while_nothing_is_reported(capsys):
    """Compiling takes seconds in which nobody reports anything."""
    with ProgressLog(every=0.05) as log:
        log.report("compiling", 1, 4)
        while "25% of all" not in (printed := capsys.readouterr().err):
            time.sleep(0.01)
    assert "compiling (25% of all, 0 s)" in printed


def test_tables_go_where_standard_output_goes(monkeypatch, tmp_path):
    """A bar on a terminal does not draw output to itself that is meant for a file."""
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    with open(tmp_path / "tables", "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        with output.progress() as show:
            show("learning", 1, 2)
            print("a table")
    assert (tmp_path / "tables").read_text() == "a table\n"


@pytest.mark.slow
def test_reproduce_writes_figures_and_summary(tmp_path):
    done = run(
        "reproduce", "quadratic-1d-independent", "posterior", "--runs", "5", "--horizon", "12",
        "--algorithms", "bayesian-sgd,known", "--out", str(tmp_path / "new"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "new" / "summary.json").read_text())
    algorithms = printed["experiments"]["quadratic-1d-independent"]["algorithms"]
    assert list(algorithms) == ["bayesian-sgd", "known"]
    assert printed["claims"] == []  # they are about the whole paper
    assert set(printed["versions"]) >= {"postgrad", "jax", "python"}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "posterior.png",
        "posterior.svg",
        "quadratic-1d-independent.png",
        "quadratic-1d-independent.svg",
        "report.html",
        "summary.json",
    ]


def test_table_is_for_people(tmp_path):
    arguments = ["quadratic-1d-dependent", "--runs", "3", "--horizon", "10"]
    arguments += ["--algorithms", "bayesian-sgd,mle", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.stderr
    assert "bayesian-sgd" in done.stdout
    assert str(tmp_path) in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "quadratic-9d"], "quadratic-1d-independent"),
        (["reproduce", "--algorithms", "oracle"], "bayesian-sgd"),
        (["reproduce", "--runs", "0"], "runs"),
        (["reproduce", "--horizon", "many"], "horizon"),
        (["reproduce", "--seed", "-1"], "seed"),
        (["claims", "--runs", "0"], "runs"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_why(arguments, words):
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["unheard-of"], "unheard-of"), (["reproduce", "quadratic-9d"], "quadratic-1d-independent")],
)
def test_the_program_ends_with_the_exit_code(arguments, words):
    """As a process of its own, by what Typer refuses and by what the library does."""
    done = run(*arguments, env={"COLUMNS": "300", "PATH": "/usr/bin"})
    assert done.returncode == 2
    assert words in done.stderr


def test_folder_that_cannot_be_made_is_wrong_usage(tmp_path):
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["reproduce", "--out", str(tmp_path / "file" / "folder")])
    assert done.exit_code == 2
    assert "cannot write" in done.stderr

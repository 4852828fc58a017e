"""The README's example runs, and the public names are all there."""

import re
from pathlib import Path

import numpy as np
import pytest

import postgrad as pg

README = Path(__file__).parents[1] / "README.md"


def test_example_runs_and_makes_sense(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 16
    scope = {}
    exec(compile(example, "README.md", "exec"), scope)
    assert scope["agent"].stage == 4
    assert 10 < scope["agent"].decision < 20
    assert capsys.readouterr().out.count("order") == 4


def test_public_names_are_there():
    for name in pg.__all__:
        assert getattr(pg, name) is not None


def test_arrays_are_float64():
    assert pg.beliefs.Grid(np.arange(3, dtype=np.float32)).points.dtype == np.float64


@pytest.mark.parametrize("page", ["durable", "backtesting"])
def test_examples_of_pages_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (README.parent / "docs" / f"{page}.md").read_text()
    scope = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, f"{page}.md", "exec"), scope)
    words = {"durable": "After 1 batch the decision is", "backtesting": "hindsight"}[page]
    assert words in capsys.readouterr().out


def test_example_of_beliefs_runs():
    page = Path(__file__).parents[1] / "docs" / "beliefs.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    scope = {}
    exec(compile(example, "beliefs.md", "exec"), scope)
    assert not scope["agent"].belief.exact
    assert 1.0 <= scope["agent"].decision <= 10.0

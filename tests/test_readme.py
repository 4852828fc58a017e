"""The README's example runs, and the public names are all there."""

import re
from pathlib import Path

import numpy as np

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

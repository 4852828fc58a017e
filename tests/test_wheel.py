"""The wheel, installed alone into an empty environment, does what the README shows."""

import os
import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Neither the sources nor what the tests set up may help.
OWN = ("PYTHONPATH", "JAX_", "XLA_", "POSTGRAD_", "COV_", "PYTEST_")

pytestmark = pytest.mark.slow


def run(*command, cwd, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the examples, and the programs of an environment with the wheel alone."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip")
    run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("postgrad-*.whl")
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    pinned = ("-c", ROOT / "constraints.txt")
    run(programs / "python", "-m", "pip", "install", "--quiet", *pinned, wheel, cwd=folder)
    (folder / "examples").mkdir()
    for path in (ROOT / "examples").glob("yaz*"):
        (folder / "examples" / path.name).write_bytes(path.read_bytes())
    return folder, programs


def test_the_command_has_all_that_it_needs(installed, tmp_path):
    folder, programs = installed
    assert "reproduce" in run(programs / "postgrad", "--help", cwd=tmp_path)
    where = "import postgrad; print(postgrad.__file__)"
    assert Path(run(programs / "python", "-c", where, cwd=tmp_path).strip()).is_relative_to(folder)


def test_python_examples(installed, tmp_path):
    _, programs = installed
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert examples
    for example in examples:
        (tmp_path / "example.py").write_text(example)
        printed = run(programs / "python", "example.py", cwd=tmp_path)
        assert len(re.findall(r"^order \d+\.\d\d$", printed, re.MULTILINE)) == 4


def test_shell_examples(installed):
    folder, programs = installed
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("postgrad ")]
    assert {command[1] for command in commands} >= {"backtest", "run", "explain"}
    kept = {"POSTGRAD_CACHE": str(folder / "programs")}
    for name, *arguments in commands:
        assert run(programs / name, *arguments, cwd=folder, **kept)

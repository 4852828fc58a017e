"""The house is as docs/design.md says: rooms in the order of the import contract, small files."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import postgrad as pg

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "postgrad"


def layers():
    """The rooms of the import contract, top to bottom."""
    text = (ROOT / "pyproject.toml").read_text()
    contract, *_ = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return [room.removeprefix("postgrad.") for room in contract["layers"]]


def test_the_design_page_lists_the_rooms_of_the_contract():
    page = (ROOT / "docs" / "design.md").read_text()
    listed = page[page.index("## Rooms") :].split("```")[1]
    assert [line.split()[0] for line in listed.strip().splitlines()] == layers()


def test_every_room_is_in_the_contract():
    found = {path.stem for path in SOURCE.iterdir() if path.name[0] not in "_p"}
    assert {*found, "problem"} == set(layers())


def test_no_file_is_longer_than_four_hundred_lines():
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").glob("*.py")]
    lengths = {path.name: len(path.read_text().splitlines()) for path in files}
    assert not {name: length for name, length in lengths.items() if length > 400}


def test_no_folder_has_more_than_a_dozen_files():
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir())]
    crowded = {
        folder.name: count
        for folder in folders
        if (count := sum(path.name != "__init__.py" for path in folder.glob("*.py"))) > 12
    }
    assert not crowded


def test_public_names_are_few_and_there():
    assert len(pg.__all__) <= 34
    for name in pg.__all__:
        assert getattr(pg, name) is not None


def test_every_room_with_a_stub_has_its_names():
    stubs = list(SOURCE.rglob("__init__.pyi"))
    assert len(stubs) > 5
    for stub in stubs:
        room = importlib.import_module(".".join(stub.parent.relative_to(SOURCE.parent).parts))
        assert len(room.__all__) == stub.read_text().count("import")
        for name in room.__all__:
            assert getattr(room, name) is not None


def test_a_first_decision_imports_only_what_it_needs():
    """Of the packages and rooms that are slow to import, those that an agent on a grid needs."""
    slow = ["optax", "blackjax", "scipy.interpolate", "scipy.optimize", "matplotlib", "pydantic"]
    slow += [f"postgrad.beliefs.{room}" for room in ("sampled", "gaussian", "conjugate")]
    script = (
        "import sys, postgrad as pg; pg.Agent, pg.Problem, pg.feasible.Box, pg.beliefs.Grid; "
        f"print(*sorted(sys.modules.keys() & set({slow!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split() == []


def test_the_glossary_has_at_most_twenty_terms():
    terms = re.findall(r"^\*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert 10 <= len(terms) <= 20

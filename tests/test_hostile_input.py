"""Input that is clumsy or hostile: refused in a sentence that says where, never with a traceback."""

import os
from pathlib import Path

import pytest
from test_spec_agents import ROWS, SPEC, call, write

from postgrad import cli
from postgrad.cli.run import run


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(SPEC)
    write(tmp_path / "data.csv", ROWS)
    return tmp_path


def written_to(monkeypatch, file):
    monkeypatch.setattr("sys.stdout", file)
    with pytest.raises(SystemExit) as ended:
        run(Path("shop.toml"), "data.csv")
    return ended.value.code


def test_a_reader_that_ends_early_is_no_success(shop, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as file:
        assert written_to(monkeypatch, file) == 1
    assert "not everything was written" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
def test_a_full_output_is_an_error_in_words(shop, monkeypatch, capsys):
    with open("/dev/full", "w") as file:
        assert written_to(monkeypatch, file) == 1
    assert "cannot write to standard output: No space left" in capsys.readouterr().err
    with open("/dev/full", "w") as file:  # commands that print after their work
        monkeypatch.setattr("sys.stdout", file)
        monkeypatch.setattr("sys.argv", ["postgrad", "init", "new.toml"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 1

"""Programs on disk: found again, bounded, the user's own, and never in the way."""

import json
import os
import subprocess
import sys

import pytest
from test_reading import SPEC

from postgrad.errors import SettingError
from postgrad.numerics.program_cache.files import ProgramFiles
from postgrad.numerics.program_cache.folder import own_folder

LIMIT = 1 << 20
OWNED = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")


@pytest.fixture
def folder(tmp_path):
    return own_folder(tmp_path / "programs")


def files_in(folder):
    return sorted(folder.glob("*.program"))


DAMAGES = {
    "cut short": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "garbage": lambda data: bytes(len(data)),
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "one bit of the checksum": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_removed_and_kept_anew(folder, damage):
    ProgramFiles(folder, LIMIT).put("a", b"program")
    assert ProgramFiles(folder, LIMIT).get("a") == b"program"
    (path,) = files_in(folder)
    path.write_bytes(damage(path.read_bytes()))
    files = ProgramFiles(folder, LIMIT)
    assert files.get("a") is None
    assert files_in(folder) == []
    files.put("a", b"program")
    assert ProgramFiles(folder, LIMIT).get("a") == b"program"


def test_a_program_that_was_given_in_vain_is_replaced(folder):
    """JAX compiles a program that it has got only if it could not use it."""
    files = ProgramFiles(folder, LIMIT)
    files.put("a", b"of another machine")
    files.put("a", b"of this one")
    assert files.get("a") == b"of another machine"  # of two that compile it, the first counts
    files.put("a", b"of this one")
    assert files.get("a") == b"of this one"


def test_those_not_used_for_longest_go_first(folder):
    files = ProgramFiles(folder, 10_000)
    for number in range(9):
        files.put(str(number), bytes(1000))
        for path in files_in(folder):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 4000))
    ProgramFiles(folder, 10_000).get("0")  # used just now
    other = ProgramFiles(own_folder(folder.parent), 10_000)
    other.put("new", bytes(1000))
    kept = [name for name in map(str, range(9)) if files.get(name) is not None]
    assert "0" in kept
    assert other.get("new") is not None
    assert sum(path.stat().st_size for path in files_in(folder)) <= 10_000
    assert kept == ["0", *map(str, range(10 - len(kept), 9))]


def test_a_file_that_was_never_finished_is_removed(folder):
    left = folder / "left.new"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    ProgramFiles(folder, LIMIT).put("a", b"program")
    assert not left.exists()


def test_what_cannot_be_written_is_not_kept(folder):
    files = ProgramFiles(folder / "not there", LIMIT)
    files.put("a", b"program")
    assert files.get("a") is None


@OWNED
def test_the_folder_is_the_users_own(tmp_path):
    own = own_folder(tmp_path / "new" / "programs")
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o755)
    assert own_folder(tmp_path / "new" / "programs").stat().st_mode & 0o777 == 0o700
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(SettingError, match="others can write"):
        own_folder(shared)
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (other / own.name).symlink_to(elsewhere)
    with pytest.raises(SettingError, match="not your own"):
        own_folder(other)


COUNTING = """
import json, sys, warnings
warnings.simplefilter("error")
import jax
events = {"cache_hits": 0, "cache_misses": 0}
def count(event, **about):
    name = event.rpartition("/")[2]
    events[name] = events.get(name, 0) + 1
jax.monitoring.register_event_listener(count)
"""
COMMAND = (
    COUNTING
    + """
from postgrad.numerics.program_cache import lowered
from postgrad.cli import main
traced, trace = [], lowered._lowered
lowered._lowered = lambda *about: traced.append(1) or trace(*about)
sys.argv = ["postgrad", *sys.argv[1:]]
try:
    main()
finally:
    json.dump([events["cache_hits"], events["cache_misses"], len(traced)], sys.stderr)
"""
)
LIBRARY = (
    COUNTING
    + """
import jax.numpy as jnp
before = jax.config.values.copy()
import postgrad as pg
from postgrad.numerics import validate
if len(sys.argv) > 1:
    pg.cache(sys.argv[1])
jax.jit(lambda x: x + 1.0)(jnp.zeros(3)).block_until_ready()
changed = [k for k, v in jax.config.values.items() if v != before[k] and "x64" not in k]
print(json.dumps([events["cache_hits"], events["cache_misses"], sorted(changed)]))
"""
)


def python(code, *arguments, cwd=None, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "POSTGRAD_CACHE"} | variables
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, check=True, cwd=cwd, env=environment,
    )  # fmt: skip


def test_the_library_keeps_programs_where_it_is_asked_to(tmp_path):
    def run(*arguments, **variables):
        return json.loads(python(LIBRARY, *arguments, **variables).stdout)

    assert run()[1:] == [0, []]  # nothing is kept, and no setting of JAX is changed
    assert run(POSTGRAD_CACHE="off")[1:] == [0, []]
    *cold, changed = run(tmp_path / "one")
    assert cold[1] > 0
    assert changed == [
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    ]
    assert run(tmp_path / "one")[:2] == [sum(cold), 0]
    assert run(POSTGRAD_CACHE=str(tmp_path / "one"))[:2] == [sum(cold), 0]
    theirs = str(tmp_path / "theirs")
    assert run(tmp_path / "two", JAX_COMPILATION_CACHE_DIR=theirs)[2] == []
    assert not (tmp_path / "two").exists()


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Runs a specification in a new process: what it prints, hits, misses, and what was traced."""
    home = tmp_path_factory.mktemp("shop")
    (home / "data.csv").write_text("date,rolls,bread\n1,3,5\n2,4,7\n")

    def run(name, text, programs=str(home / "programs")):
        (home / f"{name}.toml").write_text(text)
        command = ("run", f"{name}.toml", "data.csv")
        variables = {"POSTGRAD_CACHE": programs, "PYTHONHASHSEED": str(len(name))}
        done = python(COMMAND, *command, cwd=home, **variables)
        assert len(done.stdout.splitlines()) == 2
        return done.stdout, *json.loads(done.stderr[done.stderr.rindex("[") :])

    return run, home / "programs", run("cold", SPEC)


def test_a_known_specification_is_neither_traced_nor_compiled(shop):
    """Also one that differs in numbers, and with another hash seed."""
    others = [
        ("[4, 2]", "[3, 9]"), ("overage = 1", "overage = 0.5"), ("shape = 2", "shape = 3"),
        ("rate = 0.2", "rate = 0.4"), ("high = 50", "high = 60"), ("start = 5.0", "start = 7"),
    ]  # fmt: skip
    other = SPEC
    for was, now in others:
        assert was in other
        other = other.replace(was, now)
    run, _, (_, hits, misses, traced) = shop
    assert misses > 2
    assert traced > 2
    # Which two sets of options XLA accepts is not tried again.
    assert run("other", other)[1:] == (hits + misses - 2, 0, 0)


def damaged(run, programs, cold):
    """All that was kept: it is traced and compiled anew, and kept once more."""
    decided, hits, misses, _ = cold
    for path in programs.glob("*/*.program"):
        path.write_bytes(path.read_bytes()[:-1])
    assert run("damaged", SPEC) == cold
    assert run("warm", SPEC) == (decided, hits + misses - 2, 0, 0)


def nothing_kept(run, programs, cold):
    assert run("nothing kept", SPEC, programs="off")[0] == cold[0]


def another_number_of_draws(run, programs, cold):
    more = SPEC.replace("[settings]", "[settings]\niterations = 2")
    assert run("more", more)[3] > 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", [damaged, nothing_kept, another_number_of_draws])
def test_a_specification_is_traced_anew_where_programs_do_not_serve(shop, what):
    """And decisions are the same bit for bit.

    Each process takes seconds; what happens to single programs is tried below in this one.
    """
    what(*shop)

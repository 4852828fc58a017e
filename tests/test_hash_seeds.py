"""Files are opened again by other processes, in which sets have other orders."""

import os
import subprocess
import sys
from pathlib import Path

import hash_seed_agents
import pytest

HERE = Path(__file__).parent
SEEDS = range(1, 1 + int(os.environ.get("POSTGRAD_HASH_SEEDS", "1")))


# Some streams for `make test`: with a prior of numpyro, and with an optimiser of optax.
FEW = ["Particles", "Beta", "adam"]


@pytest.fixture(
    scope="module", params=[FEW, pytest.param([], marks=pytest.mark.slow)], ids=["few", "all"]
)
def file(tmp_path_factory, request):
    """Made by this process, whose hash seed Python has drawn."""
    path = tmp_path_factory.mktemp("seeds") / "state.db"
    assert hash_seed_agents.refused(path, request.param) == []
    return path, request.param


def opened(path, names, seed):
    """What a process with a hash seed has to say against opening the streams of a file."""
    command = [sys.executable, str(HERE / "hash_seed_agents.py"), str(path), *names]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(seed),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "JAX_COMPILATION_CACHE_DIR": os.environ["POSTGRAD_TEST_PROGRAMS"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", SEEDS)
def test_every_belief_and_policy_is_opened_under_another_hash_seed(file, seed):
    """`POSTGRAD_HASH_SEEDS=10 pytest tests/test_hash_seeds.py -m ""` tries ten on all streams."""
    assert opened(*file, seed) == ""

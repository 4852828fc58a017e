"""Several writers of one file: each batch counts once, whoever delivers it, whoever is killed."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpyro.distributions as dist
import pytest
from test_durable import batch, everything, feed, make

import postgrad as pg
from postgrad import errors

ROOT = Path(__file__).parent.parent


def test_two_writers_are_both_exact(tmp_path):
    path, straight = tmp_path / "a.db", make()
    one, two = make(path), make(path)
    for number in range(6):
        writer = (one, two)[number % 2 if number < 4 else 0]
        assert writer.observe(batch(number), id=str(number)) == straight.observe(batch(number))
    assert feed(two, [5, 0]) == feed(one, [5, 0])  # duplicates, also of what the other recorded
    assert two.stage == 6
    assert everything(two) == everything(straight)
    one.rollback(2)
    two.observe(batch(9))
    assert (two.stage, [record.stage for record in two.history()]) == (3, [1, 2, 3])


DELIVER = """
import sys
from test_durable import feed, make

with make(sys.argv[1]) as agent:
    print("ready", flush=True)
    sys.stdin.readline()
    feed(agent, range(int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.slow
def test_two_processes_are_both_exact(tmp_path):
    """Each delivers some batches alone and some that the other delivers as well, at once."""
    path = str(tmp_path / "orders.db")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "JAX_COMPILATION_CACHE_DIR": os.environ["POSTGRAD_TEST_PROGRAMS"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DELIVER, path, str(first), str(first + 30)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )
        for first in (0, 15)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=300)
        assert process.returncode == 0
    with make(path) as agent:
        order = [int(record.id) for record in agent.history()]
        assert sorted(order) == list(range(45))
        straight = make()
        feed(straight, order)
        assert everything(agent) == everything(straight)


def test_refusals_are_about_the_latest_state(tmp_path):
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Uniform(theta, theta + 2)
    )
    one, two = (
        pg.Agent(problem, pg.beliefs.Grid([0.0, 1.0, 5.0]), 1.0, path=tmp_path / "a.db",
                 **pg.presets.paper())
        for _ in range(2)
    )  # fmt: skip
    one.observe([0.5])
    with pytest.raises(errors.ImpossibleDataError):
        two.observe([6.0])  # possible before, impossible now
    assert two.stage == 1


def test_threads_take_turns(tmp_path):
    agent = make(tmp_path / "a.db")
    agent.observe(batch(0))
    work = [range(i, 24, 4) for i in range(4)]
    threads = [threading.Thread(target=feed, args=(agent, numbers)) for numbers in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agent.stage == 25
    assert agent.replay().identical


@pytest.mark.slow  # most of it is importing JAX; tests/test_crashes.py kills without
def test_kill_at_any_moment_loses_nothing():
    """Five times here; benchmarks/kills.py does a thousand by itself."""
    script = [sys.executable, "-W", "ignore", str(ROOT / "benchmarks" / "kills.py")]
    done = subprocess.run(
        [*script, "--trials", "5", "--json"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr

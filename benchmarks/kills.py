"""Kills a durable agent with SIGKILL at random moments, and counts what was lost.

Each trial starts a process that goes on with the same file, delivers the last batches once more and
then new ones, alone or several in a transaction, acknowledges them over a pipe and is killed. Then:
whatever was acknowledged must be there, nothing may count twice, and the state must equal that of a
run nobody killed, bit for bit.

With `--pooled`, batches go to three members of a population in turn, and the state that must be
equal is that of all members and of the population.

python benchmarks/kills.py [--pooled] [--trials 1000] [--seed 0] [--json]
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Imported before forking; JAX's threads, which a fork would lose, start with the first array.
import equinox  # noqa: F401
import jax
import numpy as np
import numpyro.distributions as dist
import optax  # noqa: F401

import postgrad as pg
import postgrad.agent.agent

# Batches delivered a second time after each start, and the longest that a process lives on after
# its first acknowledgement, in seconds.
AGAIN, LONGEST = 3, 0.03
POOLED = "--pooled" in sys.argv


def cost(x: Any, xi: Any) -> Any:
    return (x - 5.0) ** 2 + 0.5 * xi * x


def model(x: Any, theta: Any) -> Any:
    return dist.Normal(x + theta, 4.0, validate_args=False)


@functools.cache
def problem() -> pg.Problem:
    """Made after forking: its arrays start JAX's threads."""
    return pg.Problem(cost, model, pg.feasible.Box(-20.0, 20.0))


class Members:
    """Three members of a population, as one agent: batch n goes to member n modulo 3."""

    def __init__(self, path: str | pg.Database | None):
        self._database = path if isinstance(path, pg.Database) else pg.Database(path)
        prior = pg.beliefs.Grid(np.arange(1.0, 9.0), forget=0.99)
        options: Any = {"path": self._database, "pool": pg.Pool(), **pg.presets.paper()}
        self.members = [pg.Agent(problem(), prior, 0.0, name=name, **options) for name in "abc"]

    @property
    def stage(self) -> int:
        """All batches of all members."""
        return sum(member.stage for member in self.members)

    def observe(self, batch: np.ndarray, id: str) -> None:  # noqa: A002
        """One batch of the member whose turn it is."""
        self.members[int(id) % 3].observe(batch, id=id)

    def verify(self) -> None:
        """Reads and checks everything."""
        for member in self.members:
            member.verify()

    def history(self) -> list[Any]:
        """What members observed, in the order in which the population has it."""
        found = [(m.population_version(r.stage), r) for m in self.members for r in m.history()]
        return [record for _, record in sorted(found, key=lambda pair: pair[0])]

    def replay(self) -> Any:
        """The first replay that is not identical, if there is one."""
        return min((member.replay() for member in self.members), key=lambda r: r.identical)

    def __enter__(self) -> "Members":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()


def make(path: str | pg.Database | None) -> Any:
    if POOLED:
        return Members(path)
    return pg.Agent(
        problem(), pg.beliefs.Grid(np.arange(1.0, 9.0)), 0.0, path=path, **pg.presets.paper()
    )


def batch(number: int) -> np.ndarray:
    return np.random.default_rng(number).normal(6.0, 4.0, 2)


def digest(agent: Any) -> str:
    """A checksum of everything that is carried on."""
    if isinstance(agent, Members):
        sums = agent.members[0]._membership._live.total.tobytes().hex()
        return hashlib.blake2b("".join([sums, *map(digest, agent.members)]).encode()).hexdigest()
    saved = agent._codec.save(agent._now)
    parts = [saved.header.encode(), saved.state, saved.report, saved.counters]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def child(work: Callable[[], None], cache: str) -> int:
    """Starts a process, and returns its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.alarm(300)
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
        work()
        status = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(status)


def undisturbed(count: int, out: str) -> None:
    """The states of a run that nobody kills."""
    agent = make(None)
    digests = [digest(agent)]
    for number in range(count):
        agent.observe(batch(number), id=str(number))
        digests.append(digest(agent))
    Path(out).write_text(json.dumps(digests))


def victim(path: str, pipe: int) -> None:
    """Says where it starts from, then acknowledges batch after batch, or several at a time."""
    database = pg.Database(path)
    agent = make(database)
    os.write(pipe, f"start {agent.stage} {digest(agent)}\n".encode())
    number = max(0, agent.stage - AGAIN)
    while True:
        group = range(number, number + 1 + number // 7 % 4)  # alone, in twos, in threes, in fours
        with database.transaction() if len(group) > 1 else contextlib.nullcontext():
            for number in group:
                agent.observe(batch(number), id=str(number))
        os.write(pipe, "".join(f"done {number}\n" for number in group).encode())
        number = group.stop


def inspector(path: str, out: str) -> None:
    """Reads all that is in the file, and computes it again."""
    with make(path) as agent:
        agent.verify()
        ids = [record.id for record in agent.history()]
        result = {"ids": ids, "digest": digest(agent), "identical": agent.replay().identical}
    Path(out).write_text(json.dumps(result))


def trial(path: str, cache: str, rng: random.Random) -> tuple[int, str, int] | None:
    """Starts a victim and kills it: the stage and state it started from, and the last it did."""
    reading, writing = os.pipe()
    pid = child(lambda: victim(path, writing), cache)
    os.close(writing)
    lines = b""
    # Most are killed while they record batch after batch, a few as they come up.
    early = rng.random() < 0.1
    while not (early or _is_under_way(lines)) and (more := os.read(reading, 4096)):
        lines += more
    time.sleep(rng.uniform(0.0, 2.0 if early else LONGEST))
    os.kill(pid, signal.SIGKILL)
    while more := os.read(reading, 65536):
        lines += more
    os.close(reading)
    os.waitpid(pid, 0)
    first, *rest = lines.decode().splitlines() or [""]
    if not first:
        if not early:
            raise SystemExit("a process did not come up; see above")
        return None
    _, stage, state = first.split()
    return int(stage), state, max((int(line.split()[1]) for line in rest), default=-1)


def _is_under_way(lines: bytes) -> bool:
    """Whether a batch that is new was recorded."""
    words = [line.split() for line in lines.decode().splitlines()]
    return lines.endswith(b"\n") and len(words) > 1 and int(words[-1][-1]) >= int(words[0][1])


def run(trials: int, seed: int, folder: str) -> dict[str, Any]:
    rng, path = random.Random(seed), os.path.join(folder, "kills.db")
    cache, out = os.path.join(folder, "cache"), os.path.join(folder, "out.json")
    # A first process fills the cache, so that the others need not compile.
    os.waitpid(child(lambda: undisturbed(4, out), cache), 0)
    started, acknowledged, lost, found = [], -1, 0, 0
    for _ in range(trials):
        outcome = trial(path, cache, rng)
        if outcome is None:  # killed before it could say anything
            continue
        stage, state, last = outcome
        lost += stage < acknowledged + 1
        found += stage > acknowledged + 1  # recorded, but killed before it could say so
        acknowledged = max(acknowledged, last, stage - 1)
        started.append((stage, state))
    os.waitpid(child(lambda: inspector(path, out), cache), 0)
    end = json.loads(Path(out).read_text())
    stages = len(end["ids"])
    os.waitpid(child(lambda: undisturbed(stages, out), cache), 0)
    expected = json.loads(Path(out).read_text())
    different = sum(state != expected[stage] for stage, state in started)
    return {
        "trials": trials,
        "stages": stages,
        "acknowledged": acknowledged + 1,
        "lost": lost + (stages < acknowledged + 1),
        "recorded_but_not_acknowledged": found,
        "counted_twice": stages - len(set(end["ids"])),
        "in_order": end["ids"] == [str(number) for number in range(stages)],
        "different_states": different + (end["digest"] != expected[stages]),
        "replay_identical": end["identical"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pooled", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*fork.*")
    with tempfile.TemporaryDirectory() as folder:
        results = run(options.trials, options.seed, folder)
    print(
        json.dumps(results) if options.json else "\n".join(f"{k}: {v}" for k, v in results.items())
    )
    wrong = results["lost"] + results["counted_twice"] + results["different_states"]
    if wrong or not (results["in_order"] and results["replay_identical"]):
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What durability costs: a durable `observe` beside a bare SQLite commit of the same bytes.

In one run, in turns, each commit forced to the disk:
  bare     SQLite alone: one transaction that updates a row and inserts another, as many bytes
  durable  `Agent(..., path=...).observe(batch, id=...)`
  memory   the same agent without a path
  grouped  durable, 64 batches a commit: `with database.transaction()`
The store's own part of an observe is durable - memory; its ideal is bare. A stage computes before
it can be committed, so that durable can come near bare only where commits take longer than that.

python benchmarks/durable.py [--count 1000] [--json]
python benchmarks/durable.py --history 1000000    how long it takes to open so many batches
"""

import argparse
import dataclasses
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import postgrad as pg
from postgrad.research.problems import quadratic
from postgrad.store import Batch, Store
from postgrad.store.batch_rows import next_chain
from postgrad.store.schema import STAGES

BLOCK, GROUP = 64, 64
OPTIONS: dict[str, dict[str, Any]] = {"default": {}, "mixture-score": pg.presets.paper()}


def make(path: str | pg.Database | None, label: str) -> pg.Agent:
    world = quadratic.univariate_dependent()
    return pg.Agent(
        world.problem, pg.beliefs.Grid(world.points), world.x, path=path, **OPTIONS[label]
    )


def bare(path: str, state: int, row: int) -> Callable[[int], None]:
    """One commit of so many bytes, with the settings of the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 2000"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE state (stream INTEGER PRIMARY KEY, data BLOB)")
    connection.execute("CREATE TABLE batches (place INTEGER PRIMARY KEY, id TEXT, data BLOB)")
    connection.execute("CREATE UNIQUE INDEX ids ON batches (id)")
    connection.execute("INSERT INTO state VALUES (1, ?)", (bytes(state),))
    blob, data = os.urandom(state), os.urandom(row)

    def commit(number: int) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE state SET data = ? WHERE stream = 1", (blob,))
        connection.execute("INSERT INTO batches VALUES (?, ?, ?)", (number, f"id {number}", data))
        connection.execute("COMMIT")

    return commit


def measure(label: str, count: int, folder: str) -> dict[str, float]:
    durable, memory = make(os.path.join(folder, f"{label}.db"), label), make(None, label)
    data = np.random.default_rng(0).normal(6.0, 4.0, count)
    for agent in (durable, memory):
        agent.observe(6.0)  # compiles
    state, row = _sizes(durable)
    commit = bare(os.path.join(folder, f"bare {label}.db"), state, row)
    work: dict[str, Callable[[int], Any]] = {
        "bare": commit,
        "durable": lambda number: durable.observe(data[number], id=f"id {number}"),
        "memory": lambda number: memory.observe(data[number], id=f"id {number}"),
    }
    database = pg.Database(os.path.join(folder, f"grouped {label}.db"))
    grouped = make(database, label)
    grouped.observe(6.0)
    times: dict[str, list[float]] = {name: [] for name in (*work, "grouped")}
    for start in range(0, count, BLOCK):
        numbers = range(start, min(start + BLOCK, count))
        for name, one in work.items():
            for number in numbers:
                began = time.perf_counter()
                one(number)
                times[name].append(time.perf_counter() - began)
        for first in range(start, numbers.stop, GROUP):
            group, began = range(first, min(first + GROUP, numbers.stop)), time.perf_counter()
            with database.transaction():
                for number in group:
                    grouped.observe(data[number], id=f"id {number}")
            times["grouped"] += [(time.perf_counter() - began) / len(group)] * len(group)
    us = {name: 1e6 * float(np.median(values)) for name, values in times.items()}
    return {
        "state_bytes": state,
        "row_bytes": row,
        **{f"{name}_us": value for name, value in us.items()},
        **{f"{name}_per_s": 1.0 / float(np.mean(values)) for name, values in times.items()},
        "durable_over_bare": us["bare"] / us["durable"],
        "store_over_bare": us["bare"] / (us["durable"] - us["memory"]),
        "grouped_over_bare": us["bare"] / us["grouped"],
    }


def _sizes(agent: pg.Agent) -> tuple[int, int]:
    """How many bytes a commit changes: of the state, and of the new row."""
    saved, checksum = agent._codec.save(agent._now), 16
    _, batch = next(agent._store.batches(agent.stage, agent.stage))
    state = len(saved.state) + len(saved.report) + len(saved.counters) + 2 * checksum + 16
    return state, len(batch.rows) + len(batch.answer) + checksum + 16


def build(path: str, count: int) -> None:
    """A file with so many batches, written directly."""
    agent = make(path, "mixture-score")
    for number in range(3):
        agent.observe(6.0, id=f"first {number}")
    head = agent._store.load()
    _, like = next(agent._store.batches(1, 1))
    agent.close()
    store = Store(pg.Database(path), "main")
    chain, start = head.chain, head.saved.stage + 1

    def rows() -> Any:
        nonlocal chain
        for stage in range(start, count + 1):
            place = STAGES + stage
            batch = Batch(f"id {stage}", 0.0, None, like.rows, like.answer, None)
            fields = (batch.id, batch.time, batch.x, batch.rows, batch.answer, None)
            chain = next_chain(chain, place, batch)
            yield place, 1, *fields, chain, None

    insert = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    with store.database.transaction():
        store.database.connection.executemany(insert, rows())
        last = dataclasses.replace(head.saved, stage=count)
        new = dataclasses.replace(head, saved=last, commits=head.commits + 1, chain=chain)
        store._states.insert("heads", new)
    store.database.close()


def opened(path: str) -> dict[str, float]:
    """How long it takes to open a file, to find an id and to read the latest, and the memory."""
    make(None, "mixture-score")  # everything is imported and the prior tried
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    agent = make(path, "mixture-score")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    latest = [record.stage for record in agent.history(last=10)]
    known = agent._store.find(f"id {agent.stage // 2}")
    return {
        "batches": agent.stage,
        "open_s": seconds,
        "last_ten_and_a_lookup_s": time.perf_counter() - began,
        "memory_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024,
        "found": float(known is not None and latest[-1] == agent.stage),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--history", type=int)
    parser.add_argument("--open", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="where to write; a temporary folder, if not given")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.open:
        print(json.dumps(opened(options.open)))
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.history:
            for count in (1000, options.history):
                path = os.path.join(folder, f"{count}.db")
                build(path, count)
                command = [sys.executable, __file__, "--open", path]
                told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
                results[str(count)] = {**told, "file_mb": os.path.getsize(path) / 2**20}
        else:
            for label in OPTIONS:
                results[label] = measure(label, options.count, folder)
    if options.json:
        print(json.dumps(results))
        return
    for label, numbers in results.items():
        print(label)
        for name, value in numbers.items():
            print(f"  {name:24} {value:12.3f}")


if __name__ == "__main__":
    main()

"""Members of a population whose process is killed at any change of their file.

Under LD_PRELOAD=recorded_disk.so, with arguments SHIM FOLDER POINTS SEED. What an agent stores with
a batch is stored here with made-up states: the batch of the member, and the change of the sum.
After each kill the next process must find both or neither of each batch, in the state of the last
acknowledged commit or of the one under way. Then it delivers everything once more, and must come
to the sum of a run that nobody killed, to the last bit. Prints totals as JSON.
"""

import contextlib
import ctypes
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import recorded_disk
from test_store import batch, saved

from postgrad.agent.pooling.live_population import LivePopulation
from postgrad.beliefs.pooling.grid_population import GridPopulation
from postgrad.errors import StoreError
from postgrad.records.streams.population_stream import contribution_id
from postgrad.store import Database, Store

MEMBERS = ("milk", "bread", "eggs")
LAW = GridPopulation(np.float64(1.0), np.arange(9.0), np.zeros((9, 5)), np.zeros(9))


def change(name):
    """What the batch of an id changes."""
    return np.random.default_rng(int(name.split()[1])).normal(size=LAW.size)


def plan(rng, count):
    """Commits of one batch or several, each of (member, id)."""
    number, commits = 0, []
    for _ in range(count):
        new = [f"id {number + i}" for i in range(int(rng.integers(1, 4)))]
        number += len(new)
        commits.append([(MEMBERS[int(rng.integers(3))], name) for name in new])
    return commits


def deliver(database, live, rows):
    """As agents do: what is known already changes nothing."""
    with database.transaction():
        for member, name in rows:
            store = Store(database, member)
            if store.find(name) is None:
                head = store.load()
                stage = head.saved.stage + 1
                with database.transaction():
                    store.append(head, batch(stage, id=name), saved(stage), None)
                    live.append(live.head, member, stage, change(name))


def work(path, commits, acknowledge):
    """Does all of a plan."""
    with Database(path) as database:
        live = LivePopulation(database, "all", LAW, new=True)
        for member in MEMBERS:
            store = Store(database, member)
            if store.settings is None:
                store.create("settings", saved(0))
        for number, rows in enumerate(commits, start=1):
            deliver(database, live, rows)
            acknowledge(number)


def found_in(path, total):
    """(member, id) of all batches in the order in which the population has them; None if none."""
    with Database(path) as database:
        if "population:all" not in database.streams():
            return []
        live = LivePopulation(database, "all", LAW, new=False)
        live.verify()
        by_stage = {}
        for member in MEMBERS:
            store = Store(database, member)
            if store.settings is None:
                continue
            head = store.load()
            store.verify(head)
            for stage, entry in store.batches(1, head.saved.stage):
                by_stage[contribution_id(member, stage)] = (member, entry.id)
        ids = [entry.id for _, entry in live._store.batches(1, live.version)]
        total["counted twice"] += len(set(ids)) < len(ids)
        total["apart"] += set(ids) != set(by_stage)
        rows = [by_stage[name] for name in ids if name in by_stage]
        expected = np.zeros(LAW.size)
        for _, name in rows:
            expected = expected + change(name)
        total["sums that differ"] += live.total.tobytes() != expected.tobytes()
        return rows


def judge(path, commits, last, total):
    """Adds to the totals what is found after the last acknowledged commit."""
    states = [[row for rows in commits[:n] for row in rows] for n in range(len(commits) + 1)]
    total["points"] += 1
    try:
        rows = found_in(path, total)
        total["lost"] += rows not in states[last : last + 2]
        total["commits under way that count"] += rows != states[last]
        work(path, commits, lambda number: None)  # all of it once more
        total["lost"] += found_in(path, total) != states[-1]
    except StoreError as error:
        total["refused"] += 1
        print(f"refused after commit {last}: {error}", file=sys.stderr)


def main(library, folder, points, seed):
    shim = ctypes.CDLL(library)
    shim.watch.argtypes = [ctypes.c_char_p, ctypes.c_int]
    shim.die_at.argtypes = [ctypes.c_long, ctypes.c_int]
    shim.changes_so_far.restype = ctypes.c_long
    recorded_disk.work = work
    rng, total = np.random.default_rng(int(seed)), Counter()
    commits, path = plan(rng, 12), str(Path(folder) / "crash.db")
    shim.watch(path.encode(), -1)
    work(path, commits, lambda number: None)
    changes = shim.changes_so_far()
    shim.watch(b"", -1)
    recorded_disk.remove(path)
    for place in rng.permutation(3 * changes)[: int(points)].tolist():
        last = recorded_disk.killed(shim, path, commits, *divmod(place, 3))
        judge(path, commits, last, total)
        recorded_disk.remove(path)
    print(json.dumps(total))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(*sys.argv[1:])

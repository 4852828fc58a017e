"""A store on a disk that fails: under LD_PRELOAD, with arguments SHIM FOLDER POINTS SEED POWER.

At each point a process delivers batches until the log or the database cannot be written, read or
forced to the disk; it then goes on in one of several ways, and ends by SIGKILL. What is found by
the next one is compared with what was acknowledged and what was refused. Where POWER is 1, a second
process opens the file after the first, delivers all that was refused and more, and then the power
is lost: pages that could not be forced to the disk are gone. Prints totals as JSON, by way of going
on.
"""

import ctypes
import errno
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from test_store import batch, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Store
from postgrad.store.opening import connecting

# What to do when batches were refused.
WAYS = ("end", "read", "go on", "deliver again")


def deliver(store, numbers):
    """As an agent does: what is known already is not stored again."""
    with store.database.transaction():
        for number in numbers:
            if store.find(f"id {number}") is None:
                head = store.load()
                stage = head.saved.stage + 1
                store.append(head, batch(stage, id=f"id {number}"), saved(stage), None)


def work(shim, path, rng, way, tell):
    """Tells of each batch what became of it, and does not return."""
    connecting._LOG_PAGES = 12  # so that the log begins anew now and then
    store = Store(Database(path), "main")
    store.create("settings", saved(0))
    deliver(store, range(3))
    tell("acknowledged", 0, 1, 2)
    number, kind, refused = 3, int(rng.choice([0, 0, 1, 1, 2, 3, 4, 5])), None
    times = int(rng.choice([1, 1, 1, 2]))
    code = errno.EIO if kind % 3 == 2 else int(rng.choice([errno.EIO, errno.ENOSPC]))
    shim.fail(kind, int(rng.integers([12, 60, 20, 4, 20, 4][kind])), code, times)
    while number < 60:
        numbers = list(range(number, number + int(rng.integers(1, 4))))
        number = numbers[-1] + 1
        try:
            deliver(store, numbers)
            tell("acknowledged", *numbers)
            if refused is not None and rng.random() < 0.3:
                break
        except StoreError as error:
            if "reopen" in str(error):
                tell("refused", *numbers)
                tell("until reopened")
                break
            tell("doubtful" if "may count or not" in str(error) else "refused", *numbers)
            refused = numbers
            if way == "end":
                break
            try:
                if way == "read":
                    store.load()
                    tell("overwritten")
                    break
                if way == "deliver again":
                    deliver(store, refused)
                    tell("acknowledged", *refused)
            except StoreError as again:
                tell("until reopened" if "reopen" in str(again) else "refused")
                break
    tell("failures", shim.failures())
    os.kill(os.getpid(), signal.SIGKILL)


def name_of(entry):
    return int(entry.id.split()[1])


def go_on(path, told, tell):
    """What a second process does; it does not return."""
    store = Store(Database(path), "main")
    numbers = [number for what, *numbers in told for number in numbers if what != "failures"]
    for number in (*numbers, *range(100, 103)):
        deliver(store, [number])
        tell("acknowledged", number)
    os.kill(os.getpid(), signal.SIGKILL)


def told_by(work, *arguments):
    """What a process told before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "w", buffering=1) as out:
                work(*arguments, lambda *what: print(json.dumps(what), file=out))
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        told = [json.loads(line) for line in lines]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, told
    return told


def count(path, way, told, total):
    """Adds what the next process finds to the totals."""
    ((_, failures),) = (what for what in told if what[0] == "failures")
    total["failures"] += failures
    told = [what for what in told if what[0] != "failures"]
    fate = {number: what for what, *numbers in told for number in numbers}
    lasting = ["until reopened"] in told
    total["points"] += 1
    total["refused until reopened"] += lasting
    with Database(path) as opened:
        store = Store(opened, "main")
        head = store.load()
        store.verify(head)
        found = Counter(name_of(entry) for _, entry in store.batches(1, head.saved.stage))
        total["counted twice"] += sum(times > 1 for times in found.values())
        for number, what in fate.items():
            # Once the log was overwritten it is known: what was in doubt does not count.
            known = what == "doubtful" and not lasting and way != "end"
            for name in (what, "overwritten") if known else (what,):
                total[name] += 1
                total[f"{name}, counted"] += number in found
        deliver(store, fate)  # all of it once more
        head = store.load()
        again = sorted(name_of(entry) for _, entry in store.batches(1, head.saved.stage))
        total["wrong in the end"] += again != sorted(fate)


def main(library, folder, points, seed, power):
    shim = ctypes.CDLL(library)
    shim.fail.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_int, ctypes.c_int]
    totals = {way: Counter() for way in WAYS}
    for point in range(int(points)):
        rng, way = np.random.default_rng([int(seed), point]), WAYS[point % len(WAYS)]
        path = str(Path(folder) / f"{point}.db")
        if power == "1":
            shim.watch()
        told = told_by(work, shim, path, rng, way)
        if power == "1":
            told += told_by(go_on, path, told)
            shim.power_loss(f"{path}-wal".encode())
        count(path, way, told, totals[way])
    print(json.dumps(totals))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Any sequence of deliveries, duplicates, crashes, writers, transactions, against a list.

POSTGRAD_SEQUENCES=10000 runs that many sequences instead of a few.
"""

import os
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from test_durable import make
from test_transactions import broken

from postgrad import Database, errors

SEQUENCES = int(os.environ.get("POSTGRAD_SEQUENCES", "15"))
# The state after each sequence of batches, computed once: what a plain run in memory carries.
KNOWN = {}

NUMBERS = st.integers(0, 9)
DATA = st.integers(0, 2)
X = st.sampled_from([None, None, -1.0, 2.5])
WHO = st.integers(0, 2)


def rows(data):
    return np.random.default_rng(data).normal(6.0, 4.0, 1)


def plain(batches):
    """Decision and state of an agent in memory that saw exactly these."""
    key = tuple(batches)
    if key not in KNOWN:
        agent = make()
        for data, x in batches:
            agent.observe(rows(data), x=x)
        KNOWN[key] = float(agent.decision), agent._codec.save(agent._now)
    return KNOWN[key]


class Deliveries(RuleBasedStateMachine):
    """Three agents on one file, two of which share a connection; and what they should have seen."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.db")
        self.databases, self.agents = [None] * 2, [None] * 3
        for number in (0, 1):
            self.open(number)
        self.seen = []  # (id, data, x, answer)

    def open(self, number):
        self.databases[number] = Database(self.path)
        for who in range(number, 3, 2):
            self.agents[who] = make(self.databases[number])

    def batches(self):
        return [(data, x) for _, data, x, _ in self.seen]

    @rule(who=WHO, number=NUMBERS, data=DATA, x=X, named=st.booleans())
    def deliver(self, who, number, data, x, named):
        name = str(number) if named else None
        before = [entry for entry in self.seen if named and entry[0] == name]
        if before and before[0][1:3] != (data, x):
            with pytest.raises(errors.DuplicateBatchError):
                self.agents[who].observe(rows(data), id=name, x=x)
            return
        answer = self.agents[who].observe(rows(data), id=name, x=x)
        if before:
            assert answer == before[0][3]
        else:
            self.seen.append((name, data, x, float(answer)))
            assert answer == plain(self.batches())[0]

    @rule(
        deliveries=st.lists(st.tuples(WHO, NUMBERS, DATA, X), min_size=1, max_size=4),
        breaks=st.booleans(),
    )
    def deliver_together(self, deliveries, breaks):
        """Agents that share a database, in one transaction, which may come to nothing."""
        seen, database = list(self.seen), self.databases[0]
        with broken(database) if breaks else database.transaction():
            for who, number, data, x in deliveries:
                self.deliver(who - who % 2, number, data, x, named=True)
        if breaks:
            self.seen = seen

    @rule(number=st.integers(0, 1))
    def crash(self, number):
        """The process is gone, the connection is not closed; a new one opens the file."""
        self.open(number)

    @rule(number=st.integers(0, 1))
    def close(self, number):
        self.databases[number].close()
        self.open(number)

    @rule(who=WHO, back=st.integers(0, 3))
    def undo(self, who, back):
        stage = max(0, len(self.seen) - back)
        self.agents[who] = make(self.databases[who % 2])  # knows the latest stage
        self.agents[who].rollback(stage)
        del self.seen[stage:]

    @invariant()
    def file_tells_the_same(self):
        agent = make(self.path)
        assert (agent.decision, agent._codec.save(agent._now)) == plain(self.batches())
        told = [(record.id, float(record.decision)) for record in agent.history()]
        assert told == [(name, answer) for name, _, _, answer in self.seen]
        agent.close()

    def teardown(self):
        if hasattr(self, "folder"):
            for database in self.databases:
                database.close()
            self.folder.cleanup()


Deliveries.TestCase.settings = settings(
    max_examples=SEQUENCES,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestDeliveries = Deliveries.TestCase

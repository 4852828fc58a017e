"""Any sequence of deliveries, duplicates, crashes, second writers and undoings, against a list.

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

from postgrad import errors

SEQUENCES = int(os.environ.get("POSTGRAD_SEQUENCES", "15"))
# The state after each sequence of batches, computed once: what a plain run in memory carries.
KNOWN = {}

NUMBERS = st.integers(0, 9)
DATA = st.integers(0, 2)
X = st.sampled_from([None, None, -1.0, 2.5])


def rows(data):
    return np.random.default_rng(data).normal(6.0, 4.0, 1)


def plain(batches):
    """Decision and state of an agent in memory that saw exactly these."""
    key = tuple(batches)
    if key not in KNOWN:
        agent = make()
        for data, x in batches:
            agent.observe(rows(data), x=x)
        KNOWN[key] = float(agent.decision), agent._now.saved
    return KNOWN[key]


class Deliveries(RuleBasedStateMachine):
    """Two agents on one file, and a list of what they should have seen."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "a.db")
        self.agents = [make(self.path), make(self.path)]
        self.seen = []  # (id, data, x, answer)

    def batches(self):
        return [(data, x) for _, data, x, _ in self.seen]

    @rule(who=st.integers(0, 1), number=NUMBERS, data=DATA, x=X, named=st.booleans())
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

    @rule(who=st.integers(0, 1))
    def crash(self, who):
        """The process is gone, the connection is not closed; a new one opens the file."""
        self.agents[who] = make(self.path)

    @rule(who=st.integers(0, 1))
    def close(self, who):
        self.agents[who].close()
        self.agents[who] = make(self.path)

    @rule(who=st.integers(0, 1), back=st.integers(0, 3))
    def undo(self, who, back):
        agent = make(self.path)  # knows the latest stage
        stage = max(0, len(self.seen) - back)
        agent.rollback(stage)
        del self.seen[stage:]
        self.agents[who] = agent

    @invariant()
    def file_tells_the_same(self):
        agent = make(self.path)
        assert (agent.decision, agent._now.saved) == plain(self.batches())
        told = [(record.id, float(record.decision)) for record in agent.history()]
        assert told == [(name, answer) for name, _, _, answer in self.seen]
        agent.close()

    def teardown(self):
        if hasattr(self, "folder"):
            for agent in self.agents:
                agent.close()
            self.folder.cleanup()


Deliveries.TestCase.settings = settings(
    max_examples=SEQUENCES,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestDeliveries = Deliveries.TestCase

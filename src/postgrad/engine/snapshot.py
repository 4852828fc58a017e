"""What is known of one stream between two batches, and what stages report."""

import dataclasses
from typing import NamedTuple

import numpy as np

from postgrad.algorithm.bayesian_sgd import Info, State
from postgrad.algorithm.descents.descent import Doubt
from postgrad.beliefs.belief import Belief
from postgrad.engine.packing import Packed
from postgrad.monitoring.misspecification import Monitor
from postgrad.monitoring.progress_warnings import Stall
from postgrad.records.alarm import Alarm
from postgrad.records.outlook import Outlook


class Report(NamedTuple):
    """What a stage reports.

    Attributes:
        learn: A `LearnReport`, packed; of padding too.
        descend: A `DescendReport`, packed.
        rows: How many rows the batch had.
    """

    learn: Packed
    descend: Packed
    rows: int


class Snapshot(NamedTuple):
    """Everything that is known between two batches.

    Attributes:
        stage: How many batches were observed.
        decision: The decision in force.
        belief: pi_t.
        search: The rest of the algorithm's state, packed: the iterate, what the descent remembers.
        test: The test of whether batches come as foreseen, packed.
        report: What the last stage reported; None before the first.
        answer: What the verdicts of the last stage say is kept with the batch, as bytes.
        alarm: The alarm that the last stage raised, if any.
        stall: Counts stages without progress.
        warning: What the last stage gave reason to warn of, if anything.
        next_look: The stage at which to look at all points of large grids again.
        room: How many rows fit into the data that the belief keeps.
        fixed_since: The stage at which arrays that stages do not change were last replaced; 0 if
            they are those of the beginning.
        without: Assumptions that are not made any more, as bits.
        time: The latest date of a batch, as a number of days; NaN if no batch had one.
    """

    stage: int
    decision: np.ndarray
    belief: Belief
    search: Packed
    test: Packed
    report: Report | None
    answer: bytes
    alarm: Alarm | None
    stall: Stall
    warning: UserWarning | None
    next_look: int
    room: int
    fixed_since: int
    without: int
    time: float

    @property
    def state(self) -> State:
        """What the algorithm carries from stage to stage."""
        return dataclasses.replace(self.search.tree_of_arrays(), belief=self.belief)

    @property
    def monitor(self) -> Monitor:
        """The test of whether batches come as foreseen."""
        return self.test.tree_of_arrays()

    @property
    def info(self) -> Info | None:
        """What the last stage told about itself; None before the first."""
        if self.report is None:
            return None
        foreseen, surprise = self.report.learn.tree_of_arrays().learned
        descended = self.report.descend.tree_of_arrays().descended
        return Info(foreseen[: self.report.rows], surprise, *descended)


class Solved(NamedTuple):
    """The decision for an occasion.

    Attributes:
        decision: The decision.
        report: A `DescendReport`, packed.
        doubt: Why the decision may be wrong.
    """

    decision: np.ndarray
    report: Packed
    doubt: Doubt

    @property
    def outlook(self) -> Outlook:
        """What is uncertain about the decision."""
        return self.report.tree_of_arrays().descended.outlook

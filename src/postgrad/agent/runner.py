"""A stage as one call: from a snapshot and a batch to the next snapshot, changing nothing.

Between batches the state is a list of arrays: taking trees apart and putting them together again
would cost more than the stage itself. The compiled program tells all that the host wants to know as
words of one array (see `store.words`), so that one transfer brings it there.
"""

import dataclasses
import math
import struct
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt64

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents import Course
from postgrad.algorithm.surprise import Surprise
from postgrad.beliefs import Belief
from postgrad.beliefs.grid import live_points as focus
from postgrad.beliefs.grid.sufficient_weights import TOLERANCE, SufficientWeights
from postgrad.beliefs.kept_likelihood import room, with_room
from postgrad.distributions.density import log_density
from postgrad.errors import DivergenceError, ImpossibleDataError, StepSizeError, SupportError
from postgrad.monitoring.misspecification import Alarm, Monitor
from postgrad.monitoring.progress_warnings import Stall, teaching
from postgrad.numerics.cache_by_shape import once_per_shape
from postgrad.problem.problem import Decision, kind_of
from postgrad.store import Saved
from postgrad.store import array_codec as words

_COUNTERS = struct.Struct("<qqddqqqq")
_VERDICT = struct.Struct("<10d")
_NOTHING = words.header_of({})


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Everything that is known between two batches.

    Attributes:
        stage: How many batches were observed.
        leaves: The arrays of the state and the monitor.
        decision: The decision in force.
        saved: The same, as it is stored.
        renewed: Whether arrays that stages do not change were replaced just now: see `stills`.
        stall: What speaks when the decision gets nowhere.
        look: The stage at which to look at all points again.
        room: How many rows fit into the belief's history.
        count: How many rows the last batch had.
    """

    stage: int
    leaves: list[Array]
    decision: np.ndarray
    saved: Saved
    renewed: bool
    stall: Stall
    look: int
    room: int
    count: int


@dataclasses.dataclass(frozen=True)
class News:
    """What a stage brought besides the next snapshot.

    Attributes:
        answer: The decision and numbers about it, as they are kept with the batch: see `Answer`.
        alarm: The alarm it raised, if any.
        trouble: What else there is to say.
    """

    answer: bytes
    alarm: Alarm | None
    trouble: UserWarning | None


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is kept with each batch.

    Attributes:
        decision: x_{t+1} as issued.
        epistemic: The posterior standard deviation of the optimal decision; NaN if unknown.
        log_predictive: log f_hat of the whole batch, as a sum over its observations.
        surprise: Where the batch lay among those that were foreseen.
    """

    decision: np.ndarray
    epistemic: np.ndarray
    log_predictive: float
    surprise: Surprise


class Runner:
    """Computes stages; holds what does not change.

    Attributes:
        algorithm: What is computed.
        event_shape: The shape of one observation.
        start: The snapshot before the first batch.
    """

    def __init__(self, algorithm: BayesianSGD, belief: Belief, x: Any, alpha: Any):
        """Try all parts on each other; see `BayesianSGD.init` and `Monitor`."""
        self.algorithm = algorithm
        state = algorithm.init(belief, x)
        theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
        self.event_shape = algorithm.problem.event_shape(state.x, theta)
        pair = (state, Monitor(self.event_shape, alpha=alpha))
        named, self._tree = jax.tree.flatten_with_path(pair)
        self._paths = [jax.tree_util.keystr(path) for path, _ in named]
        self._first = [leaf for _, leaf in named]
        self._numbers = jax.tree.leaves(eqx.filter(algorithm, eqx.is_array))
        self._program = _program(algorithm, *pair)
        self._focuses = focus.can_focus(state)
        stall, look, free = Stall(), focus.patience(state), room(state)
        saved = Saved(0, _NOTHING, b"", _NOTHING, b"", _counters(stall, look, free, 0), 0)
        x = np.asarray(state.decision)
        self.start = Snapshot(0, self._first, x, saved, False, stall, look, free, 0)

    def state(self, snapshot: Snapshot) -> State:
        """What the algorithm carries from stage to stage."""
        return jax.tree.unflatten(self._tree, snapshot.leaves)[0]

    def monitor(self, snapshot: Snapshot) -> Monitor:
        """The test of whether batches come as foreseen."""
        return jax.tree.unflatten(self._tree, snapshot.leaves)[1]

    def info(self, snapshot: Snapshot) -> Info | None:
        """What the last stage told about itself; None before the first."""
        if not snapshot.saved.report:
            return None
        told = words.unpacked(snapshot.saved.report_header, snapshot.saved.report)
        leaves = [jnp.asarray(array) for path, array in told.items() if path.startswith(".")]
        info = jax.tree.unflatten(_INFO, leaves)
        foreseen = info.log_predictive[: snapshot.count]  # without the padding
        return eqx.tree_at(lambda info: info.log_predictive, info, foreseen)

    def answer(self, data: bytes) -> Answer:
        """What was kept with a batch."""
        numbers, shape = np.frombuffer(data, "<f8"), self.start.decision.shape
        d, e = math.prod(shape), math.prod(self.event_shape)
        surprise = numbers[2 * d + 1 :].reshape(4, *self.event_shape)
        if len(numbers) != 2 * d + 1 + 4 * e:
            raise ValueError(f"expected {2 * d + 1 + 4 * e} numbers, got {len(numbers)}")
        return Answer(
            decision=numbers[:d].reshape(shape),
            epistemic=numbers[d : 2 * d].reshape(shape),
            log_predictive=float(numbers[2 * d]),
            surprise=Surprise(*surprise),
        )

    def after(
        self, before: Snapshot, rows: Float[np.ndarray, "D ..."], x: np.ndarray | None
    ) -> tuple[Snapshot, News]:
        """One stage: the next snapshot, and what there is to say.

        Args:
            before: Where to start from; it is not changed.
            rows: The batch.
            x: The decision in force, if not the last one issued.

        Raises:
            SupportError, ImpossibleDataError, ModelError: If the batch cannot have happened.
            StepSizeError: If the schedule has come to a step size that is not positive.
            DivergenceError: If the gradient or the new decision is not finite.
        """
        batch, weight = _pad(rows)
        leaves = before.leaves
        free = before.room
        if free < len(batch):
            state, monitor = jax.tree.unflatten(self._tree, leaves)
            state = with_room(state, len(batch))
            leaves, free = jax.tree.leaves((state, monitor)), room(state)
        told = self._told(leaves, batch, weight, x)
        if not (told.possible and told.proper):
            self._refuse(before, rows, x)
        if not told.sound:
            state, monitor = jax.tree.unflatten(self._tree, leaves)
            leaves = jax.tree.leaves((focus.unfocused(state), monitor))  # all of it computed
            told = self._told(leaves, batch, weight, x)
        if told.ascending:
            raise StepSizeError(f"the step size at stage {before.stage + 1} must be positive")
        if not told.finite:
            gradient = words.unpacked(told.layout.report_header, told.report)[".course.gradient"]
            raise DivergenceError(
                f"the step from x = {before.decision[()]} is not finite: the gradient was "
                f"{gradient.tolist()}; use smaller steps or a bounded feasible set"
            )
        return self._next(before, leaves, free - len(rows), len(rows), told)

    def _told(
        self, leaves: list[Array], batch: np.ndarray, weight: np.ndarray, x: np.ndarray | None
    ) -> "_Told":
        return _Told(self._program(self._numbers, leaves, batch, weight, x))

    def _next(
        self, before: Snapshot, used: list[Array], free: int, count: int, told: "_Told"
    ) -> tuple[Snapshot, News]:
        """The snapshot after a stage, given the arrays it started from and what it told."""
        stage, layout = before.stage + 1, told.layout
        leaves = list(used)
        for index, leaf in zip(layout.moved, told.leaves, strict=True):
            leaves[index] = leaf
        header, state, look = layout.header, told.state, before.look
        renewed = used is not before.leaves
        if self._focuses and stage >= look:
            held, monitor = jax.tree.unflatten(self._tree, leaves)
            held = focus.focused(held)
            leaves, look = jax.tree.leaves((held, monitor)), stage + focus.patience(held)
            header, state = self._stored(leaves, layout.moved)
            renewed = True
        still = before.saved.still
        if renewed:
            still = stage if self._still(leaves, layout.moved) else 0
        stall, trouble = before.stall.after(*told.signs)
        counters = _counters(stall, look, free, count)
        saved = Saved(stage, header, state, layout.report_header, told.report, counters, still)
        decision = _decision(told.report, before.decision)
        new = Snapshot(stage, leaves, decision, saved, renewed, stall, look, free, count)
        alarm = self.monitor(new).alarm() if told.sounds else None
        return new, News(told.report[: 8 * layout.verdict], alarm, trouble)

    def restored(self, saved: Saved, stills: tuple[str, bytes] | None) -> Snapshot:
        """The snapshot that was stored."""
        leaves = list(self._first)
        index = {path: i for i, path in enumerate(self._paths)}
        for header, data in (stills or (_NOTHING, b""), (saved.header, saved.state)):
            for path, array in words.unpacked(header, data).items():
                leaves[index[path]] = words.as_leaf(array, self._first[index[path]])
        restless, standing, value, usual, said, *rest = _COUNTERS.unpack(saved.counters)
        stall = Stall(restless, standing, value, usual, bool(said))
        decision = _decision(saved.report, self.start.decision)
        return Snapshot(saved.stage, leaves, decision, saved, False, stall, *rest)

    def _stored(self, leaves: list[Array], which: tuple[int, ...]) -> tuple[str, bytes]:
        named = {self._paths[i]: leaves[i] for i in which}
        return words.header_of(named), np.asarray(words.packed(named)).tobytes()

    def stills(self, snapshot: Snapshot) -> tuple[str, bytes] | None:
        """The arrays that stages do not change, as far as they are not the first, as words."""
        if snapshot.saved.still == 0:
            return None
        moved = words.unpacked(snapshot.saved.header, snapshot.saved.state)
        indices = tuple(i for i, path in enumerate(self._paths) if path in moved)
        return self._stored(snapshot.leaves, self._still(snapshot.leaves, indices))

    def _still(self, leaves: list[Array], moved: tuple[int, ...]) -> tuple[int, ...]:
        """What differs from the beginning though stages do not change it."""
        changed = [i for i, leaf in enumerate(leaves) if leaf is not self._first[i]]
        return tuple(i for i in changed if i not in moved)

    def _refuse(self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None) -> None:
        """Find out what is wrong with a batch that cannot have happened, and say so."""
        problem, thetas = self.algorithm.problem, self.state(before).belief.examples()
        place = jnp.asarray(before.decision if x is None else x)
        problem.check_models(place, thetas)
        for number, row in enumerate(rows):
            y = jnp.asarray(row)
            inside = jax.vmap(lambda theta, y=y: problem.likelihood(place, theta).support(y))(
                thetas
            )
            if not np.any(inside):
                raise SupportError(
                    f"row {number} of the batch, {row}, lies outside the model's support "
                    f"for every theta, at x = {np.asarray(place)}"
                )
        raise ImpossibleDataError(
            f"no theta in the belief's support explains the batch {rows.tolist()} "
            f"at x = {np.asarray(place)}: each has density zero"
        )

    def without_data(self, before: Snapshot, rows: np.ndarray) -> np.ndarray | None:
        """Where the descent goes on to if the batch tells nothing; None if that is no number."""
        batch, weight = _pad(rows)
        if before.room < len(batch):
            return None
        told = self._told(before.leaves, batch, np.zeros_like(weight), None)
        decision = _decision(told.report, before.decision)
        return decision if np.isfinite(decision).all() else None


_A: Any = 0  # any leaf
_INFO = jax.tree.structure(
    Info(_A, Surprise(_A, _A, _A, _A), Course(_A, _A, _A, _A, _A), Outlook(_A, _A, _A, _A))
)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Layout:
    """What the program's words are, known when it is made.

    Attributes:
        moved: Which of the arrays a stage changes.
        header: What the words of the state are.
        report_header: What the words of the report are.
        report: Where the report begins; the state comes first.
        verdict: Where in the report the verdict begins.
    """

    moved: tuple[int, ...]
    header: str
    report_header: str
    report: int
    verdict: int


_Outcome = tuple[list[Array], UInt64[Array, " n"], _Layout]


class _Told:
    """What a stage told, on the host."""

    def __init__(self, outcome: _Outcome):
        self.leaves, told, self.layout = outcome
        data, start = np.asarray(told).tobytes(), 8 * self.layout.report
        self.state, self.report = data[:start], data[start:]
        verdict = _VERDICT.unpack_from(self.report, 8 * self.layout.verdict)
        self.possible, self.proper, self.ascending, self.finite, self.sounds = verdict[:5]
        self.sound, *self.signs = verdict[5:]


@once_per_shape
def _program(algorithm: BayesianSGD, state: State, monitor: Monitor) -> Callable[..., _Outcome]:
    """A stage as a function of lists of arrays, shared by all agents that differ in numbers only.

    The report begins with the decision and the numbers that are kept with each batch. A verdict
    follows: whether the batch is possible, the posterior proper, the step size not positive, the
    step finite, an alarm raised, what was left out negligible, the descent settled, and `Teaching`
    where the decision changes the data. What the stage told comes last.
    """
    numbers, rest = eqx.partition(algorithm, eqx.is_array)
    number_tree, tree = jax.tree.structure(numbers), jax.tree.structure((state, monitor))
    theta = jax.tree.map(lambda leaf: leaf[0], state.belief.examples())
    depends = kind_of(algorithm.problem.likelihood, state.x, theta).depends_on_decision

    @jax.jit
    def stage(
        numbers: list[Array],
        leaves: list[Array],
        batch: Array,
        weight: Array,
        x: Decision | None,
    ) -> _Outcome:
        algorithm = eqx.combine(jax.tree.unflatten(number_tree, numbers), rest)
        state, monitor = jax.tree.unflatten(tree, leaves)
        x = state.decision if x is None else x
        new, info = algorithm.step(state, batch, weight=weight, x=x)

        def explained(y: Array) -> Array:
            log_f = jax.vmap(lambda theta: log_density(algorithm.problem.likelihood(x, theta), y))
            return jnp.any(log_f(state.belief.examples()) > -jnp.inf)

        before, after = jax.tree.leaves(state.belief), jax.tree.leaves(new.belief)
        learned = [leaf for old, leaf in zip(before, after, strict=True) if leaf is not old]
        learned = [leaf for leaf in learned if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        # An infinite gradient is caught before a bounded set hides it and momentum keeps it.
        moves = [new.x, new.decision, info.course.gradient]
        moves += jax.tree.leaves(eqx.filter(new.progress, eqx.is_inexact_array))
        monitor = monitor.update(info.surprise)
        taught = teaching(info, new.x - state.x, new.belief.effective_size, jnp.sum(weight))
        left_out = [
            node.missing
            for node in jax.tree.leaves(new, is_leaf=_is_sufficient)
            if _is_sufficient(node)
        ]
        verdict = jnp.asarray(
            [
                jnp.all(jax.vmap(explained)(batch) | (info.log_predictive > -jnp.inf)),
                ~jnp.any(jnp.asarray([jnp.any(jnp.isnan(leaf)) for leaf in learned])),
                algorithm.descent.step_size(state.stage) <= 0,
                jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in moves])),
                monitor.sounds,
                jnp.all(jnp.asarray([jnp.all(share <= TOLERANCE) for share in left_out], bool)),
                ~(info.course.settled == 0),  # NaN where the descent cannot tell
                *(taught if depends else (False, 0.0, 0.0)),
            ],
            dtype=float,
        )
        answer = {
            "decision": new.decision,
            "epistemic": info.outlook.epistemic,
            "log_predictive": jnp.sum(jnp.where(weight > 0, info.log_predictive, 0.0)),
            **_named(info.surprise),
        }
        answer = {f"answer {name}": jnp.asarray(leaf, float) for name, leaf in answer.items()}
        report = {**answer, "verdict": verdict, **_named(info)}
        named = _named((new, monitor))
        pairs = list(zip(leaves, named.items(), strict=True))
        moved = tuple(i for i, (old, (_, leaf)) in enumerate(pairs) if leaf is not old)
        changed = dict(pairs[i][1] for i in moved)
        state_words, report_words = words.packed(changed), words.packed(report)
        layout = _Layout(
            moved=moved,
            header=words.header_of(changed),
            report_header=words.header_of(report),
            report=state_words.size,
            verdict=sum(leaf.size for leaf in answer.values()),
        )
        told = jnp.concatenate([state_words, report_words])
        return list(changed.values()), told, layout

    return stage


def _named(tree: Any) -> dict[str, Array]:
    """Leaves by their paths, such as `.course.gradient`."""
    named, _ = jax.tree.flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in named}


def _is_sufficient(node: Any) -> bool:
    return isinstance(node, SufficientWeights)


def _counters(stall: Stall, look: int, free: int, count: int) -> bytes:
    return _COUNTERS.pack(*stall, look, free, count)


def _decision(report: bytes, like: np.ndarray) -> np.ndarray:
    """The decision, with which a report begins; as before, if there is none."""
    if not report:
        return like
    return np.frombuffer(report, "<f8", like.size).reshape(like.shape)


def _pad(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded to a power of two with copies of the first, and their weights 1 or 0."""
    count = rows.shape[0]
    size = 1 << (count - 1).bit_length()
    weight = (np.arange(size) < count).astype(np.float64)
    if size > count:
        rows = np.concatenate([rows, np.repeat(rows[:1], size - count, axis=0)])
    return rows, weight

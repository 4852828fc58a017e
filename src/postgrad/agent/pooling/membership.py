"""One agent as a member of a population."""

import jax
import numpy as np

from postgrad.agent.pooling.live_population import live_population
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.pooling.pool import Pool
from postgrad.beliefs.pooling.population import lent_by, statistics_of
from postgrad.engine.padding import padded
from postgrad.engine.snapshot import Snapshot
from postgrad.errors import SettingError, StoreError
from postgrad.numerics.fixed import fixed_leaves
from postgrad.records.settings import read_settings
from postgrad.records.streams.population_stream import is_population
from postgrad.store import Database, StreamHead

_REFUSED = (
    "{what} is not possible in a pooled stream: others have learned from its batches. Put the data "
    "right, and run them into a new file"
)


class Membership:
    """What an agent borrows from the population, and what it contributes.

    A stage borrows the population as it is, without what the agent itself has contributed. Computed
    again, it borrows the version that is on record.

    Attributes:
        lent_version: The version of the population that was borrowed last; 0 at first.
    """

    def __init__(self, database: Database, pool: Pool, prior: Belief, member: str, *, new: bool):
        """Find the population, or begin it.

        Args:
            database: Where it is kept.
            pool: How members lean on it.
            prior: pi_0, bound to the problem.
            member: The name of the agent.
            new: Whether the agent is new.

        Raises:
            PriorError: If such beliefs cannot be pooled.
            StoreError: If the population is damaged or missing, or another one.
        """
        self._database, self._member = database, member
        self._population = pool.population(prior)
        self._live = live_population(database, pool.name, self._population, new=new)
        self._lent_from: StreamHead | None = None
        self.lent_version = 0
        self._known: tuple[Belief | None, np.ndarray] = None, np.empty(0)
        self._first = jax.tree.leaves(prior)
        self._fixed = jax.tree.leaves(fixed_leaves(prior))
        self._sizes: set[int] = set()

    def borrowed(self, before: Snapshot) -> Snapshot:
        """A snapshot with the other members' law for its prior."""
        live = self._live
        version = live.version_used(self._member, before.stage + 1)
        if version is None:
            live.refresh()
            total, self._lent_from = live.total, live.head
        else:
            total, self._lent_from = live.at(version), None
        self.lent_version = live.version if version is None else version
        if before.stage > 0:
            total = total - self._statistics(before.belief)
        belief = lent_by(self._population, before.belief, total)
        return before._replace(belief=belief)

    def contribute(self, before: Snapshot, after: Snapshot) -> None:
        """Stores what a stage has taught, in the open transaction.

        Args:
            before: The snapshot before the stage, as it was stored.
            after: The snapshot after the stage.

        Raises:
            StaleStateError: If another process has written to the population since it was lent.
        """
        learned = change = self._statistics(after.belief)
        if before.stage > 0:
            change = learned - self._statistics(before.belief)
        self._live.append(self._lent_from, self._member, after.stage, change)
        self._known = after.belief, learned

    def _statistics(self, belief: Belief) -> np.ndarray:
        """What a belief has contributed; that of the last stage is still known."""
        known, statistics = self._known
        if known is not belief:
            statistics = np.asarray(statistics_of(self._population, belief))
        return statistics

    def with_prior(self, new: Snapshot) -> Snapshot:
        """A snapshot after a stage, of which the store keeps the prior that was lent.

        Other arrays that stages do not change, such as points, are those of the beginning again:
        compiled programs return copies, which would be stored too.
        """
        leaves, tree = jax.tree.flatten(new.belief)
        each = zip(leaves, self._first, self._fixed, strict=True)
        same = [a if fixed and np.array_equal(leaf, a) else leaf for leaf, a, fixed in each]
        return new._replace(belief=jax.tree.unflatten(tree, same), fixed_since=new.stage)

    def is_current(self) -> bool:
        """Whether the population is the one that was read last."""
        return self._live.is_current()

    def knows(self, stage: int) -> bool:
        """Whether the population, as it is now, has so many stages of the agent, and no more."""
        self._live.refresh()
        last = stage == 0 or self.version(stage) is not None
        return last and self.version(stage + 1) is None

    def not_one(self, stage: int) -> StoreError:
        """The error that population and agent do not belong together."""
        return self._database.error(
            f"the population knows other stages of {self._member!r} than the stream, which has "
            f"{stage}: one of them has lost batches; restore a backup with `postgrad store "
            f"restore`, or run the data into a new file"
        )

    def verify(self) -> None:
        """Reads and checks all of the population, and sums it again.

        Raises:
            StaleStateError: If another process has written meanwhile.
            StoreError: If anything is damaged or missing.
        """
        self._live.verify()

    def version(self, stage: int) -> int | None:
        """The version of the population that a stage used."""
        return self._live.version_used(self._member, stage)

    def is_new_size(self, rows: np.ndarray) -> bool:
        """Whether no batch of this size was prepared before: then the stage is compiled."""
        size = len(padded(rows)[0])
        found = size in self._sizes
        self._sizes.add(size)
        return not found


def pool_settings(pool: Pool | None) -> dict[str, object]:
    """What a member's settings say about its pool."""
    said = None if pool is None else {"name": pool.name, "strength": float(pool.strength)}
    return {} if said is None else {"pool": said}


def check_pool(stream: str, kept: str | None, pool: Pool | None) -> None:
    """Check that a stream was made with this pool.

    Args:
        stream: The name of the stream.
        kept: The settings of the stream; None if it is new.
        pool: The pool.

    Raises:
        SettingError: If the name is that of a population.
        StoreError: If the stream was made with another one.
    """
    if is_population(stream):
        raise SettingError(f"name must not begin with 'population:', got {stream!r}")
    if kept is None:
        return
    was, now = read_settings(kept).get("pool"), pool_settings(pool).get("pool")
    if was != now:
        raise StoreError(f"the stream was made with the pool {was}, not {now}; use that")


def refuse(what: str) -> None:
    """Refuse what would have to change what others have learned.

    Raises:
        SettingError: Always.
    """
    raise SettingError(_REFUSED.format(what=what))

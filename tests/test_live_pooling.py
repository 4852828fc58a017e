"""Live members of a population: exact after restarts, among writers, and when computed again."""

import json
import shutil

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from shims import compiled, totals_under

import postgrad as pg
from postgrad import errors
from postgrad.records.streams.population_stream import contribution_id, population_stream
from postgrad.research.problems.newsvendor import Mismatch
from postgrad.store import Store
from postgrad.store.recovery import recover
from postgrad.store.state_rows import EVERY


def demand(x, theta):
    return dist.Normal(theta, 2.0, validate_args=False)


PROBLEM = pg.Problem(Mismatch(jnp.asarray(4.0), jnp.asarray(1.0)), demand, pg.feasible.Box(0, 50))
LEVELS = np.linspace(1.0, 20.0, 12)
GRID = pg.beliefs.Grid(LEVELS, forget=0.98)
BELIEFS = {
    "grid": GRID,
    "gaussian": pg.beliefs.Gaussian(10.0, 5.0),
    "rates": pg.beliefs.Mixture([pg.beliefs.Grid(LEVELS, forget=rate) for rate in (1.0, 0.9)]),
}
POOL = pg.Pool(0.5)
ITEMS = ("milk", "bread", "eggs")


def make(path, name, belief=GRID, pool=POOL, **options):
    options = {"alpha": 1e-30, **pg.presets.paper(), **options}
    return pg.Agent(PROBLEM, belief, 5.0, path=path, name=name, pool=pool, **options)


def rows(count):
    """(item, id, demand), the items in turn, but for some that come again later."""
    rng = np.random.default_rng(0)
    items = rng.integers(3, size=count)
    return [(ITEMS[i], f"day {n}", rng.normal(8.0 + 2 * i, 2.0, 2)) for n, i in enumerate(items)]


def fed(path, some, belief=GRID):
    with pg.Database(path) as database:
        agents = {item: make(database, item, belief) for item in ITEMS}
        return [agents[item].observe(batch, id=name) for item, name, batch in some]


def everything(path, belief=GRID):
    """All that members carry on, and the population."""
    with pg.Database(path) as database:
        members = [make(database, item, belief) for item in ITEMS]
        kept = [(one._codec.save(one._now), one._codec.save_fixed(one._now)) for one in members]
        live = members[0]._membership._live
        return kept, live.version, live.total.tobytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", BELIEFS)
def test_members_go_on_bit_for_bit(tmp_path, kind):
    belief, some = BELIEFS[kind], rows(14)
    whole, parts = tmp_path / "whole.db", tmp_path / "parts.db"
    expected, found = fed(whole, some, belief), []
    for first, last in ((0, 1), (1, 6), (6, 7), (7, 14)):
        found += fed(parts, some[first:last], belief)
    assert found == expected
    assert everything(parts, belief) == everything(whole, belief)
    assert fed(parts, some, belief) == expected  # delivered again: the same answers
    assert everything(parts, belief) == everything(whole, belief)
    with pg.Database(parts) as database:
        for item in ITEMS:
            member = make(database, item, belief)
            assert member.replay().identical
            member.verify()


def test_a_member_leans_on_the_others(tmp_path):
    """A new member begins where the others are, and one with much data stays where it is."""
    with pg.Database(tmp_path / "a.db") as database:
        for item in ("a", "b", "c"):
            old = make(database, item)
            for number in range(8):
                old.observe(np.full(4, 15.0), id=str(number))
        new, alone = make(database, "new"), make(None, "alone", pool=None)
        new.observe([9.0], id="x")
        alone.observe([9.0], id="x")
        assert float(alone.belief.mean()) < 10.0
        assert float(new.belief.mean()) > float(alone.belief.mean()) + 1.0
        for number in range(20):
            new.observe(np.full(8, 9.0), id=f"more {number}")
        assert float(new.belief.mean()) == pytest.approx(9.0, abs=0.8)


@pytest.mark.parametrize("kind", ["grid", "gaussian"])
def test_what_a_member_has_said_does_not_come_back_to_it(tmp_path, kind):
    """Alone in its population it decides as without one, however much it has contributed."""
    belief, some = BELIEFS[kind], [batch for _, _, batch in rows(8)]
    with pg.Database(tmp_path / "a.db") as database:
        member, alone = make(database, "milk", belief), make(None, "milk", belief, pool=None)
        for number, batch in enumerate(some):
            found = member.observe(batch, id=str(number))
            assert found == pytest.approx(alone.observe(batch, id=str(number)), rel=1e-9)
        np.testing.assert_allclose(member.belief.mean(), alone.belief.mean(), rtol=1e-9)


def test_a_batch_counts_for_member_and_population_or_for_neither(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    fed(path, rows(5))
    before = everything(path)
    with pg.Database(path) as database:
        milk = make(database, "milk")

        def fails(*_):
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(milk._membership._live, "append", fails)
            with pytest.raises(ZeroDivisionError):
                milk.observe([9.0], id="next")
        assert everything(path) == before
        milk.observe([9.0], id="next")
        assert milk.population_version() == 5


def test_each_decision_has_the_version_that_it_used(tmp_path):
    some = rows(10)
    fed(tmp_path / "a.db", some)
    with pg.Database(tmp_path / "a.db") as database:
        for item in ITEMS:
            member = make(database, item)
            versions = [n for n, (one, _, _) in enumerate(some) if one == item]
            stages = range(1, member.stage + 1)
            assert [member.population_version(stage) for stage in stages] == versions
            assert member.population_version() == versions[-1]
            assert member.population_version(member.stage + 1) is None
    assert make(None, "alone", pool=None).population_version() is None


def test_two_processes_share_one_population(tmp_path):
    """Two connections, each behind the other time and again; and rows delivered by both."""
    some, straight = rows(16), tmp_path / "straight.db"
    expected = fed(straight, some)
    path = tmp_path / "shared.db"
    with pg.Database(path) as one, pg.Database(path) as two:
        both = [{item: make(database, item) for item in ITEMS} for database in (one, two)]
        for number, (item, name, batch) in enumerate(some):
            first, second = both[number // 3 % 2], both[1 - number // 3 % 2]
            assert first[item].observe(batch, id=name) == expected[number]
            if number % 4 == 0:
                assert second[item].observe(batch, id=name) == expected[number]
    assert everything(path) == everything(straight)


def test_a_stage_is_computed_again_if_the_population_has_moved(tmp_path, monkeypatch):
    """Another process commits between the computation of a stage and its commit."""
    path, straight = tmp_path / "a.db", tmp_path / "straight.db"
    some = [("milk", "1", [9.0]), ("bread", "2", [14.0]), ("milk", "3", [8.0])]
    fed(straight, some)
    with pg.Database(path) as one, pg.Database(path) as two:
        milk, bread = make(one, "milk"), make(two, "bread")
        make(one, "bread"), make(one, "eggs")
        milk.observe([9.0], id="1")
        computed = milk._past._computed

        def meanwhile(*arguments):
            found = computed(*arguments)
            bread.observe([14.0], id="2")
            return found

        monkeypatch.setattr(milk._past, "_computed", meanwhile)
        milk.observe([8.0], id="3")
        assert milk.population_version() == 2
    with pg.Database(straight) as database:
        assert make(database, "milk").population_version() == 2
    assert everything(path) == everything(straight)


def test_what_is_undone_leaves_no_trace(tmp_path):
    some, path, straight = rows(9), tmp_path / "a.db", tmp_path / "straight.db"
    expected = fed(straight, some)
    with pg.Database(path) as database:
        agents = {item: make(database, item) for item in ITEMS}
        for item, name, batch in some[:4]:
            agents[item].observe(batch, id=name)

        def broken_off():
            with database.transaction():
                for item, name, batch in some[4:]:
                    agents[item].observe(batch + 3.0, id=name)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            broken_off()
        with database.transaction():
            for item, name, batch in some[4:]:
                agents[item].prepare(batch, id=name)
            found = [agents[item].observe(batch, id=name) for item, name, batch in some[4:]]
    assert found == expected[4:]
    assert everything(path) == everything(straight)


def test_what_others_have_learned_from_cannot_be_changed(tmp_path):
    path, other = tmp_path / "a.db", pg.Pool(0.5, "other")
    fed(path, rows(6))
    before = everything(path)
    with pg.Database(path) as database:
        milk = make(database, "milk")
        name = next(milk.history()).id
        for refused in (
            lambda: milk.correct(name, [1.0]),
            lambda: milk.withdraw(name),
            lambda: milk.rollback(0),
        ):
            with pytest.raises(errors.SettingError, match="others have learned"):
                refused()
        for pool in (None, other, pg.Pool(0.6)):
            with pytest.raises(errors.StoreError, match="was made with the pool"):
                make(database, "milk", pool=pool)
        with pytest.raises(errors.StoreError, match="another prior or strength"):
            make(database, "butter", pool=pg.Pool(0.6))
        moved = pg.beliefs.Grid(np.linspace(2.0, 21.0, 12), forget=0.98)
        with pytest.raises(errors.StoreError, match="another prior or strength"):
            make(database, "butter", moved)
        with pytest.raises(errors.PriorError, match="got Normal"):
            make(database, "butter", pg.beliefs.Normal(10.0, 5.0), other)
        with pytest.raises(errors.SettingError, match="name must not begin with"):
            make(database, population_stream("all"))
    assert everything(path) == before


def test_another_cost_keeps_what_is_lent(tmp_path):
    path = tmp_path / "a.db"
    fed(path, rows(6))
    dearer = pg.Problem(Mismatch(jnp.asarray(9.0), jnp.asarray(1.0)), demand, PROBLEM.feasible)
    with pg.Database(path) as database:
        milk = make(database, "milk")
        mean, version = milk.belief.mean(), milk.population_version()
        milk.change(dearer)
        assert milk.belief.mean() == mean
        assert milk.population_version() == version
        milk.observe([9.0], id="next")
        assert milk.population_version() == 6
        assert milk.replay(earlier=[PROBLEM]).identical
    with pg.Database(path) as database:
        again = pg.Agent(
            dearer, GRID, 5.0, path=database, name="milk", pool=POOL, alpha=1e-30,
            **pg.presets.paper(),
        )  # fmt: skip
        assert again._codec.save(again._now) == milk._codec.save(milk._now)


@pytest.mark.parametrize("lost", ["member", "population"])
def test_batches_that_one_side_has_lost_are_noticed(tmp_path, lost):
    path = tmp_path / "a.db"
    fed(path, [("milk", str(n), [8.0]) for n in range(EVERY + 2)])
    with pg.Database(path) as database:
        name = "milk" if lost == "member" else population_stream("all")
        store = Store(database, name)
        kept = store.checkpoint(EVERY)
        store.go_back(store.load(), kept, store.fixed_arrays(kept))
    with pytest.raises(errors.StoreError, match="one of them has lost batches"):
        make(path, "milk")


def test_damage_of_the_population_is_noticed(tmp_path):
    path = tmp_path / "a.db"
    fed(path, rows(6))
    with pg.Database(path) as database:
        live = make(database, "milk")._membership._live
        head, wrong = live.head, live.total + 1e-9
        batch = next(live._store.batches(1, 1))[1]
        shutil.copy(path, tmp_path / "b.db")
        change = np.frombuffer(batch.rows) * 2.0
        live.append(head, "nobody", 1, change)
        live._total = wrong
        with pytest.raises(errors.StoreError, match="sum of the population"):
            make(database, "milk").verify()
        with database.transaction():
            place = live._store._batches.place(2)
            database.rows("UPDATE batches SET rows = ? WHERE place = ?", batch.rows, place)
        with pytest.raises(errors.StoreError, match="damaged"):
            make(database, "milk").verify()


def test_a_population_whose_sum_is_lost_is_summed_again(tmp_path):
    path = tmp_path / "a.db"
    fed(path, rows(9))
    before = everything(path)
    with pg.Database(path) as database:
        database.prepare_to_write()
        number = database.streams().index(population_stream("all")) + 1
        database.rows("UPDATE heads SET state = x'00' WHERE stream = ?", number)
    with pytest.raises(errors.StoreError, match="damaged"):
        make(path, "milk")
    recover(path)
    assert everything(path) == before
    with pg.Database(path) as database:
        milk = make(database, "milk")
        milk.observe([9.0], id="next")
        milk.verify()


def test_the_id_of_a_contribution_names_member_and_stage():
    assert json.loads(contribution_id('a "b", 1', 2)) == ['a "b", 1', 2]
    assert contribution_id("a", 12) != contribution_id("a 1", 2)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compiled("recorded_disk", tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(1)
def test_kills_leave_members_and_population_together(shim, tmp_path, seed):
    total = totals_under(shim, "pooled_crashes", tmp_path, 16, seed)
    assert total["points"] == 16
    wrong = ("lost", "counted twice", "apart", "sums that differ", "refused", "told")
    assert {name: total.get(name, 0) for name in wrong} == dict.fromkeys(wrong, 0)
    assert 0 < total["commits under way that count"] < 16

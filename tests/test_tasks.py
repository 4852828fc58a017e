"""Tasks of asyncio that share a database: no task's batch becomes part of another's transaction."""

import asyncio
import threading

import pytest
from test_durable import batch, everything, feed, make
from test_transactions import BreakError, broken, named

import postgrad as pg
from postgrad import errors


@pytest.fixture(params=["memory", "file"])
def database(request, tmp_path):
    with pg.Database(None if request.param == "memory" else tmp_path / "a.db") as database:
        yield database


def taking_turns(*steps):
    """Runs tasks, each of which is one of the generators; at each `yield` the next one goes on."""

    async def task(step):
        for _ in step:
            await asyncio.sleep(0)

    async def main():
        async with asyncio.timeout(60):
            return await asyncio.gather(*map(task, steps), return_exceptions=True)

    return asyncio.run(main())


def test_a_batch_of_another_task_is_refused_and_none_is_lost(database):
    """It returned before, and was undone with the transaction that it had become part of."""
    milk, bread = named(database, "milk"), named(database, "bread")
    acknowledged = []

    def transaction():
        with broken(database):
            feed(milk, [0])
            yield
            feed(milk, [1])

    def other():
        for number in (2, 3, 4):
            feed(bread, [number])
            acknowledged.append(str(number))
            yield

    first, second = taking_turns(transaction(), other())
    assert first is None
    assert isinstance(second, errors.StoreError)
    assert "await asyncio.to_thread(agent.observe" in str(second)
    assert [record.id for record in bread.history()] == acknowledged == []
    feed(bread, [2])
    assert (milk.stage, named(database, "bread").stage) == (0, 1)


def test_what_was_refused_leaves_the_transaction_whole(database):
    milk, bread = named(database, "milk"), named(database, "bread")

    def transaction():
        with database.transaction():
            feed(milk, [0])
            yield
            feed(milk, [1])

    def other(use):
        use()
        yield

    def nested():
        with database.transaction():
            feed(bread, [3])

    uses = [
        lambda: feed(bread, [2]),
        nested,
        lambda: bread.rollback(0),
        lambda: bread.record("0"),
        lambda: named(database, "more"),
    ]
    first, *others = taking_turns(transaction(), *map(other, uses))
    assert first is None
    assert [type(found) for found in others] == [errors.StoreError] * len(uses)
    straight = make()
    feed(straight, [0, 1])
    assert everything(milk) == everything(named(database, "milk")) == everything(straight)
    assert bread.stage == 0


def test_a_thread_does_not_wait_for_a_task_that_waits_for_it(database):
    agent = named(database, "main")

    async def main():
        with database.transaction():
            feed(agent, [0])
            await asyncio.to_thread(agent.observe, batch(1), id="1")

    async def bounded():
        async with asyncio.timeout(60):
            await main()

    with pytest.raises(errors.StoreError, match="Hold no transaction across an await"):
        asyncio.run(bounded())
    assert agent.stage == 0
    feed(agent, [2])
    assert [record.id for record in agent.history()] == ["2"]


def test_a_thread_waits_for_a_task_that_works(database):
    """However long it takes, as for another thread."""
    agent, begun = named(database, "main"), threading.Event()
    waiting = []

    async def other():
        await asyncio.to_thread(begun.wait, 60)
        await asyncio.to_thread(feed, agent, [1])
        waiting.append("done")

    async def main():
        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        with database.transaction():
            begun.set()
            feed(agent, [0])
            threading.Event().wait(0.5)
            assert not waiting
        await task

    asyncio.run(main())
    assert [record.id for record in agent.history()] == ["0", "1"]


def test_twenty_tasks_by_the_pattern(database):
    """`await asyncio.to_thread(...)`, for batches and for whole transactions."""
    milk, bread = named(database, "milk"), named(database, "bread")

    def both(number):
        with database.transaction():
            feed(milk, [number])
            feed(bread, [number])
            if number % 5 == 0:
                raise BreakError

    async def task(number):
        if number % 2:
            await asyncio.to_thread(milk.observe, batch(number), id=str(number))
        else:
            await asyncio.to_thread(both, number)

    async def main():
        return await asyncio.gather(*map(task, range(20)), return_exceptions=True)

    found = asyncio.run(main())
    lost = {0, 10}
    assert {number for number, error in enumerate(found) if error is not None} == lost
    order = [int(record.id) for record in milk.history()]
    assert sorted(order) == sorted(set(range(20)) - lost)
    assert {int(record.id) for record in bread.history()} == set(range(0, 20, 2)) - lost
    straight = make()
    feed(straight, order)
    assert everything(milk) == everything(straight)

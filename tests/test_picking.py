"""Draws from very many points: many at once are the same as one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sufficient_weights import some_rows

from postgrad.beliefs.grid import picking
from postgrad.beliefs.grid.natural_parameters import LEAF, Rows, blank, sweep

U = jax.random.uniform(jax.random.key(1), (256,))


@jax.jit
def each(rows, statistics):
    """One by one, and many at once, from one run."""
    tally = sweep(rows, statistics, blank(rows))

    def one(u):
        return picking.pick(rows, tally, statistics, u)

    return jax.lax.map(one, U), jax.vmap(one)(U)


@pytest.mark.parametrize("used", [1, 8, 9, 11])
def test_many_draws_are_those_of_one_by_one(used):
    """From few blocks all at once, from more of them leaf by leaf."""
    rows = some_rows(0, 11, used)
    statistics = jax.random.normal(jax.random.key(2), (3, 3))
    for run in range(3):
        single, many = each(rows, statistics[run])
        np.testing.assert_array_equal(single, many)
        assert len(np.unique(many)) > 50
    together = jax.jit(jax.vmap(each, in_axes=(None, 0)))(rows, statistics)
    np.testing.assert_array_equal(*together)


@pytest.mark.parametrize(("used", "by_leaves"), [(8, False), (9, True)])
def test_draws_from_few_blocks_do_not_read_leaves(used, by_leaves, monkeypatch):
    """A leaf for each draw is what takes long."""
    rows, read = some_rows(0, 11, used), []

    def noted(*_):
        jax.debug.callback(lambda: read.append(1))
        return jnp.zeros(LEAF)

    monkeypatch.setattr(Rows, "leaf_log_weights", noted)
    statistics = jnp.ones(3)
    tally = sweep(rows, statistics, blank(rows))
    jax.vmap(lambda u: picking.pick(rows, tally, statistics, u))(U)
    jax.effects_barrier()
    assert bool(read) == by_leaves

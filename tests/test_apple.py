"""The example of prices that make their own data, run small: on real data that are not shipped."""

import importlib.util
import json
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from jax import random

import postgrad as pg

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data" / "apple.csv"
pytestmark = pytest.mark.skipif(
    not DATA.exists(), reason="apple.csv is not shipped, and shared/data is not here"
)


@pytest.fixture(scope="module")
def apple():
    spec = importlib.util.spec_from_file_location("apple", ROOT / "examples" / "apple.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["apple"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["apple"]


@pytest.fixture(scope="module")
def market(apple):
    return apple.read(str(DATA))


def test_market_is_that_of_the_notes(market):
    """Numbers from the data's own notes."""
    assert market.pairs.shape == (9, 2)
    assert int(market.size.sum()) == 660
    means = [0.426, 0.935, 0.868, 1.301, 1.400, 1.435, 2.022, 2.356, 2.006]
    np.testing.assert_allclose(market.profit, means, atol=5e-4)
    np.testing.assert_allclose(market.pairs[7], [1.19, 1.39])
    assert 100 * (1 - market.profit.mean() / market.profit.max()) == pytest.approx(39.8, abs=0.1)


def test_answers_are_those_of_the_pair(market):
    """A family of the pair that is charged answers, each as likely as the others."""
    arm = market.charge(np.asarray([1.1, 1.45]))
    assert arm == 7
    answer = jax.vmap(lambda key: market.answer(arm, key)[0])
    pounds = np.asarray(answer(random.split(random.key(0), 500)))
    families = np.asarray(market.bought[arm, : market.size[arm]])
    assert {tuple(row) for row in pounds} <= {tuple(row) for row in families}
    error = families.std(axis=0) / np.sqrt(500)
    assert (np.abs(pounds.mean(axis=0) - families.mean(axis=0)) < 4 * error).all()


def test_replications_are_the_agent(apple, market):
    """The loop inside one program charges what the plain loop charges."""
    belief, options = apple.WAYS["linear demand, perturbed prices"]
    key_market, key_algorithm = random.split(random.key(3))
    algorithm = pg.BayesianSGD(apple.PROBLEM, steps=0.05, seed=key_algorithm, **options)
    state = algorithm.init(belief, apple.MIDDLE)
    many = apple.replicate(algorithm, state, market, random.key(3)[None], 30)
    step, charged = eqx.filter_jit(algorithm.step), []
    for key in random.split(key_market, 30):
        arm = market.charge(state.decision)
        state, _ = step(state, market.answer(arm, key), x=market.pairs[arm])
        charged.append(int(arm))
    assert many[0].tolist() == charged


@pytest.mark.slow
def test_example_learns(apple, capsys, monkeypatch):
    """Better than random prices soon, and than it was at first."""
    monkeypatch.delitem(apple.WAYS, "linear demand, no exploration")  # a program less to compile
    apple.main([str(DATA), "--rounds", "150", "--replications", "8", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["clairvoyant"] == pytest.approx(2.3558, abs=5e-5)
    prices = np.asarray(told["agent"]["prices"])
    assert ((prices >= apple.LOW) & (prices <= apple.HIGH)).all()
    assert set(told["ways"]) == set(apple.WAYS)
    for way in told["ways"].values():
        assert way["regret"] < 25
        assert way["late"] < way["regret"]

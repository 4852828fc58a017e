"""What data cannot tell apart is found, and named."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg
from postgrad import errors
from postgrad.monitoring.identifiability import Pair, diagnose
from postgrad.monitoring.unnoticed_directions import Direction
from postgrad.research.problems import newsvendor

LEVELS = {"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 2.0, 3.0]}


def problem(model, feasible=None, observation=None):
    feasible = pg.feasible.Box(0.0, 5.0) if feasible is None else feasible
    return pg.Problem(lambda x, xi: jnp.sum(x * xi), model, feasible, observation)


def pairs(diagnosis):
    return [item for item in diagnosis.confounded if isinstance(item, Pair)]


def directions(items):
    return [item for item in items if isinstance(item, Direction)]


def test_normal_mean_is_identifiable():
    grid = pg.beliefs.Grid(jnp.arange(1.0, 21.0))
    found = diagnose(problem(lambda x, theta: dist.Normal(theta, 4.0)), grid, 1.0)
    assert found.identifiable
    assert not found.needs_variation
    assert found.confounded == ()
    # neighbours: H^2 = 1 - exp(-(1 / 4)^2 / 8)
    assert abs(found.hardest.first - found.hardest.second) == 1.0
    expected = np.log(0.1) / (-((1 / 4) ** 2) / 8)
    assert found.observations == pytest.approx(expected, rel=0.3)
    assert 10 <= found.rank <= found.ranked == 20
    assert str(found).startswith("theta is identifiable")


def test_sign_that_does_not_matter():
    grid = pg.beliefs.Grid(jnp.arange(-3.0, 4.0))
    found = diagnose(problem(lambda x, theta: dist.Normal(jnp.abs(theta), 1.0)), grid, 1.0)
    assert not found.identifiable
    named = {frozenset((float(pair.first), float(pair.second))) for pair in pairs(found)}
    assert named == {frozenset((-k, k)) for k in (1.0, 2.0, 3.0)}
    assert directions(found.confounded) == []  # it is not a matter of derivatives
    assert "not identifiable" in str(found)
    assert "theta = -3.0 and theta = 3.0" in str(found)
    assert found.rank == 4


def test_two_parameters_that_enter_as_a_sum():
    model = lambda x, theta: dist.Normal(theta["a"] + 2.0 * theta["b"], 1.0)  # noqa: E731
    levels = LEVELS | {"b": [0.0, 0.5, 1.0, 1.5]}
    found = diagnose(problem(model), pg.beliefs.Grid(pg.beliefs.product_grid(levels)), 1.0)
    assert not found.identifiable
    assert not found.needs_variation
    for pair in pairs(found):
        one, other = (t["a"] + 2.0 * t["b"] for t in (pair.first, pair.second))
        assert one == other
    assert len(pairs(found)) == 14  # of sums 0, ..., 6 there are 1, 2, 3, 4, 3, 2, 1
    (direction,) = directions(found.confounded)
    assert direction.at is None
    assert direction.entries == pytest.approx({"theta['a']": 1.0, "theta['b']": -0.5})
    text = "theta['a'] and theta['b'] enter only through 1.0*theta['a'] + 2.0*theta['b']"
    assert text in str(found)


def test_digits_are_identifiable_though_they_enter_as_a_sum():
    """On a grid values must be told apart, not directions."""
    model = lambda x, theta: dist.Normal(theta["a"] + 10.0 * theta["b"], 1.0)  # noqa: E731
    found = diagnose(problem(model), pg.beliefs.Grid(pg.beliefs.product_grid(LEVELS)), 1.0)
    assert found.identifiable
    assert found.confounded == ()


@pytest.mark.parametrize("x", [1.0, 1.7])
def test_line_needs_decisions_that_vary(x):
    model = lambda x, theta: dist.Normal(theta["a"] + theta["b"] * x, 1.0)  # noqa: E731
    found = diagnose(problem(model), pg.beliefs.Grid(pg.beliefs.product_grid(LEVELS)), x)
    assert found.identifiable
    assert found.needs_variation
    assert len(found.blind) == len(found.decisions) == 5  # every decision alone is
    (direction,) = directions(found.at_blind)
    assert f"1.0*theta['a'] + {x}*theta['b']" in str(direction)
    same = [item for item in found.at_blind if isinstance(item, Pair)]
    assert bool(same) == (x == 1.0)  # where levels of a and b make up for each other
    assert "decisions must vary" in str(found)


def test_decision_that_teaches_nothing():
    found = diagnose(
        problem(lambda x, theta: dist.Normal(theta * x, 1.0)), pg.beliefs.Grid(jnp.arange(4.0)), 0.0
    )
    assert found.identifiable
    assert found.needs_variation
    assert [float(x) for x in found.blind] == [0.0]
    assert "at x = 0.0 alone\n  theta has no effect" in str(found)


def test_continuous_parameters():
    """No grid: directions decide."""
    belief = pg.beliefs.Normal(jnp.zeros(3), 1.0)
    line = problem(lambda x, theta: dist.Normal(theta[0] + theta[1] * x, 2.0))
    found = diagnose(line, belief, 1.0)
    assert not found.identifiable
    (unused,) = directions(found.confounded)
    assert unused.entries == {"theta[2]": 1.0}
    assert str(unused) == "theta[2] has no effect"
    assert found.needs_variation
    alone = diagnose(line, belief, 1.0, decisions=1)
    assert len(directions(alone.confounded)) == 2
    assert not alone.needs_variation
    assert alone.hardest is None


def test_direction_that_depends_on_theta():
    belief = pg.beliefs.Normal(jnp.ones(2), 1.0)
    found = diagnose(problem(lambda x, theta: dist.Normal(theta[0] * theta[1], 1.0)), belief, 1.0)
    assert not found.identifiable
    (direction,) = directions(found.confounded)
    u, v = direction.at
    step = np.asarray(list(direction.entries.values()))
    assert step[0] * v + step[1] * u == pytest.approx(0.0, abs=1e-6)
    assert str(direction).startswith("near theta = [1.0, 1.0]")


def test_shares_need_not_be_told_from_their_multiples():
    """The simplex has one dimension less than entries."""
    shares = problem(lambda x, theta: dist.Categorical(theta / theta.sum()))
    found = diagnose(shares, pg.beliefs.Dirichlet(jnp.ones(3)), 1.0)
    assert found.identifiable
    assert found.rank == 3


def test_discrete_data():
    rates = problem(lambda x, theta: dist.Poisson(theta * (1.0 + x)))
    found = diagnose(rates, pg.beliefs.Grid(jnp.linspace(0.5, 4.0, 8)), 1.0, decisions=2)
    assert found.identifiable
    assert not found.needs_variation


def test_density_without_derivatives():
    """Then there are no directions, but pairs."""

    def model(x, theta):
        return pg.distributions.Atoms(theta * jnp.asarray([-1.0, 1.0]), jnp.ones(2) / 2)

    found = diagnose(problem(model), pg.beliefs.Grid([-2.0, -1.0, 1.0, 3.0]), 1.0)
    assert [str(item) for item in found.confounded] == ["theta = -1.0 and theta = 1.0"]


def test_what_is_seen_decides_not_what_is():
    """A shop that only notes whether it sold out does not learn the spread of demand."""
    points = pg.beliefs.Grid(pg.beliefs.product_grid({"mean": [1.0, 2.0], "scale": [0.5, 1.0]}))

    def demand(x, theta):
        return dist.Normal(theta["mean"], theta["scale"])

    def sold_out(x, theta):
        z = (theta["mean"] - x) / theta["scale"]
        return dist.Bernoulli(jax.scipy.stats.norm.cdf(z))

    assert not diagnose(problem(demand), points, 2.0).needs_variation
    found = diagnose(problem(demand, observation=sold_out), points, 2.0)
    assert found.identifiable
    assert found.needs_variation
    (same,) = [item for item in found.at_blind if isinstance(item, Pair)]
    assert same.first["mean"] == same.second["mean"] == 2.0


def test_newsvendor_on_a_product_grid():
    instance = newsvendor.independent()
    levels = {"mean": [[5.0, 10.0]] * 3, "variance": [[1.0, 3.0]] * 3, "correlation": [[0.1]] * 3}
    found = diagnose(
        instance.problem, pg.beliefs.Grid(pg.beliefs.product_grid(levels))
    )  # x from the feasible set
    assert found.identifiable
    assert found.decisions.shape == (1, 3)
    assert found.rank == found.ranked == 64


@pytest.mark.parametrize("kind", ["unused", "sum"])
def test_large_grid(kind):
    """Of 400,000 points few are tried, but those that differ in one entry are among them."""
    levels = {"a": np.linspace(0.0, 9.0, 100), "b": np.linspace(0.0, 9.0, 100)}
    levels["c"] = np.linspace(1.0, 2.0, 40)
    models = {
        "unused": lambda x, theta: dist.Normal(theta["a"], theta["c"]),
        "sum": lambda x, theta: dist.Normal(theta["a"] + theta["b"], theta["c"]),
    }
    found = diagnose(problem(models[kind]), pg.beliefs.Grid(pg.beliefs.product_grid(levels)), 1.0)
    assert not found.identifiable
    (direction,) = directions(found.confounded)
    confused = {"b"} if kind == "unused" else {"a", "b"}
    assert set(direction.entries) == {f"theta['{k}']" for k in confused}
    assert len(pairs(found)) > 20
    for pair in pairs(found):
        assert {k for k in levels if pair.first[k] != pair.second[k]} == confused


@pytest.mark.parametrize(
    "belief", [pg.beliefs.Known(3.0), pg.beliefs.MaximumLikelihood([1.0, 2.0])]
)
def test_point_masses(belief):
    found = diagnose(problem(lambda x, theta: dist.Normal(theta, 1.0)), belief, 1.0)
    assert found.identifiable
    assert not found.needs_variation
    assert (found.hardest is None) == isinstance(belief, pg.beliefs.Known)


def test_points_without_weight_do_not_count():
    model = lambda x, theta: dist.Normal(jnp.abs(theta), 1.0)  # noqa: E731
    grid = pg.beliefs.Grid([-1.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    assert diagnose(problem(model), grid, 1.0).identifiable


def test_same_seed_same_diagnosis():
    model = lambda x, theta: dist.Normal(theta, 1.0)  # noqa: E731
    one, two, other = (
        diagnose(problem(model), pg.beliefs.Grid([1.0, 2.0]), 1.0, seed=s).observations
        for s in (1, 1, 2)
    )
    assert one == two != other


def test_bad_input_is_refused():
    normal = problem(lambda x, theta: dist.Normal(theta, 1.0))
    grid = pg.beliefs.Grid([1.0, 2.0])
    with pytest.raises(errors.PriorError):
        diagnose(normal, [1.0, 2.0])
    with pytest.raises(errors.DecisionError, match="finite"):
        diagnose(normal, grid, np.nan)
    for decisions in (0, 1.5, True, "5"):
        with pytest.raises(errors.SettingError, match="decisions"):
            diagnose(normal, grid, 1.0, decisions=decisions)
    moving = problem(lambda x, theta: dist.Normal(theta + x, 1.0))
    with pytest.raises(errors.SettingError, match="at most 17"):
        diagnose(moving, grid, 1.0, decisions=18)
    with pytest.raises(errors.ModelError, match="proper"):
        diagnose(problem(lambda x, theta: dist.Normal(theta, theta - 1.0)), grid, 1.0)
    vector = pg.Problem(lambda x, xi: x[0] * xi, lambda x, theta: dist.Normal(theta, 1.0))
    with pytest.raises(errors.DecisionError, match="x must be given"):
        diagnose(vector, grid)


def test_example_of_the_documentation(capsys):
    text = (Path(__file__).parents[1] / "docs" / "alarms.md").read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[1]
    scope = {"pg": pg, "jnp": jnp, "dist": dist, "diagnose": diagnose}
    exec(compile(example.replace("pg.diagnose", "diagnose"), "alarms.md", "exec"), scope)
    printed = capsys.readouterr().out.splitlines()
    shown = re.search(r"\n\n(    theta is identifiable.*?)    \.\.\.", text, re.DOTALL)[1]
    assert printed[:3] == [line[4:] for line in shown.splitlines()]

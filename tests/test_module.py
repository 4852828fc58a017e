"""A law of all Modules: `repr` shows numbers, not addresses and not only shapes."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from rooms import members

import postgrad as pg
from postgrad.algorithm.policy import Policy
from postgrad.numerics.module import Module, shown

ROOMS = ("problem", "beliefs", "algorithm", "monitoring", "numerics", "research.rivals")
FINAL = {cls for room in ROOMS for cls in members(f"postgrad.{room}", Module)}
BASES = (
    pg.feasible.FeasibleSet,
    pg.beliefs.Belief,
    pg.gradients.Gradient,
    pg.descents.Descent,
    pg.risks.Risk,
    pg.outputs.Output,
    Policy,
    pg.Problem,
    pg.monitoring.Monitor,
    pg.step_sizes.Harmonic,
)


def with_fields(cls, value):
    """An instance with this value in every field that is not static, and 3 in the others."""
    module = object.__new__(cls)
    for field in dataclasses.fields(cls):
        object.__setattr__(module, field.name, 3 if field.metadata.get("static") else value)
    return module


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_contracts_print_numbers(base):
    assert base.__repr__ is Module.__repr__
    assert any(issubclass(cls, base) for cls in FINAL)


@pytest.mark.parametrize("cls", sorted(FINAL, key=lambda cls: cls.__name__))
def test_every_module_shows_its_numbers(cls):
    text = " ".join(repr(with_fields(cls, jnp.asarray([1.25, -7.0]))).split())
    assert text.startswith(f"{cls.__name__}(")
    for field in dataclasses.fields(cls):
        expected = "3" if field.metadata.get("static") else "[1.25, -7.0]"
        assert f"{field.name}={expected}" in text


def test_small_and_large_arrays():
    assert repr(pg.feasible.Box(1.0, 100.0)) == "Box(low=1.0, high=100.0)"
    assert str(pg.feasible.Box([0.1 + 0.2, 1e-12], np.inf)) == "Box(low=[0.3, 1e-12], high=inf)"
    assert repr(pg.feasible.Box(np.arange(1000.0), 2e3)) == (
        "Box(low=array of shape (1000,) from 0.0 to 999.0, high=2000.0)"
    )
    assert shown(np.arange(3)) == "[0, 1, 2]"
    assert shown(np.full(9, np.nan)) == "array of shape (9,)"
    assert shown(jax.random.key(7)) == "key[0, 7]"


def test_parts_of_a_problem():
    problem = pg.Problem(
        cost=jax.jit(jnp.hypot), model=pg.Items(dist.Poisson), feasible=pg.feasible.Simplex(2.5)
    )
    text = repr(problem)
    assert "hypot" in text
    assert "Poisson" in text
    assert "Simplex(total=2.5)" in text
    assert "0x" not in text


@pytest.mark.parametrize(
    ("distribution", "text"),
    [
        (dist.Normal(0.5, 2.0), "Normal(loc=0.5, scale=2.0)"),
        (
            dist.Normal(jnp.zeros(2), 1.5).to_event(1),
            "Independent(base_dist=Normal(loc=[0.0, 0.0], scale=[1.5]))",
        ),
        (
            dist.TransformedDistribution(dist.Gamma(2.0, 3.0), dist.transforms.ExpTransform()),
            "TransformedDistribution(base_dist=Gamma(concentration=2.0, rate=3.0), "
            "transforms=[ExpTransform()])",
        ),
        (pg.distributions.Poisson(4.5), "Poisson(rate=4.5)"),
        (
            pg.distributions.Atoms([1.0, 2.0], [0.25, 0.75]),
            "Atoms(values=[1.0, 2.0], weights=[0.25, 0.75])",
        ),
        (
            pg.distributions.Censored(dist.Poisson(3.0), upper=7.5),
            "Censored(base_dist=Poisson(rate=3.0), upper=7.5, lower=None)",
        ),
    ],
)
def test_distributions(distribution, text):
    assert shown(distribution) == text
    if type(distribution).__module__.startswith("postgrad"):
        assert repr(distribution) == text


def test_inside_compiled_programs():
    texts = []

    @eqx.filter_jit
    def program(feasible):
        texts.append(repr(feasible))
        return feasible.low

    program(pg.feasible.Box([1.0, 2.0], 3.0))
    assert texts == ["Box(low=traced float64[2], high=traced float64[])"]


def test_errors_name_the_numbers_of_a_set():
    problem = pg.Problem(
        cost=lambda x, xi: (x - xi) ** 2,
        model=lambda x, theta: dist.Normal(theta, 1.0),
        feasible=pg.feasible.Box(1.0, 100.0),
    )
    said = r"x = 101\.5 violates Box\(low=1\.0, high=100\.0\) by 1\.5"
    with pytest.raises(pg.errors.DecisionError, match=said):
        pg.BayesianSGD(problem).init(pg.beliefs.Normal(0.0, 1.0), x=101.5)

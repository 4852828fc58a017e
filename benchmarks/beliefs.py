"""Every belief on every problem of the paper that fits it: error at the last stage, time a stage.

python benchmarks/beliefs.py [BELIEF ...] [--problem NAME] [--runs 100] [--horizon 1000] [--json]

The literal algorithm (K = 1, one sample, a_t = 2/(t + 5)) with the experiment's gradient, in
`simulate`: what differs is the belief. Priors are about as wide as the paper's grids. Times are of
a second call, divided by runs and stages, on all cores; "x Grid" is their ratio to the grid's.
Then `Agent.observe` with 10,000 particles on the 1-D problem.
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from postgrad.research.paper.experiments import EXPERIMENTS
from postgrad.research.problems import Instance, newsvendor

_LEVELS = {"mean": (5.0, 25.0), "variance": (1.0, 12.0), "correlation": (0.1, 0.5)}


@dataclasses.dataclass(frozen=True)
class Entry:
    """A belief for a problem.

    Attributes:
        belief: Of the instance.
        model: The model in another parametrisation, if the belief needs one.
        theta: The truth in it.
        share: The share of runs to do, where one is slow.
    """

    belief: Callable[[Instance], pg.beliefs.Belief]
    model: Callable[..., Any] | None = None
    theta: Any = None
    share: float = 1.0


def _uniform(low: float, high: float) -> dist.Distribution:
    return dist.Uniform(low, high)


def _box() -> dict[str, dist.Distribution]:
    return {
        name: dist.Uniform(jnp.full(3, low), high).to_event(1)
        for name, (low, high) in _LEVELS.items()
    }


def _exponential_of_log(spread: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, theta: dist.Exponential(1.0 / (spread(x) + jnp.exp(theta)))


def _covariance(instance: Instance) -> np.ndarray:
    return np.asarray(instance.problem.model(instance.x, instance.theta).covariance_matrix)


def _newsvendor(shift: Callable[[Any], Any]) -> dict[str, Entry]:
    instance = newsvendor.independent()
    covariance = jnp.asarray(_covariance(instance))
    mean = jnp.asarray(instance.theta["mean"])
    base = dist.MultivariateNormal(jnp.full(3, 15.0), 60.0 * jnp.eye(3))
    return {
        "Grid": Entry(lambda i: pg.beliefs.Grid(i.points)),
        "NormalInverseWishart": Entry(
            lambda i: pg.beliefs.NormalInverseWishart(
                jnp.full(3, 15.0), 0.1, 5.0, 6.0 * jnp.eye(3)
            ),
            lambda x, t: dist.MultivariateNormal(t["mean"] + shift(x), t["covariance"]),
            {"mean": mean, "covariance": covariance},
        ),
        "Gaussian (covariance known)": Entry(
            lambda i: pg.beliefs.Gaussian(jnp.full(3, 15.0), 8.0),
            lambda x, t: dist.MultivariateNormal(t + shift(x), covariance),
            mean,
        ),
        "Particles": Entry(lambda i: pg.beliefs.Particles(_box(), 500), share=0.1),
        "Langevin": Entry(lambda i: pg.beliefs.Langevin(_box(), 50, steps=5), share=0.1),
        "DirichletProcess": Entry(
            lambda i: pg.beliefs.DirichletProcess(base, 2.0, capacity=256),
            lambda x, t: pg.distributions.Atoms(t["values"] + shift(x), t["weights"]),
            {"values": "model", "weights": None},
            share=0.2,
        ),
    }


def _normal(shift: Callable[[Any], Any]) -> dict[str, Entry]:
    return {
        "Grid": Entry(lambda i: pg.beliefs.Grid(i.points)),
        "Normal": Entry(lambda i: pg.beliefs.Normal(10.5, 6.0)),
        "Gaussian": Entry(lambda i: pg.beliefs.Gaussian(10.5, 6.0)),
        "Particles": Entry(lambda i: pg.beliefs.Particles(dist.Normal(10.5, 6.0), 500), share=0.2),
        "Langevin": Entry(
            lambda i: pg.beliefs.Langevin(dist.Normal(10.5, 6.0), 50, steps=5), share=0.2
        ),
        "DirichletProcess": Entry(
            lambda i: pg.beliefs.DirichletProcess(dist.Normal(10.5, 7.0), 2.0, capacity=256),
            lambda x, t: pg.distributions.Atoms(t["values"] + shift(x), t["weights"]),
            {"values": "model", "weights": None},
            share=0.2,
        ),
    }


def _exponential(spread: Callable[[Any], Any], conjugate: bool) -> dict[str, Entry]:
    entries = {
        "Grid": Entry(lambda i: pg.beliefs.Grid(i.points)),
        "Gaussian (of log theta)": Entry(
            lambda i: pg.beliefs.Gaussian(2.0, 0.8), _exponential_of_log(spread), np.log(4.0)
        ),
        "Particles": Entry(lambda i: pg.beliefs.Particles(_uniform(0.5, 20.5), 500), share=0.2),
        "Langevin": Entry(
            lambda i: pg.beliefs.Langevin(_uniform(0.5, 20.5), 50, steps=5), share=0.2
        ),
    }
    if conjugate:
        entries["InverseGamma"] = Entry(lambda i: pg.beliefs.InverseGamma(3.0, 20.0))
        entries["DirichletProcess"] = Entry(
            lambda i: pg.beliefs.DirichletProcess(dist.Exponential(0.1), 2.0, capacity=256),
            lambda x, t: pg.distributions.Atoms(t["values"], t["weights"]),
            {"values": "model", "weights": None},
            share=0.2,
        )
    return entries


TABLE = {
    "quadratic-1d-independent": _normal(lambda x: 0.0),
    "quadratic-2d-independent": _exponential(lambda x: 0.0, conjugate=True),
    "quadratic-1d-dependent": _normal(lambda x: x),
    "quadratic-2d-dependent": _exponential(lambda x: (x[0] - x[1]) ** 2, conjugate=False),
    "newsvendor-independent": _newsvendor(lambda x: 0.0),
    "newsvendor-dependent": _newsvendor(jnp.sqrt),
}


def measure(name: str, entry: Entry, runs: int, horizon: int) -> dict[str, float]:
    experiment = EXPERIMENTS[name]
    instance = experiment.instance(experiment.region.feasible)
    problem, theta, gradient = instance.problem, instance.theta, experiment.gradient
    if entry.model is not None:
        theta, model = entry.theta, entry.model
        if isinstance(theta, dict) and theta.get("values", None) is not None and "weights" in theta:
            # The truth as many atoms: draws of the model at the first decision, less its shift.
            draws = instance.problem.model(jnp.zeros_like(instance.x), instance.theta).sample(
                jax.random.key(0), (100_000,)
            )
            theta = {"values": draws, "weights": jnp.full(100_000, 1e-5)}
            gradient = pg.gradients.Pathwise()  # atoms that move with x have no score
        problem = eqx.tree_at(lambda p: p.model, problem, model)
    runs = max(2, round(entry.share * runs))
    algorithm = pg.BayesianSGD(problem, **pg.presets.paper(gradient=gradient))
    belief = entry.belief(instance)

    def run() -> pg.Simulation:
        return pg.simulate(
            algorithm, belief, instance.x, theta,
            runs=runs, horizon=horizon, batch_size=experiment.batch_size,
        )  # fmt: skip

    errors = run().errors(instance.x_star)[:, -1]
    start = time.perf_counter()
    run()
    spent = (time.perf_counter() - start) / (runs * horizon)
    return {
        "error": float(errors.mean()),
        "standard_error": float(errors.std(ddof=1) / np.sqrt(runs)),
        "runs": runs,
        "stage_us": spent * 1e6,
    }


def particles_latency(count: int = 10_000, batches: int = 1000) -> dict[str, float]:
    """`Agent.observe` of single observations on the 1-D problem, all moves included."""
    instance = EXPERIMENTS["quadratic-1d-independent"].instance(pg.feasible.Box(-20.0, 20.0))
    data = np.random.default_rng(0).normal(9.0, 4.0, batches + 1)
    times = {}
    for label, belief in (
        ("particles", pg.beliefs.Particles(dist.Normal(10.5, 6.0), count)),
        ("grid", pg.beliefs.Grid(instance.points)),
    ):
        options = pg.presets.paper(gradient=pg.gradients.Pathwise())
        agent = pg.Agent(instance.problem, belief, instance.x, **options)
        agent.observe(data[0])  # compiles
        start = time.perf_counter()
        for y in data[1:]:
            agent.observe(y)
        times[label] = (time.perf_counter() - start) / batches * 1e3
    return {"count": count, "batches": batches, **{f"{k}_ms": v for k, v in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("beliefs", nargs="*", help="some of them; all, if not given")
    parser.add_argument("--problem", action="append", choices=list(TABLE), help="all, if not given")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.problem or TABLE:
        entries = TABLE[name]
        results[name] = {}
        for label, entry in entries.items():
            if options.beliefs and label.split()[0] not in ("Grid", *options.beliefs):
                continue
            found = measure(name, entry, options.runs, options.horizon)
            results[name][label] = found
            found["x_grid"] = found["stage_us"] / results[name]["Grid"]["stage_us"]
            if not options.json:
                print(
                    f"| {name} | {label} | {found['error']:.4f} ± {found['standard_error']:.4f} | "
                    f"{found['stage_us']:.2f} | {found['x_grid']:.2f} |",
                    flush=True,
                )
    if not options.problem and (not options.beliefs or "Particles" in options.beliefs):
        results["particles"] = particles_latency()
        if not options.json:
            print(results["particles"])
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

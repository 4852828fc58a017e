"""Claims of the rate theorem: how fast E |grad H(z_T)|^2 falls, for three kinds of step size.

The theorem is about descent without constraints whose result z_T is x_t with probability
a_t / (a_1 + ... + a_T). z_T need not be drawn: its mean, given the run, is

    sum_{t <= T} a_t |grad H(x_t)|^2 / sum_{t <= T} a_t.

The theorem is an upper bound, so a faster decay is no contradiction.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.algorithm.presets import paper
from postgrad.algorithm.step_sizes import Constant, Harmonic, InverseSqrt, Schedule
from postgrad.beliefs.grid.grid import Grid
from postgrad.problem.feasible.reals import Reals
from postgrad.research.paper.claims.claim import Claim, Statement
from postgrad.research.paper.claims.simulations import PlannedSimulation, shared
from postgrad.research.paper.claims.verdicts import Estimate, Within
from postgrad.research.problems import Instance, quadratic
from postgrad.research.simulation import Simulation

_RUNS = 10  # runs here for each run of the summary
_HORIZONS = (10, 30, 100, 300, 1000, 3000)
_A = 0.4  # below 1 / L_h: grad_x h = 2 x - 10 + xi / 2 has the Lipschitz constant L_h = 2 in x
_AS_FAST = Within(low=0.9)  # a tenth for the terms that vanish only as T grows


class _Rate(NamedTuple):
    """r(T), up to a constant."""

    words: str
    at: Callable[[int], float]


class _Regime(NamedTuple):
    """A case of the theorem: the step sizes for a horizon T, and the rate they promise.

    Attributes:
        id: The claim's.
        steps: The step sizes in words.
        schedule: T -> (t -> a_t).
        rate: The rate that is judged.
        rounded: The same to leading order, as the theorem writes it; reported, not judged.
        per_horizon: Whether each T needs a simulation of its own.
    """

    id: str
    steps: str
    schedule: Callable[[int], Schedule]
    rate: _Rate
    rounded: _Rate | None = None
    per_horizon: bool = False

    def simulation(self, T: int) -> str:
        """The name of the simulation for a horizon T."""
        return f"{self.id}, T = {T}" if self.per_horizon else self.id


_ROOT = _Rate("1 / sqrt(T)", lambda T: T**-0.5)
# The proof has this sum, log T + 0.58 + o(1), and rounds it to log T at the end. At these T the
# difference matters: log T over the sum still rises, from 0.79 to 0.93.
_SUM = _Rate("1 / (1 + 1/2 + ... + 1/T)", lambda T: 1.0 / sum(1.0 / t for t in range(1, T + 1)))
_LOG = _Rate("1 / log T", lambda T: 1.0 / np.log(T))
_LOG_ROOT = _Rate("log T / sqrt(T)", lambda T: np.log(T) / T**0.5)
_REGIMES = (
    _Regime(
        "rate-constant", "a_t = a / sqrt(T)", lambda T: Constant(_A, T), _ROOT, per_horizon=True
    ),
    _Regime("rate-harmonic", "a_t = a / t", lambda T: Harmonic(_A), _SUM, rounded=_LOG),
    _Regime("rate-inverse-sqrt", "a_t = a / sqrt(t)", lambda T: InverseSqrt(_A), _LOG_ROOT),
)


def _unconstrained() -> Instance:
    return quadratic.univariate_independent(Reals())


def simulations(runs: int) -> dict[str, PlannedSimulation]:
    """One for each T where the step sizes depend on T, else one for all T: the longest."""
    instance, n, planned = shared(_unconstrained), _RUNS * runs, {}
    belief = Grid(instance.points)
    for regime, T in itertools.product(_REGIMES, _HORIZONS):
        steps = paper(gradient=Pathwise(), steps=regime.schedule(T))
        algorithm = BayesianSGD(instance.problem, **steps)
        planned[regime.simulation(T)] = PlannedSimulation(instance, algorithm, belief, n, T)
    return planned


def claims(results: Mapping[str, Simulation]) -> list[Claim]:
    """One claim for each step size."""
    return [_claim(regime, results) for regime in _REGIMES]


def _claim(regime: _Regime, results: Mapping[str, Simulation]) -> Claim:
    x_star = float(shared(_unconstrained).x_star)
    gaps = {T: results[regime.simulation(T)].decisions[:, :T] - x_star for T in _HORIZONS}
    each = [over_output((2 * gap) ** 2, _step_sizes(regime, T)) for T, gap in gaps.items()]
    values = np.stack(each, axis=1)
    rates = [rate for rate in (regime.rate, regime.rounded) if rate is not None]
    powers = {r.words: exponent(values, np.array([r.at(T) for T in _HORIZONS])) for r in rates}
    means = zip(_HORIZONS, map(Estimate.mean, values.T), strict=True)
    course = ", ".join(f"{mean} at T = {T}" for T, mean in means)
    fits = ", ".join(f"({words})^b with b = {b}" for words, b in powers.items())
    rounded = f", which the theorem writes as {regime.rounded.words}" if regime.rounded else ""
    rate = regime.rate.words
    text = f"With {regime.steps}, E |grad H(z_T)|^2 falls at least as fast as {rate}{rounded}."
    measured = f"E |grad H(z_T)|^2 = {course}; like {fits} ({len(values)} runs)"
    statements = [Statement(f"b of ({rate})^b", powers[rate], _AS_FAST)]
    return Claim(regime.id, text, measured, len(values), statements)


def _step_sizes(regime: _Regime, T: int) -> np.ndarray:
    """a_1, ..., a_T, computed for the longest T, since JAX compiles for every new shape."""
    stages = np.arange(1, _HORIZONS[-1] + 1)
    return np.broadcast_to(regime.schedule(T)(stages), stages.shape)[:T]


def over_output(values: np.ndarray, step_sizes: np.ndarray) -> np.ndarray:
    """E g(z_T) given each run, (run,).

    Args:
        values: g(x_1), ..., g(x_T) of each run, (run, stage).
        step_sizes: a_1, ..., a_T.
    """
    return values @ (step_sizes / step_sizes.sum())


def exponent(values: np.ndarray, rates: np.ndarray) -> Estimate:
    """The least-squares slope b of log E(T) in log r(T), with its standard error.

    Args:
        values: Samples of E(T), (run, T). The columns may depend on each other.
        rates: r(T).
    """
    mean, x = values.mean(axis=0), np.log(rates)
    weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
    # To first order, a run changes the mean of log E(T) by its value over E(T).
    return Estimate(float(weights @ np.log(mean)), Estimate.mean((values / mean) @ weights).error)

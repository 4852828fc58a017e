"""The paper's four quadratic problems in plain NumPy, vectorised over runs: the baseline.

This is the code one would write without `postgrad`, and it imports nothing from it. All runs
advance together in one loop over stages. A quantity with one value per run is a column (runs, 1),
a decision is (runs, d), and anything over the parameter grid is (runs, grid).
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

ALGORITHMS = ("bayesian-sgd", "mle", "known")
SIGMA = 4.0  # standard deviation of the normal problems
TARGET_2D = np.array([1.0, 2.0])
X_STAR = {
    "quadratic-1d-independent": np.array([2.75]),
    "quadratic-2d-independent": np.array([-1.0, 0.0]),
    "quadratic-1d-dependent": np.array([8.0 / 3.0]),
    "quadratic-2d-dependent": np.array([4.0 / 3.0, 5.0 / 3.0]),
}


@dataclass(frozen=True)
class Family:
    """A family of distributions with one unknown, its mean."""

    sample: Callable  # of (rng, mean, shape)
    log_density: Callable  # of (xi, mean), up to a constant
    score: Callable  # of (xi, mean): the derivative of log_density in the mean


NORMAL = Family(
    sample=lambda rng, mean, shape: mean + SIGMA * rng.standard_normal(shape),
    log_density=lambda xi, mean: -0.5 * ((xi - mean) / SIGMA) ** 2,
    score=lambda xi, mean: (xi - mean) / SIGMA**2,
)
EXPONENTIAL = Family(
    sample=lambda rng, mean, shape: mean * rng.standard_exponential(shape),
    log_density=lambda xi, mean: -np.log(mean) - xi / mean,
    score=lambda xi, mean: (xi / mean - 1.0) / mean,
)


@dataclass(frozen=True)
class Problem:
    """min over x of E[cost(x, xi)], where xi has mean shift(x) + theta_c.

    A decision-independent problem has no shift, and the algorithm never needs its cost.
    """

    family: Family
    theta_c: float
    grid_size: int
    initial: tuple[float, ...]
    cost_gradient: Callable
    cost: Callable | None = None
    shift: Callable | None = None
    shift_gradient: Callable | None = None


PROBLEMS = {
    "quadratic-1d-independent": Problem(
        NORMAL, 9.0, 20, (0.0,), lambda x, xi: 2.0 * (x - 5.0) + 0.5 * xi
    ),
    "quadratic-2d-independent": Problem(
        EXPONENTIAL, 4.0, 20, (5.0, 5.0), lambda x, xi: 2.0 * (x - TARGET_2D) + xi
    ),
    "quadratic-1d-dependent": Problem(
        family=NORMAL,
        theta_c=4.0,
        grid_size=30,
        initial=(0.0,),
        cost_gradient=lambda x, xi: 2.0 * (x - 5.0) + 0.5 * xi,
        cost=lambda x, xi: (x - 5.0) ** 2 + 0.5 * xi * x,
        shift=lambda x: x,
        shift_gradient=lambda x: 1.0,
    ),
    "quadratic-2d-dependent": Problem(
        family=EXPONENTIAL,
        theta_c=4.0,
        grid_size=20,
        initial=(5.0, 5.0),
        cost_gradient=lambda x, xi: 2.0 * (x - TARGET_2D),
        cost=lambda x, xi: ((x - TARGET_2D) ** 2).sum(axis=1, keepdims=True) + xi,
        shift=lambda x: (x[:, :1] - x[:, 1:]) ** 2,
        shift_gradient=lambda x: 2.0 * (x - x[:, ::-1]),
    ),
}


def softmax(log_weights: np.ndarray) -> np.ndarray:
    """Weights of each row, normalised to sum to one."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def stages(
    problem: Problem, algorithm: str, runs: int, horizon: int, rng, batch_size: int, box
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the decisions and the log-weights on the grid, first the initial ones.

    The log-weights are updated in place: copy what is to be kept beyond the next stage.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {ALGORITHMS}, not {algorithm!r}")
    family = problem.family
    grid = np.arange(1.0, problem.grid_size + 1.0)
    x = np.tile(problem.initial, (runs, 1))
    log_weights = np.zeros((runs, grid.size))  # a uniform prior
    yield x, log_weights

    for t in range(1, horizon + 1):
        shift = problem.shift(x) if problem.shift else 0.0
        grid_means = shift + grid

        # Posterior update; the known-parameter benchmark needs no data. In both families the
        # likelihood of a batch is, as a function of the mean, the density at the batch's average
        # to the power of its size.
        if algorithm != "known":
            batch = family.sample(rng, shift + problem.theta_c, (runs, batch_size))
            average = batch.mean(axis=1, keepdims=True)
            log_weights += batch_size * family.log_density(average, grid_means)

        # Choose theta, and simulate xi given theta.
        if algorithm == "known":
            theta = problem.theta_c
        elif algorithm == "mle":  # the prior is uniform: the mode maximises the likelihood
            theta = grid[log_weights.argmax(axis=1)][:, None]
        else:
            cumulative = softmax(log_weights).cumsum(axis=1)
            uniform = rng.random((runs, 1)) * cumulative[:, -1:]
            theta = grid[(cumulative < uniform).sum(axis=1)][:, None]
        xi = family.sample(rng, shift + theta, (runs, 1))

        # Decision update. The score of the mixture f_hat is the average of its components'
        # scores under the posterior given xi as well.
        gradient = problem.cost_gradient(x, xi)
        if problem.shift:
            if algorithm == "bayesian-sgd":
                given_xi = softmax(log_weights + family.log_density(xi, grid_means))
                score = (given_xi * family.score(xi, grid_means)).sum(axis=1, keepdims=True)
            else:
                score = family.score(xi, shift + theta)
            gradient += problem.cost(x, xi) * score * problem.shift_gradient(x)
        x = x - 2.0 / (t + 5.0) * gradient
        if box is not None:
            x = x.clip(-box, box)
        yield x, log_weights


def run(
    name: str,
    algorithm: str,
    runs: int,
    horizon: int,
    rng: np.random.Generator,
    batch_size: int = 1,
    box: float | None = 20.0,
) -> np.ndarray:
    """Run one algorithm on one problem, with K = 1 and steps 2 / (t + 5).

    Args:
        name: A key of `PROBLEMS`.
        algorithm: One of `ALGORITHMS`.
        runs: Number of independent runs.
        horizon: Number of stages.
        rng: Source of both the data and the algorithm's own draws.
        batch_size: Observations per stage, D.
        box: Half-width of the feasible box, or None for no box. Without one, some runs of the 1-D
            dependent problem diverge, to 1e30 and more: there float64 no longer resolves the
            noise, which is all that keeps them finite.

    Returns:
        The decisions, (runs, horizon + 1, d): entry 0 is initial, entry t is after t stages.
    """
    problem = PROBLEMS[name]
    decisions = np.empty((runs, horizon + 1, len(problem.initial)))
    for t, (x, _) in enumerate(stages(problem, algorithm, runs, horizon, rng, batch_size, box)):
        decisions[:, t] = x
    return decisions


def posterior(batch_size: int, runs: int, horizon: int, rng: np.random.Generator) -> np.ndarray:
    """Posterior probability of theta_c, (runs, horizon + 1), on the 1-D dependent problem.

    The algorithm is bayesian-sgd in the box [-20, 20]; the arguments are those of `run`.
    """
    problem = PROBLEMS["quadratic-1d-dependent"]
    truth = int(problem.theta_c) - 1  # the grid starts at 1
    probability = np.empty((runs, horizon + 1))
    states = stages(problem, "bayesian-sgd", runs, horizon, rng, batch_size, box=20.0)
    for t, (_, log_weights) in enumerate(states):
        probability[:, t] = softmax(log_weights)[:, truth]
    return probability


def main() -> None:
    """Print the mean error of every algorithm on every problem, with its standard error."""
    parser = argparse.ArgumentParser(description="The four quadratic problems in plain NumPy.")
    parser.add_argument("--runs", type=int, default=1000, help="independent runs (default 1000)")
    runs = parser.parse_args().runs
    times = [1, 10, 100, 1000]
    rng = np.random.default_rng(0)
    print(f"{'mean error (standard error)':38s}" + "".join(f"{f't={t}':>18s}" for t in times))
    for name, x_star in X_STAR.items():
        for algorithm in ALGORITHMS:
            decisions = run(name, algorithm, runs, max(times), rng)[:, times]
            errors = np.linalg.norm(decisions - x_star, axis=2)
            standard_errors = errors.std(axis=0, ddof=1) / np.sqrt(runs)
            pairs = zip(errors.mean(axis=0), standard_errors, strict=True)
            cells = "".join(f"{f'{mean:.4f} ({error:.4f})':>18s}" for mean, error in pairs)
            print(f"{f'{name} {algorithm}':38s}{cells}")


if __name__ == "__main__":
    main()

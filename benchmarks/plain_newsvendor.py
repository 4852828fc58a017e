"""The paper's two newsvendor problems in plain NumPy: the baseline.

This is the code one would write without `postgrad`, and it imports nothing from it. The grid has
125 means times 15,625 covariances, so that anything over it is (125, 15625); reshaped to
(5,) * 9, its axes are the means, the variances and the correlations, each by increasing value.

`stages` is one run with the log-weights of all 1,953,125 points. `run` is many runs: it keeps the
sufficient statistics of each run's data, and goes through the whole grid at every stage without
storing it. Both are exact, and make the same draws. A decision is (runs, 3) throughout.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import count, islice, product

import numpy as np

ALGORITHMS = ("bayesian-sgd", "mle", "known")
X_STAR = {
    "newsvendor-independent": np.array([10.746042, 15.0, 19.239959]),
    "newsvendor-dependent": np.array([15.142456, 19.844497, 24.537968]),
}
COST = np.array([2.0, 4.0, 6.0])
PRICE = np.array([4.0, 6.0, 8.0])
SALVAGE = np.array([1.0, 2.0, 3.0])
CAPACITY = 100.0
FLOOR = 1.0  # of the dependent problem: x**0.5 has an infinite slope at 0
BATCH_SIZE = 2
ROWS = 8  # rows of the grid that `Batched` takes at once: few enough for the cache


def covariance(variances: np.ndarray, correlations: np.ndarray) -> np.ndarray:
    """Covariance matrices; the correlations are of the pairs (1, 2), (1, 3), (2, 3)."""
    deviations = np.sqrt(variances)
    matrix = deviations[..., :, None] * deviations[..., None, :]
    for pair, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
        matrix[..., i, j] *= correlations[..., pair]
        matrix[..., j, i] *= correlations[..., pair]
    return matrix


def cube(values: tuple[float, ...]) -> np.ndarray:
    """All triples of values, the last one varying fastest."""
    return np.array(list(product(values, repeat=3)))


MEANS = cube((5.0, 10.0, 15.0, 20.0, 25.0))
VARIANCES = np.repeat(cube((1.0, 3.0, 6.0, 9.0, 12.0)), 125, axis=0)
CORRELATIONS = np.tile(cube((0.1, 0.2, 0.3, 0.4, 0.5)), (125, 1))
COVARIANCES = covariance(VARIANCES, CORRELATIONS)
FACTORS = np.linalg.cholesky(COVARIANCES)
PRECISIONS = np.linalg.inv(COVARIANCES)
LOG_DETERMINANTS = np.linalg.slogdet(COVARIANCES)[1]
SHAPE = (len(MEANS), len(COVARIANCES))
# What multiplies the scatter of the data about a mean, and their number, in the log-likelihood.
FEATURES = -0.5 * np.vstack([PRECISIONS.reshape(-1, 9).T, LOG_DETERMINANTS])
# Where theta_c is: means (10, 15, 20), variances (3, 6, 9), correlations (0.1, 0.3, 0.5).
TRUTH = (
    np.ravel_multi_index((1, 2, 3), (5, 5, 5)),
    np.ravel_multi_index((1, 2, 3, 0, 2, 4), (5,) * 6),
)


def relative(log_weights: np.ndarray, axis) -> tuple[np.ndarray, np.ndarray]:
    """Weights relative to the largest one, in place, and the log of that one.

    The exponential is slow where it underflows. Below e-700 a weight is lost in any sum with 1.
    """
    peak = log_weights.max(axis=axis, keepdims=True)
    log_weights -= peak
    np.maximum(log_weights, -700.0, out=log_weights)
    return np.exp(log_weights, out=log_weights), peak


def softmax(log_weights: np.ndarray) -> np.ndarray:
    """Weights, normalised to sum to one over the last two axes."""
    weights = relative(log_weights.copy(), (-2, -1))[0]
    weights /= weights.sum(axis=(-2, -1), keepdims=True)
    return weights


def log_likelihood(residuals: np.ndarray) -> np.ndarray:
    """Log-likelihood of (n, 3) residuals at all grid points, up to a constant.

    The sum of the n quadratic forms is linear in the precision matrix: one matrix product.
    """
    deviations = residuals[:, None] - MEANS
    scatter = np.einsum("nmi,nmj->mij", deviations, deviations).reshape(-1, 9)
    return np.column_stack([scatter, np.full(len(MEANS), len(residuals))]) @ FEATURES


def log_likelihood_by_definition(residuals: np.ndarray) -> np.ndarray:
    """The same, with the quadratic forms written as they are defined."""
    deviations = residuals[:, None] - MEANS
    forms = np.einsum("nmi,cij,nmj->mc", deviations, PRECISIONS, deviations, optimize=True)
    return -0.5 * (forms + len(residuals) * LOG_DETERMINANTS)


class Dense:
    """The posterior of one run, from a uniform prior: the log-weights of all grid points."""

    def __init__(self, likelihood: Callable = log_likelihood):
        self.likelihood = likelihood
        self.log_weights = np.zeros(SHAPE)

    def update(self, residuals: np.ndarray) -> None:
        """Condition on a batch (1, n, 3) of demands less their shift."""
        self.log_weights += self.likelihood(residuals[0])

    def mode(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the mean and the covariance of the most probable point."""
        return np.unravel_index(self.log_weights.argmax(keepdims=True)[0], SHAPE)

    def sample(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the mean and the covariance of a random point; uniform is (1,)."""
        cumulative = softmax(self.log_weights).cumsum()
        return np.unravel_index(cumulative.searchsorted(uniform * cumulative[-1]), SHAPE)

    def mixture_score(self, residual: np.ndarray) -> np.ndarray:
        """Derivative in the shift of the log of the mixture's density, (1, 3).

        It is the average of the components' scores under the posterior given xi as well.
        """
        given_xi = softmax(self.log_weights + self.likelihood(residual))
        precisions = (given_xi @ PRECISIONS.reshape(-1, 9)).reshape(-1, 3, 3)
        return np.einsum("mij,mj->i", precisions, residual - MEANS)[None]


class Batched:
    """The posteriors of many runs: their sufficient statistics, and the grid row by row.

    A row is a run and a mean, with all the covariances.
    """

    def __init__(self, runs: int):
        self.runs = runs
        self.number = 0
        self.sums = np.zeros((runs, 3))
        self.products = np.zeros((runs, 3, 3))

    def update(self, residuals: np.ndarray) -> None:
        """Condition on batches (runs, n, 3) of demands less their shift."""
        self.number += residuals.shape[1]
        self.sums += residuals.sum(axis=1)
        self.products += np.einsum("rni,rnj->rij", residuals, residuals)

    def coefficients(self) -> np.ndarray:
        """What times `FEATURES` are the log-weights of each row, (runs, 125, 10)."""
        cross = np.einsum("ri,mj->rmij", self.sums, MEANS)
        squares = self.number * np.einsum("mi,mj->mij", MEANS, MEANS)
        scatter = self.products[:, None] - cross - cross.swapaxes(2, 3) + squares
        number = np.full((self.runs, len(MEANS), 1), self.number)
        return np.concatenate([scatter.reshape(self.runs, -1, 9), number], axis=2)

    def rows(self) -> Iterator[tuple[slice, np.ndarray]]:
        """All log-weights, a few rows of the (runs * 125, 15625) at a time."""
        coefficients = self.coefficients().reshape(-1, 10)
        for start in range(0, len(coefficients), ROWS):
            part = slice(start, start + ROWS)
            yield part, coefficients[part] @ FEATURES

    def masses(self, averages: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """Probability of each mean, (runs, 125), and perhaps the average precision given it."""
        log_masses = np.empty(self.runs * len(MEANS))
        precisions = np.empty((log_masses.size, 9)) if averages else None
        for part, log_weights in self.rows():
            weights, peak = relative(log_weights, 1)
            total = weights.sum(axis=1)
            log_masses[part] = peak[:, 0] + np.log(total)
            if averages:
                precisions[part] = weights @ PRECISIONS.reshape(-1, 9) / total[:, None]
        masses = softmax(log_masses.reshape(self.runs, -1, 1))[..., 0]
        return masses, precisions.reshape(self.runs, -1, 3, 3) if averages else None

    def mode(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the means and the covariances of each run's most probable point."""
        peaks = np.concatenate([log_weights.max(axis=1) for _, log_weights in self.rows()])
        mean = peaks.reshape(self.runs, -1).argmax(axis=1)
        return mean, self.row_of(mean).argmax(axis=1)

    def sample(self, uniform: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the means and the covariances of a random point of each run.

        One uniform number chooses the mean, and what is left of it the covariance.
        """
        cumulative = self.masses()[0].cumsum(axis=1)
        below = cumulative < uniform[:, None] * cumulative[:, -1:]
        mean = below.sum(axis=1)
        edges = np.column_stack([np.zeros(self.runs), cumulative])
        low, high = (edges[np.arange(self.runs), mean + k] for k in (0, 1))
        rest = (uniform * cumulative[:, -1] - low) / (high - low)
        within = softmax(self.row_of(mean)[:, None])[:, 0].cumsum(axis=1)
        return mean, (within < (rest * within[:, -1])[:, None]).sum(axis=1)

    def row_of(self, mean: np.ndarray) -> np.ndarray:
        """Log-weights of all covariances with one mean a run, (runs, 15625)."""
        return self.coefficients()[np.arange(self.runs), mean] @ FEATURES

    def mixture_score(self, residual: np.ndarray) -> np.ndarray:
        """Derivative in the shift of the log of each run's mixture density, (runs, 3)."""
        given_xi = Batched(self.runs)
        given_xi.number = self.number
        given_xi.sums += self.sums
        given_xi.products += self.products
        given_xi.update(residual[:, None])
        masses, precisions = given_xi.masses(averages=True)
        return np.einsum("rm,rmij,rmj->ri", masses, precisions, residual[:, None] - MEANS)


def draw(rng, mean: np.ndarray, factor: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Normal vectors with this mean and this Cholesky factor of the covariance."""
    return mean + np.einsum("...ij,...j->...i", factor, rng.standard_normal(shape))


def cost(x: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """The newsvendor's cost, (runs, 1)."""
    sales = np.minimum(x, np.maximum(0.0, xi))
    terms = COST * x - PRICE * sales - SALVAGE * np.maximum(0.0, x - xi)
    return terms.sum(axis=1, keepdims=True)


def decisions_of(
    name: str,
    algorithm: str,
    belief: Dense | Batched | None,
    runs: int,
    rng: np.random.Generator,
    literal: bool,
) -> Iterator[np.ndarray]:
    """Yield the decisions, (runs, 3), without end, first the initial ones.

    The belief is updated in place; known parameters need none.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {ALGORITHMS}, not {algorithm!r}")
    if name not in X_STAR:
        raise ValueError(f"name must be one of {tuple(X_STAR)}, not {name!r}")
    dependent = name == "newsvendor-dependent"
    floor = FLOOR if dependent and not literal else 0.0
    x = np.full((runs, 3), 15.0)
    yield x

    for t in count(1):
        shift = np.sqrt(x) if dependent else np.zeros_like(x)

        # Posterior update; the known-parameter benchmark needs no data.
        if algorithm != "known":
            mean = shift[:, None] + MEANS[TRUTH[0]]
            batch = draw(rng, mean, FACTORS[TRUTH[1]], (runs, BATCH_SIZE, 3))
            belief.update(batch - shift[:, None])

        # Choose theta, and simulate xi given theta.
        if algorithm == "known":
            i, j = TRUTH
        elif algorithm == "mle":  # the prior is uniform: the mode maximises the likelihood
            i, j = belief.mode()
        else:
            i, j = belief.sample(rng.random(runs))
        xi = draw(rng, shift + MEANS[i], FACTORS[j], (runs, 3))

        # Decision update.
        gradient = np.where(x <= xi, COST - PRICE, COST - SALVAGE)
        if dependent:
            if algorithm == "bayesian-sgd":
                score = belief.mixture_score(xi - shift)
            else:
                score = np.einsum("...ij,...j->...i", PRECISIONS[j], xi - shift - MEANS[i])
            with np.errstate(divide="ignore"):  # a literal run at 0
                gradient += cost(x, xi) * score * (0.5 / shift)
        x = (x - 2.0 / (t + 5.0) * gradient).clip(floor, CAPACITY)
        yield x


def stages(
    name: str,
    algorithm: str,
    rng: np.random.Generator,
    literal: bool = False,
    likelihood: Callable = log_likelihood,
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the decision (3,) and the log-weights (125, 15625) of one run, without end.

    The first ones are the initial ones. The log-weights are exact up to a constant, and updated
    in place: copy what is to be kept beyond the next stage. With known parameters they are None.
    """
    belief = None if algorithm == "known" else Dense(likelihood)
    for x in decisions_of(name, algorithm, belief, 1, rng, literal):
        yield x[0], belief.log_weights if belief else None


def run(
    name: str,
    algorithm: str,
    runs: int,
    horizon: int,
    rng: np.random.Generator,
    literal: bool = False,
) -> np.ndarray:
    """Run one algorithm on one problem, with D = 2, K = 1 and steps 2 / (t + 5).

    Args:
        name: A key of `X_STAR`.
        algorithm: One of `ALGORITHMS`.
        runs: Number of independent runs.
        horizon: Number of stages.
        rng: Source of both the data and the algorithm's own draws.
        literal: Whether the dependent problem's feasible set is the paper's [0, 100]^3, where the
            gradient is infinite at 0, and not [1, 100]^3.

    Returns:
        The decisions, (runs, horizon + 1, 3): entry 0 is initial, entry t is after t stages.
    """
    belief = None if algorithm == "known" else Batched(runs)
    decisions = np.empty((runs, horizon + 1, 3))
    states = decisions_of(name, algorithm, belief, runs, rng, literal)
    for t, x in enumerate(islice(states, horizon + 1)):
        decisions[:, t] = x
    return decisions


def main() -> None:
    """Print the mean error of every algorithm on both problems, with its standard error."""
    parser = argparse.ArgumentParser(description="The two newsvendor problems in plain NumPy.")
    parser.add_argument("--runs", type=int, default=100, help="runs over the grid (default 100)")
    parser.add_argument("--horizon", type=int, default=20, help="their stages (default 20)")
    parser.add_argument(
        "--known-runs", type=int, default=4000, help="runs with known parameters (default 4000)"
    )
    options = parser.parse_args()
    times = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    rng = np.random.default_rng(0)
    print(
        f"{'mean error (standard error)':36s}{'runs':>6s}"
        + "".join(f"{f't={t}':>15s}" for t in times)
    )
    for name, x_star in X_STAR.items():
        for algorithm in ALGORITHMS:
            if name == "newsvendor-dependent" and algorithm == "mle":
                continue  # not in the paper
            known = algorithm == "known"
            runs = options.known_runs if known else options.runs
            horizon = max(times) if known else options.horizon
            reached = [t for t in times if t <= horizon]
            decisions = run(name, algorithm, runs, horizon, rng)[:, reached]
            errors = np.linalg.norm(decisions - x_star, axis=2)
            standard_errors = errors.std(axis=0, ddof=1) / np.sqrt(runs)
            pairs = zip(errors.mean(axis=0), standard_errors, strict=True)
            cells = "".join(f"{f'{mean:.3f} ({error:.3f})':>15s}" for mean, error in pairs)
            print(f"{f'{name} {algorithm}':36s}{runs:6d}{cells}", flush=True)


if __name__ == "__main__":
    main()

"""Brute force: dense grids, prices of a budget, many starts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

from hard_problems.base import Stage

Search = Callable[[Stage], np.ndarray]


def line(low: float, high: float, marks: Sequence[float] = (), log: bool = False) -> Search:
    """A dense grid on a line, evenly and by ratios, then finer around the best local minima.

    Args:
        low: Where the grid begins.
        high: Where it ends.
        marks: Points that must be tried as they are, such as those where the cost jumps.
        log: Whether the set spans several decades.
    """
    pieces = [np.linspace(low, high, 2001), np.asarray(marks, float)]
    if log:
        pieces.append(np.geomspace(max(low, 1e-9 * high), high, 2001))
    grid = np.unique(np.concatenate(pieces))

    def search(stage: Stage) -> np.ndarray:
        xs, values = grid, stage.many(grid)
        padded = np.concatenate([[np.inf], values, [np.inf]])
        valleys = np.flatnonzero((values <= padded[:-2]) & (values <= padded[2:]))
        best, least = xs[np.argmin(values)], values.min()
        for i in valleys[np.argsort(values[valleys])][:5]:
            a, b = xs[max(i - 1, 0)], xs[min(i + 1, len(xs) - 1)]
            for _ in range(6):
                fine = np.linspace(a, b, 25)
                found = stage.many(fine)
                k = int(np.argmin(found))
                if found[k] < least:
                    best, least = fine[k], found[k]
                a, b = fine[max(k - 1, 0)], fine[min(k + 1, 24)]
        return np.asarray(best)

    return search


def separable(low: Any, high: Any, points: int = 401) -> Search:
    """Coordinate by coordinate, all at once."""

    def search(stage: Stage) -> np.ndarray:
        return coordinates(stage.each, low, high, points)

    return search


def priced(low: Any, high: Any, weights: Any, total: float, equal: bool = False) -> Search:
    """Coordinate by coordinate under sum(weights * x) <= total, with a price for the budget.

    Args:
        low: The lower bounds, (d,).
        high: The upper bounds, (d,).
        weights: What a unit of each entry takes of the budget, (d,).
        total: The budget.
        equal: Whether it must be used up.
    """
    weights = np.asarray(weights, float)

    def search(stage: Stage) -> np.ndarray:
        def at(price: float) -> np.ndarray:
            return coordinates(lambda x: stage.each(x) + price * weights * x, low, high, 33, 5)

        free = at(0.0)
        if not equal and (weights * free).sum() <= total:
            return free
        a, b, x = (-1.0 if equal else 0.0), 1.0, free
        while (weights * at(b)).sum() > total:
            b *= 2.0
        while equal and (weights * at(a)).sum() < total:
            a *= 2.0
        for _ in range(30):
            middle = (a + b) / 2
            x = at(middle)
            a, b = (middle, b) if (weights * x).sum() > total else (a, middle)
        dear, cheap = at(b), at(a)  # one keeps the budget, one does not: mix them to use it up
        used, more = (weights * dear).sum(), (weights * cheap).sum()
        share = 0.0 if more <= used else (total - used) / (more - used)
        return dear + share * (cheap - dear)

    return search


def coordinates(
    each: Callable[[np.ndarray], np.ndarray], low: Any, high: Any, points: int, rounds: int = 6
) -> np.ndarray:
    """argmin of each part of a sum, by grids that zoom in."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    a, b = low, high
    for k in range(rounds):
        steps = np.linspace(0.0, 1.0, points if k == 0 else 25)[:, None]
        xs = a + (b - a) * steps
        values = each(xs)
        best = xs[np.argmin(values, axis=0), np.arange(xs.shape[1])]
        width = (b - a) / (len(steps) - 1)
        a, b = np.maximum(best - width, low), np.minimum(best + width, high)
    return best


def many_starts(
    low: Any,
    high: Any,
    constraints: Sequence[dict] = (),
    tries: int = 1024,
    polished: int = 6,
    guess: Callable[[Stage], Sequence] | None = None,
    simplex: float | None = None,
) -> Search:
    """The best of many points, polished by scipy from several of them.

    Args:
        low: Lower bounds, (d,).
        high: Upper bounds, (d,).
        constraints: As for scipy's SLSQP.
        tries: How many random points.
        polished: How many of the best are polished.
        guess: Further points to polish from.
        simplex: What entries must sum to, if they must.
    """
    low, high = np.asarray(low, float), np.asarray(high, float)
    bounds = optimize.Bounds(low, high)
    constraints = list(constraints)
    if simplex is not None:
        constraints.append({"type": "eq", "fun": lambda x: x.sum() - simplex})

    def keeps(x: np.ndarray) -> bool:
        for rule in constraints:
            value = np.asarray(rule["fun"](x))
            slack = np.abs(value).max() if rule["type"] == "eq" else -value.min()
            if slack > 1e-8 * (1 + np.abs(x).max()):
                return False
        return bool(np.all(x >= low - 1e-12) and np.all(x <= high + 1e-12))

    def search(stage: Stage) -> np.ndarray:
        rng = np.random.default_rng(0)
        if simplex is None:
            xs = low + (high - low) * rng.random((tries, low.size))
        else:
            xs = simplex * rng.dirichlet(np.ones(low.size), tries)
        values = stage.many(xs)
        order = np.argsort(values)
        seeds = list(xs[order[:polished]]) + ([] if guess is None else list(guess(stage)))
        unit = np.maximum((high - low) / 10, 1e-12)
        level = max(np.ptp(values[order[: tries // 2]]), 1e-12)

        def scaled(z: np.ndarray) -> float:
            return stage(z * unit) / level

        def slope(z: np.ndarray) -> np.ndarray:
            step = 1e-5 * np.eye(z.size)
            both = stage.many(np.concatenate([z + step, z - step]) * unit)
            return (both[: z.size] - both[z.size :]) / (2e-5 * level)

        rules = [{**r, "fun": lambda z, f=r["fun"]: f(z * unit)} for r in constraints]
        best, least = None, np.inf
        for seed in seeds:
            box = optimize.Bounds(low / unit, high / unit)
            found = optimize.minimize(
                scaled,
                np.asarray(seed) / unit,
                jac=slope,
                method="SLSQP",
                bounds=box,
                constraints=rules,
                options={"maxiter": 300, "ftol": 1e-12},
            ).x
            for x in (np.asarray(seed, float), np.clip(found * unit, low, high)):
                if keeps(x) and (value := stage(x)) < least:
                    best, least = x, value
        if low.size <= 3 and not constraints:
            end = optimize.minimize(
                stage, best, method="Nelder-Mead", bounds=bounds, options={"xatol": 1e-9}
            )
            best = end.x if end.fun < least else best
        return best

    return search


def closed(formula: Callable[[Any, np.ndarray], np.ndarray]) -> Search:
    """A formula for the minimiser, of thetas and their weights."""
    return lambda stage: np.asarray(formula(stage.theta, stage.weights), float)

"""The best decision under rules, such as service levels, by values on fixed draws.

Expected outcomes of fixed draws are step functions of the decision where the outcome is an event,
and costs of changing have kinks and gaps. So decisions are compared by values alone: by those that
break no rule first, then by cost. The draws are those of `valuation`, so that what is chosen keeps
the rules exactly as what-if computes them.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "j d"]

# Even places of a scan of one coordinate, those of each closer look, and how many of these.
_EVEN, _CLOSER, _LOOKS = 64, 32, 6
# The same of a coordinate among several, and how often each has its turn.
_FEW, _FEW_LOOKS, _TURNS = 16, 3, 2
# Places all over the set, where a search around the best decision finds none that is allowed.
_PLACES = 1024
# How much smaller steps are at the end of a search in several coordinates than at its beginning.
_PRECISE = 1e-3
_HALVINGS = 14


class Judged(NamedTuple):
    """Decisions and what is compared of them.

    Attributes:
        x: The decisions, each the feasible one that is nearest to what was asked for.
        cost: What they cost.
        excess: By how much each breaks the rule that it breaks most; not positive if none.
    """

    x: Points
    cost: Float[np.ndarray, " j"]
    excess: Float[np.ndarray, " j"]

    def best(self) -> int:
        """The number of the best: of those that break no rule the cheapest, else the least bad."""
        broken = np.maximum(self.excess, 0.0)
        return int(np.lexsort((self.cost, broken))[0])

    def pick(self, number: int) -> "Judged":
        """One of them."""
        return Judged(*(part[number : number + 1] for part in self))


Judge = Callable[[Points], Judged]


def best_under_rules(
    judge: Judge,
    start: Float[np.ndarray, " d"],
    ends: tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]],
    scale: Float[np.ndarray, " d"],
    special: Iterable[Float[np.ndarray, " d"]],
    smooth: bool,
) -> Judged:
    """The best decision that breaks no rule; the one that breaks rules least, if there is none.

    One number is scanned over the whole set, then ever more closely around the best place, to a
    hundred-millionth of the set. Several numbers are sought by COBYQA (Ragonneau and Zhang, 2023),
    quadratic models in a trust region from values alone, and then by a line to the edge of what is
    allowed; where changes cost, coordinate by coordinate as well. That is a search around `start`.
    If it finds no decision that is allowed, places all over the set are looked at, and from the
    best of these coordinates one by one.

    Args:
        judge: What is compared of decisions.
        start: The best decision without rules.
        ends: Of each coordinate; infinite where there are none.
        scale: How far it is to another decision worth looking at.
        special: Decisions at which the cost has kinks and the rules have edges.
        smooth: Whether there are none.
    """
    first = judge(np.stack([start, *special]))
    if smooth and first.excess[0] <= 0.0:
        return first.pick(0)
    found = [first]
    if len(start) == 1:
        found.append(_scanned(judge, first, 0, _window(first, ends, scale, 0), _EVEN, _LOOKS))
    else:
        rules = bool(np.any(first.excess > 0.0)) or smooth
        if rules:
            found.append(_by_models(judge, first.pick(first.best()), ends, scale))
        held = _all(found)
        # Outcomes that are events are flat between whole numbers: models see no way downhill.
        lost = bool(held.excess[held.best()] > 0.0)
        if lost:
            found.append(judge(_all_over(held, ends, scale)))
        if lost or not smooth:
            for i in [*range(len(start))] * _TURNS:
                held = _all(found)
                here = held.pick(held.best())
                line = judge(np.stack([_moved(here.x[0], i, x[i]) for x in first.x]))
                known = _all([here, line])
                window = _window(known, ends, 4.0 * scale, i)
                found.append(_scanned(judge, known, i, window, _FEW, _FEW_LOOKS))
        if lost and smooth:
            held = _all(found)
            found.append(_by_models(judge, held.pick(held.best()), ends, scale))
    held = _all(found)
    return held.pick(held.best())


def _scanned(
    judge: Judge, known: Judged, i: int, window: tuple[float, float], even: int, looks: int
) -> Judged:
    """Coordinate i over a window, evenly, then more closely around the best place so far."""
    here = known.x[known.best()]

    def on_line(values: np.ndarray) -> Judged:
        return judge(np.stack([_moved(here, i, value) for value in values]))

    held = _all([known, on_line(np.linspace(*window, even + 1))])
    for _ in range(looks):
        order = np.argsort(held.x[:, i], kind="stable")
        at = int(np.flatnonzero(order == held.best())[0])
        value = held.x[order[at], i]
        below = held.x[:, i][held.x[:, i] < value]
        above = held.x[:, i][held.x[:, i] > value]
        low = below.max() if below.size else value
        high = above.min() if above.size else value
        if not high - low > 1e-12 * (1.0 + abs(value)):
            break
        held = _all([held, on_line(np.linspace(low, high, _CLOSER + 1)[1:-1])])
    return held.pick(held.best())


def _all_over(known: Judged, ends: tuple[np.ndarray, np.ndarray], scale: np.ndarray) -> Points:
    """Places all over the set, and on its diagonal: more of everything often keeps a rule."""
    size = known.x.shape[1]
    windows = np.asarray([_window(known, ends, scale, i) for i in range(size)]).T
    # Multiples of powers of 1/g modulo one, with g^(d + 1) = g + 1, fill the cube evenly.
    g = 2.0
    for _ in range(100):
        g = (1.0 + g) ** (1.0 / (size + 1))
    cube = (0.5 + np.outer(np.arange(1, _PLACES + 1), g ** -np.arange(1.0, size + 1))) % 1.0
    share = np.concatenate([cube, np.linspace(0.0, 1.0, _EVEN + 1)[:, None] * np.ones(size)])
    return windows[0] + share * (windows[1] - windows[0])


def _by_models(
    judge: Judge,
    first: Judged,
    ends: tuple[np.ndarray, np.ndarray],
    scale: Float[np.ndarray, " d"],
) -> Judged:
    """Several coordinates: COBYQA, first for a place that breaks no rule if that takes a search."""
    seen = [first]
    size = max(abs(float(first.cost[0])), 1e-12)

    def at(steps: np.ndarray, origin: np.ndarray) -> tuple[float, float]:
        place = origin + steps * scale
        found = judge(place[None])
        seen.append(found)
        # Outside the set, values are those of the nearest point: distance leads back to it.
        off = float(np.sum(np.square((place - found.x[0]) / scale)))
        return float(found.cost[0]) + 0.1 * size * off, float(found.excess[0])

    for goal in ("allowed", "cheap", "cheap"):
        held = _all(seen)
        allowed = held.excess[held.best()] <= 0.0
        if goal == "allowed" and allowed:
            continue
        if goal == "cheap" and not allowed:
            break
        _search(at, held.x[held.best()], ends, scale, cheap=goal == "cheap")
    held = _all(seen)
    if held.excess[held.best()] > 0.0:
        return held
    # From the best allowed place towards the cheapest one that nearly is.
    inside = held.pick(held.best())
    cheaper = held.cost < inside.cost[0]
    if np.any(cheaper):
        near = np.where(cheaper, np.linalg.norm((held.x - inside.x) / scale, axis=1), np.inf)
        outside = held.x[int(np.argmin(near))]
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            one = judge((inside.x[0] + middle * (outside - inside.x[0]))[None])
            seen.append(one)
            low, high = (middle, high) if one.excess[0] <= 0.0 else (low, middle)
    return _all(seen)


def _search(
    at: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    origin: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray],
    scale: np.ndarray,
    *,
    cheap: bool,
) -> None:
    """One run of COBYQA; `at` remembers what is seen."""
    from scipy.optimize import Bounds, NonlinearConstraint, minimize  # slow to import, seldom used

    known: dict[bytes, tuple[float, float]] = {}

    def look(steps: np.ndarray) -> tuple[float, float]:
        key = steps.tobytes()
        if key not in known:
            known[key] = at(steps, origin)
        return known[key]

    rules = [NonlinearConstraint(lambda steps: [look(steps)[1]], -np.inf, 0.0)] if cheap else []
    # Ends that meet leave no room for models; the nearest feasible point takes care of these.
    room = ends[1] - ends[0] > 1e-9 * scale
    low, high = (
        np.where(room, (end - origin) / scale, side)
        for end, side in zip(ends, (-1.0, 1.0), strict=True)
    )
    radius = min(1.0, 0.49 * float(np.min(high - low)))
    minimize(
        lambda steps: look(steps)[0] if cheap else look(steps)[1],
        np.zeros(len(origin)),
        method="COBYQA",
        bounds=Bounds(low, high),
        constraints=rules,
        options={
            "initial_tr_radius": radius,
            "final_tr_radius": _PRECISE * radius,
            "maxfev": 60 * (len(origin) + 1),
        },
    )


def _window(
    known: Judged, ends: tuple[np.ndarray, np.ndarray], scale: np.ndarray, i: int
) -> tuple[float, float]:
    """Where coordinate i is scanned: the whole set, or far around what is known."""
    low, high = float(ends[0][i]), float(ends[1][i])
    reach = 32.0 * float(scale[i])
    low = low if np.isfinite(low) else float(np.min(known.x[:, i])) - reach
    return low, high if np.isfinite(high) else float(np.max(known.x[:, i])) + reach


def _moved(x: np.ndarray, i: int, value: float) -> np.ndarray:
    new = x.copy()
    new[i] = value
    return new


def _all(parts: list[Judged]) -> Judged:
    return Judged(*(np.concatenate(part) for part in zip(*parts, strict=True)))

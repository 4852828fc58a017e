"""Figures of live decisions and of backtests, as PNG and SVG."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax import random
from jaxtyping import Array, PyTree

from postgrad.agent.agent import Agent
from postgrad.beliefs.belief import Belief
from postgrad.numerics.program_cache.lowered import kept
from postgrad.problem.problem import Cost, Decision
from postgrad.research.plots import drawing, line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from postgrad.spec.backtest import Backtest

_MOST_BATCHES = 2000  # only the latest are drawn
# The posterior is drawn at so many stages, from so many draws each.
_POSTERIORS, _DRAWS = 24, 512
# The median, 90 % and 50 %.
_QUANTILES = (0.5, 0.05, 0.95, 0.25, 0.75)
# Of several parameters, the first of these is drawn.
_LOCATIONS = ("mean", "median", "intercept")
# A dollar in the user's own words is a dollar, not the beginning of a formula.
_OWN_WORDS: Any = {"parse_math": False}
_BLUE, _GREY, _RED = "#0b5fa5", "#9a9a9a", "#c8553d"


def draw_backtest(result: "Backtest", stem: Path, *, title: str = "") -> list[Path]:
    """Cumulative cost minus that of hindsight, day by day; below zero is better than hindsight.

    Without hindsight, cumulative cost itself.

    Args:
        result: The backtest.
        stem: Where to write, without the ending.
        title: Above the figure.
    """
    with drawing(stem, 7.6, 4.4) as (axes, files):
        curves = result.cumulative()
        best = curves.get("hindsight", np.zeros(result.scored))
        days = np.arange(1, result.scored + 1)
        for name in sorted(curves, key=lambda name: -curves[name][-1]):
            label = f"{name}  {curves[name][-1]:,.0f}"
            axes.plot(days, curves[name] - best, label=label, **line_of(name, name == "postgrad"))
        # The frame fits the three curves nearest to hindsight, so that a bad rule hides none.
        near = sorted((curves[name] - best for name in curves), key=lambda c: np.abs(c).max())[:3]
        low, high = min(float(c.min()) for c in near), max(float(c.max()) for c in near)
        margin = 0.15 * (high - low) or 1.0
        axes.set_ylim(low - margin, high + 2 * margin)
        above = ", above hindsight" if "hindsight" in curves else ""
        axes.set_title(title, **_OWN_WORDS)
        axes.set_ylabel(f"cost so far{above}")
        frame = {"frameon": True, "facecolor": "white", "edgecolor": "none", "framealpha": 0.85}
        axes.legend(loc="upper left", title="total cost", alignment="left", **frame)
        when = f"{result.dates[result.burn_in]} to {result.dates[-1]}"
        items = "1 item" if len(result.items) == 1 else f"{len(result.items)} items"
        axes.set_xlabel(f"scored day, {when}; {items}; curves may leave the frame", **_OWN_WORDS)
    return files


def draw_stream(
    agent: Agent, stem: Path, *, title: str = "", labels: Sequence[str] = ()
) -> list[Path]:
    """Decisions with their interval, quantiles of the posterior, surprise, and cost, by batch.

    Args:
        agent: The agent whose stream is drawn.
        stem: Where to write, without the ending.
        title: Above the figure.
        labels: Names of the decision's entries, where it has several.
    """
    records = list(agent.history(last=_MOST_BATCHES))
    if not records:
        return []
    stages = np.asarray([record.stage for record in records])
    with drawing(stem, 8.2, 9.6, rows=4) as ((decisions, posterior, surprise, cost), files):
        _draw_decisions(decisions, stages, records, labels)
        decisions.set_title(title, **_OWN_WORDS)
        decisions.set_ylabel("decision and data")
        _draw_posterior(posterior, agent, stages)
        _draw_surprise(surprise, stages, records)
        _draw_cost(cost, agent, stages, records)
        cost.set_xlabel("batch")
    return files


def _draw_decisions(
    axes: "Axes", stages: np.ndarray, records: list[Any], labels: Sequence[str]
) -> None:
    decisions = np.stack([np.ravel(record.decision) for record in records])
    data = [r.rows.reshape(len(r.rows), math.prod(r.rows.shape[1:])) for r in records]
    for i in range(decisions.shape[1]):
        colour = _BLUE if decisions.shape[1] == 1 else f"C{i}"
        if data[0].shape[1] == decisions.shape[1]:
            seen = np.concatenate([rows[:, i] for rows in data])
            at = np.repeat(stages, [len(rows) for rows in data])
            shade = _GREY if decisions.shape[1] == 1 else colour
            axes.plot(at, seen, ".", color=shade, ms=2.5, alpha=0.6)
        label = labels[i] if labels else None
        axes.plot(stages, decisions[:, i], color=colour, lw=1.5, label=label)
        if all(record.interval is not None for record in records):
            ends = np.stack([[np.ravel(end)[i] for end in record.interval] for record in records])
            axes.fill_between(stages, ends[:, 0], ends[:, 1], color=colour, alpha=0.2, lw=0)
    for stage in [record.stage for record in records if record.alarm is not None]:
        axes.axvline(stage, color=_RED, lw=0.8, ls=":")
    if labels:
        for text in axes.legend(loc="upper left", ncols=4, fontsize="small").get_texts():
            text.set(**_OWN_WORDS)


def _draw_posterior(axes: "Axes", agent: Agent, stages: np.ndarray) -> None:
    """Quantiles of the posterior of one parameter at some stages, replayed from the batches."""
    chosen = np.unique(np.linspace(stages[0], stages[-1], _POSTERIORS).round().astype(int))
    draw = jax.jit(kept(_draws))
    name, rows = "theta", []
    for belief in agent.beliefs(chosen.tolist()):
        draws, _ = jax.tree.flatten_with_path(draw(belief))
        named = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in draws}
        key = next((key for key in named if any(word in key for word in _LOCATIONS)), min(named))
        name = f"theta{key}" + ("[0]" if named[key].ndim > 1 else "")
        flat = named[key].reshape(_DRAWS, -1)[:, 0]
        rows.append(np.quantile(flat, _QUANTILES))
    median, low_90, high_90, low_50, high_50 = np.stack(rows, axis=1)
    axes.plot(chosen, median, color=_BLUE, lw=1.5)
    for low, high, alpha in ((low_90, high_90, 0.15), (low_50, high_50, 0.25)):
        axes.fill_between(chosen, low, high, color=_BLUE, alpha=alpha, lw=0)
    axes.set_ylabel(f"posterior of {name}\nmedian, 50 % and 90 %")


def _draw_surprise(axes: "Axes", stages: np.ndarray, records: list[Any]) -> None:
    z = np.stack([np.ravel(record.surprise.z_location) for record in records])
    worst = z[np.arange(len(z)), np.argmax(np.abs(np.nan_to_num(z)), axis=1)]
    axes.axhspan(-2, 2, color="#eef3f8", lw=0)
    axes.plot(stages, worst, ".", color=_BLUE, ms=3)
    alarms = [record.stage for record in records if record.alarm is not None]
    axes.plot(alarms, np.zeros(len(alarms)), "v", color=_RED, ms=6, label="alarm")
    if alarms:
        axes.legend(loc="upper left")
    axes.set_ylabel("surprise: standard\ndeviations from foreseen")


def _draw_cost(axes: "Axes", agent: Agent, stages: np.ndarray, records: list[Any]) -> None:
    """Cumulative cost of the decisions in force; nothing if the data are not the demand itself."""
    problem = agent.problem
    if problem.observation is not None:
        axes.set_axis_off()
        return
    numbers, rest = eqx.partition(problem.cost, eqx.is_array)
    cost = jax.jit(kept(_cost, rest))
    each = [sum(float(cost(numbers, record.x, row)) for row in record.rows) for record in records]
    axes.plot(stages, np.cumsum(each), color=_BLUE, lw=1.5)
    axes.set_ylabel("cost so far of the\ndecisions in force")


def _draws(belief: Belief) -> PyTree:
    return belief.sample(random.key(0), (_DRAWS,))


def _cost(rest: Cost, numbers: PyTree, x: Decision, xi: Array) -> Array:
    return eqx.combine(numbers, rest)(x, xi)

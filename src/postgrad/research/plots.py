"""Figures of comparisons, as PNG and SVG, and the look that all figures share.

matplotlib is imported when a figure is drawn.
"""

import collections
import contextlib
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from postgrad.research.comparison import Comparison, half_width, with_diverged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "postgrad",  # the same numbers give the same file
}
# Algorithms of one kind share a colour: plug-ins, descents that ignore how decisions change data,
# minima on past data, those that try decisions out. Dashes tell the members of a kind apart.
_SOLID, _DASHED, _DOTTED, _MIXED = "-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))
LINES: dict[str, tuple[str, Any]] = {
    "postgrad": ("#0b5fa5", _SOLID),
    "paper": ("#5b9bd5", _DASHED),
    "known": ("#3a3a3a", _DOTTED),
    "mle": ("#c8553d", _SOLID),
    "posterior-mean": ("#c8553d", _DASHED),
    "thompson": ("#c8553d", _DOTTED),
    "repeated-gradient": ("#8a6fb0", _SOLID),
    "greedy": ("#8a6fb0", _DASHED),
    "saa": ("#2f8f6b", _SOLID),
    "wasserstein": ("#2f8f6b", _DASHED),
    "two-stage": ("#c99a1b", _SOLID),
    "perfgd": ("#c99a1b", _DASHED),
    "spsa": ("#c99a1b", _DOTTED),
    "hindsight": ("#3a3a3a", _DOTTED),
    "normal": ("#c8553d", _DASHED),
    "last-value": ("#7f7f7f", _MIXED),
}
# How many points a curve has at most.
_BINS = 150
_OTHERS = ("#7f7f7f", "#b07aa1", "#76b7b2", "#9c755f")


def draw_progress(comparison: Comparison, stem: Path, *, title: str = "") -> list[Path]:
    """Mean regret over the stages, with the 95 % confidence band of the mean; log axes.

    Late stages are close on a log axis: there a point is the mean over several stages.
    """
    with drawing(stem, 7.6, 4.4) as (axes, files):
        ends = {}
        floor = _floor(comparison)
        for name, regret in comparison.regrets.items():
            stages, values = _thinned(regret)
            mean, half = np.maximum(values.mean(axis=0), floor), half_width(values)
            first = name == comparison.reference
            line = line_of(name, first)
            axes.plot(stages, mean, **line)
            if np.isfinite(half).all():
                alpha = 0.18 if first else 0.07
                fill_band(axes, stages, mean, half, color=line["color"], alpha=alpha)
            ends[name] = float(mean[-1])
        settings = comparison.settings
        over_stages(axes, settings["horizon"], title)
        axes.set(ylabel=r"regret $H(x_t) - H(x^*)$: mean, and its 95 % interval", yscale="log")
        # The algorithm that knows theta may be far below: the axis ends with the others.
        lowest = min((ends[name] for name in comparison.competitors), default=floor)
        axes.set_ylim(bottom=max(axes.get_ylim()[0], min(lowest, ends[comparison.reference]) / 30))
        _label_ends(axes, ends, comparison.diverged, comparison.reference)
        caption(axes, f"{settings['runs']} runs, batches of {settings['batch_size']}")
    return files


def draw_terminal(comparison: Comparison, stem: Path, *, title: str = "") -> list[Path]:
    """The regrets of all runs at the last stage as boxes, the least median on top; a log axis."""
    last = {name: regret[:, -1] for name, regret in comparison.regrets.items()}
    floor = _floor(comparison)
    order = sorted(last, key=lambda name: -float(np.median(last[name])))
    with drawing(stem, 7.0, 1.2 + 0.3 * len(order)) as (axes, files):
        values = [np.maximum(last[name], floor) for name in order]
        dots = {"marker": ".", "markersize": 3, "markeredgecolor": "#9a9a9a"}
        line, median = {"color": "#8a8a8a", "lw": 0.9}, {"color": "black", "lw": 1.2}
        looks = {"flierprops": dots, "medianprops": median, "whiskerprops": line, "capprops": line}
        boxes = axes.boxplot(
            values, orientation="horizontal", widths=0.6, patch_artist=True, whis=(5, 95), **looks
        )
        for name, box in zip(order, boxes["boxes"], strict=True):
            box.set(facecolor=line_of(name)["color"], alpha=0.75, edgecolor="none")
        labels = [with_diverged(name, comparison.diverged[name]) for name in order]
        axes.set_yticks(range(1, len(order) + 1), labels)
        for label, name in zip(axes.get_yticklabels(), order, strict=True):
            label.set_fontweight("bold" if name == comparison.reference else "normal")
        axes.set(title=title, xscale="log", xlabel=r"regret $H(x_T) - H(x^*)$ at the last stage")
        axes.grid(axis="y", visible=False)
        # The axis begins near the 5 % quantile, not at the run with the least regret.
        axes.set_xlim(left=min(float(np.quantile(v, 0.05)) for v in values) / 3)
        settings = comparison.settings
        caption(axes, f"{settings['runs']} runs, $T$ = {settings['horizon']}; whiskers 5 to 95 %")
    return files


def draw_solvability(
    comparisons: Mapping[str, Comparison], stem: Path, *, alpha: float = 0.01, lasting: bool = True
) -> list[Path]:
    """Solvability profiles: the share of all (problem, run) pairs solved by stage t.

    See `solvability`. Problems to which an algorithm does not apply count as not solved by it.
    """
    with drawing(stem, 7.6, 4.4) as (axes, files):
        profiles = solvability(comparisons, alpha, lasting=lasting)
        some = next(iter(comparisons.values()))
        for name, share in profiles.items():
            stages = np.arange(1, len(share))
            axes.plot(stages, share[1:], **line_of(name, name == some.reference))
        manner = ", to stay" if lasting else ""
        over_stages(axes, len(stages), f"Within {100 * alpha:g} % of the initial regret{manner}")
        axes.set(ylabel="share of (problem, run) pairs", ylim=(0, 1.02))
        ends = {name: float(share[-1]) for name, share in profiles.items()}
        # an algorithm need not be in every comparison
        lost = {n: sum(c.diverged.get(n, 0) for c in comparisons.values()) for n in ends}
        _label_ends(axes, ends, lost, some.reference)
        problems = "1 problem" if len(comparisons) == 1 else f"{len(comparisons)} problems"
        caption(axes, f"{problems}, {some.settings['runs']} runs each")
    return files


def solvability(
    comparisons: Mapping[str, Comparison], alpha: float, *, lasting: bool = True
) -> dict[str, np.ndarray]:
    """By algorithm, the share of (problem, run) pairs whose gap has reached alpha by stage t.

    The gap is the regret relative to that of the initial decision. With `lasting=False` this is the
    solvability profile of Eckman, Henderson and Shashaani (2023), for recommended solutions: a run
    is solved from the first stage within alpha. Here decisions are in force, and a run that only
    passes by the optimum has not solved the problem: it is solved from the first stage after which
    its gap stays within alpha until the end.
    """
    length = min(c.settings["horizon"] for c in comparisons.values()) + 1
    total = sum(c.settings["runs"] for c in comparisons.values())
    solved: dict[str, Any] = collections.defaultdict(int)
    for comparison in comparisons.values():
        for name, regret in comparison.regrets.items():
            within = regret[:, :length] <= alpha * regret[:, :1]
            if lasting:
                within = np.logical_and.accumulate(within[:, ::-1], axis=1)[:, ::-1]
            solved[name] += np.logical_or.accumulate(within, axis=1).sum(axis=0)
    return {name: runs / total for name, runs in solved.items()}


def line_of(name: str, first: bool = False) -> dict[str, Any]:
    """The colour and the dashes of an algorithm, a function of its name alone.

    The line of the first algorithm is thicker, and above the others.
    """
    other = _OTHERS[sum(map(ord, name)) % len(_OTHERS)], _MIXED
    line = dict(zip(("color", "ls"), LINES.get(name, other), strict=True))
    return line | ({"lw": 2.0, "zorder": 3} if first else {"lw": 1.2, "zorder": 2})


@contextlib.contextmanager
def drawing(
    stem: Path, width: float = 6.4, height: float = 4.2, rows: int = 1
) -> Iterator[tuple[Any, list[Path]]]:
    """Axes to draw on, one below the other, and the PNG and the SVG that are written in the end."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    files = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots(rows, sharex=True), files
        figure.savefig(files[0], dpi=160)
        figure.set_layout_engine("none")  # laid out once: that takes as long as to draw
        figure.savefig(files[1], metadata={"Date": None})


def fill_band(
    axes: "Axes", stages: np.ndarray, mean: np.ndarray, half: np.ndarray, **look: Any
) -> None:
    """A band around a mean, cut off at a quarter of the mean, since a log axis ends above zero."""
    axes.fill_between(stages, np.maximum(mean - half, mean / 4), mean + half, lw=0, **look)


def over_stages(axes: "Axes", last: int, title: str) -> None:
    """A title, and the stages 1 to `last` on a log axis."""
    axes.set(title=title, xlabel="stage $t$", xscale="log", xlim=(1, max(2, last)))


def caption(axes: "Axes", text: str) -> None:
    """Small text above the axes, at the right."""
    axes.text(1.0, 1.01, text, transform=axes.transAxes, ha="right", fontsize=8, color="#666666")


def _floor(comparison: Comparison) -> float:
    """The regret that log axes show instead of smaller ones: 1e-7 of the initial regret."""
    return 1e-7 * float(np.abs(comparison.regrets[comparison.reference][:, 0]).mean())


def _thinned(regret: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stages 1, ..., T in bins of equal width on a log axis, and each run's mean in each."""
    horizon = regret.shape[1] - 1
    edges = np.unique(np.geomspace(1, horizon + 1, _BINS).astype(int))
    pairs = list(itertools.pairwise(edges))
    stages = np.array([np.exp(np.log(np.arange(a, b)).mean()) for a, b in pairs])
    return stages, np.stack([regret[:, a:b].mean(axis=1) for a, b in pairs], axis=1)


def _label_ends(
    axes: "Axes", ends: dict[str, float], diverged: dict[str, int], reference: str
) -> None:
    """Labels to the right of the curves, in the order of the last values and without overlap."""
    figure: Any = axes.figure
    figure.canvas.draw()  # settles the scale of the axes
    figure.set_layout_engine("none")
    axes.set_position((0.09, 0.115, 0.70, 0.81))
    to_axes = axes.transData + axes.transAxes.inverted()
    order = sorted(ends, key=lambda name: ends[name])
    wanted = np.array([to_axes.transform((1.0, ends[name]))[1] for name in order])
    inside = np.clip(wanted, 0.0, 1.0)
    places = _apart(inside, 0.052)
    for name, place, end, true_end in zip(order, places, inside, wanted, strict=True):
        line, ends_at = line_of(name, name == reference), [end, place, place]
        inside_axes: dict[str, Any] = {"transform": axes.transAxes, "color": line.pop("color")}
        axes.plot([1.005, 1.03, 1.065], ends_at, clip_on=False, **line, **inside_axes)
        label = with_diverged(name, diverged[name]) + (" (below)" if true_end < 0 else "")
        weight = "bold" if name == reference else "normal"
        axes.text(1.075, place, label, va="center", fontsize=8.5, weight=weight, **inside_axes)


def _apart(places: np.ndarray, gap: float) -> np.ndarray:
    """The places, nearest in least squares, that increase by at least a gap."""
    from scipy.optimize import isotonic_regression

    shifts = gap * np.arange(len(places))
    return isotonic_regression(places - shifts).x + shifts

"""The paper's figures, as PNG and SVG."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from postgrad.research.paper.experiments import ALGORITHMS, BEYOND, EXPERIMENTS, LIMIT
from postgrad.research.plots import drawing, fill_band, over_stages

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES: dict[str, tuple[str, Any]] = {
    "bayesian-sgd": ("#0b5fa5", "-"),
    "mle": ("#c8553d", (0, (5, 1.5))),
    "known": ("#3a3a3a", (0, (1.5, 1.2))),
    "repeated-gradient": ("#8a6fb0", "-"),
    "postgrad": ("#2a8246", "-"),
    LIMIT: ("#9a6a00", (0, (6, 1.5, 1.2, 1.5))),
}
# Small enough for letters that can be read on a phone, where a figure is four inches wide.
_WIDTH, _HEIGHT = 5.0, 4.1
# How many points a curve has at most: a file of a tenth of the size looks the same.
_POINTS = 200
# A curve that is known at fewer stages has a mark at each.
_APART = 20
# The posterior is drawn up to this stage: what happens to it happens before.
_LEARNING = 200


def draw(name: str, part: dict[str, Any], folder: Path) -> list[Path]:
    """The figure of an experiment, or of the posterior, from its part of the summary."""
    return (draw_experiment if name in EXPERIMENTS else draw_posterior)(name, part, folder)


def draw_experiment(name: str, summary: dict[str, Any], folder: Path) -> list[Path]:
    """Mean error of each algorithm over the stages, with a standard-deviation band."""
    runs, horizon, curves = summary["runs"], summary["horizon"], summary["algorithms"]
    with drawing(folder / name, _WIDTH, _HEIGHT) as (axes, files):
        bottom = _bottom(curves)
        for key, curve in curves.items():
            mean, spread = (np.array(curve[k], float) for k in ("mean_error", "std_error"))
            stages = _some_stages(mean)
            mean, spread = mean[stages], spread[stages]
            notes = [f"{curve['runs']} runs"] if curve["runs"] != runs else []
            notes += [f"{curve[fate]} {fate}" for fate in ("diverged", "stuck") if curve.get(fate)]
            notes += ["below the axis"] if bottom and (mean < bottom).all() else []
            label = ALGORITHMS[key].title + (f"\n({', '.join(notes)})" if notes else "")
            colour, dashes = _LINES[key]
            few = "o" if len(stages) < _APART else ""  # else a line looks like a curve
            look = {"color": colour, "ls": dashes, "lw": 1.5, "marker": few, "ms": 3.5}
            axes.plot(stages, mean, label=label, **look)
            if key != LIMIT:
                alpha = 0.16 if key == "bayesian-sgd" else 0.06  # else several bands become one
                fill_band(axes, stages, mean, spread, color=colour, alpha=alpha)
        if bottom:
            axes.set_ylim(bottom=bottom)
        over_stages(axes, horizon, "")
        unit = f" ({EXPERIMENTS[name].unit})" if EXPERIMENTS[name].unit else ""
        axes.set_ylabel(rf"error $\|x_t - x^*\|${unit}")
        axes.set_yscale("log" if bottom else "linear")
        about = f"mean of {runs} runs; bands: one standard deviation to either side"
        _frame(axes, EXPERIMENTS[name].title, about)
    return files


def draw_posterior(name: str, posterior: dict[str, Any], folder: Path) -> list[Path]:
    """pi_t(theta_c) for each batch size, with the 95 % confidence interval of the mean."""
    runs = next(iter(posterior.values()))["runs"]
    with drawing(folder / name, _WIDTH, _HEIGHT) as (axes, files):
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(posterior)))
        for colour, (size, curve) in zip(shades, posterior.items(), strict=True):
            mean, low, high = (
                np.array(curve[key][: _LEARNING + 1], float) for key in ("mean", "low", "high")
            )
            stages = np.arange(len(mean))
            axes.plot(stages, mean, color=colour, lw=1.5, label=size.replace("=", " = "))
            axes.fill_between(stages, low, high, color=colour, alpha=0.2, lw=0)
        axes.set(xlabel="stage $t$", xlim=(0, max(1, len(stages) - 1)), ylim=(0, 1.02))
        axes.set_ylabel(r"posterior probability of the truth, $\pi_t(\theta^c)$")
        about = f"mean of {runs} runs; bands: its 95 % confidence interval"
        _frame(axes, "Learning, by the number D of observations a stage", about)
    return files


def _bottom(curves: dict[str, Any]) -> float | None:
    """Where the error axis ends; None if no error is above zero.

    What the paper does not have may fall to rounding errors, so the axis ends at a hundredth of
    what the paper's algorithms reach.
    """
    lowest = {
        key: min((m for m in curve["mean_error"][1:] if m), default=np.inf)
        for key, curve in curves.items()
    }
    of_paper = min((m for key, m in lowest.items() if key not in BEYOND), default=0.0)
    bottom = max(of_paper / 100, min(lowest.values()) / 5)
    return bottom if np.isfinite(bottom) else None


def _some_stages(mean: np.ndarray) -> np.ndarray:
    """Stages that are about evenly spaced on a log axis, where the curve is known."""
    known = np.flatnonzero(np.isfinite(mean[1:])) + 1  # the limit may be known at some stages only
    if len(known) == 0:
        return np.arange(1, len(mean))
    wanted = np.geomspace(1, known[-1], _POINTS)
    return known[np.unique(np.searchsorted(known, np.floor(wanted)))]


def _frame(axes: "Axes", title: str, about: str) -> None:
    """A title, below it what is shown, and a legend below the axes, where no curve is."""
    axes.set_title(f"{title}\n", loc="left")
    axes.text(0.0, 1.02, about, transform=axes.transAxes, fontsize=8.5, color="#5c5c5c")
    axes.figure.legend(loc="outside lower center", ncols=3 if _short(axes) else 2, fontsize=9)


def _short(axes: "Axes") -> bool:
    return all(len(label) < 12 for label in axes.get_legend_handles_labels()[1])

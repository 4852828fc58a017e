"""The paper's figures, as PNG and SVG."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from postgrad.paper.experiments import ALGORITHMS, EXPERIMENTS

_COLOURS = {
    "bayesian-sgd": "#0b5fa5",
    "mle": "#c8553d",
    "known": "#3a3a3a",
    "repeated-gradient": "#8a6fb0",
}
_STYLES = {"bayesian-sgd": "-", "mle": (0, (5, 1.5)), "known": (0, (1.5, 1.2))}
_STYLE: dict[Any, Any] = {
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


def draw_experiment(name: str, summary: dict[str, Any], folder: Path) -> list[Path]:
    """Mean error of each algorithm over the stages, with a standard-deviation band."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas()
        for key, curve in summary["algorithms"].items():
            mean = np.array(curve["mean_error"], float)[1:]
            spread = np.array(curve["std_error"], float)[1:]
            stages = np.arange(1, len(mean) + 1)
            label = ALGORITHMS[key].title
            for fate in ("diverged", "stuck"):
                if curve.get(fate):
                    label += f" ({curve[fate]} of {summary['runs']} {fate})"
            colour = _COLOURS[key]
            axes.plot(stages, mean, color=colour, ls=_STYLES.get(key, "-"), lw=1.4, label=label)
            # a log axis has no room for mean - std <= 0: the band ends well below the mean instead
            low = np.maximum(mean - spread, mean / 4)
            alpha = 0.16 if key == "bayesian-sgd" else 0.06  # else three bands make mud
            axes.fill_between(stages, low, mean + spread, color=colour, alpha=alpha, lw=0)
        means = [m for c in summary["algorithms"].values() for m in c["mean_error"][1:] if m]
        if means:
            axes.set_ylim(bottom=min(means) / 5)
        axes.set(
            title=EXPERIMENTS[name].title,
            xlabel="stage $t$",
            ylabel=r"$\|x_t - x^*\|$: mean, and $\pm$ one standard deviation",
            xscale="log",
            yscale="log" if means else "linear",
            xlim=(1, max(2, summary["horizon"])),
        )
        axes.legend(loc="lower left")
        _caption(axes, f"{summary['runs']} runs")
        return _save(figure, folder / name)


def draw_posterior(posterior: dict[str, Any], runs: int, folder: Path) -> list[Path]:
    """pi_t(theta_c) for each batch size, with the 95 % confidence interval of the mean."""
    with mpl.rc_context(_STYLE):
        figure, axes = _canvas()
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(posterior)))
        for colour, (label, curve) in zip(shades, posterior.items(), strict=True):
            mean, low, high = (np.array(curve[key], float) for key in ("mean", "low", "high"))
            stages = np.arange(len(mean))
            axes.plot(stages, mean, color=colour, lw=1.4, label=label.replace("=", " = "))
            axes.fill_between(stages, low, high, color=colour, alpha=0.2, lw=0)
        axes.set(
            title="Posterior probability of the truth",
            xlabel="stage $t$",
            ylabel=r"$\pi_t(\theta^c)$: mean, and its 95 % interval",
            xlim=(0, min(200, len(stages) - 1)),
            ylim=(0, 1.02),
        )
        axes.legend(loc="lower right")
        _caption(axes, f"{runs} runs, 1-D decision-dependent quadratic")
        return _save(figure, folder / "posterior")


def _canvas() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    return figure, figure.subplots()


def _caption(axes: Axes, text: str) -> None:
    axes.text(1.0, 1.01, text, transform=axes.transAxes, ha="right", fontsize=8, color="#666666")


def _save(figure: Figure, stem: Path) -> list[Path]:
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=160)
    figure.savefig(svg, metadata={"Date": None})
    return [png, svg]

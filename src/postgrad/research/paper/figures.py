"""The paper's figures, as PNG and SVG."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from postgrad.research.paper.experiments import ALGORITHMS, EXPERIMENTS, LIMIT
from postgrad.research.plots import caption, drawing, fill_band, over_stages

_LINES: dict[str, tuple[str, Any]] = {
    "bayesian-sgd": ("#0b5fa5", "-"),
    "mle": ("#c8553d", (0, (5, 1.5))),
    "known": ("#3a3a3a", (0, (1.5, 1.2))),
    "repeated-gradient": ("#8a6fb0", "-"),
    "postgrad": ("#2f8f4e", "-"),
    LIMIT: ("#111111", (0, (1, 2.5))),
}


def draw_experiment(name: str, summary: dict[str, Any], folder: Path) -> list[Path]:
    """Mean error of each algorithm over the stages, with a standard-deviation band."""
    with drawing(folder / name) as (axes, files):
        for key, curve in summary["algorithms"].items():
            mean, spread = (np.array(curve[k], float)[1:] for k in ("mean_error", "std_error"))
            stages = np.arange(1, len(mean) + 1)
            label = ALGORITHMS[key].title
            for fate in ("diverged", "stuck"):
                if curve.get(fate):
                    label += f" ({curve[fate]} of {summary['runs']} {fate})"
            here = np.isfinite(mean)  # the limit may be known at some stages only
            colour, dashes = _LINES[key]
            axes.plot(stages[here], mean[here], label=label, color=colour, ls=dashes, lw=1.4)
            if key != LIMIT:
                alpha = 0.16 if key == "bayesian-sgd" else 0.06  # else several bands become one
                fill_band(axes, stages, mean, spread, color=colour, alpha=alpha)
        means = [
            m
            for key, curve in summary["algorithms"].items()
            for m in curve["mean_error"][1:]
            if m and (key != LIMIT or len(summary["algorithms"]) == 1)
        ]
        if means:
            axes.set_ylim(bottom=min(means) / 5)
        over_stages(axes, summary["horizon"], EXPERIMENTS[name].title)
        axes.set_ylabel(r"$\|x_t - x^*\|$: mean, and $\pm$ one standard deviation")
        axes.set_yscale("log" if means else "linear")
        axes.legend(loc="lower left")
        caption(axes, f"{summary['runs']} runs")
    return files


def draw_posterior(posterior: dict[str, Any], runs: int, folder: Path) -> list[Path]:
    """pi_t(theta_c) for each batch size, with the 95 % confidence interval of the mean."""
    with drawing(folder / "posterior") as (axes, files):
        shades = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(posterior)))
        for colour, (label, curve) in zip(shades, posterior.items(), strict=True):
            mean, low, high = (np.array(curve[key], float) for key in ("mean", "low", "high"))
            stages = np.arange(len(mean))
            axes.plot(stages, mean, color=colour, lw=1.4, label=label.replace("=", " = "))
            axes.fill_between(stages, low, high, color=colour, alpha=0.2, lw=0)
        axes.set(title="Posterior probability of the truth", xlabel="stage $t$")
        axes.set_ylabel(r"$\pi_t(\theta^c)$: mean, and its 95 % interval")
        axes.set(xlim=(0, min(200, len(stages) - 1)), ylim=(0, 1.02))
        axes.legend(loc="lower right")
        caption(axes, f"{runs} runs, 1-D decision-dependent quadratic")
    return files

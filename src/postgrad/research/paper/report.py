"""The report: findings, figures, claims and settings on one HTML page that loads nothing else.

`report.html.jinja` has the page, and jinja2 escapes all text that comes from a summary.
"""

import base64
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from postgrad.research.paper.claims.verdicts import Verdict
from postgrad.research.paper.experiments import ALGORITHMS, EXPERIMENTS
from postgrad.research.paper.findings import COMPARED, findings
from postgrad.research.paper.reproduce import NAMES, POSTERIOR

_STAGES = (1, 10, 100, 1000)
_FATES = ("diverged", "stuck")
_LARGEST_SVG = 1_500_000  # bytes; a PNG of the same figure stays far below
_SIGNS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.OPEN: "?"}


def write(summary: dict[str, Any], folder: Path) -> Path:
    """Writes report.html, with the figures in it.

    Args:
        summary: What `reproduce` returned; with "claims", "versions", "device" and "command", as
            far as they are known.
        folder: Where the figures are, and where the report goes.

    Returns:
        Where the report is.

    Raises:
        FileNotFoundError: If the figure of an experiment in the summary is not in the folder.
    """
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "signs_and_spaces": _signs_and_spaces,
        "region": _region,
        "numbers": lambda numbers: ", ".join(f"{number:.4g}" for number in numbers),
    }
    claims = summary.get("claims") or []
    versions = ", ".join(f"{name} {v}" for name, v in (summary.get("versions") or {}).items())
    computed = {"with": versions, "on": summary.get("device")}
    page = environment.get_template("report.html.jinja").render(
        summary=summary,
        signs=_SIGNS,
        papers=EXPERIMENTS,
        claims=[_claim(number, claim) for number, claim in enumerate(claims, 1)],
        findings=findings(summary["experiments"]),
        compared=list(COMPARED.values()),
        rules=list(dict.fromkeys(claim["rule"] for claim in claims if claim.get("rule"))),
        figures=list(_figures(summary, folder)),
        # The posterior's curves do not say how many runs they have: as many as the experiments.
        runs=next((e["runs"] for e in summary["experiments"].values()), "the"),
        computed=" ".join(f"{word} {value}" for word, value in computed.items() if value),
    )
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _claim(number: int, claim: Mapping[str, Any]) -> dict[str, Any]:
    """A claim with an anchor, its verdict checked, and its measurements split at semicolons.

    Semicolons within parentheses do not split.
    """
    parts = re.split(r"; (?![^()]*\))", claim["measured"])
    verdict = Verdict(claim["verdict"])
    return {**claim, "anchor": f"claim-{number}", "verdict": verdict, "parts": parts}


def _figures(summary: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """The figures there are, in the paper's order and with its numbers."""
    for number, name in enumerate(NAMES, 1):
        if name in summary["experiments"]:
            algorithms = summary["experiments"][name]["algorithms"]
            curves = {ALGORITHMS[key].title: curve for key, curve in algorithms.items()}
            keys, spread = ["mean_error", "std_error"], "± {:.3f}"
        elif name == POSTERIOR and summary[POSTERIOR]:
            curves = {size.replace("=", " = "): curve for size, curve in summary[name].items()}
            keys, spread = ["mean", "low", "high"], "{:.3f}\N{EN DASH}{:.3f}"
        else:
            continue
        last = min(len(curve[keys[0]]) for curve in curves.values()) - 1
        yield {
            "name": name,
            "number": number,
            "source": _data(folder / name),
            "curves": curves,
            "stages": [t for t in _STAGES if t <= last],
            "astray": [fate for fate in _FATES if any(c.get(fate) for c in curves.values())],
            "cell": functools.partial(_cell, keys, spread),
        }


def _cell(keys: list[str], spread: str, curve: dict[str, Any], t: int) -> tuple[str, str] | None:
    """The mean of a curve at stage t and its spread as text; None if all runs diverged."""
    mean, *rest = (curve[key][t] for key in keys)
    return None if mean is None else (f"{mean:.3f}", spread.format(*rest))


def _data(stem: Path) -> str:
    """The image as a data URI; in an <img>, the ids of one SVG cannot clash with another's."""
    path, kind = stem.with_suffix(".svg"), "svg+xml"
    if path.stat().st_size > _LARGEST_SVG:
        path, kind = stem.with_suffix(".png"), "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _signs_and_spaces(text: str) -> Markup:
    """Escaped text with minus signs instead of hyphens, and no line breaks around ± and =."""
    signed = re.sub(r"(?<![\w)\]])-(?=\d)", "&minus;", escape(text))
    return Markup(re.sub(r" ([±=]) ", r"&nbsp;\1&nbsp;", signed))


def _region(text: str) -> Markup:
    """A feasible set on one line, with its power as a superscript."""
    base, _, power = _signs_and_spaces(text).replace(" ", Markup("&nbsp;")).partition("^")
    return base + Markup("<sup>{}</sup>").format(power) if power else base

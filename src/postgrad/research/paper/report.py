"""The report: claims, figures and settings on one HTML page that needs nothing but itself.

A function named after a part of the page returns it as HTML. Text from a summary passes `escape`.
"""

import base64
import importlib.resources
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from postgrad.research.paper.claims.verdicts import Verdict
from postgrad.research.paper.experiments import ALGORITHMS, EXPERIMENTS
from postgrad.research.paper.reproduce import POSTERIOR

_TITLE = (
    "Bayesian stochastic gradient descent for stochastic optimisation with streaming input data"
)
_STAGES = (1, 10, 100, 1000)
_LARGEST_SVG = 1_500_000  # bytes; a PNG of the same figure stays far below
_ERROR = "‖<i>x<sub>t</sub></i> &minus; <i>x</i>*‖"
_BELIEF = "π<sub><i>t</i></sub>(<i>θ</i><sup>c</sup>)"

_STYLE = (
    importlib.resources.files("postgrad.research.paper").joinpath("report.css").read_text("utf-8")
)
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
    path = folder / "report.html"
    path.write_text(_page(summary, folder), encoding="utf-8")
    return path


def _page(summary: Mapping[str, Any], folder: Path) -> str:
    claims = summary.get("claims") or []
    return f"""<!DOCTYPE html>
<html lang="en-GB">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_TITLE}: a reproduction with postgrad</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
<h1>{_TITLE}</h1>
<p class="subtitle">A reproduction with postgrad</p>
{_abstract(summary, claims)}
{_section("Claims", _claims(claims))}
{_section("Figures", *_figures(summary, folder))}
{_section("Settings", _settings(summary["experiments"]))}
{_section("Versions and device", _versions(summary))}
{_section("How to make this page again", _commands(summary))}
</main>
</body>
</html>
"""


def _section(title: str, *parts: str) -> str:
    """A part of the page; nothing, if there is nothing in it."""
    body = "\n".join(filter(None, parts))
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>" if body else ""


def _table(kind: str, head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table of HTML cells, where the first cell of a row heads it; nothing without rows."""
    if not rows:
        return ""
    columns = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    title = f"<caption>{caption}</caption>\n" if caption else ""
    return (
        f'<div class="wide"><table class="{kind}">\n{title}<thead><tr>{columns}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _abstract(summary: Mapping[str, Any], claims: Sequence[Mapping[str, Any]]) -> str:
    figures = len(summary["experiments"]) + bool(summary["posterior"])
    return (
        "<p>T. Liu, Y. Lin and E. Zhou, <cite>Bayesian Stochastic Gradient Descent for Stochastic "
        "Optimization with Streaming Input Data</cite>, learn the unknown parameter of a "
        "stochastic programme by Bayes&rsquo; rule while data stream in, and descend along "
        "stochastic gradients of the posterior-averaged cost, even where the decision changes the "
        f"data. This page repeats {'all' if figures == 7 else figures} of the paper&rsquo;s seven "
        f"figures with the Python library postgrad. {_tally(claims)}</p>"
    )


def _tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts, counted."""
    if not claims:
        return "The paper&rsquo;s claims were not put to the test this time."
    counts = Counter(claim["verdict"] for claim in claims)
    each = ", ".join(f"{_label(verdict)} for {counts[verdict]}" for verdict in _SIGNS)
    return f"Of {len(claims)} claims put to the test, the verdict is {each}."


def _label(verdict: Verdict) -> str:
    return f'<span class="verdict {verdict.name.lower()}">{_SIGNS[verdict]} {verdict}</span>'


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    """The claims, and below them each rule once, since many claims share theirs."""
    rules = dict.fromkeys(claim["rule"] for claim in claims if claim.get("rule"))
    numbers = {rule: number for number, rule in enumerate(rules, 1)}
    rows = [_claim(claim, numbers.get(claim.get("rule"))) for claim in claims]
    table = _table("claims", ("Claim", "Measured", "Verdict"), rows)
    if not rules:
        return table
    notes = "\n".join(f'<li id="rule-{i}">{_text(rule)}</li>' for rule, i in numbers.items())
    return f'{table}\n<h3>Rules behind the verdicts</h3>\n<ol class="rules">\n{notes}\n</ol>'


def _claim(claim: Mapping[str, Any], rule: int | None) -> tuple[str, str, str]:
    """The cells of a claim's row."""
    label = _label(Verdict(claim["verdict"]))
    measured = re.split(r"; (?![^()]*\))", claim["measured"])  # not within parentheses
    return (
        f"{_text(claim['claim'])}<code>{escape(claim['id'])}</code>",
        f"<ul>{''.join(f'<li>{_text(part)}</li>' for part in measured)}</ul>",
        label if rule is None else f'{label}<a href="#rule-{rule}">rule {rule}</a>',
    )


def _figures(summary: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """The figures there are, in the paper's order and with its numbers."""
    names = list(EXPERIMENTS)
    names.insert(names.index("quadratic-1d-dependent") + 1, POSTERIOR)
    for number, name in enumerate(names, 1):
        if name in summary["experiments"]:
            body = _experiment(name, summary["experiments"][name], folder)
        elif name == POSTERIOR and summary[POSTERIOR]:
            body = _posterior(summary, folder)
        else:
            continue
        title = f'<h3 id="{name}">Figure {number} <code>{name}</code></h3>'
        yield f"<article>\n{title}\n{body}\n</article>"


def _figure(stem: Path, alt: str, caption: str) -> str:
    return (
        f'<figure>\n<img src="{_data(stem)}" alt="{escape(alt)}">\n'
        f"<figcaption>{caption}</figcaption>\n</figure>\n"
    )


def _data(stem: Path) -> str:
    """The image as a data URI; in an <img>, the ids of one SVG cannot clash with another's."""
    path, kind = stem.with_suffix(".svg"), "svg+xml"
    if path.stat().st_size > _LARGEST_SVG:
        path, kind = stem.with_suffix(".png"), "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _experiment(name: str, experiment: Mapping[str, Any], folder: Path) -> str:
    """Mean and standard deviation of the error: the figure, and a few of its numbers."""
    curves = {ALGORITHMS[key].title: curve for key, curve in experiment["algorithms"].items()}
    alt = (
        f"{EXPERIMENTS[name].title}. Mean error over stages 1 to {experiment['horizon']} on "
        f"logarithmic axes, a curve with a band for each of: {', '.join(curves)}."
    )
    caption = (
        f"Mean of {_ERROR} over {experiment['runs']} runs of {experiment['horizon']} stages, with "
        f"<i>D</i> = {EXPERIMENTS[name].batch_size} and the feasible set "
        f"{_region(experiment['feasible'])}. The band is one standard deviation of the runs to "
        "either side; where it would reach below a quarter of the mean it ends there, since the "
        "axis is logarithmic."
    )
    note = f"Mean of {_ERROR} ± standard deviation."
    if any(curve.get("stuck") for curve in curves.values()):
        note += f" Stuck: still farther than {EXPERIMENTS[name].far:g} from <i>x</i>* at the end."
    table = _numbers("Algorithm", curves, ("mean_error", "std_error"), "± {:.3f}", note)
    return _figure(folder / name, alt, caption) + table


def _posterior(summary: Mapping[str, Any], folder: Path) -> str:
    """The posterior probability of the truth: the figure, and a few of its numbers."""
    curves = {size.replace("=", " = "): curve for size, curve in summary[POSTERIOR].items()}
    # The curves do not say of how many runs they are the mean: as many as the experiments have.
    runs = next((e["runs"] for e in summary["experiments"].values()), "the")
    alt = (
        "Posterior probability of the truth. Its mean over the stages, a rising curve with a band "
        f"for each of: {', '.join(curves)}."
    )
    caption = (
        f"Mean of {_BELIEF} over {runs} runs in the decision-dependent quadratic in one dimension, "
        "for several numbers <i>D</i> of observations a stage. The band is the 95&nbsp;% "
        "confidence interval of the mean."
    )
    note = f"Mean of {_BELIEF} and its 95&nbsp;% confidence interval."
    table = _numbers("Batch size", curves, ("mean", "low", "high"), "({:.3f}, {:.3f})", note)
    return _figure(folder / POSTERIOR, alt, caption) + table


def _numbers(
    what: str, curves: Mapping[str, Any], keys: Sequence[str], spread: str, note: str
) -> str:
    """The curves at a few stages, and how many runs went astray, if any did.

    Args:
        what: What the curves are for.
        curves: By title.
        keys: Of a curve's mean, and of the numbers that make its spread.
        spread: How these are written.
        note: Stands above the table.
    """
    last = min(len(curve[keys[0]]) for curve in curves.values()) - 1
    stages = [t for t in _STAGES if t <= last]
    astray = [key for key in ("diverged", "stuck") if any(c.get(key) for c in curves.values())]
    if "diverged" in astray:
        note += " Runs that diverged are in no mean."

    def cell(mean: float | None, *rest: float | None) -> str:
        if mean is None:  # all runs diverged
            return "&ndash;"
        return f"{mean:.3f} <span>{spread.format(*rest)}</span>"

    rows = [
        [
            escape(title),
            *(cell(*(curve[key][t] for key in keys)) for t in stages),
            *(str(curve.get(key, 0)) for key in astray),
        ]
        for title, curve in curves.items()
    ]
    head = [what, *(f"<i>t</i> = {t}" for t in stages), *map(str.title, astray)]
    return _table("numbers", head, rows, note)


def _settings(experiments: Mapping[str, Any]) -> str:
    rows = [
        [
            f'<a href="#{name}">{name}</a>',
            _text(", ".join(f"{x:.4g}" for x in experiment["x_star"])),
            str(EXPERIMENTS[name].batch_size),
            _region(experiment["feasible"]),
            _region(EXPERIMENTS[name].literal.text),
            *(str(experiment[key]) for key in ("runs", "horizon", "seed")),
        ]
        for name, experiment in experiments.items()
    ]
    symbols = ("<i>x</i>*", "<i>D</i>")
    head = ("Experiment", *symbols, "Feasible set", "In the paper", "Runs", "Stages", "Seed")
    return (
        "<p>Everywhere one gradient step a stage (<i>K</i> = 1), of size <i>a<sub>t</sub></i> = "
        "2/(<i>t</i> + 5), and a uniform prior on the paper&rsquo;s finite set of parameters. The "
        "theory asks for a compact feasible set, but the paper states none for the quadratics, and "
        "in the decision-dependent newsvendor one at whose edge the mean demand has an infinite "
        "slope; the table shows what was used here. The paper has the MLE method only where the "
        "data do not depend on the decision. Where a figure here has it for data that do, it is a "
        "point mass at the estimate in place of the posterior.</p>\n"
        + _table("numbers", head, rows)
    )


def _versions(summary: Mapping[str, Any]) -> str:
    versions = [f"{name} {version}" for name, version in (summary.get("versions") or {}).items()]
    computed = [f"with {', '.join(versions)}"] if versions else []
    if summary.get("device"):
        computed.append(f"on {summary['device']}")
    return f"<p>Computed {escape(' '.join(computed))}.</p>" if computed else ""


def _commands(summary: Mapping[str, Any]) -> str:
    command = summary.get("command")
    made = f"<p>This page was made by</p>\n<pre>{escape(command)}</pre>\n" if command else ""
    return f"""{made}<p>In a copy of the repository, with Python 3.11 or newer and make:</p>
<pre>
make demo            # sets everything up, then makes all of this
postgrad reproduce   # the experiments and figures; --help lists the options
postgrad claims      # the claims and their verdicts
</pre>"""


def _text(text: str) -> str:
    """Escaped, with true minus signs, and no line breaks around ± and =."""
    signed = re.sub(r"(?<![\w)\]])-(?=\d)", "&minus;", escape(text))
    return re.sub(r" ([±=]) ", r"&nbsp;\1&nbsp;", signed)


def _region(text: str) -> str:
    """A feasible set on one line, with its power above that."""
    base, _, power = _text(text).replace(" ", "&nbsp;").partition("^")
    return f"{base}<sup>{power}</sup>" if power else base

"""The report: everything is in it, it is sound HTML, and it loads nothing."""

import base64
import copy
import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from postgrad.research.paper import figures, report
from postgrad.research.paper.experiments import EXPERIMENTS

VOID = {"br", "img", "meta"}
PAPER = [
    "quadratic-1d-independent",
    "quadratic-2d-independent",
    "quadratic-1d-dependent",
    "posterior",
    "quadratic-2d-dependent",
    "newsvendor-independent",
    "newsvendor-dependent",
]
CLAIMS = [
    {
        "id": "first", "claim": "It converges.", "verdict": "holds", "rule": "Shared rule.",
        "measured": "slope -0.5 ± 0.1; share 0.1 ± 0.01 (20 runs; 0 more diverged)",
    },
    {
        "id": "second", "claim": "It is better.", "verdict": "does not hold",
        "rule": "Shared rule.", "measured": "difference -0.2 ± 0.01",
    },
    {"id": "third", "claim": "It is fast.", "verdict": "inconclusive", "measured": "nothing"},
]  # fmt: skip


class Reader(HTMLParser):
    """Elements with their attributes and text; complains of tags that do not balance."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", **dict(attrs)}
        assert len(dict(attrs)) == len(attrs)
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["text"] += data

    def all(self, *tags):
        return [element for element in self.elements if element["tag"] in tags]

    def rows(self, first):
        """The rows of tables that begin with this cell."""
        return [tr["text"] for tr in self.all("tr") if tr["text"].startswith(first)]


def a_curve(horizon, **more):
    mean = [10.0 / (t + 1) for t in range(horizon + 1)]
    return {
        "mean_error": mean,
        "std_error": [m / 4 for m in mean],
        "runs": 20,
        "diverged": 0,
        **more,
    }


@pytest.fixture
def summary():
    experiments = {
        name: {
            "x_star": [-1.0, 2.0], "runs": 20, "horizon": 100, "seed": 7,
            "feasible": experiment.region.text,
            "algorithms": {key: a_curve(100) for key in experiment.algorithms},
        }
        for name, experiment in reversed(EXPERIMENTS.items())
    }  # fmt: skip
    belief = [t / 100 for t in range(101)]
    low = [b / 2 for b in belief]
    curve = {"mean": belief, "low": low, "high": belief, "runs": 20, "diverged": 0}
    return {
        "experiments": experiments,
        "posterior": {"D=1": curve, "D=20": curve},
        "claims": copy.deepcopy(CLAIMS),
        "versions": {"postgrad": "0.1.0", "jax": "0.10.1"},
        "device": "a machine",
        "command": "postgrad reproduce --runs 20",
    }


@pytest.fixture
def folder(tmp_path):
    """Stands for what figures.py writes; the report does not look inside."""
    for name in PAPER:
        (tmp_path / f"{name}.svg").write_text(f"<svg>{name}</svg>")
        (tmp_path / f"{name}.png").write_bytes(b"png of " + name.encode())
    return tmp_path


def read(summary, folder):
    path = report.write(summary, folder)
    assert path == folder / "report.html"
    return Reader(path.read_text(encoding="utf-8"))


def test_the_page_is_sound(summary, folder):
    page = read(summary, folder)
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert page.all("html")[0]["lang"] == "en-GB"
    assert page.all("meta")[0]["charset"] == "utf-8"
    assert page.all("meta")[1]["name"] == "viewport"
    assert "Bayesian stochastic gradient descent" in page.all("title")[0]["text"]
    assert len(page.all("main")) == len(page.all("h1")) == 1
    levels = [int(h["tag"][1]) for h in page.all("h1", "h2", "h3")]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(img["alt"] for img in page.all("img"))
    assert all(th["scope"] in {"col", "row"} for th in page.all("th"))
    ids = [element["id"] for element in page.elements if "id" in element]
    assert len(ids) == len(set(ids))
    assert {a["href"].removeprefix("#") for a in page.all("a")} <= set(ids)
    assert [h["text"] for h in page.all("h2")] == [
        "What was found", "Figures", "Claims", "Settings", "Versions and device",
        "How to make this page again",
    ]  # fmt: skip


def test_nothing_is_loaded(summary, folder):
    page = read(summary, folder)
    for element in page.elements:
        assert element.get("src", "data:").startswith("data:")
        assert element.get("href", "#").startswith("#")
        assert not element.keys() & {"srcset", "style", "background", "poster", "action"}
    assert not page.all("script", "link", "iframe", "object", "embed", "base", "form", "video")
    assert "url(" not in page.all("style")[0]["text"]
    assert "@import" not in page.all("style")[0]["text"]
    assert not re.search(r"https?://", (folder / "report.html").read_text(encoding="utf-8"))


def test_the_seven_figures_are_in_the_papers_order(summary, folder):
    page = read(summary, folder)
    sources = [img["src"].split(",") for img in page.all("img")]
    assert {kind for kind, _ in sources} == {"data:image/svg+xml;base64"}
    assert [base64.b64decode(data).decode() for _, data in sources] == [
        f"<svg>{name}</svg>" for name in PAPER
    ]
    headings = [h["text"] for h in page.all("h3") if h["text"].startswith("Figure")]
    assert headings == [f"Figure {i} {name}" for i, name in enumerate(PAPER, 1)]
    for caption in page.all("figcaption"):
        assert "20 runs" in caption["text"]
        assert "The band is" in caption["text"]
    newsvendor = page.all("figcaption")[-1]["text"]
    assert "100 stages, with D = 2 and the feasible set [1,\N{NO-BREAK SPACE}100]3." in newsvendor


def test_figures_keep_the_papers_numbers_when_some_are_missing(summary, folder):
    del summary["experiments"]["quadratic-2d-independent"]
    summary["posterior"] = {}
    page = read(summary, folder)
    numbers = [h["text"][:8] for h in page.all("h3") if h["text"].startswith("Figure")]
    assert numbers == [f"Figure {i}" for i in (1, 3, 5, 6, 7)]
    assert "5 of the paper" in page.all("p")[1]["text"]


def test_a_large_svg_gives_way_to_the_png(summary, folder):
    (folder / "posterior.svg").write_bytes(b" " * 1_500_001)
    source = read(summary, folder).all("img")[3]["src"]
    png = base64.b64encode(b"png of posterior").decode()
    assert source == f"data:image/png;base64,{png}"


def test_a_missing_figure_is_an_error(summary, folder):
    (folder / "posterior.svg").unlink()
    with pytest.raises(FileNotFoundError, match="posterior"):
        report.write(summary, folder)


def test_figures_py_writes_what_the_report_reads(summary, tmp_path):
    name = "newsvendor-dependent"
    summary["experiments"] = {name: summary["experiments"][name]}
    figures.draw(name, summary["experiments"][name], tmp_path)
    figures.draw("posterior", summary["posterior"], tmp_path)
    sizes = [len(img["src"]) for img in read(summary, tmp_path).all("img")]
    assert len(sizes) == 2
    assert min(sizes) > 5000


def test_every_claim_is_there_with_its_verdict(summary, folder):
    page = read(summary, folder)
    for claim, sign in zip(CLAIMS, "✓✗?", strict=True):
        (row,) = page.rows(claim["claim"])
        assert claim["id"] in row
        assert f"{sign} {claim['verdict']}" in row
    tally = "✓ holds for 1, ✗ does not hold for 1, ? inconclusive for 1."
    assert f"Of 3 claims put to the test, the verdict is {tally}" in page.all("p")[2]["text"]


def test_the_page_begins_with_what_was_found(summary, folder):
    """Claims that do not hold, and errors early and late, come before the figures."""
    summary["experiments"]["newsvendor-dependent"]["algorithms"]["stage-optimal"] = a_curve(
        100, runs=5
    )
    page = read(summary, folder)
    text = page.all("main")[0]["text"]
    found, _, rest = text.partition("Figures")
    assert "It is better." in found
    assert "It is fast." in found
    assert "It converges." not in found  # it holds: in the table, after the figures
    assert "It converges." in rest
    rows = [tr["text"].replace("\n", "") for tr in page.all("tr")]
    start = rows.index(next(row for row in rows if row.startswith("newsvendor-dependent10")))
    # 10/(t + 1), and a quarter of it over the root of the number of runs
    expected = "0.909 ± 0.0510.909 ± 0.0510.909 ± 0.102"
    assert rows[start] == f"newsvendor-dependent10{expected}"
    assert rows[start + 1].startswith("1000.099 ± 0.006")


def test_a_curve_of_fewer_runs_says_so(summary, folder, tmp_path):
    name = "newsvendor-dependent"
    summary["experiments"][name]["algorithms"]["postgrad"]["runs"] = 5
    caption = read(summary, folder).all("figcaption")[-1]["text"]
    assert "postgrad, untuned: 5 runs" in caption
    figures.draw(name, summary["experiments"][name], tmp_path)
    assert "postgrad, untuned" in read(summary, tmp_path).all("figcaption")[-1]["text"]


def test_the_page_is_small(summary, tmp_path):
    """Seven figures of a thousand stages, five curves each: below 1.5 MB."""
    noise = np.random.default_rng(0)
    for name, experiment in summary["experiments"].items():
        experiment["horizon"] = 1000
        for curve in experiment["algorithms"].values():
            mean = np.exp(noise.normal(size=1001).cumsum() / 20) / np.arange(1, 1002)
            curve |= {"mean_error": mean.tolist(), "std_error": (mean / 3).tolist()}
        figures.draw(name, experiment, tmp_path)
    belief = noise.random(1001).tolist()
    curve = {"mean": belief, "low": belief, "high": belief, "runs": 20, "diverged": 0}
    summary["posterior"] = {f"D={size}": curve for size in (1, 2, 5, 10, 20)}
    figures.draw("posterior", summary["posterior"], tmp_path)
    summary["claims"] = copy.deepcopy(CLAIMS) * 10
    assert report.write(summary, tmp_path).stat().st_size < 1_200_000


def test_a_measurement_is_a_line(summary, folder):
    items = [
        li["text"].replace("\N{NO-BREAK SPACE}", " ") for li in read(summary, folder).all("li")
    ]
    slope = "slope \N{MINUS SIGN}0.5 ± 0.1"
    first = items.index(slope)
    assert items[first + 1] == "share 0.1 ± 0.01 (20 runs; 0 more diverged)"


def test_a_shared_rule_is_printed_once(summary, folder):
    page = read(summary, folder)
    assert [li["text"] for li in page.all("li") if "rule" in li["text"]] == ["Shared rule."]
    links = [a["href"] for a in page.all("a") if a["text"] == "rule 1"]
    assert links == ["#rule-1"] * 2
    assert "rule" not in page.rows("It is fast.")[0]


def test_text_is_escaped(summary, folder):
    hostile = "</td><script>alert('x')</script> & \"<img src=http://x>"
    for key in ("id", "claim", "measured", "rule"):
        summary["claims"][0][key] = hostile
    summary["device"] = summary["command"] = summary["versions"]["jax"] = hostile
    page = read(summary, folder)
    assert not page.all("script")
    assert len(page.all("img")) == len(PAPER)
    assert sum(hostile in element["text"] for element in page.all("li", "pre", "code", "p")) == 5


@pytest.mark.parametrize("verdict", ["<b>", "perhaps"])
def test_an_unknown_verdict_is_refused(summary, folder, verdict):
    summary["claims"][0]["verdict"] = verdict
    with pytest.raises(ValueError, match=verdict):
        report.write(summary, folder)


def test_the_numbers_at_a_few_stages(summary, folder):
    page = read(summary, folder)
    cells = "5.000 ± 1.2500.909 ± 0.2270.099 ± 0.025"  # 10/(t + 1) at t = 1, 10, 100
    assert page.rows("Bayesian-SGD") == [f"Bayesian-SGD{cells}"] * 6
    assert page.rows("MLE") == [f"MLE{cells}"] * 5
    expected = "D = 200.010 0.005-0.0100.100 0.050-0.1001.000 0.500-1.000"
    assert page.rows("D = 20") == [expected.replace("-", "\N{EN DASH}")]


def test_runs_that_went_astray_are_counted_where_there_are_any(summary, folder):
    assert not re.search("Diverged|Stuck", read(summary, folder).all("main")[0]["text"])
    algorithms = summary["experiments"]["newsvendor-dependent"]["algorithms"]
    algorithms["known"] |= {"diverged": 3, "stuck": 13}
    page = read(summary, folder)
    assert len([tr for tr in page.all("tr") if "DivergedStuck" in tr["text"]]) == 1
    assert page.rows("benchmark")[-1].endswith("313")
    assert page.rows("Bayesian-SGD")[-1].endswith("00")
    assert "farther than 20" in page.all("caption")[-1]["text"]


def test_nulls_become_dashes(summary, folder):
    nothing = {"mean_error": [None] * 101, "std_error": [None] * 101, "runs": 20, "diverged": 20}
    summary["experiments"]["quadratic-1d-dependent"]["algorithms"]["known"] = nothing
    summary["posterior"]["D=1"] = dict.fromkeys(("mean", "low", "high"), [None] * 101)
    page = read(summary, folder)
    dashes = "\N{EN DASH}" * 3
    assert f"benchmark (known θ){dashes}20" in page.rows("benchmark")
    assert f"D = 1{dashes}" in page.rows("D = 1")


def test_the_settings(summary, folder):
    page = read(summary, folder)
    text = page.all("main")[0]["text"].replace("\N{NO-BREAK SPACE}", " ")
    for part in ("K = 1", "at = 2/(t + 5)", "uniform prior", "jax 0.10.1", "a machine"):
        assert part in text
    for command in ("make demo", "postgrad reproduce", "postgrad claims", summary["command"]):
        assert command in text
    row = page.rows("quadratic-2d-dependent")[-1]
    for part in ("\N{MINUS SIGN}1, 2", "unbounded", "20", "100"):
        assert part in row
    assert row.endswith("7")


@pytest.mark.parametrize("claims", [None, []])
def test_what_is_not_known_is_left_out(summary, folder, claims):
    for key in ("versions", "device", "command"):
        del summary[key]
    summary["claims"] = claims
    page = read(summary, folder)
    titles = [h["text"] for h in page.all("h2")]
    assert titles == ["What was found", "Figures", "Settings", "How to make this page again"]
    assert "not put to the test" in page.all("p")[2]["text"]
    del summary["claims"]
    summary["experiments"] = {}
    alone = read(summary, folder)
    assert len(alone.all("img")) == len(alone.all("table")) == 1


def test_the_same_summary_gives_the_same_page(summary, folder):
    first = report.write(summary, folder).read_bytes()
    assert report.write(copy.deepcopy(summary), folder).read_bytes() == first

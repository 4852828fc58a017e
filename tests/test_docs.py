"""The Python examples of the pages in docs/ run, and print what the pages say."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# Examples with tests of their own, which compare the numbers on the page with what comes out.
ELSEWHERE = {
    "alarms": ["test_surprise", "test_identifiability"],
    "censoring": ["test_censored"],
    "testbed": ["test_problems"],
}


def examples(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)


PAGES = [path.stem for path in sorted(DOCS.glob("*.md")) if examples(path.stem)]


def check_backtesting(scope, out):
    assert "hindsight" in out
    assert scope["result"].scored == 60


def check_beliefs(scope, out):
    assert not scope["agent"].belief.exact
    assert 1.0 <= scope["agent"].decision <= 10.0
    assert scope["belief"].probabilities.argmax() == 4


def check_comparing(scope, out):
    first, second = out.split("algorithm")[1:]
    for name in ("postgrad", "greedy", "saa"):
        assert name in first
    assert scope["comparison"].settings["runs"] == 20
    # greedy and saa ignore how decisions change the data and end at 3.2, not at 8/3: their regret
    # is 1.5 (3.2 - 8/3)^2 = 0.427.
    assert scope["comparison"].regrets["saa"][:, -1].mean() == pytest.approx(0.427, abs=0.15)
    assert scope["comparison"].at_the_end("saa").verdict == "better"
    assert "mine" in second


def check_contexts(scope, out):
    decision, low, high = map(float, re.findall(r"\d+\.?\d*", out))
    assert decision == pytest.approx(130.0)  # all that the truck holds
    assert low < 90.0 + 1.5 * 33.0 + 5.0 < high  # 6 times the normal quantile of 8/9 is 7.3
    assert scope["agent"].issued("day 7").stage == 7


def check_deciding(scope, out):
    order, epistemic, not_knowing, value, aleatoric = map(float, re.findall(r"\d+\.\d+", out))
    assert order == pytest.approx(float(scope["agent"].decision), abs=0.01)
    assert 10.0 < order < 20.0
    assert 0.0 < epistemic < 5.0  # the prior's standard deviation
    assert 0.0 < value < not_knowing
    assert aleatoric > 1.0


def check_durable(scope, out):
    assert "After 1 batch the decision is" in out
    assert {item: agent.stage for item, agent in scope["shop"].items()} == {"milk": 3, "bread": 3}


def check_pooling(scope, out):
    assert "by version 30 of the population" in out
    assert scope["new"].stage == 1
    assert float(scope["new"].belief.mean()) > 16.0  # it has seen 14, the others 20


def check_regression(scope, out):
    order = float(out.split()[0])
    assert 25.0 < order < 60.0  # the best order for 44 sold in the mean is about 48
    effect, error = (scope["agent"].belief.mean()["promo"], scope["agent"].belief.spread()["promo"])
    assert abs(float(effect) - 0.5) < 4 * float(error) < 1.0


def check_newsvendors(scope, out):
    median, three_quarters, most = scope["orders"]
    assert 15.0 < median < three_quarters < most < 40.0
    assert "[" in out


def check_risk(scope, out):
    """The numbers in the comment of the example."""
    (said,) = re.findall(r"# ([\d.]+) and ([\d.]+)\n", examples("risk")[0])
    found = [float(line.split()[-1]) for line in out.splitlines()]
    assert found == pytest.approx([float(number) for number in said], abs=0.05)


def check_whole_numbers(scope, out):
    """The numbers in the comment of the example."""
    (said,) = re.findall(
        r"# ([\d.]+), between ([\d.]+) and ([\d.]+)\n", examples("whole-numbers")[0]
    )
    found = [float(number) for number in re.findall(r"\d+\.\d+", out)]
    assert found == [float(number) for number in said]


@pytest.mark.sample(2)
@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_examples_run_and_make_sense(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for example in examples(page):
        exec(compile(example, f"{page}.md", "exec"), scope)
    globals()[f"check_{page.replace('-', '_')}"](scope, capsys.readouterr().out)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_other_pages_are_tested_where_it_says(page):
    assert page in PAGES
    for name in ELSEWHERE[page]:
        text = (Path(__file__).parent / f"{name}.py").read_text()
        assert f'"{page}.md"' in text
        assert "exec(" in text


@pytest.mark.parametrize("page", ["docs/promises.md", "SECURITY.md"])
def test_what_is_promised_names_what_there_is(page):
    root = DOCS.parent
    text = (root / page).read_text()
    for name in set(re.findall(r"(?:tests|benchmarks|docs)/\w+\.(?:py|md)", text)):
        assert (root / name).is_file(), name
    for variable, module in re.findall(r"(POSTGRAD_\w+)=\S+ pytest (tests/\w+\.py)", text):
        assert variable in (root / module).read_text()
    for target in re.findall(r"`make (\w+)`", text):
        assert f"\n{target}:" in (root / "Makefile").read_text()
    promises = [line for line in text.splitlines() if line.startswith("| **")]
    assert all("tests/" in line for line in promises)

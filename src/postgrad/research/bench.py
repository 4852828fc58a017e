"""The whole field on the whole testbed, and what comes out of it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx

from postgrad.research.comparison import Comparison, Watch, compare, select
from postgrad.research.problems import testbed
from postgrad.research.rivals import names as known_algorithms


class Bench(eqx.Module):
    """Comparisons by problem.

    Attributes:
        comparisons: One for each problem.
    """

    comparisons: dict[str, Comparison]

    def beaten_by(self, problem: str) -> dict[str, str]:
        """Competitors that were better than the reference on a problem, and when.

        At the last stage or on the mean over all stages, by the paired 95 % interval. Who knows the
        true parameter does not compete.
        """
        comparison = self.comparisons[problem]
        worse = {}
        for rival in comparison.competitors:
            ends = comparison.at_the_end(rival).verdict == "worse"
            overall = comparison.over_all_stages(rival).verdict == "worse"
            if ends or overall:
                when = {(True, True): "throughout", (True, False): "at the end"}
                worse[rival] = when.get((ends, overall), "on the way")
        return worse

    def report(self) -> str:
        """On which share of the problems the reference is best or tied, and where it is not."""
        beaten = {name: self.beaten_by(name) for name in self.comparisons}
        total = len(self.comparisons)
        at_end = sum(not set(worse.values()) - {"on the way"} for worse in beaten.values())
        overall = sum(not set(worse.values()) - {"at the end"} for worse in beaten.values())
        reference = next(iter(self.comparisons.values())).reference
        lines = [
            f"{reference} is best or tied, against every data-driven competitor and by the paired "
            f"95 % interval of the regret,",
            f"  at the last stage on {at_end} of {total} problems ({at_end / total:.0%}),",
            f"  on the mean over all stages on {overall} of {total} ({overall / total:.0%}).",
        ]
        for name, worse in beaten.items():
            if worse:
                rivals = ", ".join(f"{rival} {when}" for rival, when in worse.items())
                lines.append(f"  {name}: behind {rivals}")
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        problems = {name: comparison.summary() for name, comparison in self.comparisons.items()}
        beaten = {name: self.beaten_by(name) for name in self.comparisons}
        return {"problems": problems, "beaten_by": beaten, "report": self.report()}

    def write(self, folder: Path, provenance: Mapping[str, Any] | None = None) -> list[Path]:
        """summary.json, with what it was made with, and all figures."""
        from postgrad.research import plots

        folder.mkdir(parents=True, exist_ok=True)
        summary = folder / "summary.json"
        summary.write_text(json.dumps(self.summary() | dict(provenance or {}), allow_nan=False))
        files = [summary]
        for name, comparison in self.comparisons.items():
            files += plots.draw_progress(comparison, folder / f"{name}-progress", title=name)
            files += plots.draw_terminal(comparison, folder / f"{name}-terminal", title=name)
        return files + plots.draw_solvability(self.comparisons, folder / "solvability")


def plan(problems: Sequence[str], algorithms: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """The problems and algorithms to run; all of them, where none is named.

    Raises:
        SettingError: On an unknown name; the message lists the known ones.
    """
    chosen = select(problems, list(testbed()), "problem")
    return chosen, select(algorithms, known_algorithms(), "algorithm") if algorithms else None


def bench(
    problems: Sequence[str] = (),
    *,
    algorithms: Sequence[str] = (),
    runs: int = 50,
    horizon: int = 500,
    seed: int = 0,
    reference: str = "postgrad",
    watch: Watch = lambda label, done, total: None,
) -> Bench:
    """Compares the named algorithms on the named problems of the testbed.

    Args:
        problems: Names of `problems.testbed()`; all, if empty.
        algorithms: Names of `rivals.names()`; all that apply, if empty. The reference is added.
        runs: Runs of each algorithm on each problem.
        horizon: Stages of each run.
        seed: The seed of everything.
        reference: The algorithm that the others are compared with.
        watch: Called with what is being run, and the run-stages done and to do of this problem.
    """
    chosen, entrants = plan(problems, algorithms)
    if entrants is not None and reference not in entrants:
        entrants = [reference, *entrants]
    makers = testbed()
    comparisons = {}
    for name in chosen:
        watch(f"{name}: setting up", 0, 1)

        def progress(label: str, done: int, total: int, name: str = name) -> None:
            watch(f"{name}: {label}", done, total)

        comparisons[name] = compare(
            makers[name](),
            entrants,
            runs=runs,
            horizon=horizon,
            seed=seed,
            reference=reference,
            progress=progress,
        )
    return Bench(comparisons)

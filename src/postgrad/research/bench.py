"""All algorithms on all problems of the testbed: tables, figures, and where the default loses."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from traceback import format_exception_only
from typing import Any

import equinox as eqx

from postgrad.engine.bulk import Progress
from postgrad.research import plots, rivals
from postgrad.research.comparison import Comparison, as_counts, compare, known_names
from postgrad.research.json_types import as_json_types
from postgrad.research.problems import testbed
from postgrad.research.progress import at, silent


class Bench(eqx.Module):
    """Comparisons by problem.

    Attributes:
        comparisons: One for each problem that was finished.
        failures: Error messages, by the name of the problem or of the figure that failed.
        pending: Names of the problems that are still to run.
    """

    comparisons: dict[str, Comparison]
    failures: dict[str, str] = eqx.field(default_factory=dict)
    pending: Sequence[str] = ()

    def beaten_by(self, problem: str) -> dict[str, str]:
        """Competitors that were better than the reference on a problem, and when.

        At the last stage or on the mean over all stages, by the paired 95 % interval. The algorithm
        that knows the true parameter does not compete.
        """
        comparison = self.comparisons[problem]
        found = {}
        for rival in comparison.competitors:
            last, overall = comparison.at_the_end(rival), comparison.over_all_stages(rival)
            if last.verdict == overall.verdict == "worse":
                found[rival] = "throughout"
            elif "worse" in (last.verdict, overall.verdict):
                found[rival] = "at the end" if last.verdict == "worse" else "on the way"
        return found

    def report(self) -> str:
        """On which share of the problems the reference is best or tied, and where it is not."""
        if not self.comparisons:
            return "No problem was finished."
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

    def gaps(self) -> list[str]:
        """A line for each failure, with its message, and one for the problems still to run."""
        lines = [f"failed: {name}: {message}" for name, message in self.failures.items()]
        return lines + ([f"still to run: {', '.join(self.pending)}"] if self.pending else [])

    def tables(self) -> str:
        """A table of regrets for each finished problem."""
        return "\n\n".join(
            f"{name}: {c.settings['runs']} runs, T = {c.settings['horizon']}\n{c.table()}"
            for name, c in self.comparisons.items()
        )

    def summary(self) -> dict[str, Any]:
        """Plain lists and numbers; None for a number that is not finite."""
        return {
            "problems": {name: as_json_types(c.summary()) for name, c in self.comparisons.items()},
            "beaten_by": {name: self.beaten_by(name) for name in self.comparisons},
            "failures": dict(self.failures),
            "pending": list(self.pending),
            "report": self.report(),
        }

    def write(self, folder: Path, provenance: Mapping[str, Any] | None = None) -> None:
        """Writes summary.json, with the provenance, and report.txt: tables, report, gaps.

        Each file replaces its predecessor in one step: an interruption leaves the one or the other.
        """
        summary = json.dumps(self.summary() | dict(provenance or {}), allow_nan=False)
        report = "\n".join([f"{self.tables()}\n\n{self.report()}", *self.gaps(), ""])
        texts = {"summary.json": summary, "report.txt": report}
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            unfinished = folder / f"{name}.unfinished"
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(folder / name)


def plan(problems: Sequence[str], algorithms: Sequence[str]) -> tuple[list[str], list[str]]:
    """The problems and algorithms to run; all of them, where none is named.

    Raises:
        SettingError: On an unknown name; the message lists the known ones.
    """
    chosen = known_names(problems, list(testbed()), "problem")
    return chosen, known_names(algorithms, rivals.names(), "algorithm")


def bench(
    problems: Sequence[str] = (),
    *,
    algorithms: Sequence[str] = (),
    runs: int = 50,
    horizon: int = 500,
    seed: int = 0,
    reference: str = "postgrad",
    folder: Path | None = None,
    provenance: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Bench:
    """Compares the named algorithms on the named problems of the testbed.

    A problem or a figure that raises is noted in `failures`, and the others are run and drawn.

    Args:
        problems: Names of `problems.testbed()`; all, if empty.
        algorithms: Names of `rivals.names()`; all that apply, if empty. The reference is added.
        runs: Runs of each algorithm on each problem.
        horizon: Stages of each run.
        seed: The seed of everything.
        reference: The algorithm that the others are compared with.
        folder: Where summary.json, report.txt and the figures are written, after each problem; no
            files, if not given.
        provenance: What summary.json says about how it was made.
        progress: Called with what is being run, and the run-stages done and to do of this problem.

    Raises:
        SettingError: On an unknown name, and on `runs` or `horizon` below one.
    """
    chosen, entrants = plan(problems, algorithms)
    known_names([reference], rivals.names(), "algorithm")
    settings = as_counts(runs=runs, horizon=horizon) | {"seed": seed, "reference": reference}
    if reference not in entrants:
        entrants = [reference, *entrants]
    comparisons: dict[str, Comparison] = {}
    failures: dict[str, str] = {}
    for i, name in enumerate(chosen):
        place = f"{i + 1}/{len(chosen)} {name}"
        progress(f"{place}: setting up", 0, 1)
        with _noted(failures, name):
            instance, tell = testbed()[name](), at(place, progress)
            comparisons[name] = compare(instance, entrants, **settings, progress=tell)
        if folder is not None:
            Bench(comparisons, failures, chosen[i + 1 :]).write(folder, provenance)
            progress(f"{place}: drawing", 1, 1)
            if name in comparisons:
                _draw(comparisons[name], folder, name, failures)
    result = Bench(comparisons, failures)
    if folder is not None:
        if comparisons:
            with _noted(failures, "figure solvability"):
                plots.draw_solvability(comparisons, folder / "solvability")
        result.write(folder, provenance)
    return result


def _draw(comparison: Comparison, folder: Path, name: str, failures: dict[str, str]) -> None:
    """The two figures of a problem; the second also if the first fails."""
    for kind, draw in (("progress", plots.draw_progress), ("terminal", plots.draw_terminal)):
        with _noted(failures, f"figure {name}-{kind}"):
            draw(comparison, folder / f"{name}-{kind}", title=name)


@contextlib.contextmanager
def _noted(failures: dict[str, str], name: str) -> Iterator[None]:
    """Keeps the message of any error under a name, so that hours of other results are not lost."""
    try:
        yield
    except Exception as error:
        failures[name] = "".join(format_exception_only(error)).strip()

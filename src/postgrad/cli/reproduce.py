"""Commands about the paper and the testbed: reproduce, claims, bench."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from postgrad.cli.newsvendors import newsvendors
from postgrad.cli.output import (
    EXIT_CODES,
    AsJson,
    check,
    make_folder,
    plain_table,
    progress,
    split,
    standard_output,
)


class _OrTestbed(TyperGroup):
    """A group of benchmarks: what names none of them is about the testbed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`bench mle` is `bench testbed mle`."""
        if args[:1] not in ([name] for name in [*self.commands, "--help"]):
            args = ["testbed", *args]
        return super().parse_args(ctx, args)


app = typer.Typer()
benchmarks = typer.Typer(
    name="bench",
    cls=_OrTestbed,
    help="Benchmarks. Without a name, or with names of problems: the testbed.",
    epilog=EXIT_CODES,
)
app.add_typer(benchmarks)
benchmarks.command(epilog=EXIT_CODES)(newsvendors)


Runs = Annotated[int, typer.Option(min=1, help="Runs of each algorithm.")]
Horizon = Annotated[int, typer.Option(min=1, help="Stages of each run.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The seed of everything.")]
Out = Annotated[Path, typer.Option(help="Folder for figures, summary.json and report.html.")]

_EXPERIMENTS = typer.Argument(
    metavar="[NAME...]",
    help="Experiments of the paper; all of them and the claims, if none is named.",
)
_OF_THE_PAPER = typer.Option(help="Algorithms, comma-separated; those of the paper, if not given.")
_UNTUNED_RUNS = typer.Option(
    min=1,
    help="Runs of our default and of the limit on the newsvendors, where both take long; "
    "20, if not given.",
)
_LITERAL = typer.Option(
    "--literal",
    help="On the feasible sets as the paper states them; counts runs that diverge or get stuck.",
)
_PROBLEMS = typer.Argument(metavar="[PROBLEM...]", help="Problems of the testbed; all, if none.")
_THAT_APPLY = typer.Option(help="Algorithms, comma-separated; all that apply, if not given.")
_BENCH_FOLDER = typer.Option(
    help="Folder for figures, summary.json and report.txt; written after each problem."
)


@app.command(epilog=EXIT_CODES)
def reproduce(
    names: Annotated[list[str] | None, _EXPERIMENTS] = None,
    runs: Runs = 100,
    untuned_runs: Annotated[int | None, _UNTUNED_RUNS] = None,
    horizon: Horizon = 1000,
    seed: Seed = 0,
    algorithms: Annotated[list[str] | None, _OF_THE_PAPER] = None,
    literal: Annotated[bool, _LITERAL] = False,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper's experiments: a figure for each, tables, summary.json, report.html.

    Each table is printed, and each figure drawn, when its experiment is done.
    """
    settings: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed}
    settings |= {"literal": literal, "untuned_runs": untuned_runs}
    show = (lambda name, part: None) if as_json else _print_table
    summary = _run(names or [], split(algorithms), out, show, **settings)
    if as_json:
        typer.echo(json.dumps(summary, allow_nan=False))
        return
    _print_claims(summary["claims"])
    typer.echo(f"Figures and summary.json are in {out}/. Read {out / 'report.html'}")


@app.command(epilog=EXIT_CODES)
def claims(
    runs: Runs = 100,
    horizon: Horizon = 1000,
    seed: Seed = 0,
    out: Out = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Test every claim of the paper: what it says, what was measured, whether it holds."""
    settings = {"runs": runs, "horizon": horizon, "seed": seed, "beyond": False}
    summary = _run([], [], out, lambda name, part: None, **settings)
    if as_json:
        typer.echo(json.dumps(summary["claims"], allow_nan=False))
        return
    _print_claims(summary["claims"])
    typer.echo(f"The rules behind the verdicts are in {out / 'report.html'}")


@benchmarks.command("testbed", epilog=EXIT_CODES)
def bench(
    problems: Annotated[list[str] | None, _PROBLEMS] = None,
    algorithms: Annotated[list[str] | None, _THAT_APPLY] = None,
    runs: Runs = 50,
    horizon: Horizon = 500,
    seed: Seed = 0,
    out: Annotated[Path, _BENCH_FOLDER] = Path("bench"),
    as_json: AsJson = False,
) -> None:
    """Compare algorithms on the testbed: tables, figures, and where the default is not the best."""
    from postgrad.research.bench import bench as run
    from postgrad.research.bench import plan
    from postgrad.research.paper import provenance

    names, chosen = problems or [], split(algorithms)
    check(lambda: plan(names, chosen))
    make_folder(out)
    settings: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed, "folder": out}
    settings["provenance"] = provenance.describe()
    with progress() as report:
        result = run(names, algorithms=chosen, **settings, progress=report)
    if as_json:
        typer.echo((out / "summary.json").read_text())
    else:
        typer.echo(f"{result.tables()}\n\n{result.report()}")
        typer.echo(f"Figures, summary.json and report.txt are in {out}/.")
    for line in result.gaps():
        typer.echo(line, err=True)
    if result.failures:
        raise typer.Exit(1)


def _run(
    names: list[str],
    algorithms: list[str],
    out: Path,
    show: Callable[[str, dict[str, Any]], None],
    **settings: Any,
) -> dict[str, Any]:
    """Run experiments, and test the claims if all experiments are run; write figures and report.

    Args:
        names: The experiments; all, if empty.
        algorithms: The algorithms; those of the paper, if empty.
        out: The folder for figures, summary.json and report.html.
        show: Called with the name of each figure and its numbers, once the figure is drawn.
        **settings: As for `research.paper.reproduce.reproduce`.
    """
    from postgrad.research.paper import figures, provenance, report
    from postgrad.research.paper.claims import assess
    from postgrad.research.paper.reproduce import plan
    from postgrad.research.paper.reproduce import reproduce as run

    def finished(name: str, part: dict[str, Any]) -> None:
        figures.draw(name, part, out)
        show(name, part)

    check(lambda: plan(names, algorithms))
    make_folder(out)
    runs, seed = settings["runs"], settings["seed"]
    with progress() as tell:
        summary: dict[str, Any] = run(
            names, algorithms=algorithms, **settings, progress=tell, finished=finished
        )
        tested = not names and not algorithms and not settings.get("literal")
        summary["claims"] = assess(summary, runs=runs, seed=seed, progress=tell) if tested else []
    summary |= provenance.describe()
    (out / "summary.json").write_text(json.dumps(summary, allow_nan=False))
    report.write(summary, out)
    return summary


_STAGES = (0, 1, 10, 100, 1000, 10_000)


def _print_table(name: str, part: dict[str, Any]) -> None:
    """Print the numbers of a figure at some stages."""
    if "algorithms" in part:
        title = f"{name}: mean error ± standard deviation over {part['runs']} runs"
        curves = {
            key if curve["runs"] == part["runs"] else f"{key} ({curve['runs']} runs)": curve
            for key, curve in part["algorithms"].items()
        }
        _print_curves("algorithm", title, curves, ["mean_error", "std_error"], _STAGES[1:])
    else:
        _print_curves("batch size", f"{name}: mean of pi_t(theta_c)", part, ["mean"], _STAGES)


def _print_curves(
    label: str, title: str, curves: dict[str, Any], keys: list[str], stages: Iterable[int]
) -> None:
    """Print a row for each curve: its numbers at some stages, and how many runs went astray."""
    first = next(iter(curves.values()))
    shown = [t for t in stages if t < len(first[keys[0]])]
    fates = [fate for fate in ("diverged", "stuck") if fate in first]
    table = plain_table(label, title, [*(f"t = {t}" for t in shown), *fates])
    for name, curve in curves.items():
        numbers = [[curve[key][t] for key in keys] for t in shown]
        cells = ["-" if None in n else " ± ".join(f"{v:.3f}" for v in n) for n in numbers]
        table.add_row(name, *cells, *(str(curve.get(fate, "-")) for fate in fates))
    standard_output().print(table)


def _print_claims(claims: list[dict[str, Any]]) -> None:
    if not claims:
        return
    colours = {"holds": "green", "does not hold": "red", "inconclusive": "yellow"}
    table = plain_table("claim", "The paper's claims", [])
    table.columns[0].no_wrap = False
    table.add_column("measured")
    table.add_column("verdict", no_wrap=True)
    for claim in claims:
        verdict = f"[{colours[claim['verdict']]}]{claim['verdict']}[/]"
        table.add_row(claim["claim"], claim["measured"], verdict)
        table.add_section()
    standard_output().print(table)

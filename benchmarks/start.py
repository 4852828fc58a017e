"""What each command costs from the shell, with and without programs kept on disk.

Every command runs in a process of its own, on a file of decisions of five days of examples/yaz.csv:

    reading   --help, init, decide, history, explain, export, a specification with an error of form
    cold      `run` of one day, with an empty folder for programs
    warm      the same again, on a new file of decisions; then with other prices, prior and bounds
    again     `run` when nothing is new; `plot` of one item
    kept      the README's example and `own_law.py`, with their programs kept on disk

Printed are processor seconds (user and system) and seconds on the clock, of `run` until its first
line, the least of three where a command takes few; and processor seconds as multiples of
`python -c "import jax"` in the same run; of the last two, as multiples of the program by hand, with
nothing kept (`first_decision.py`). Where the system does not tell the time of a process that is
running, that of the whole `run` counts.

    python benchmarks/start.py [--json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from first_decision import HERE, compile_bytecode, processor_of_children

ROOT = HERE.parent
POSTGRAD = [sys.executable, "-c", "from postgrad.cli import main; main()"]
# Commands of fewer processor seconds are run three times.
SHORT = 1.5
# In multiples of `import jax`, of which an idle machine does about two a second: 0.5, 2.5, 12 s.
READING, AGAIN, WARM, COLD = 1.0, 4.0, 5.3, 25.0
KEPT = {"readme": 1.2, "own law": 2.0}
NUMBERS = (("overage = [2,", "overage = [3,"), ("to = 1000,", "to = 900,"),
           ("high = 1000", "high = 900"), ("start = 30.0", "start = 20.0"))  # fmt: skip


def timed(command: list[str], folder: Path, code: int = 0) -> dict[str, float]:
    """Processor seconds and seconds on the clock of a command; programs are kept in a folder.

    Raises:
        RuntimeError: If the command ends with another exit code.
    """
    before, start = processor_of_children(), time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=_variables(folder), capture_output=True, text=True)
    wall, processor = time.perf_counter() - start, processor_of_children() - before
    if done.returncode != code:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return {"processor_s": processor, "wall_s": wall}


def until_first_line(command: list[str], folder: Path) -> dict[str, float]:
    """The same, until the first line is printed."""
    start, before = time.perf_counter(), processor_of_children()
    with subprocess.Popen(
        command, cwd=ROOT, env=_variables(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        line, wall = process.stdout.readline(), time.perf_counter() - start
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            processor = None
        errors = process.communicate()[1].decode()
    if not line or process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {errors.strip()[-300:]}")
    processor = processor_of_children() - before if processor is None else processor
    return {"processor_s": processor, "wall_s": wall}


def _variables(folder: Path) -> dict[str, str]:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    return variables | {"POSTGRAD_CACHE": str(folder)}


def least(command: list[str], folder: Path, code: int = 0) -> dict[str, float]:
    """The least of three, where a command takes few seconds."""
    found = [timed(command, folder, code)]
    while len(found) < 3 and found[0]["processor_s"] < SHORT:
        found.append(timed(command, folder, code))
    return {name: min(one[name] for one in found) for name in found[0]}


def commands(folder: Path) -> dict[str, Any]:
    """All commands of the command line."""
    text = (ROOT / "examples" / "yaz.toml").read_text()
    rows = (ROOT / "examples" / "yaz.csv").read_text().splitlines()
    (folder / "yaz.toml").write_text(text)
    (folder / "wrong.toml").write_text(text.replace("start = 30.0", 'start = "thirty"'))
    other = text
    for was, now in NUMBERS:
        assert was in other, was
        other = other.replace(was, now)
    (folder / "other.toml").write_text(other)
    (folder / "days.csv").write_text("\n".join(rows[:6]) + "\n")
    (folder / "day.csv").write_text("\n".join(rows[:2]) + "\n")
    programs = folder / "programs"

    def postgrad(*arguments: str) -> list[str]:
        return [*POSTGRAD, *(argument.replace("FOLDER", str(folder)) for argument in arguments)]

    def run(name: str, state: str, data: str = "day") -> dict[str, float]:
        arguments = (f"FOLDER/{name}.toml", f"FOLDER/{data}.csv", "--state", f"FOLDER/{state}.db")
        return until_first_line(postgrad("run", *arguments), programs)

    found = {"run, cold": run("yaz", "cold"), "run, warm": run("yaz", "warm")}
    found["run, other numbers"] = run("other", "other")
    run("yaz", "yaz", "days")
    found["run, again"] = run("yaz", "yaz", "days")
    specification = "FOLDER/yaz.toml"
    reading = {
        "--help": (),
        "decide": (specification,),
        "history": (specification,),
        "explain": (specification,),
        "export": (specification, "FOLDER/history.csv"),
    }
    for name, arguments in reading.items():
        found[name] = least(postgrad(name, *arguments), programs)
    drawing = postgrad("plot", specification, "--item", "steak", "--out", "FOLDER/plots")
    timed(drawing, programs)
    found["plot"] = timed(drawing, programs)
    found["init"] = timed(postgrad("init", "FOLDER/new.toml"), programs)
    wrong = postgrad("run", "FOLDER/wrong.toml", "FOLDER/days.csv")
    found["error of form"] = least(wrong, programs, code=3)
    return found


def kept(folder: Path) -> dict[str, Any]:
    """The README's example and the own law: with their programs kept, over the program by hand."""
    program = [sys.executable, str(HERE / "first_decision.py"), "--program"]

    def seconds(name: str, programs: Path) -> dict[str, float]:
        """Processor seconds as the program tells them at its end, and seconds on the clock."""
        start = time.perf_counter()
        done = subprocess.run(
            [*program, name], cwd=ROOT, env=_variables(programs), capture_output=True, check=True
        )
        told = json.loads(done.stdout.splitlines()[-1])["processor_s"]
        return {"processor_s": told, "wall_s": time.perf_counter() - start}

    by_hand = [seconds("by hand", Path("off")) for _ in range(3)]
    found = {"by hand": {key: min(one[key] for one in by_hand) for key in by_hand[0]}}
    for name in KEPT:
        seconds(name, folder / "library")
        again = [seconds(name, folder / "library") for _ in range(2)]
        found[name] = {key: min(one[key] for one in again) for key in again[0]}
        found[name]["ratio"] = found[name]["processor_s"] / found["by hand"]["processor_s"]
    return found


def bar(name: str) -> float | None:
    """The bar of a command, in multiples of `import jax`."""
    warm = dict.fromkeys(("run, warm", "run, other numbers"), WARM)
    warm |= dict.fromkeys(("run, again", "plot"), AGAIN)
    return None if name == "import jax" else {"run, cold": COLD, **warm}.get(name, READING)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    compile_bytecode()
    importing = [sys.executable, "-c", "import jax"]
    with tempfile.TemporaryDirectory(prefix="start-") as name:
        folder = Path(name)
        before = least(importing, Path("off"))
        found = commands(folder)
        after = least(importing, Path("off"))
        unit = {key: (before[key] + after[key]) / 2 for key in before}
        results = {"import jax": unit, **found}
        for one in results.values():
            one["ratio"] = one["processor_s"] / unit["processor_s"]
        library = kept(folder)
    if options.json:
        print(json.dumps({"commands": results, "kept": library}))
        return
    print(f"{'':20}{'processor':>10}{'clock':>9}{'/ import jax':>14}{'bar':>7}")
    for name, one in results.items():
        limit = "" if bar(name) is None else f"{bar(name):g}"
        print(f"{name:20}{one['processor_s']:8.2f} s{one['wall_s']:7.2f} s"
              f"{one['ratio']:14.2f}{limit:>7}")  # fmt: skip
    print(f"\n{'programs kept':20}{'processor':>10}{'clock':>9}{'/ by hand':>14}{'bar':>7}")
    for name, one in library.items():
        ratio, limit = (f"{one['ratio']:.2f}", f"{KEPT[name]:g}") if name in KEPT else ("", "")
        print(f"{name:20}{one['processor_s']:8.2f} s{one['wall_s']:7.2f} s{ratio:>14}{limit:>7}")


if __name__ == "__main__":
    main()

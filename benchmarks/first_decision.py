"""What the first decision costs: processor seconds of fresh processes, compiling included.

Each program runs in a process of its own with nothing cached on disk:

    readme   the first Python example of README.md, as it stands there
    by hand  `plain_jax.py`, the same problem written by hand in JAX
    own law  `own_law.py`, a user's own continuous law with `Particles`, 100 batches of 10

Printed are user and system seconds from the start of the process to the end of the program, as
multiples of the program by hand (which runs before and after the others; the mean counts), and for
each compiled program its kernels and the seconds on the clock that it took to compile. A kernel is
a fusion in XLA's optimised program; programs of one name are listed together. Python's bytecode is
there, as it is once a package is installed.

    python benchmarks/first_decision.py [--json]
"""

import argparse
import collections
import compileall
import importlib.util
import json
import os
import re
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAMS = ("readme", "by hand", "own law")
BARS = {"readme": 2.5, "own law": 6.0}
# Programs of fewer kernels (conversions, checks) are listed as one.
FEW = 10


def compile_bytecode() -> None:
    """Compiles postgrad's sources to bytecode, as an installation does.

    Otherwise every process would, where the environment forbids Python to write bytecode.
    """
    found = importlib.util.find_spec("postgrad")
    for folder in found.submodule_search_locations:
        compileall.compile_dir(folder, quiet=1)


def processor_of_children() -> float:
    """User and system seconds of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fresh(command: list[str]) -> tuple[str, float]:
    """The standard output of a command with nothing cached, and its user and system seconds.

    Raises:
        RuntimeError: If the command fails, with the end of what it wrote to standard error.
    """
    with tempfile.TemporaryDirectory() as empty:
        environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        environment |= {"JAX_ENABLE_COMPILATION_CACHE": "false", "XDG_CACHE_HOME": empty}
        before = processor_of_children()
        done = subprocess.run(
            command, cwd=HERE.parent, env=environment, capture_output=True, text=True
        )
        seconds = processor_of_children() - before
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout, seconds


def measure(name: str) -> dict[str, Any]:
    """One program in a fresh process: processor seconds, what it printed, what it compiled."""
    output, _ = fresh([sys.executable, __file__, "--program", name])
    *printed, report = output.splitlines()
    return {"printed": printed} | json.loads(report)


def run(name: str) -> None:
    """Runs a program in this process, and prints a line of JSON about it after what it prints."""
    import jax

    seconds: dict[str, list[float]] = collections.defaultdict(list)

    def listen(event: str, duration: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            seconds[_plain(about.get("fun_name", "unnamed"))].append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    if name == "readme":
        text = (HERE.parent / "README.md").read_text()
        example = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
        kept = {"__name__": "__main__"}
        exec(compile(example, "README.md", "exec"), kept)
    else:
        script = {"by hand": "plain_jax.py", "own law": "own_law.py"}[name]
        kept = runpy.run_path(str(HERE / script), run_name="__main__")
    spent = time.process_time()
    kernels = _kernels()
    programs = {
        name: {
            "compiled": len(times),
            "compile_s": sum(times),
            "kernels": sorted((k for k in kernels.get(name, []) if k >= FEW), reverse=True),
        }
        for name, times in seconds.items()
    }
    print(json.dumps({"processor_s": spent, "programs": programs}))


def _kernels() -> dict[str, list[int]]:
    """How many fusions each compiled program that is still alive has, by name."""
    from jax.extend import backend

    found = collections.defaultdict(list)
    for executable in backend.get_backend().live_executables():
        for module in executable.hlo_modules():
            found[_plain(module.name)].append(module.to_string().count(" fusion("))
    return found


def _plain(name: str) -> str:
    """jit(stage) and jit_stage are the same program to JAX's events and to XLA."""
    return re.sub(r"\W", "_", name).strip("_")


def _orders(printed: list[str]) -> list[float]:
    return [float(line.split()[-1]) for line in printed if line.startswith("order ")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--program", choices=PROGRAMS, help="run this one here (used internally)")
    options = parser.parse_args()
    if options.program:
        run(options.program)
        return
    compile_bytecode()
    results: dict[str, Any] = {}
    by_hand = []
    for name in ("by hand", "readme", "own law", "by hand"):
        results[name] = measure(name)
        if name == "by hand":
            by_hand.append(results[name]["processor_s"])
        if not options.json and len(by_hand) < 2:
            _show(name, results[name])
    unit = statistics.mean(by_hand)
    results["by hand"]["processor_s"] = unit
    ratios = {name: results[name]["processor_s"] / unit for name in BARS}
    pairs = zip(_orders(results["readme"]["printed"]), _orders(results["by hand"]["printed"]),
                strict=True)  # fmt: skip
    apart = max(abs(ours - theirs) for ours, theirs in pairs)
    if options.json:
        print(json.dumps({"programs": results, "ratios": ratios, "orders_apart": apart}))
        return
    print(f"by hand, both times: {by_hand[0]:.2f} and {by_hand[1]:.2f} s")
    print(f"the four orders of readme and by hand differ by at most {apart:.3f}")
    for name, ratio in ratios.items():
        print(f"{name} / by hand: {ratio:.1f} (at most {BARS[name]:g} is the aim)")


def _show(name: str, result: dict[str, Any]) -> None:
    print(f"{name}: {result['processor_s']:.2f} processor seconds")
    listed = {label: about for label, about in result["programs"].items() if about["kernels"]}
    for label, about in sorted(listed.items(), key=lambda item: -item[1]["compile_s"]):
        kernels = about["kernels"]
        print(f"  {label}: {about['compile_s']:.1f} s on the clock to compile; kernels {kernels}")
    others = [about for label, about in result["programs"].items() if label not in listed]
    print(
        f"  others, of fewer than {FEW} kernels: {sum(o['compiled'] for o in others)} programs, "
        f"{sum(o['compile_s'] for o in others):.1f} s to compile",
        flush=True,
    )


if __name__ == "__main__":
    main()

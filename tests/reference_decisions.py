"""Reference decisions: small seeded jobs whose results must not change when the code moves.

Each case of `reference_beliefs`, `reference_algorithm` and `reference_runs` computes a few named
arrays: decisions, gradients, what a posterior says. `reference_decisions.json` holds what they were
when they were recorded, with the tolerance of each case; `test_reference_decisions.py` computes
them again and compares.

    python tests/reference_decisions.py                     compare, and print what differs
    python tests/reference_decisions.py --record            record all cases
    python tests/reference_decisions.py --record NAME ...   record only the cases named
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import reference_algorithm
import reference_beliefs
import reference_runs
from reference_case import Numbers, Tolerance, differences

FILE = Path(__file__).with_suffix(".json")
CASES = {
    **reference_beliefs.CASES,
    **reference_algorithm.CASES,
    **reference_runs.CASES,
}


def compute(name: str) -> Numbers:
    """The arrays of a case, as they are now."""
    return {key: np.asarray(value, float) for key, value in CASES[name].compute().items()}


def load() -> dict[str, Any]:
    """Of each case, its tolerance and the arrays that were recorded; None stands for NaN."""
    cases = json.loads(FILE.read_text())
    return {name: (Tolerance(**case["tolerance"]), case["numbers"]) for name, case in cases.items()}


def save(recorded: Mapping[str, tuple[Tolerance, Numbers]]) -> None:
    """Writes the file: a line for each array, so that a change of it can be read."""
    texts = []
    for name, (tolerance, numbers) in recorded.items():
        stated = {key: value for key, value in tolerance._asdict().items() if value != ""}
        lines = [f'"tolerance": {json.dumps(stated)}']
        arrays = [f"{json.dumps(key)}: {_text(value)}" for key, value in numbers.items()]
        lines.append('"numbers": {\n   ' + ",\n   ".join(arrays) + "}")
        texts.append(f"{json.dumps(name)}: {{\n  " + ",\n  ".join(lines) + "}")
    FILE.write_text("{\n " + ",\n ".join(texts) + "\n}\n")


def _text(value: Any) -> str:
    array = np.asarray(value, float)
    return json.dumps(np.where(np.isnan(array), None, array).tolist(), allow_nan=False)


def main() -> None:
    """Compares or records, as the module's docstring says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", nargs="*", metavar="NAME", help="record all cases, or these")
    chosen = parser.parse_args().record
    recorded = load() if FILE.exists() else {}
    for name in chosen or CASES:
        now, tolerance = compute(name), CASES[name].tolerance
        lines = ["not recorded yet"]
        if name in recorded:
            lines = differences(recorded[name][1], now, tolerance)
        print(f"{name}: {'differs' if lines else 'same'}", *lines, sep="\n    ", flush=True)
        recorded[name] = (tolerance, now)
    if chosen is not None:
        save({name: recorded[name] for name in CASES if name in recorded})


if __name__ == "__main__":
    main()

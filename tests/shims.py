"""Libraries for LD_PRELOAD, and the programs that are run under them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def compiled(name: str, folder: Path) -> str:
    """The library of a source file beside this one."""
    library = str(folder / f"{name}.so")
    source = str(_HERE / f"{name}.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def totals_under(library: str | None, program: str, folder: Path, *arguments: Any) -> Any:
    """What a program beside this file prints, as JSON, under a library."""
    command = [sys.executable, str(_HERE / f"{program}.py"), library or "-", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=environment | ({} if library is None else {"LD_PRELOAD": library}),
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) | ({"told": done.stderr} if done.stderr else {})

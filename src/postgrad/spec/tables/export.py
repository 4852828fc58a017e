"""Histories as CSV or JSON, and posteriors for ArviZ, for other programs."""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import random

from postgrad.errors import SettingError
from postgrad.research.json_types import as_json_types
from postgrad.spec.reworded import reworded
from postgrad.spec.spec_agents import SpecAgents, Stream
from postgrad.spec.tables.output_files import refuse_overwriting, text_cell

# Posterior draws for ArviZ, whose diagnostics expect several chains.
_CHAINS, _DRAWS = 4, 1000
# The endings of the files that a database consists of.
_FILES = ("", "-wal", "-shm", "-acknowledged")


def write(agents: SpecAgents, streams: Sequence[Stream], out: Path) -> int:
    """Write the histories of streams as .csv or .json, or their posteriors as .nc.

    Returns:
        How many records, or posteriors, were written.

    Raises:
        SettingError: If `out` has another ending, cannot be written, or is the file of decisions.
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".nc": _write_arviz}
    if out.suffix not in writers:
        raise SettingError(f"out must end in .csv, .json or .nc, got {out.name!r}")
    refuse_overwriting(out, [Path(f"{agents.path}{end}") for end in _FILES])
    with reworded(f"cannot write {out}", SettingError, OSError):
        return writers[out.suffix](agents, streams, out)


def _lines(agents: SpecAgents, streams: Sequence[Stream]) -> Iterator[dict[str, Any]]:
    """One line for each batch and item."""
    for item, group in streams:
        for record in agents.agent(item, group).history():
            in_force = np.atleast_1d(record.x)
            rows = record.rows.reshape(len(record.rows), math.prod(record.rows.shape[1:]))
            last = record.corrections[-1] if record.corrections else None
            done = None if last is None else "withdrawn" if last.withdrawn else "corrected"
            parts = agents.by_item(item, record.decision, record.interval)
            for i, (name, decision, ends) in enumerate(parts):
                yield {
                    "item": name,
                    "group": group,
                    "stage": record.stage,
                    "id": record.id,
                    "observed": record.time.isoformat(),
                    "in_force": float(in_force[i]),
                    "data": rows[:, i if rows.shape[1] == in_force.size else 0].tolist(),
                    "decision": decision,
                    "low": None if ends is None else ends[0],
                    "high": None if ends is None else ends[1],
                    "log_predictive": as_json_types(record.log_predictive),
                    "alarm": None if record.alarm is None else str(record.alarm),
                    "correction": done,
                }


def _write_csv(agents: SpecAgents, streams: Sequence[Stream], out: Path) -> int:
    count = 0
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for count, line in enumerate(_lines(agents, streams), start=1):
            if count == 1:
                writer.writerow(line)
            cells = line | {"data": " ".join(map(repr, line["data"]))}
            writer.writerow(map(text_cell, cells.values()))
    return count


def _write_json(agents: SpecAgents, streams: Sequence[Stream], out: Path) -> int:
    lines = list(_lines(agents, streams))
    out.write_text(json.dumps(lines, allow_nan=False, indent=1))
    return len(lines)


def _write_arviz(agents: SpecAgents, streams: Sequence[Stream], out: Path) -> int:
    import warnings

    try:
        with warnings.catch_warnings():  # ArviZ warns of its own coming changes
            warnings.simplefilter("ignore")
            import arviz
    except ImportError as error:
        raise SettingError("files for ArviZ (.nc) need the package arviz: install it") from error
    draws: dict[str, np.ndarray] = {}
    for item, group in streams:
        belief = agents.agent(item, group).belief
        named, _ = jax.tree.flatten_with_path(belief.sample(random.key(0), (_CHAINS, _DRAWS)))
        place = item if group is None else f"{item}, {group}"
        for path, leaf in named:
            name = f"{place}: theta{jax.tree_util.keystr(path)}"
            draws[name.replace("/", "%2F")] = np.asarray(leaf)  # in NetCDF, slashes make groups
    arviz.from_dict(posterior=draws).to_netcdf(str(out))
    return len(streams)

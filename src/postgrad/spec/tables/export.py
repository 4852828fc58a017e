"""Histories as CSV or JSON, and posteriors for ArviZ, for other programs."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from postgrad.errors import SettingError
from postgrad.spec.reading.history_lines import history_lines
from postgrad.spec.reading.stored_streams import ToldStreams
from postgrad.spec.reading.stream_names import Stream
from postgrad.spec.reworded import reworded
from postgrad.spec.tables.output_files import refuse_overwriting, text_cell

# Posterior draws for ArviZ, whose diagnostics expect several chains.
_CHAINS, _DRAWS = 4, 1000
# The endings of the files that a database consists of.
_FILES = ("", "-wal", "-shm", "-acknowledged")


def write(told: ToldStreams, streams: Sequence[Stream], out: Path) -> int:
    """Write the histories of streams as .csv or .json, or their posteriors as .nc.

    Returns:
        How many records, or posteriors, were written.

    Raises:
        SettingError: If `out` has another ending, cannot be written, or is the file of decisions.
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".nc": _write_arviz}
    if out.suffix not in writers:
        raise SettingError(f"out must end in .csv, .json or .nc, got {out.name!r}")
    refuse_overwriting(out, [Path(f"{told.path}{end}") for end in _FILES])
    with reworded(f"cannot write {out}", SettingError, OSError):
        return writers[out.suffix](told, streams, out)


def _write_csv(told: ToldStreams, streams: Sequence[Stream], out: Path) -> int:
    count = 0
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for count, line in enumerate(history_lines(told, streams), start=1):
            if count == 1:
                writer.writerow(line)
            cells = line | {"data": " ".join(map(repr, line["data"]))}
            writer.writerow(map(text_cell, cells.values()))
    return count


def _write_json(told: ToldStreams, streams: Sequence[Stream], out: Path) -> int:
    lines = list(history_lines(told, streams))
    out.write_text(json.dumps(lines, allow_nan=False, indent=1))
    return len(lines)


def _write_arviz(told: Any, streams: Sequence[Stream], out: Path) -> int:
    import warnings

    import jax
    from jax import random

    try:
        with warnings.catch_warnings():  # ArviZ warns of its own coming changes
            warnings.simplefilter("ignore")
            import arviz
    except ImportError as error:
        raise SettingError("files for ArviZ (.nc) need the package arviz: install it") from error
    draws: dict[str, np.ndarray] = {}
    for item, group in streams:
        belief = told.told(item, group).belief
        named, _ = jax.tree.flatten_with_path(belief.sample(random.key(0), (_CHAINS, _DRAWS)))
        place = item if group is None else f"{item}, {group}"
        for path, leaf in named:
            name = f"{place}: theta{jax.tree_util.keystr(path)}"
            draws[name.replace("/", "%2F")] = np.asarray(leaf)  # in NetCDF, slashes make groups
    arviz.from_dict(posterior=draws).to_netcdf(str(out))
    return len(streams)

"""What an agent knows, for other programs."""

import csv
import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import random

from postgrad.errors import SettingError
from postgrad.spec.spec_agents import Live

# Posterior draws for ArviZ, in as many chains as it likes to see.
_CHAINS, _DRAWS = 4, 1000


def write(live: Live, streams: Iterable[tuple[str, str | None]], out: Path) -> int:
    """Write histories as .csv or .json, or posteriors as .nc.

    Returns:
        How many records there are, or posteriors.

    Raises:
        SettingError: If it is none of these, or cannot be written.
    """
    writers = {".csv": _write_csv, ".json": _write_json, ".nc": _write_arviz}
    if out.suffix not in writers:
        raise SettingError(f"out must end in .csv, .json or .nc, got {out.name!r}")
    try:
        return writers[out.suffix](live, streams, out)
    except OSError as error:
        raise SettingError(f"cannot write {out}: {error.strerror or error}") from error


def _lines(live: Live, streams: Iterable[tuple[str, str | None]]) -> Iterator[dict[str, Any]]:
    """One line for each batch and item."""
    for stream, context in streams:
        for record in live.agent(stream, context).history():
            in_force = np.atleast_1d(record.x)
            parts = live.spelled(stream, record.decision, record.interval)
            for i, (item, decision, ends) in enumerate(parts):
                rows = record.rows.reshape(len(record.rows), -1)
                yield {
                    "item": item,
                    "context": context,
                    "stage": record.stage,
                    "id": record.id,
                    "observed": record.time.isoformat(),
                    "in_force": float(in_force[i]),
                    "data": rows[:, i if rows.shape[1] == in_force.size else 0].tolist(),
                    "decision": decision,
                    "low": None if ends is None else ends[0],
                    "high": None if ends is None else ends[1],
                    "log_predictive": _number(record.log_predictive),
                    "alarm": None if record.alarm is None else str(record.alarm),
                }


def _write_csv(live: Live, streams: Iterable[tuple[str, str | None]], out: Path) -> int:
    count = 0
    with out.open("w", newline="") as file:
        writer = None
        for line in _lines(live, streams):
            if writer is None:
                writer = csv.DictWriter(file, list(line), lineterminator="\n")
                writer.writeheader()
            writer.writerow(line | {"data": " ".join(map(repr, line["data"]))})
            count += 1
    return count


def _write_json(live: Live, streams: Iterable[tuple[str, str | None]], out: Path) -> int:
    lines = list(_lines(live, streams))
    out.write_text(json.dumps(lines, allow_nan=False, indent=1))
    return len(lines)


def _write_arviz(live: Live, streams: Iterable[tuple[str, str | None]], out: Path) -> int:
    import warnings

    try:
        with warnings.catch_warnings():  # it announces its own changes
            warnings.simplefilter("ignore")
            import arviz
    except ImportError as error:
        raise SettingError("files for ArviZ need it: install arviz") from error
    draws: dict[str, np.ndarray] = {}
    count = 0
    for stream, context in streams:
        belief = live.agent(stream, context).belief
        thetas = belief.sample(random.key(0), (_CHAINS, _DRAWS))
        named, _ = jax.tree.flatten_with_path(thetas)
        place = stream if context is None else f"{stream}, {context}"
        for path, leaf in named:
            name = f"{place}: theta{jax.tree_util.keystr(path)}"
            draws[name.replace("/", "%2F")] = np.asarray(leaf)  # there, slashes make groups
        count += 1
    arviz.from_dict(posterior=draws).to_netcdf(str(out))
    return count


def plain(value: Any) -> Any:
    """Nested dataclasses, modules and arrays as what JSON knows; numbers that are none are null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, eqx.Module | type):
        fields = dataclasses.fields(value)
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, eqx.Module):
        return {name: plain(part) for name, part in vars(value).items()}
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool | str | int) or value is None:
        return value
    return _number(np.asarray(value).tolist())


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(part) for part in value]
    return value if np.isfinite(value) else None

"""What an agent is made of, in words and numbers that survive a restart.

Functions have no identity that outlives a process. Three things stand in for it: their names and
what they close over, the arrays in the Modules around them, and what cost and model answer at a few
points. Numbers are compared to nine digits, as the same prior computed elsewhere may differ in the
last ones.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs import Belief
from postgrad.distributions.density import log_density
from postgrad.problem.problem import Problem

_DIGITS = 1e-9
# Arrays with more entries are represented by a few sums.
_FEW = 16
# How deep to look into what functions close over.
_DEEPEST = 12


def fingerprint(algorithm: BayesianSGD, belief: Belief, x: np.ndarray, alpha: Any) -> str:
    """The settings of an agent, as JSON."""
    points = _draws(algorithm.problem, jnp.asarray(x), _some(belief))
    answers = _answers(algorithm.problem, jnp.asarray(x), _some(belief), points)
    probe = {"points": _lists(points), "answers": _lists(answers)}
    return json.dumps({**_described(algorithm, belief, x, alpha), "probe": probe})


def differences(
    settings: str, algorithm: BayesianSGD, belief: Belief, x: np.ndarray, alpha: Any
) -> list[str]:
    """How an agent differs from the settings that were stored, one line for each difference."""
    old, new = json.loads(settings), _described(algorithm, belief, x, alpha)
    lines = []
    for path in {**old["structure"], **new["structure"]}:
        was, now = (s["structure"].get(path, "not there") for s in (old, new))
        if was != now:
            lines.append(f"{path} was {was} and is {now}")
        elif path in old["numbers"]:
            was, now = (s["numbers"][path] for s in (old, new))
            if not _equal(was, now):
                lines.append(f"the numbers in {path} differ{_shown(was, now)}")
    if not lines:  # the same by name; now for what they do
        points = {name: jnp.asarray(point) for name, point in old["probe"]["points"].items()}
        answers = _answers(algorithm.problem, jnp.asarray(x), _some(belief), points)
        for name, now in _lists(answers).items():
            if not _equal(was := old["probe"]["answers"][name], now):
                lines.append(f"the {name} gives other numbers than it did{_shown(was, now)}")
    return lines


def in_words(lines: list[str]) -> str:
    """What to say where an agent differs from the settings that were stored."""
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    instead = "Use those, another name= for a new stream, or another path="
    return f"the file was made with other settings: {'; '.join(lines[:5])}{more}. {instead}"


def _described(
    algorithm: BayesianSGD, belief: Belief, x: np.ndarray, alpha: Any
) -> dict[str, dict[str, Any]]:
    structure: dict[str, str] = {}
    numbers: dict[str, list[float]] = {}
    for part, value in {"algorithm": algorithm, "belief": belief, "x": x, "alpha": alpha}.items():
        for path, found in _parts(value, part, 0):
            if isinstance(found, str):
                structure[path] = found
            else:
                structure[path] = f"{found.dtype}{list(found.shape)}"
                numbers[path] = _summary(found)
    return {"structure": structure, "numbers": numbers}


def _parts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str | np.ndarray]]:
    """All there is to say about a value: its kind, its numbers, and the same of its parts."""
    if isinstance(value, bool | str | None):
        yield path, repr(value)
    elif isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        yield path, np.asarray(random.key_data(value))
    elif isinstance(value, jax.Array | np.ndarray | np.generic | int | float):
        yield path, np.asarray(value)
    elif depth > _DEEPEST:
        return
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), path, depth + 1)
    elif isinstance(value, tuple | list | dict):
        yield path, f"{type(value).__qualname__} of {len(value)}"
        for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _parts(entry, f"{path}[{name!r}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield path, type(value).__qualname__
        # Some fields follow the order of a set, which differs from process to process.
        lasting = [f for f in dataclasses.fields(value) if not f.metadata.get("of_this_process")]
        for field in lasting:
            yield from _parts(getattr(value, field.name, None), f"{path}.{field.name}", depth + 1)
    else:
        # Never `repr`, which may hold an address.
        yield path, getattr(value, "__qualname__", type(value).__qualname__)
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType):
            yield from _closed_over(function, path, depth)


def _closed_over(
    function: FunctionType, path: str, depth: int
) -> Iterator[tuple[str, str | np.ndarray]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
        if held is not function:
            yield from _parts(held, f"{path}({name})", depth + 1)


def _summary(array: np.ndarray) -> list[float]:
    """The entries of a small array; sums over a large one that any change of an entry changes."""
    flat = array.ravel().astype(float)
    if flat.size <= _FEW:
        return flat.tolist()
    finite = np.where(np.isfinite(flat), flat, 0.0)
    wave = np.cos(np.arange(flat.size))
    infinite = float(wave @ ~np.isfinite(flat))
    size = float(np.abs(finite).sum())
    return [size, float(finite.sum()), float(wave @ finite), infinite, float(finite.max())]


def _equal(was: list[float], now: list[float]) -> bool:
    a, b = np.asarray(was, float), np.asarray(now, float)
    if a.shape != b.shape:
        return False
    scale = np.max(np.abs(a), initial=0.0, where=np.isfinite(a))
    return bool(np.allclose(a, b, rtol=_DIGITS, atol=_DIGITS * scale, equal_nan=True))


def _shown(was: list[float], now: list[float]) -> str:
    if len(was) > 4 or len(now) > 4:
        return ""
    old, new = (", ".join(f"{value:.12g}" for value in values) for values in (was, now))
    return f": {old}, now {new}"


@eqx.filter_jit
def _draws(problem: Problem, x: jax.Array, thetas: list[PyTree]) -> dict[str, jax.Array]:
    """Something that each model may produce."""
    models = problem.models.items()
    return {name: model(x, thetas[0]).sample(random.key(0)) for name, model in models}


# One program: compiling operations one by one would take longer than all the rest of opening.
@eqx.filter_jit
def _answers(
    problem: Problem, x: jax.Array, thetas: list[PyTree], points: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    """What cost and model say at points that are kept, as other versions draw other ones.

    Not at x alone: there, and at zero above all, a term may vanish.
    """
    aside = problem.feasible.project(x + 0.37 * (1.0 + jnp.max(jnp.abs(x))))
    answers = {
        name: [log_density(model(at, theta), points[name]) for at in (x, aside) for theta in thetas]
        for name, model in problem.models.items()
    }
    answers["cost"] = [problem.cost(at, points["model"]) for at in (x, aside)]
    return {name: jnp.stack(values) for name, values in answers.items()}


def _some(belief: Belief) -> list[PyTree]:
    examples = belief.examples()
    return [jax.tree.map(lambda leaf, i=i: leaf[i], examples) for i in (0, -1)]


def _lists(arrays: dict[str, jax.Array]) -> dict[str, Any]:
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}

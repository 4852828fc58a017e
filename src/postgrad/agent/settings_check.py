"""What an agent is made of, in words and numbers that survive a restart.

Functions have no identity that outlives a process. Three things stand in for it: their names and
what they close over, the arrays in the Modules around them, and what cost and model answer at a few
points. Numbers are compared to nine digits, as the same prior computed elsewhere may differ in the
last ones.
"""

import dataclasses
import functools
import inspect
import json
import re
from collections.abc import Iterator
from types import FunctionType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import PyTree

from postgrad.agent.changes.settings_schema import SCHEMA, migrated
from postgrad.agent.stored_names import class_name, field_name, function_name
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs.belief import Belief
from postgrad.distributions.density import log_density
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.validate import on_device
from postgrad.problem.own_identity import as_given
from postgrad.problem.problem import Problem
from postgrad.records.settings import read_settings

_DIGITS = 1e-9
# Arrays with more entries are represented by a few sums.
_FEW = 16
# How deep to look into what functions close over.
_DEEPEST = 12
# What a running agent may change: what is believed does not depend on it.
_CHANGEABLE = tuple(
    f"algorithm.problem.{part}"
    for part in ("cost", "feasible", "outcomes", "constraints", "change")
)


class Difference(NamedTuple):
    """One thing in which an agent differs from the settings that were stored.

    Attributes:
        path: Where.
        words: What differs.
    """

    path: str
    words: str

    @property
    def changeable(self) -> bool:
        """Whether a running agent may change it: what is believed does not depend on it."""
        return self.path == "x" or self.path.startswith(_CHANGEABLE)


def fingerprint(
    algorithm: BayesianSGD, belief: Belief, x: np.ndarray, alpha: Any, context: PyTree
) -> str:
    """The settings of an agent, as JSON."""
    problem, some = _in_context(algorithm.problem, context), _some(belief)
    place = on_device(x)
    # Something that each model may produce; the program was compiled when the problem was tried.
    points, places = problem.check_models(place, belief.examples()), _places(problem, place)
    answers = _answers(problem, places, some, points)
    probe = {
        "places": np.asarray(places).tolist(),
        "points": _lists(points),
        "answers": _lists(answers),
    }
    if context is not None:
        probe["context"] = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(context)]
    described = _described(algorithm, belief, x, alpha, context)
    return json.dumps({"schema": SCHEMA, **described, "probe": probe})


def differences(
    settings: str,
    algorithm: BayesianSGD,
    belief: Belief,
    x: np.ndarray,
    alpha: Any,
    context: PyTree,
) -> list[Difference]:
    """How an agent differs from the settings that were stored."""
    new = _described(algorithm, belief, x, alpha, context)
    old = migrated(json.loads(settings), new)
    found = []
    for path in {**old["structure"], **new["structure"]}:
        was, now = (s["structure"].get(path, "not there") for s in (old, new))
        if was != now:
            found.append(Difference(path, f"{path} was {was} and is {now}"))
        elif path in old["numbers"]:
            was, now = (s["numbers"][path] for s in (old, new))
            if not _equal(was, now):
                words = f"the numbers in {path} differ{_shown(was, now)}"
                found.append(Difference(path, words))
    if any(difference.path not in old["structure"] for difference in found):
        usual = {*_at_default(algorithm, "algorithm"), *_at_default(belief, "belief")}
        found = [new for new in found if new.path in old["structure"] or new.path not in usual]
    if all(difference.changeable for difference in found):  # the same by name; now what they do
        problem = _in_context(algorithm.problem, _stored_context(old["probe"], context))
        found += _other_answers(old["probe"], problem, belief, x, not found)
    return found


def _in_context(problem: Problem, context: PyTree) -> Problem:
    return problem if context is None else problem.at(context)


def _stored_context(probe: dict[str, Any], like: PyTree) -> PyTree:
    """The context in which the answers were given; another example may be given today."""
    if "context" not in probe:
        return like
    leaves, structure = jax.tree.flatten(like)
    each = zip(probe["context"], leaves, strict=True)
    stored = [on_device(np.asarray(numbers, leaf.dtype)) for numbers, leaf in each]
    return jax.tree.unflatten(structure, stored)


def bound_form(belief: Belief, fixed: dict[str, np.ndarray]) -> dict[str, Any]:
    """What a belief's stored numbers refer to, as it is bound to the problem.

    It follows from prior, model, feasible set and first decision.

    Args:
        belief: The belief before the first batch, bound.
        fixed: Its arrays that stages do not change.
    """
    said = {path: found for path, found in _parts(belief, "belief", 0) if isinstance(found, str)}
    return {"form": said, "fixed": {name: _summary(array) for name, array in fixed.items()}}


def is_rebound(settings: str, bound: dict[str, Any]) -> bool:
    """Whether stored numbers refer to something else than when settings were stored."""
    kept, fixed = read_settings(settings), bound["fixed"]
    if "bound" in kept:
        form, was = kept["bound"]["form"], kept["bound"]["fixed"]
        same = form == bound["form"] and was.keys() == fixed.keys()
        return not (same and all(_equal(was[name], fixed[name]) for name in fixed))
    # Before they were summarised: those that are part of the prior have been compared.
    compared = {re.sub(r"\['?(\w+)'?\]", r".\1", path) for path in kept.get("structure", {})}
    return not fixed.keys() <= compared


def numbers_of(tree: PyTree) -> list[list[float]]:
    """The numbers of all arrays, of large ones a few sums, to be compared by `same_numbers`."""
    return [_summary(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)]


def same_numbers(was: list[list[float]], now: list[list[float]]) -> bool:
    """Whether numbers are equal to nine digits."""
    return len(was) == len(now) and all(map(_equal, was, now))


def _other_answers(
    probe: dict[str, Any], problem: Problem, belief: Belief, x: np.ndarray, all_places: bool
) -> list[Difference]:
    """Where model and cost answer other than they did.

    Args:
        probe: What they answered, where, and to what.
        problem: The problem.
        belief: pi_0.
        x: x_1.
        all_places: Whether the places of settings that do not name them can be told: x, and one
            aside that depends on the feasible set.
    """
    points = {name: on_device(point) for name, point in probe["points"].items()}
    some, known = _some(belief), probe.get("places")
    places = _places(problem, on_device(x)) if known is None else on_device(known)
    answers, found = _lists(_answers(problem, places, some, points)), []
    for name, now in answers.items():
        was = probe["answers"].get(name)
        if was is None:  # of an outcome that is new
            continue
        if known is None and not all_places:
            was, now = was[: len(was) // 2], now[: len(now) // 2]
        if not _equal(was, now):
            words = f"the {name} gives other numbers than it did{_shown(was, now)}"
            found.append(Difference(f"algorithm.problem.{name}", words))
    return found


def in_words(found: list[Difference]) -> str:
    """What to say where an agent differs from the settings that were stored."""
    lines = [difference.words for difference in found]
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    instead = "Use those, another name= for a new stream, or another path="
    if all(difference.changeable for difference in found):
        instead += ". If the change is meant: Agent.change, or postgrad run --accept-change"
    return f"the file was made with other settings: {'; '.join(lines[:5])}{more}. {instead}"


def _described(
    algorithm: BayesianSGD, belief: Belief, x: np.ndarray, alpha: Any, context: PyTree
) -> dict[str, Any]:
    structure: dict[str, str] = {}
    numbers: dict[str, list[float]] = {}
    for part, value in {"algorithm": algorithm, "belief": belief, "x": x, "alpha": alpha}.items():
        for path, found in _parts(value, part, 0):
            if isinstance(found, str):
                structure[path] = found
            else:
                structure[path] = f"{found.dtype}{list(found.shape)}"
                numbers[path] = _summary(found)
    # Of the example of a context, its parts and not its numbers: any other would do.
    for place, leaf in jax.tree.flatten_with_path(context)[0]:
        structure[f"context{jax.tree_util.keystr(place)}"] = f"{leaf.dtype}{list(leaf.shape)}"
    return {"structure": structure, "numbers": numbers}


def _at_default(value: Any, path: str, depth: int = 0) -> Iterator[str]:
    """The paths of all there is to say about fields that are at their default value.

    The default is the field's, or that of the argument of the same name.
    """
    if depth > _DEEPEST:
        return
    if isinstance(value, tuple | list | dict):
        for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _at_default(entry, f"{path}[{name!r}]", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        arguments = inspect.signature(kind.__init__).parameters
        for field in _lasting(value):
            found, below = (
                getattr(value, field.name, None),
                f"{path}.{field_name(kind, field.name)}",
            )
            usual = field.default
            if usual is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
                usual = field.default_factory()
            if usual is dataclasses.MISSING and field.name in arguments:
                usual = arguments[field.name].default
            said, expected = (dict(_parts(v, below, 0)) for v in (found, usual))
            if said.keys() == expected.keys() and all(
                np.array_equal(said[at], expected[at]) for at in said
            ):
                yield from said
            else:
                yield from _at_default(found, below, depth + 1)


def _lasting(value: Any) -> list[Any]:
    """The fields of a dataclass; some follow the order of a set, which processes do not share."""
    return [f for f in dataclasses.fields(value) if not f.metadata.get("of_this_process")]


def _parts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str | np.ndarray]]:
    """All there is to say about a value: its kind, its numbers, and the same of its parts."""
    value = as_given(value)
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
        kind = type(value)
        yield path, class_name(kind)
        for field in _lasting(value):
            below = f"{path}.{field_name(kind, field.name)}"
            yield from _parts(getattr(value, field.name, None), below, depth + 1)
    else:
        # Never `repr`, which may hold an address.
        yield path, function_name(value)
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


@compiled_at_once
def _places(problem: Problem, x: jax.Array) -> jax.Array:
    """Where they are tried: not at x alone, as there, and above all at 0, a term may vanish."""
    aside = problem.feasible.project(x + 0.37 * (1.0 + jnp.max(jnp.abs(x))))
    return jnp.stack([x, aside])


# One program: compiling operations one by one would take longer than all the rest of opening.
@compiled_at_once
def _answers(
    problem: Problem, places: jax.Array, thetas: list[PyTree], points: dict[str, jax.Array]
) -> dict[str, jax.Array]:
    """What cost, outcomes and model say at points that are kept: other versions draw other ones."""
    answers = {
        name: [log_density(model(x, theta), points[name]) for x in places for theta in thetas]
        for name, model in problem.models.items()
    }
    answers["cost"] = [problem.cost(x, points["model"]) for x in places]
    if problem.outcomes.names:
        told = [problem.outcomes.values(x, points["model"]) for x in places]
        answers["outcomes"] = list(jnp.concatenate(told))
    return {name: jnp.stack(values) for name, values in answers.items()}


def _some(belief: Belief) -> list[PyTree]:
    examples = belief.examples()
    return [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], examples) for i in (0, -1)]


def _lists(arrays: dict[str, jax.Array]) -> dict[str, Any]:
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}

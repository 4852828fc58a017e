"""Names in files are frozen, whatever Python calls a class or a field."""

import dataclasses
import importlib
import inspect
import pkgutil

import equinox as eqx

import postgrad
from postgrad.agent import stored_names
from postgrad.agent.stored_names import FROZEN, class_name, field_name
from postgrad.records.outlook import Outlook
from postgrad.records.surprise import Surprise

ROOMS = (
    "algorithm", "beliefs", "distributions", "models", "monitoring", "numerics", "problem",
    "research.problems", "spec.parts",
)  # fmt: skip


def stored_classes():
    """All classes whose names may come into a file."""
    yield from (Outlook, Surprise)  # trees of arrays that are no Modules
    for room in ROOMS:
        package = importlib.import_module(f"postgrad.{room}")
        found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for module in [package, *(importlib.import_module(part.name) for part in found)]:
            for kind in vars(module).values():
                own = getattr(kind, "__module__", "").startswith("postgrad.")
                if own and inspect.isclass(kind) and issubclass(kind, eqx.Module):
                    yield kind


def test_every_class_and_field_has_a_frozen_name():
    """A new class or field gets an entry in `FROZEN`; a renamed one, in `CLASSES` or `FIELDS`."""
    unknown = set()
    for kind in stored_classes():
        frozen = FROZEN.get(class_name(kind), "").split()
        fields = {field_name(kind, field.name) for field in dataclasses.fields(kind)}
        unknown |= {f"{kind.__qualname__}.{name}" for name in fields - set(frozen)}
        unknown |= set() if class_name(kind) in FROZEN else {kind.__qualname__}
    assert not unknown


def test_every_frozen_name_is_in_use():
    """A name that no class has any more is one that files could not be read by."""
    used = {class_name(kind) for kind in stored_classes()}
    assert used == set(FROZEN)


def test_the_models_of_specifications_have_frozen_names():
    from postgrad.spec.parts import models

    plain = (models.PlainDemand(kind=kind).build() for kind in models._PLAIN)
    others = (models.NormalDemand(kind="normal"), models.LogNormalDemand(kind="log-normal"))
    built = [*plain, *(other.build() for other in others)]
    names = {stored_names.function_name(model) for model in built}
    assert names <= stored_names.FROZEN_FUNCTIONS | FROZEN.keys()
    assert names >= stored_names.FROZEN_FUNCTIONS


def test_a_renamed_class_and_field_keep_their_names(monkeypatch):
    from postgrad.problem.feasible.box import Box

    monkeypatch.setitem(stored_names.CLASSES, "Box", "Interval")
    monkeypatch.setitem(stored_names.FIELDS, ("Interval", "low"), "from")
    assert (class_name(Box), field_name(Box, "low"), field_name(Box, "high")) == (
        "Interval", "from", "high",
    )  # fmt: skip
    assert class_name(postgrad.Agent) == "Agent"

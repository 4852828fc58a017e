"""A whole specification: read, checked, and nothing in it executed."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from postgrad.errors import SpecificationError
from postgrad.spec.data import AnyContext, Columns
from postgrad.spec.parts.beliefs import AnyBelief
from postgrad.spec.parts.costs import AnyCost
from postgrad.spec.parts.models import AnyModel
from postgrad.spec.parts.part import Name, Number, Numbers, Part
from postgrad.spec.parts.sets import AnySet
from postgrad.spec.rules_of_thumb import rule

# A specification is written by hand.
_LARGEST, _DEEPEST = 1_000_000, 100


class ReadyMade(Part):
    """A problem of the testbed, with its prior."""

    name: Name


class UserCode(Part):
    """A function of the user's own that returns a problem, a belief and a decision."""

    python: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)]


class Settings(Part):
    """How the agent decides."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    samples: (
        Annotated[list[Annotated[int, Field(ge=1, le=2**20)]], Field(min_length=1, max_length=2)]
        | None
    ) = None
    alpha: Annotated[Number, Field(gt=0, lt=1)] = 1e-3
    preset: Literal["newton", "paper"] = "newton"


class Scoring(Part):
    """How a backtest scores."""

    burn_in: Annotated[int, Field(ge=0)] = 0
    delay: Annotated[int, Field(ge=0)] = 0
    rivals: list[Name] | None = None

    @model_validator(mode="after")
    def _check(self) -> "Scoring":
        for name in self.rivals or ():
            rule(name)
        return self


class Specification(Part):
    """A decision problem, its data, and how to score it.

    Attributes:
        title: For tables and figures.
        data: What the columns mean.
        problem: A ready-made problem, or the user's own code; instead of the next five.
        cost: What a decision costs.
        model: How demand comes about.
        belief: What is believed of the model's parameters at first.
        feasible: Where decisions may lie.
        start: The decision before anything is known.
        context: What is known before a decision.
        settings: How the agent decides.
        backtest: How a backtest scores.
    """

    title: str = ""
    data: Columns
    problem: ReadyMade | UserCode | None = None
    cost: AnyCost | None = None
    model: AnyModel | None = None
    belief: AnyBelief | None = None
    feasible: AnySet | None = None
    start: Numbers | None = None
    context: AnyContext | None = None
    settings: Settings = Settings()
    backtest: Scoring = Scoring()

    @model_validator(mode="after")
    def _check(self) -> "Specification":
        parts = ("cost", "model", "belief", "feasible", "start")
        given = [name for name in parts if getattr(self, name) is not None]
        if self.problem is not None and given:
            raise ValueError(f"`problem` comes with everything; leave out {', '.join(given)}")
        missing = [name for name in parts if name not in given]
        if self.problem is None and missing:
            raise ValueError(f"give either `problem`, or also {', '.join(missing)}")
        if self.problem is None and self.belief is not None and self.model is not None:
            known, asked = self.belief.parameters, set(self.model.parameters)
            if known != asked:
                raise ValueError(
                    f"belief: the model {self.model.kind!r} has the parameters {sorted(asked)}, "
                    f"but the belief {self.belief.kind!r} is about {sorted(known)}"
                )
        if self.context is not None and self.context.kind == "weekday" and self.data.date is None:
            raise ValueError("context: weekdays are read off the date; give data.date")
        return self


def load(source: str | Path, *, allow_code: bool = False) -> Specification:
    """Read a specification file.

    Args:
        source: The path.
        allow_code: Whether it may name the user's own Python.

    Raises:
        SpecificationError: Listing everything that is wrong with it.
    """
    path = Path(source)
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
    except OSError as error:
        raise SpecificationError(f"cannot read {path}: {error.strerror}") from error
    if len(raw) > _LARGEST:
        raise SpecificationError(f"{path} is larger than {_LARGEST} bytes: no specification")
    try:
        text = raw.decode("utf-8")
        # `a.a.a...` takes the parser a time that grows with the square of its length.
        if any(
            part.count(".") > _DEEPEST for line in text.splitlines() for part in line.split(",")
        ):
            raise RecursionError
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecificationError(f"{path} is no TOML: {error}") from error
    except RecursionError:
        raise SpecificationError(f"{path} is nested too deeply") from None
    specification = parse(content, str(path))
    if isinstance(specification.problem, UserCode) and not allow_code:
        raise SpecificationError(
            f"{path} names Python code, {specification.problem.python!r}; nothing was run. Say "
            f"--allow-code if you trust it"
        )
    return specification


def parse(content: dict[str, Any], where: str = "the specification") -> Specification:
    """Check what a specification file holds.

    Raises:
        SpecificationError: Listing everything that is wrong with it.
    """
    try:
        return Specification.model_validate(content)
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for one in error.errors():
            found.setdefault(_place(one["loc"]), []).append(_words(one))
        # Of what may be a number or a list, and is a wrong list, the wrong entry is told.
        within = {place.rpartition("[")[0] for place in found}
        lines = [
            f"  {place}: {'; or: '.join(dict.fromkeys(words))}"
            for place, words in found.items()
            if place not in within
        ]
        raise SpecificationError(f"{where} is wrong in:\n" + "\n".join(lines)) from None
    except RecursionError:
        raise SpecificationError(f"{where} is nested too deeply") from None


_TYPES = ("str", "float", "Levels", "ReadyMade", "UserCode")


def _place(steps: tuple[int | str, ...]) -> str:
    """Where in the file: data.items[2]. Without pydantic's names of what it could have been."""
    text = ""
    for step in steps:
        if isinstance(step, str) and (step in _TYPES or step.endswith("]")):
            continue
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the whole"


def _words(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        return "there is no such key"
    if error["type"] == "union_tag_not_found":
        return "`kind` is missing"
    given = error["input"]
    if error["type"] in ("missing", "value_error") or not isinstance(given, str | float | bool):
        return message
    return f"{message}, got {given!r:.60}"

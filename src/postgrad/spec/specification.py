"""A specification file: read and checked; no code in it is executed."""

import math
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from postgrad.errors import SpecificationError
from postgrad.spec.contexts.context_table import ContextTable
from postgrad.spec.data import AnySplit, Columns, Pooling, SplitByWeekday
from postgrad.spec.parts.beliefs import AnyBelief
from postgrad.spec.parts.costs import AnyCost
from postgrad.spec.parts.models import AnyModel
from postgrad.spec.parts.regression import RegressionBelief, RegressionDemand
from postgrad.spec.parts.rule_names import rule_and_window
from postgrad.spec.parts.sets import AnySet
from postgrad.spec.parts.toml_table import Name, Number, Numbers, Title, TomlTable
from postgrad.spec.parts.validation_messages import lines
from postgrad.spec.reworded import reworded

# Bytes of a file, and dots in a key: far more than anybody writes by hand.
_LARGEST, _DEEPEST = 1_000_000, 100
# Strings and comments, in which dots mean nothing. What does not end goes on to the end.
_STRINGS = re.compile(
    r'''"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|'''
    r""""(?:\\[^\n]|[^"\\\n])*"?|'[^'\n]*'?|\#[^\n]*""",
    re.DOTALL,
)

# The tables and keys of a problem that is not given whole by `[problem]`.
PARTS = ("cost", "model", "belief", "feasible", "start")


class NamedProblem(TomlTable):
    """A problem of the testbed, with its prior."""

    name: Name


class UserCode(TomlTable):
    """A function of the user's own that returns a problem, a belief and a decision."""

    python: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)]


_Samples = Annotated[int, Field(ge=1, le=2**20)]
# Draws of a stage, of theta and of demand for each, on which a stage spends a quarter of a second;
# how many numbers they are over items that are decided together; how many all steps look at.
_MOST_DRAWS, MOST_NUMBERS, _MOST_LOOKS = 2**17, 2**20, 2**20


class AgentSettings(TomlTable):
    """`[settings]`: how the agent decides."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    iterations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    samples: Annotated[list[_Samples], Field(min_length=1, max_length=2)] | None = None
    alpha: Annotated[Number, Field(gt=0, lt=1)] = 1e-3
    preset: Literal["newton", "paper"] = "newton"

    def check(self) -> None:
        """See `TomlTable`."""
        if self.draws > _MOST_DRAWS:
            raise ValueError(f"`samples` are {self.draws} draws; at most {_MOST_DRAWS} are allowed")
        if (looks := self.draws * (self.iterations or 1)) > _MOST_LOOKS:
            raise ValueError(
                f"`samples` and `iterations` multiply to {looks}; at most {_MOST_LOOKS} are allowed"
            )

    @property
    def draws(self) -> int:
        """How many draws a stage takes; those of the default, if the file does not say it."""
        usual = (1,) if self.preset == "paper" else (4096,)
        return math.prod(self.samples or usual)


class BacktestSettings(TomlTable):
    """`[backtest]`: how a backtest scores."""

    burn_in: Annotated[int, Field(ge=0)] = 0
    delay: Annotated[int, Field(ge=0)] = 0
    rules: list[Name] | None = None

    def check(self) -> None:
        """See `TomlTable`."""
        for name in self.rules or ():
            rule_and_window(name)


class Specification(TomlTable):
    """A decision problem, its data, and how to score it.

    Attributes:
        title: For tables and figures.
        data: What the columns mean.
        problem: A problem of the testbed, or the user's own code; instead of the next five.
        cost: What a decision costs.
        model: The distribution of demand.
        belief: The prior of the model's parameters.
        feasible: The allowed decisions.
        start: The decision before any data.
        context: What is known before each decision.
        split_by: Which rows share a belief and a decision; all rows, if not given.
        pooling: How the items learn from each other; not at all, if not given.
        settings: How the agent decides.
        backtest: How a backtest scores.
    """

    title: Title = ""
    data: Columns
    problem: NamedProblem | UserCode | None = None
    cost: AnyCost | None = None
    model: AnyModel | None = None
    belief: AnyBelief | None = None
    feasible: AnySet | None = None
    start: Numbers | None = None
    context: ContextTable | None = None
    split_by: AnySplit | None = None
    pooling: Pooling | None = None
    settings: AgentSettings = AgentSettings()
    backtest: BacktestSettings = BacktestSettings()

    def check(self) -> None:
        """See `TomlTable`."""
        given = [name for name in PARTS if getattr(self, name) is not None]
        if self.problem is not None and given:
            raise ValueError(f"`problem` comes with everything; leave out {', '.join(given)}")
        missing = [name for name in PARTS if name not in given]
        if self.problem is None and missing:
            raise ValueError(f"give either `problem`, or also {', '.join(missing)}")
        if self.belief is not None and self.model is not None:
            known, asked = self.belief.parameters, set(self.model.parameters)
            if known != asked:
                model = f"the model {self.model.kind!r} has the parameters {sorted(asked)}"
                belief = f"the belief {self.belief.kind!r} is about {sorted(known)}"
                raise ValueError(f"belief: {model}, but {belief}")
        self._check_counts()
        if isinstance(self.split_by, SplitByWeekday) and self.data.date is None:
            raise ValueError("split_by: weekdays are read off the date; give data.date")
        if self.context is not None:
            self.context.check_data(self.data)
        self._check_regression()
        self._check_pooling()

    def _check_regression(self) -> None:
        if isinstance(self.model, RegressionDemand) and isinstance(self.belief, RegressionBelief):
            if self.context is None:
                raise ValueError("model: a regression needs `context`: what demand depends on")
            self.model.check_terms(self.context)
            self.belief.check_family(self.model.family)

    def _check_pooling(self) -> None:
        if self.pooling is not None and self.split_by is not None:
            instead = (
                'for groups of an item set pooling = "partial" in [split_by], without [pooling]'
            )
            raise ValueError(f"pooling: items that are split cannot be pooled; {instead}")
        if self.pooling is not None and self.feasible is not None and self.feasible.joint:
            raise ValueError("pooling: items that are decided together have one belief already")

    @property
    def pooled(self) -> Pooling | AnySplit | None:
        """Where it says how members learn from each other; None if they do not."""
        split = self.split_by
        return split if split is not None and split.pooling == "partial" else self.pooling

    def check_correctable(self) -> None:
        """Check that rows may be corrected.

        Raises:
            SpecificationError: If others have learned from them.
        """
        if self.pooled is not None:
            raise SpecificationError(
                "rows of pooled streams cannot be corrected or withdrawn: other streams have "
                "learned from them. Put the data right, and run them into a new file (--state)"
            )

    def _check_counts(self) -> None:
        """Lists must have a number for each item, where the file tells how many there are."""
        if self.data.item_names is not None:
            self.check_counts(len(self.data.item_names))

    def check_counts(self, items: int) -> None:
        """Lists must have a number for each item.

        Raises:
            ValueError: If one has not.
        """
        tables = {"cost": self.cost, "feasible": self.feasible}
        listed = {f"{at}.{key}": v for at, table in tables.items() for key, v in table or ()}
        for place, value in {**listed, "start": self.start}.items():
            if isinstance(value, list) and len(value) != items:
                expected = f"one number, or one for each of {items} items"
                raise ValueError(f"{place}: must be {expected}, got {len(value)}")


def load(source: str | Path, *, allow_code: bool = False) -> Specification:
    """Read a specification file.

    Args:
        source: The path.
        allow_code: Whether the file may name the user's own Python.

    Raises:
        SpecificationError: If the file is wrong; the message lists all errors.
    """
    path = Path(source)
    with reworded(f"cannot read {path}", SpecificationError, OSError), path.open("rb") as file:
        raw = file.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise SpecificationError(f"{path} is larger than {_LARGEST} bytes: no specification")
    try:
        text = raw.decode("utf-8-sig")  # some editors begin a file with a mark
        # The parser needs a time that grows with the square of the dots in a key `a.a.a...`.
        if any(part.count(".") > _DEEPEST for part in re.split(r"[\n,]", _STRINGS.sub("", text))):
            raise RecursionError
        content = tomllib.loads(text)
    except ValueError as error:  # no UTF-8, no TOML, or a number of thousands of digits
        raise SpecificationError(f"{path} is no TOML: {error}") from error
    except RecursionError:
        raise SpecificationError(f"{path} is nested too deeply") from None
    specification = parse(content, str(path))
    if isinstance(specification.problem, UserCode) and not allow_code:
        what = f"{path} names Python code, {specification.problem.python!r}; nothing was run"
        raise SpecificationError(f"{what}. If you trust it, allow it with --allow-code")
    return specification


def parse(content: dict[str, Any], where: str = "the specification") -> Specification:
    """Check the content of a specification file.

    Args:
        content: The tables and keys of the file.
        where: The file, for error messages.

    Raises:
        SpecificationError: If the content is wrong; the message lists all errors.
    """
    try:
        return Specification.model_validate(content)
    except ValidationError as error:
        wrong = [f"  {line}" for line in lines(Specification, content, error.errors())]
        raise SpecificationError("\n".join([f"{where} is wrong in:", *wrong])) from None
    except RecursionError:
        raise SpecificationError(f"{where} is nested too deeply") from None

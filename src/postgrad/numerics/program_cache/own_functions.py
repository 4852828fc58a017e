"""The user's own functions, as far as a program depends on them: questions and answers.

A question is the call of a function while a program is traced: the shapes and types of its
arguments. Its answer is what the function does with them: the program that it traces to, down to
the last number, and what it returns, such as a distribution of a class of numpyro. The same answers
to the same questions make the same program.

Functions whose derivative is code as well (`jax.custom_jvp`), and what calls back to Python, have
no answer, as text cannot tell that code. Nor have classes of the user's own.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import jax
import jax.extend.core as jec
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import PyTree

from postgrad.numerics.program_cache.structure import (
    PLAIN,
    NoDescriptionError,
    described,
    is_known,
    name_of,
    rebuilt,
)

# Which function was asked, and the structure of its arguments.
Question = list[Any]
Own = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Left:
    """Stands where a function of the user's own was."""

    number: int


def taken_out(parts: PyTree) -> tuple[PyTree, list[Own]]:
    """The parts of a call without functions of the user's own, and these."""
    own: list[Own] = []

    def left(leaf: Any) -> Any:
        if not callable(leaf) or isinstance(leaf, type) or is_known(leaf):
            return leaf
        for number, known in enumerate(own):
            if leaf is known:
                return Left(number)
        own.append(leaf)
        return Left(len(own) - 1)

    return jax.tree.map(left, parts), own


def put_back(parts: PyTree, own: list[Any]) -> PyTree:
    """The reverse of `taken_out`, with these functions."""
    return jax.tree.map(lambda leaf: own[leaf.number] if isinstance(leaf, Left) else leaf, parts)


class Listener:
    """A function of the user's own, and its answers as they are now.

    They are good for one program: what the function refers to, a price say, may change before the
    next one is traced.

    Attributes:
        asked: What it was asked while it stood in for the function.
    """

    def __init__(self, function: Own):
        self._function = function
        self._answers: dict[str, str] = {}
        self.asked: list[Any] = []

    def __call__(self, *arguments: PyTree) -> Any:
        """What the function returns.

        Raises:
            NoDescriptionError: If its answer cannot be told. Then the program cannot be kept, and
                need not be traced to the end.
        """
        question = described(jax.tree.map(_shape, arguments))
        if question not in self.asked:
            self.answer(question)
            self.asked.append(question)
        return self._function(*arguments)

    def answer(self, question: Any) -> str:
        """A digest of the answer to a question.

        Raises:
            NoDescriptionError: If there is none that can be told.
        """
        text = repr(question)
        if text not in self._answers:
            try:
                told = _told(self._function, rebuilt(question))
            except NoDescriptionError:
                raise
            except Exception as error:  # its own, at arguments that it may not be meant for
                raise NoDescriptionError(repr(error)) from error
            self._answers[text] = _digest(told)
        return self._answers[text]


def answers(listeners: list[Listener], asked: list[Question]) -> list[Any]:
    """The questions, and a digest of the answer to each.

    Raises:
        NoDescriptionError: If a function has no answer that can be told.
    """
    return [[number, question, listeners[number].answer(question)] for number, question in asked]


def _told(function: Own, arguments: tuple[Any, ...]) -> Any:
    """What a function does at arguments of these shapes, as text."""
    leaves, structure = jax.tree.flatten(arguments)
    returned: list[Any] = []

    def arrays_of(*leaves: Any) -> list[Any]:
        arrays: list[Any] = []
        returned.append(_value(function(*jax.tree.unflatten(structure, leaves)), arrays))
        return arrays

    return [_closed(jax.make_jaxpr(arrays_of)(*leaves)), returned[0]]


def _value(value: Any, arrays: list[Any]) -> Any:
    """What a function returned: objects of known classes by what they hold, arrays by number."""
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        arrays.append(value)
        return ["array", len(arrays)]
    if type(value) in PLAIN:
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple | list | dict):
        parts = [*value.items()] if isinstance(value, dict) else value
        return [name_of(type(value)), *(_value(part, arrays) for part in parts)]
    if isinstance(value, type | FunctionType):
        return ["named", name_of(value)]
    if not hasattr(value, "__dict__"):
        raise NoDescriptionError(repr(type(value)))
    # In one order: numpyro makes some objects from sets, whose order differs between processes.
    return ["object", name_of(type(value)), _value(dict(sorted(vars(value).items())), arrays)]


def _closed(program: jec.ClosedJaxpr) -> Any:
    return [_jaxpr(program.jaxpr), [_number(value) for value in program.consts]]


def _jaxpr(program: jec.Jaxpr) -> Any:
    """A program as text, its variables numbered as they come."""
    names: dict[Any, int] = {}

    def named(variable: Any) -> Any:
        if isinstance(variable, jec.Literal):
            return [_number(variable.val), str(variable.aval)]
        return [names.setdefault(variable, len(names)), _aval(variable.aval)]

    def all_named(variables: Any) -> list[Any]:
        return [named(variable) for variable in variables]

    return [
        all_named(program.constvars),
        all_named(program.invars),
        [
            [
                equation.primitive.name,
                all_named(equation.invars),
                all_named(equation.outvars),
                [[name, _parameter(value)] for name, value in equation.params.items()],
            ]
            for equation in program.eqns
        ],
        all_named(program.outvars),
        str(program.effects),
    ]


def _aval(aval: Any) -> str:
    return f"{aval} {getattr(aval, 'weak_type', None)}"


def _parameter(value: Any) -> Any:
    """What an operation is told besides its arguments."""
    if isinstance(value, jec.ClosedJaxpr):
        return _closed(value)
    if isinstance(value, jec.Jaxpr):
        return _jaxpr(value)
    if isinstance(value, tuple | list):
        return [name_of(type(value)), *map(_parameter, value)]
    if isinstance(value, np.dtype) or any(value is usual for usual in _usual()):
        return [type(value).__name__, str(value)]
    if isinstance(value, np.ndarray | np.generic):
        return _number(value)
    return described(value)


@functools.cache
def _usual() -> list[Any]:
    """What every compiled function is told where nothing is said of devices."""
    program = jax.make_jaxpr(jax.jit(jnp.negative))(0.0)
    told = [value for equation in program.eqns for value in equation.params.values()]
    return [part for value in told for part in (value if isinstance(value, tuple) else (value,))]


def _number(value: Any) -> Any:
    """An array or a number, to the last bit."""
    if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return ["key", str(value.dtype), _number(random.key_data(value))]
    array = np.asarray(value)
    if array.dtype == object:
        raise NoDescriptionError(repr(value))
    content = hashlib.blake2b(array.tobytes(), digest_size=20).hexdigest()
    return [type(value).__name__, str(array.dtype), list(array.shape), content]


def _shape(leaf: Any) -> jax.ShapeDtypeStruct:
    if not isinstance(leaf, jax.core.Tracer):  # its number may be part of the program
        raise NoDescriptionError(repr(leaf))
    kind: Any = leaf.aval
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)


def code_of(function: Own) -> str:
    """A digest of a function's code, without what it refers to."""
    while not isinstance(function, FunctionType):
        inside = [getattr(function, name, None) for name in ("func", "__wrapped__", "__func__")]
        found = [each for each in inside if callable(each)]
        if not found:
            return repr(type(function))
        function = found[0]

    def part(code: CodeType) -> list[Any]:
        inner = [part(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
        return [code.co_code.hex(), list(code.co_names), inner]

    return _digest([function.__module__, function.__qualname__, part(function.__code__)])


def _digest(told: Any) -> str:
    return hashlib.blake2b(repr(told).encode(), digest_size=20).hexdigest()

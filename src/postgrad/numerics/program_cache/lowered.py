"""Programs that are kept on disk before they are compiled, so that later processes need not trace.

To find a compiled program on disk, JAX must have traced its function and lowered it to StableHLO:
Python, which takes most of the time of a process whose compiled programs are all kept. What is
lowered is determined by postgrad's sources, the versions of the packages that it calls, JAX's
configuration, the structure of the arguments, and what the user's own functions answered while the
program was traced. If all of these can be told (`structure`, `own_functions`), the lowered program
is kept under them, beside the compiled ones.

A program that is found becomes the body of the one that asked for it, operation by operation, as if
it had been traced there. So results do not depend on whether programs are kept.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir

from postgrad.numerics.program_cache.entry import Entry
from postgrad.numerics.program_cache.keeping import files_in_use
from postgrad.numerics.program_cache.known_call import KnownCall
from postgrad.numerics.program_cache.outside_code import calls_lapack, prepare_lapack
from postgrad.numerics.program_cache.structure import NoDescriptionError, described, rebuilt

P = ParamSpec("P")
R = TypeVar("R")

# What reading something may raise that was written by other code.
_FOREIGN = (NoDescriptionError, TypeError, ValueError)
# How many bytes tell the length of the header.
_LENGTH = 4
# Each program has an operation that places a random key on its device.
_PLACED = "sdy.sharding_constraint"


def kept(function: Callable[..., R], *about: Any) -> Callable[..., R]:
    """The function of the arguments that follow `about`, to be compiled: `jax.jit(kept(f, a))`.

    Where programs are kept on disk (`pg.cache`), and all about the call but its numbers can be
    told, the function is not traced if it was before. It must not be transformed by `vmap` or
    `grad`, nor have an effect besides what it returns.

    Args:
        function: A function of one of postgrad's modules.
        *about: Its first arguments, in which all arrays are replaced by None.
    """

    @functools.wraps(function)
    def lowered(*arguments: Any) -> R:
        if files_in_use() is None:
            return function(*about, *arguments)
        try:
            call = KnownCall(function, about, arguments)
        except NoDescriptionError:
            return function(*about, *arguments)
        arrays = [leaf for leaf in jax.tree.leaves(arguments) if isinstance(leaf, jax.Array)]
        for entry in call.entries():
            if (program := _read(entry)) is not None:
                return program(arrays)
        program = None if call.is_hopeless() else _lowered(call, function, arrays)
        return function(*about, *arguments) if program is None else program(arrays)

    return lowered


def kept_fact(function: Callable[P, R]) -> Callable[P, R]:
    """The function, for facts that are read off a trace: kept on disk as programs are.

    The fact must depend on the structure of the arguments alone, not on their numbers.
    """

    @functools.wraps(function)
    def fact(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            entry = Entry(function, *jax.tree.map(_as_array, (arguments, options)))
        except NoDescriptionError:
            return function(*arguments, **options)
        with contextlib.suppress(*_FOREIGN):
            return rebuilt(json.loads(entry.get() or b""))
        result = function(*arguments, **options)
        with contextlib.suppress(NoDescriptionError):
            entry.put(json.dumps(described(result)).encode())
        return result

    return fact


def _as_array(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, np.generic) else leaf


def _lowered(
    call: KnownCall, function: Callable[..., Any], arrays: list[jax.Array]
) -> Callable[[list[jax.Array]], Any] | None:
    """The program of a function, which is traced here, and kept.

    None if it cannot be kept: it has effects, or arrays of its own as arguments, or depends on code
    that cannot be told.
    """
    structures: list[Any] = []
    about, arguments = call.listening()
    leaves, structure = jax.tree.flatten(arguments)

    def flat(*arrays: Any) -> list[Any]:
        given = iter(arrays)
        full = [next(given) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
        found = function(*about, *jax.tree.unflatten(structure, full))
        results, of_results = jax.tree.flatten(found)
        structures.append(of_results)
        return results

    try:
        traced = jax.jit(flat, keep_unused=True).trace(*_shapes(arrays))
        module = traced.lower().compiler_ir("stablehlo")
        inputs = _body(module.body.operations, "main").arguments
        if traced.jaxpr.effects or len(inputs) != len(arrays):
            raise NoDescriptionError("effects")
        used = [i for i, value in enumerate(inputs) if any(True for _ in value.uses)]
        shapes = jax.tree.unflatten(structures[0], _shapes(traced.jaxpr.out_avals))
        header = _header(shapes, used, calls_lapack(module))
        entry = call.entry_of_answers()
    except NoDescriptionError:
        call.note_hopeless()
        return None
    code = mlir.module_to_bytecode(module)
    entry.put(len(header).to_bytes(_LENGTH, "little") + header + code)
    return _program(code, used, shapes)


def _header(shapes: Any, used: list[int], lapack: bool) -> bytes:
    """The results of a program as text, which arrays it takes, and whether it calls LAPACK.

    Raises:
        NoDescriptionError: If results of this structure cannot be made from text.
    """
    header = json.dumps([described(shapes), used, lapack]).encode()
    try:
        restored: Any = jax.tree.structure(rebuilt(json.loads(header)[0]))
    except (TypeError, ValueError) as error:  # arrays of random keys, say, have no plain type
        raise NoDescriptionError("results") from error
    if restored != jax.tree.structure(shapes):
        raise NoDescriptionError("results")
    return header


def _read(entry: Entry) -> Callable[[list[jax.Array]], Any] | None:
    """The program that is kept; None if there is none."""
    content = entry.get()
    if content is None:
        return None
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    with contextlib.suppress(*_FOREIGN):
        shapes, used, lapack = json.loads(content[_LENGTH:end])
        if lapack:
            prepare_lapack()
        return _program(content[end:], used, rebuilt(shapes))
    return None


def _program(code: bytes, used: list[int], shapes: Any) -> Callable[[list[jax.Array]], Any]:
    """A lowered program, to be called while another one is traced."""
    leaves, structure = jax.tree.flatten(shapes)

    def call(arrays: list[jax.Array]) -> Any:
        given = [arrays[i] for i in used]
        found = _inserted.bind(*given, code=code, used=tuple(used), results=tuple(leaves))
        return jax.tree.unflatten(structure, found)

    return call


_inserted = Primitive("postgrad_program")
_inserted.multiple_results = True


def _results(
    *_: Any, code: bytes, used: tuple[int, ...], results: tuple[jax.ShapeDtypeStruct, ...]
) -> list[Any]:
    del code, used
    return [jax.core.ShapedArray(r.shape, r.dtype, weak_type=r.weak_type) for r in results]


def _insert(
    context: Any, *values: ir.Value, code: bytes, used: tuple[int, ...], results: Any
) -> list[ir.Value]:
    """Puts the operations of a lowered program where the program at hand is being built."""
    del results
    at_hand, here = context.module_context, ir.InsertionPoint.current
    name = mlir.merge_mlir_modules(
        at_hand.module, "kept", ir.Module.parse(code), dst_symtab=at_hand.symbol_table
    )
    inner = _body([at_hand.symbol_table[name]], name)
    for i, value in zip(used, values, strict=True):
        inner.arguments[i].replace_all_uses_with(value)
    *operations, end = inner.operations
    for one in operations:
        operation = one.operation
        if operation.name == _PLACED and operation.operands[0] in values:
            operation.result.replace_all_uses_with(operation.operands[0])
            continue
        operation.detach_from_parent()
        here.insert(operation)
    found = list(end.operation.operands)
    at_hand.symbol_table.erase(at_hand.symbol_table[name])
    return found


_inserted.def_abstract_eval(_results)
mlir.register_lowering(_inserted, _insert)


def _body(functions: Iterable[Any], name: str) -> Any:
    """The block of a function of MLIR."""
    (found,) = (f for f in functions if ir.StringAttr(f.attributes["sym_name"]).value == name)
    return found.regions[0].blocks[0]


def _shapes(arrays: Iterable[Any]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in arrays]

"""Programs that are kept on disk before they are compiled, so that later processes need not trace.

To find a compiled program on disk, JAX must have traced its function and lowered it to StableHLO:
Python, which takes most of the time of a process whose compiled programs are all kept. What is
lowered is determined by postgrad's sources, the versions of the packages that it calls, JAX's
configuration, and the structure of the arguments. If all of these can be told (`structure`), the
lowered program is kept under them, beside the compiled ones.

XLA may round differently where one program is called by another. So a program that could be kept is
always called in the form in which it is kept: results do not depend on whether it is kept, or was
found.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from postgrad.numerics.program_cache.entry import Entry
from postgrad.numerics.program_cache.structure import NoDescriptionError, described, rebuilt

P = ParamSpec("P")
R = TypeVar("R")

# What reading something may raise that was written by other code.
_FOREIGN = (NoDescriptionError, TypeError, ValueError)
# How many bytes tell the length of the header.
_LENGTH = 4


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
        leaves, structure = jax.tree.flatten(arguments)
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

        def of_arrays(*arrays: Any) -> R:
            given = iter(arrays)
            full = [next(given) if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
            return function(*about, *jax.tree.unflatten(structure, full))

        try:
            entry = Entry(function, about, arguments)
        except NoDescriptionError:
            return of_arrays(*arrays)
        program = _read(entry, arrays) or _lowered(entry, of_arrays, arrays)
        return of_arrays(*arrays) if program is None else program(*arrays)

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
    entry: Entry, function: Callable[..., Any], arrays: list[jax.Array]
) -> Callable[..., Any] | None:
    """The program of a function, which is traced here, and kept; None if it cannot be kept."""
    results: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        leaves, structure = jax.tree.flatten(function(*arrays))
        results.append(structure)
        return leaves

    try:
        program = jax.export.export(jax.jit(flat))(*_shapes(arrays))
    except Exception:
        if not results:  # the function's own error
            raise
        return None
    if program.ordered_effects or program.unordered_effects or program.uses_global_constants:
        return None
    shapes = jax.tree.unflatten(results[0], _shapes(program.out_avals))
    try:
        header = json.dumps([described(shapes), program.module_kept_var_idx]).encode()
        restored = jax.tree.structure(rebuilt(json.loads(header)[0]))
    except _FOREIGN:  # arrays of random keys, say, have no plain type
        return None
    if restored != results[0]:
        return None
    length = len(header).to_bytes(_LENGTH, "little")
    content = length + header + bytes(program.mlir_module_serialized)
    entry.put(content)
    return _called(content, arrays)


def _read(entry: Entry, arrays: list[jax.Array]) -> Callable[..., Any] | None:
    """The program that is kept; None if there is none."""
    content = entry.get()
    if content is None:
        return None
    with contextlib.suppress(*_FOREIGN):
        return _called(content, arrays)
    return None


def _called(content: bytes, arrays: list[jax.Array]) -> Callable[..., Any]:
    """The program of a file, to be called with arrays like these.

    JAX reads and writes an `Exported` by a package that does not come with it. So the module is put
    into an `Exported` of the same arguments and results, which computes nothing.
    """
    end = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    shapes, used = json.loads(content[_LENGTH:end])
    leaves, structure = jax.tree.flatten(rebuilt(shapes))

    def program(*_: Any) -> list[Any]:
        return [jnp.zeros(leaf.shape, leaf.dtype) for leaf in leaves]

    exported = dataclasses.replace(
        jax.export.export(jax.jit(program))(*_shapes(arrays[i] for i in used)),
        mlir_module_serialized=content[end:],
        module_kept_var_idx=tuple(range(len(used))),
    )

    def call(*arrays: Any) -> Any:
        given = [arrays[i] for i in used]
        found = _program.bind(*given, call=exported.call, results=tuple(leaves))
        return jax.tree.unflatten(structure, found)

    return call


# JAX binds what a program returns to its device if it sees that it calls an `Exported`, and would
# compile all that take it a second time. So the call is seen only when the program is lowered.
_program = Primitive("postgrad_program")
_program.multiple_results = True


def _results(*_: Any, call: Any, results: tuple[jax.ShapeDtypeStruct, ...]) -> list[Any]:
    del call
    return [jax.core.ShapedArray(result.shape, result.dtype) for result in results]


def _call(*arrays: Any, call: Callable[..., list[Any]], results: Any) -> list[Any]:
    del results
    return call(*arrays)


_program.def_abstract_eval(_results)
mlir.register_lowering(_program, mlir.lower_fun(_call, multiple_results=True))


def _shapes(arrays: Iterable[Any]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in arrays]

"""Programs and other results that depend on the shapes of arguments, and how they are kept."""

import collections
import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

from postgrad.numerics.program_cache.compiler_options import LEVEL, SOON, known
from postgrad.numerics.program_cache.keeping import files_in_use
from postgrad.numerics.program_cache.lowered import kept

_KEPT = 64

P = ParamSpec("P")
R = TypeVar("R")


def once_per_shape(function: Callable[P, R]) -> Callable[P, R]:
    """Remembers results by the structure, shapes and types of the arguments, not their numbers.

    This is `jit`'s rule of when to trace again, for things other than arrays: compiled programs,
    and facts that are read off a trace. Several threads may ask at once: one does the work, and
    only those wait that need its result.
    """
    results: dict[Hashable, R] = {}
    working: dict[Hashable, threading.Lock] = collections.defaultdict(threading.Lock)
    lock = threading.Lock()

    @functools.wraps(function)
    def remembered(*arguments: P.args, **options: P.kwargs) -> R:
        leaves, tree = jax.tree.flatten((arguments, options))
        kinds = (jax.typeof(leaf) if eqx.is_array(leaf) else leaf for leaf in leaves)
        signature = (tree, *kinds)
        with lock:
            if signature in results:
                return results[signature]
            mine = working[signature]
        with mine:
            with lock:
                if signature in results:
                    return results[signature]
            result = function(*arguments, **options)
            with lock:
                if len(results) >= _KEPT:
                    results.clear()
                results[signature] = result
                working.pop(signature, None)
            return result

    return remembered


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`jit` that several threads may call at once without each compiling on its own."""

    @once_per_shape
    def compile_it(*arguments: P.args, **options: P.kwargs) -> Callable[P, R]:
        return jax.jit(function).lower(*arguments, **options).compile()

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        return compile_it(*arguments, **options)(*arguments, **options)

    return call


def compiled_at_once(function: Callable[..., R]) -> Callable[..., R]:
    """`jit` for checks, which run once or twice: to optimise them takes longer than to run them.

    They are kept on disk before they are compiled where programs are kept: see `kept`. No decision
    depends on how they round.
    """

    @functools.cache
    def forms() -> tuple[Callable[..., R], Callable[..., R]]:
        jit: Any = eqx.filter_jit  # takes what `jax.jit` takes, though its types do not say so
        options = known(SOON, (LEVEL, 0))  # asked when arrays exist, and so a device
        return jit(function, compiler_options=options), jit(
            kept(function), compiler_options=options
        )

    @functools.wraps(function)
    def call(*arguments: Any) -> R:
        plain, at_top = forms()
        leaves = jax.tree.leaves(arguments)
        inside = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        return (plain if inside or files_in_use() is None else at_top)(*arguments)

    return call

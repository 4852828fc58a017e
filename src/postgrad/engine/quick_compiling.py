"""Programs that are compiled soon rather than well: those of a single stream.

A stage of one stream takes milliseconds whatever the compiler does, and its program seconds to
compile. XLA's newer way to emit code for the processor takes twice as long as its older one, and
the code of a single stream is no faster for it; that of a simulation is, by up to a quarter.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

_SOON = {"xla_cpu_use_fusion_emitters": False}


def quickly(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit`, to be used once arrays exist: it asks which device computes."""
    return jax.jit(function, compiler_options=_options())


@functools.cache
def _options() -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=_SOON)()
    except jax.errors.JaxRuntimeError:  # this version of XLA has no such option
        return None
    return _SOON

"""Options of XLA, as far as the version at hand has them."""

import functools
from typing import Any

import jax

from postgrad.numerics.program_cache.lowered import kept_fact

# Sums are not handed to YNNPACK, which writes down what it sums.
SUMS_IN_PLACE = ("xla_cpu_experimental_ynn_fusion_type", "")
# Code is emitted in XLA's older way, which takes half the time.
SOON = ("xla_cpu_use_fusion_emitters", False)
# How much is optimised: 0 is nothing.
LEVEL = "xla_backend_optimization_level"


def known(*options: tuple[str, Any]) -> dict[str, Any]:
    """Those options that this version of XLA has, for the device that computes."""
    return {name: value for name, value in options if _is_known(name, value)}


def _is_known(name: str, value: Any) -> bool:
    if jax.default_backend() != "cpu":
        return False
    if name == LEVEL:  # all versions have it; whoever has asked JAX for the least gets that
        return not jax.config.read("jax_disable_most_optimizations")
    return _is_accepted(name, value)


@functools.cache
@kept_fact
def _is_accepted(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True

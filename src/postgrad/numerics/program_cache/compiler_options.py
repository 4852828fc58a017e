"""Options of XLA, as far as the version at hand has them."""

import functools
from typing import Any

import jax

from postgrad.numerics.program_cache.lowered import kept_fact

# Sums are not handed to YNNPACK, which writes down what it sums.
SUMS_IN_PLACE = ("xla_cpu_experimental_ynn_fusion_type", "")
# Nor are sums of more than 32 numbers made in two steps, of which the first is written down too.
SUMS_AT_ONCE = ("xla_disable_hlo_passes", "tree_reduction_rewriter")
# Code is emitted in XLA's older way, which takes half the time.
SOON = ("xla_cpu_use_fusion_emitters", False)
# Code is compiled in four parts side by side, not in 32, each of which costs some milliseconds.
FEW_PARTS = ("xla_cpu_parallel_codegen_split_count", 4)
# How much is optimised: 0 is nothing.
LEVEL = "xla_backend_optimization_level"
_HOW_FAR = (LEVEL, FEW_PARTS[0])


def known(*options: tuple[str, Any]) -> dict[str, Any]:
    """Those options that this version of XLA has, for the device that computes."""
    if jax.default_backend() != "cpu":
        return {}
    if jax.config.read("jax_disable_most_optimizations"):  # whoever asks JAX for the least gets it
        options = tuple(option for option in options if option[0] not in _HOW_FAR)
    # All versions have the level.
    tried = tuple(option for option in options if option[0] != LEVEL)
    if _are_accepted(*tried):
        return dict(options)
    return {name: value for name, value in options if name == LEVEL or _are_accepted((name, value))}


@functools.cache
@kept_fact
def _are_accepted(*options: tuple[str, Any]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=dict(options))()
    except jax.errors.JaxRuntimeError:
        return False
    return True

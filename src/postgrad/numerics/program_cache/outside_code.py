"""What a lowered program calls that is not part of it: LAPACK, say.

JAX prepares such code while it lowers the operation that needs it. A program that comes from disk
is not lowered, so who puts it in place must prepare the code, or the program jumps to address zero.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxlib.mlir import ir

from postgrad.numerics.program_cache.structure import NoDescriptionError

_LAPACK = "lapack_"
# Random numbers on a GPU; nothing needs to be done for them.
_READY = ("cu_threefry2x32_ffi",)


def calls_lapack(module: Any) -> bool:
    """Whether a lowered program calls LAPACK.

    Raises:
        NoDescriptionError: If it calls other code, of which nobody knows what has to be prepared.
    """
    targets: list[str] = []

    def note(operation: ir.Operation) -> ir.WalkResult:
        if operation.name == "stablehlo.custom_call":
            targets.append(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    others = [name for name in targets if not name.startswith(_LAPACK) and name not in _READY]
    if others:
        raise NoDescriptionError(f"calls {others[0]}")
    return any(name.startswith(_LAPACK) for name in targets)


@functools.cache
def prepare_lapack() -> None:
    """Has JAX find LAPACK, as it does when a Cholesky factor is lowered for the first time."""
    matrix = jax.ShapeDtypeStruct((1, 1), jnp.float64)
    jax.jit(jnp.linalg.cholesky).trace(matrix).lower(lowering_platforms=("cpu",))

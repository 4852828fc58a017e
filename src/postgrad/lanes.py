"""Many runs at once, side by side in memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.extend.core as jec
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

# Operations that go entry by entry, some of whose operands may be single numbers.
_ENTRYWISE = frozenset(
    (
        *("add", "sub", "mul", "div", "pow", "max", "min", "select_n"),
        *("eq", "ne", "ge", "gt", "le", "lt", "and", "or"),
    )
)
# A value, and whether it has the runs along its last axis.
_Value = tuple[Any, bool]


def vmap_last(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """`jax.vmap(function, in_axes=-1, out_axes=-1)` with the mapped axis last all the way through.

    JAX's own rules move the mapped axis to the front wherever a number of one run meets an array
    (a batch's log-likelihood and a grid of twenty points, say). The innermost loop then has twenty
    rounds, too few to vectorise well. Here it has one round per run.

    Args:
        function: A function of PyTrees of arrays, for one run.
        *examples: Arguments of it.
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*examples)
    tree = jax.tree.structure(shape)

    def mapped(*arguments: Any) -> Any:
        leaves = jax.tree.leaves(arguments)
        lanes = leaves[0].shape[-1]
        results = _evaluate(closed, [(leaf, True) for leaf in leaves])
        spread = [
            leaf if mapped else jnp.broadcast_to(jnp.asarray(leaf)[..., None], (*leaf.shape, lanes))
            for leaf, mapped in results
        ]
        return jax.tree.unflatten(tree, spread)

    return mapped


def _evaluate(closed: jec.ClosedJaxpr, arguments: list[_Value]) -> list[_Value]:
    """The results for arguments, each with whether it has the runs along its last axis."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, ((const, False) for const in closed.consts), strict=True))
    values |= zip(jaxpr.invars, arguments, strict=True)

    def read(variable: Any) -> _Value:
        literal = isinstance(variable, jec.Literal)
        return (variable.val, False) if literal else values[variable]

    for equation in jaxpr.eqns:
        inputs = [read(variable) for variable in equation.invars]
        inner = equation.params.get("jaxpr")
        if equation.primitive.name == "jit" and isinstance(inner, jec.ClosedJaxpr):
            results = _evaluate(inner, inputs)
        else:
            results = _apply(jaxpr, equation, inputs)
        values |= zip(equation.outvars, results, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


def _apply(jaxpr: jec.Jaxpr, equation: jec.JaxprEqn, inputs: list[_Value]) -> list[_Value]:
    """One equation, for all runs if an input has several."""
    if equation.primitive.name in _ENTRYWISE and any(mapped for _, mapped in inputs):
        aligned = _align(inputs)
        return [(equation.primitive.bind(*aligned, **equation.params), True)]
    if equation.primitive.name == "broadcast_in_dim" and inputs[0][1]:
        (operand, _), shape = inputs[0], equation.params["shape"]
        kept = (*equation.params["broadcast_dimensions"], len(shape))
        wide = lax.broadcast_in_dim(operand, (*shape, operand.shape[-1]), kept)
        return [(wide, True)]
    places = [i for i, v in enumerate(equation.invars) if isinstance(v, jec.Var)]
    variables = list(dict.fromkeys(equation.invars[i] for i in places))
    chosen = {equation.invars[i]: inputs[i] for i in places}
    single = jaxpr.replace(
        constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation]
    )

    def apply(*values: Any) -> list[Any]:
        return jax.core.eval_jaxpr(single, [], *values)

    values, mapped = zip(*chosen.values(), strict=True) if chosen else ((), ())
    if not any(mapped):
        return [(result, False) for result in apply(*values)]
    axes = tuple(-1 if is_mapped else None for is_mapped in mapped)
    return [(result, True) for result in jax.vmap(apply, in_axes=axes, out_axes=-1)(*values)]


def _align(inputs: list[_Value]) -> list[Array]:
    """Arrays of one shape, the runs last, for an operation that goes entry by entry."""
    wide = max(jnp.ndim(value) - mapped for value, mapped in inputs)
    ranked = []
    for value, mapped in inputs:
        array = jnp.asarray(value) if mapped else jnp.asarray(value)[..., None]
        ranked.append(array.reshape((1,) * (wide + 1 - array.ndim) + array.shape))
    return jnp.broadcast_arrays(*ranked)

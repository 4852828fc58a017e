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
        return jax.tree.unflatten(tree, [_spread(value, lanes) for value in results])

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
        elif equation.primitive.name == "while" and any(mapped for _, mapped in inputs):
            results = _repeat(jaxpr, equation, inputs)
        else:
            results = _apply(jaxpr, equation, inputs)
        values |= zip(equation.outvars, results, strict=True)
    return [read(variable) for variable in jaxpr.outvars]


def _spread(value: _Value, lanes: int) -> Array:
    """With the runs along the last axis, whether they differ or not."""
    array, mapped = jnp.asarray(value[0]), value[1]
    return array if mapped else jnp.broadcast_to(array[..., None], (*array.shape, lanes))


def _marks(closed: jec.ClosedJaxpr, mapped: list[bool]) -> list[bool]:
    """Which results differ between runs, if these arguments do."""
    jaxpr = closed.jaxpr
    reached = {v for v, is_mapped in zip(jaxpr.invars, mapped, strict=True) if is_mapped}
    for equation in jaxpr.eqns:
        if any(isinstance(v, jec.Var) and v in reached for v in equation.invars):
            reached.update(equation.outvars)
    return [isinstance(v, jec.Var) and v in reached for v in jaxpr.outvars]


def _repeat(jaxpr: jec.Jaxpr, equation: jec.JaxprEqn, inputs: list[_Value]) -> list[_Value]:
    """A loop that all runs leave together, with the runs along the last axis inside it, too."""
    ask, body = equation.params["cond_jaxpr"], equation.params["body_jaxpr"]
    first = equation.params["cond_nconsts"]
    second = first + equation.params["body_nconsts"]
    asked, read, start = inputs[:first], inputs[first:second], inputs[second:]
    # Values may come to differ in a later round only.
    mapped = [is_mapped for _, is_mapped in start]
    for _ in start:
        later = _marks(body, [is_mapped for _, is_mapped in read] + mapped)
        mapped = [a or b for a, b in zip(mapped, later, strict=True)]
    if any(_marks(ask, [is_mapped for _, is_mapped in asked] + mapped)):
        return _apply(jaxpr, equation, inputs)  # some stop earlier: JAX knows how
    lanes = next(array.shape[-1] for array, is_mapped in inputs if is_mapped)

    def align(values: Any) -> Any:
        pairs = zip(values, mapped, strict=True)
        return [_spread(v, lanes) if wide else jnp.asarray(v[0]) for v, wide in pairs]

    def go_on(carry: Any) -> Any:
        return jec.jaxpr_as_fun(ask)(*[value for value, _ in asked], *carry)[0]

    def once(carry: Any) -> Any:
        return align(_evaluate(body, read + list(zip(carry, mapped, strict=True))))

    results: list[Array] = lax.while_loop(go_on, once, align(start))
    return list(zip(results, mapped, strict=True))


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
    if equation.primitive.name == "dynamic_update_slice":
        (into, new), where = inputs[:2], inputs[2:]
        if (into[1] or new[1]) and not any(is_mapped for _, is_mapped in where):
            # All runs write to one place; JAX's rule would make it a scatter.
            lanes = (into if into[1] else new)[0].shape[-1]
            place = [jnp.asarray(index) for index, _ in where]
            place.append(jnp.zeros_like(place[0]))
            wide = lax.dynamic_update_slice(_spread(into, lanes), _spread(new, lanes), place)
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

"""Drawing random numbers once: in bulk, outside the loop that uses them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.core
import jax.extend.core as jec
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, PyTree


def once(draws: PyTree, key: Array) -> PyTree:
    """The same numbers, which XLA is less inclined to compute again in each place that uses them.

    It repeats chains of cheap operations freely, and a normal draw is such a chain, of some four
    hundred; with a division it is more careful. So draws are divided by a one of which it does not
    know that it is one. (Its own barrier is taken away before chains are repeated.) The default
    stage has far fewer instructions for it: less to compile, and less to compute.

    Args:
        draws: Numbers that were drawn.
        key: Any key at hand.
    """
    one = jnp.where(jnp.ravel(random.key_data(key))[0] | 1 > 0, 1.0, jnp.nan)
    return jax.tree.map(
        lambda leaf: leaf / one if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, draws
    )


def hoist(
    function: Callable[[Any, Any], Any], early: PyTree, late: PyTree
) -> tuple[Callable[[PyTree], list[Any]], Callable[[list[Any], PyTree], Any]]:
    """Splits a function into what can be done early and the rest.

    function(early, late) == finish(prepare(early), late), where `prepare` holds every operation
    that needs `early` alone. With a random key as `early` and a loop's state as `late`, `prepare`
    is all the drawing of random numbers: it can be done for many stages at once, where it
    vectorises, and the loop is left with arithmetic.

    Args:
        function: Any traceable function of two PyTrees of arrays.
        early: An example of its first argument.
        late: An example of its second argument.

    Returns:
        (prepare, finish).
    """
    closed, shape = jax.make_jaxpr(function, return_shape=True)(early, late)
    jaxpr = closed.jaxpr
    count = len(jax.tree.leaves(early))
    inputs, state = jaxpr.invars[:count], jaxpr.invars[count:]

    ready = set(inputs)
    constant: set[jec.Var] = set()
    before, after = [], []
    for equation in _needed(jaxpr):
        needed = {v for v in equation.invars if isinstance(v, jec.Var)}
        if needed <= constant:  # cheaper to compute on both sides than to pass on
            constant.update(equation.outvars)
            before.append(equation)
            after.append(equation)
        elif needed <= ready | constant:
            ready.update(equation.outvars)
            before.append(equation)
        else:
            after.append(equation)

    used = [v for equation in after for v in equation.invars] + list(jaxpr.outvars)
    passed = list(dict.fromkeys(v for v in used if isinstance(v, jec.Var) and v in ready))
    early_jaxpr = jaxpr.replace(invars=inputs, outvars=passed, eqns=before)
    late_jaxpr = jaxpr.replace(invars=[*passed, *state], eqns=after)
    tree = jax.tree.structure(shape)

    def prepare(early: PyTree) -> list[Any]:
        return jax.core.eval_jaxpr(early_jaxpr, closed.consts, *jax.tree.leaves(early))

    def finish(prepared: list[Any], late: PyTree) -> Any:
        out = jax.core.eval_jaxpr(late_jaxpr, closed.consts, *prepared, *jax.tree.leaves(late))
        return jax.tree.unflatten(tree, out)

    return prepare, finish


def _needed(jaxpr: jec.Jaxpr) -> list[jec.JaxprEqn]:
    """The equations on which the results depend: a stage also tells what nobody asks for here."""
    used = {v for v in jaxpr.outvars if isinstance(v, jec.Var)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or any(v in used for v in equation.outvars):
            kept.append(equation)
            used.update(v for v in equation.invars if isinstance(v, jec.Var))
    return kept[::-1]

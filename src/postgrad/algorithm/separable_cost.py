"""Costs that add up over the coordinates of xi: then only its marginals matter.

The expected cost of several items, each with a demand of its own, does not depend on how the
demands are correlated. So one uniform number draws all of them, spread evenly on a line and over
its tails: a few thousand draws do what hundreds of thousands would with the joint law.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.algorithm.gradients.gradient import Gradient
from postgrad.beliefs.belief import Belief, first
from postgrad.distributions.inversion import are_drawn_apart, by_inversion, key_of
from postgrad.numerics.cache_by_shape import compiled_at_once, once_per_shape
from postgrad.numerics.lattice_keys import lattice_keys
from postgrad.problem.problem import Cost, Decision, Model, Problem

# At each decision a cost is tried with so many examples of theta, and with as many draws.
_THETAS = 8
# Draws far out are so far, as the logarithm of one over their probability.
_FAR = 13.8


def marginals(law: Any) -> Any:
    """Independent coordinates with the same marginals, where these are known; else `law` itself."""
    if not isinstance(law, dist.MultivariateNormal):
        return law
    spread = jnp.sqrt(jnp.sum(jnp.square(law.scale_tril), axis=-1))
    return dist.Normal(law.loc, spread, validate_args=False).to_event(1)


def adds_over_coordinates(
    problem: Problem, gradient: Gradient, x: Decision, belief: Belief
) -> bool:
    """Whether h(x, xi) = sum_i h_i(x, xi_i), and each marginal is drawn from one uniform number.

    Judged by what such costs, and no others, do when two draws a and b swap coordinate i:

        h(x, a) + h(x, b)  =  h(x, a with b_i) + h(x, b with a_i),

    tried at decisions all over the feasible set, each with several thetas of the belief.
    """
    examples = belief.examples()
    theta = first(examples)
    if len(problem.kind(x, theta).event_shape) != 1:
        return False
    if gradient.uses_baseline(problem, x, theta) or not gradient.draws(problem, x, theta):
        return False
    if not _has_marginals(problem.model, x, theta):
        return False
    return bool(_add_up(problem, problem.decisions(x, examples), belief))


@once_per_shape
def _has_marginals(model: Model, x: Decision, theta: PyTree) -> bool:
    """Whether there are several coordinates, the marginals of which are known."""
    found = []

    def look(x: Decision, theta: PyTree) -> None:
        law = model(x, theta)
        several = law.event_shape[0] > 1
        found.append(several and are_drawn_apart(by_inversion(marginals(law))))

    jax.eval_shape(look, x, theta)
    return found[0]


@compiled_at_once
def _add_up(problem: Problem, decisions: Float[Array, "k ..."], belief: Belief) -> Bool[Array, ""]:
    key, key_theta = random.split(lattice_keys(random.key(0), ()))
    examples = belief.examples()
    count = jax.tree.leaves(examples)[0].shape[0]
    chosen = np.linspace(0, count - 1, _THETAS).astype(int)
    drawn = belief.sample(key_theta, (_THETAS,))
    thetas = jax.tree.map(lambda a, b: jnp.concatenate([a[chosen], b]), examples, drawn)
    keys = random.split(key, (decisions.shape[0], 2 * _THETAS))
    at = jax.vmap(_swaps, in_axes=(None, None, 0, 0))
    return jnp.all(jax.vmap(at, in_axes=(None, 0, None, 0))(problem, decisions, thetas, keys))


def adds_at(problem: Problem, x: Decision, thetas: PyTree, key: Array) -> Bool[Array, ""]:
    """The same at one decision, with the first few of some thetas; inside compiled programs."""
    few = jax.tree.map(lambda leaf: leaf[:_THETAS], thetas)
    # by mixing, which compiles to far less than JAX's own generator
    keys = random.split(lattice_keys(key, ()), jax.tree.leaves(few)[0].shape[0])
    return jnp.all(jax.vmap(lambda theta, key: _swaps(problem, x, theta, key))(few, keys))


def _swaps(problem: Problem, x: Decision, theta: PyTree, key: Array) -> Bool[Array, "2 d"]:
    """Whether the costs of two draws stay the same in sum when they swap each coordinate.

    Two ordinary draws; then one that is far out, in all coordinates at once or in each to one of
    both sides: what coordinates do together may be rare, as an emergency of all shops is.
    Up to rounding of the costs, so in any unit of cost. A cost that is not finite says nothing.
    """
    law = by_inversion(marginals(problem.model(x, theta)))
    keys = random.split(key, 3)
    logit = random.logistic(keys[0], (2, *law.event_shape))
    level = random.uniform(keys[1], (2,), minval=-_FAR, maxval=_FAR)
    side = jnp.where(level[1] > 0.0, 1.0, random.rademacher(keys[2], law.event_shape))
    out = jnp.stack([level[0] * side, jnp.zeros(law.event_shape)])
    draw = jax.vmap(jax.vmap(lambda logit: law.sample(key_of(jax.nn.sigmoid(logit)))))
    a, b = jnp.swapaxes(draw(jnp.stack([logit, logit + out])), 0, 1)
    return jax.vmap(lambda a, b: _swap(problem, x, a, b))(a, b)


def _swap(problem: Problem, x: Decision, a: Array, b: Array) -> Bool[Array, " d"]:
    """The same of two draws."""
    each = problem.cost(x, a), problem.cost(x, b)
    whole, size = each[0] + each[1], jnp.abs(each[0]) + jnp.abs(each[1])

    def swapped(here: Array) -> Array:
        parts = problem.cost(x, jnp.where(here, b, a)) + problem.cost(x, jnp.where(here, a, b))
        return ~(jnp.abs(parts - whole) > 1e-9 * size)

    return jax.vmap(swapped)(jnp.eye(a.shape[0], dtype=bool))


def adds_over_decisions(problem: Problem, gradient: Gradient, x: Decision, thetas: PyTree) -> bool:
    """Whether the cost of one draw is a sum over the coordinates of x: sum_i h_i(x_i, noise).

    Then the averaged cost bends in each coordinate on its own. Judged by what such sums, and no
    others, do between two decisions a and b, tried over the feasible set with several thetas:

        h(b) - h(a)  =  sum_i h(a with b_i) - h(a).
    """
    if x.size == 1:
        return True
    theta = first(thetas)
    if gradient.uses_baseline(problem, x, theta) or not gradient.draws(problem, x, theta):
        return False
    return bool(jnp.all(_sums(problem, problem.decisions(x, thetas), thetas)))


@compiled_at_once
def _sums(problem: Problem, decisions: Array, thetas: PyTree) -> Bool[Array, "k pairs"]:
    count = jax.tree.leaves(thetas)[0].shape[0]

    def at(a: Decision, b: Decision, key: Array) -> Array:
        theta = jax.tree.map(
            lambda leaf: leaf[random.randint(random.fold_in(key, 1), (), 0, count)], thetas
        )

        def cost(x: Decision) -> Array:
            return problem.cost(x, problem.model(x, theta).sample(key))

        def moved(i: Array) -> Array:
            here = (jnp.arange(a.size) == i).reshape(a.shape)
            return cost(jnp.where(here, b, a)) - start

        start = cost(a)
        parts = jax.vmap(moved)(jnp.arange(a.size))
        size = jnp.abs(start) + jnp.sum(jnp.abs(parts))
        return ~(jnp.abs(cost(b) - start - jnp.sum(parts)) > 1e-9 * size)  # NaN says nothing

    keys = random.split(random.key(0), (decisions.shape[0], 2))
    each = jax.vmap(at, (None, None, 0))
    return jax.vmap(each)(decisions, jnp.roll(decisions, 1, axis=0), keys)


def costs_by_item(
    cost: Cost, x: Float[Array, "n d"], xi: Float[Array, "n d"]
) -> Float[np.ndarray, "n items"]:
    """The cost of each item where h(x, xi) = sum_i h_i(x_i, xi_i); else one column, the whole.

    With item i set to zero, in the decision and in the data, the cost falls by h_i(x_i, xi_i) -
    h_i(0, 0). If these differences add up to h(x, xi) - h(0, 0) in each row, the cost is such a
    sum; h(0, 0) is then shared by the items alike.
    """
    d = x.shape[1]
    keep = ~np.eye(d, dtype=bool)
    whole = np.asarray(jax.vmap(cost)(x, xi))
    without = jax.vmap(lambda keep: jax.vmap(cost)(x * keep, xi * keep), out_axes=1)(keep)
    nothing = float(cost(jnp.zeros(d), jnp.zeros(d)))
    each = whole[:, None] - np.asarray(without) + nothing / d
    size = np.abs(whole) + np.sum(np.abs(each), axis=1)
    adds_up = np.abs(each.sum(axis=1) - whole) <= 1e-9 * size
    return each if np.all(adds_up | np.isnan(whole)) else whole[:, None]

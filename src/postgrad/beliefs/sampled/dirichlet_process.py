"""A belief about a distribution of any form."""

import contextlib
import functools
import math
import warnings
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import BeliefWithMemory, first
from postgrad.beliefs.forgetting import Memory, fade
from postgrad.distributions.atoms import Atoms, same
from postgrad.distributions.density import log_density, settle
from postgrad.errors import ModelError, PriorError
from postgrad.numerics.fixed import fixed
from postgrad.numerics.gamma_draws import log_gamma
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, as_count, as_number, is_concrete
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem, has_proper_parameters

# How many draws of F the mean and the spread of theta are taken over.
_DRAWS = 1024
# Values that agree to this, relative to their size, share a slot.
_ROUNDING = 1e-9
# By how much a truncation may overstate the prior variance of a probability, relative to it.
_EXCESS = 0.01


class DirichletProcess(BeliefWithMemory):
    """theta is the unknown distribution F itself, of any form: F ~ DP(a, G).

        pi_t  =  DP(a + n,  (a G + sum_j w_j delta_{v_j}) / (a + n)),     n = sum_j w_j

    with v_j the values seen so far and w_j how often. For any set A, F(A) is then
    Beta((a + n) m, (a + n) (1 - m)), with m the probability of A under the bracket. With a = 0 the
    base drops out and this is the Bayesian bootstrap, which needs data before F can be drawn.

    theta is a dictionary of values (m, ...) and weights (m,), for a model that returns `Atoms`:

        model = lambda x, theta: Atoms(theta["values"] + jnp.sqrt(x), theta["weights"])

    Decisions may shift and scale the values, v -> g(x) + s(x) v coordinate by coordinate, and v is
    kept. Other models are refused.

    A draw of F has all values seen, with Gamma(w_j) weights, and a draw of DP(a, G) with Gamma(a)
    weight, all divided by their sum. The draw of DP(a, G) is truncated to `atoms` values
    (Sethuraman's sticks, the last one not broken). Means are exact; the prior variance of F(A) is
    too large by a share a (a / (a + 2))^(atoms - 1): 1e-30 for a = 1, 1e-4 for a = 10, at 64 atoms.

    Values seen have `capacity` slots, equal values one slot. If there are more, the two neighbours
    with the smallest product of weight and distance are replaced by their mean, repeatedly. F keeps
    its mean, and `displacement` bounds the error in other respects. Up to the capacity the belief
    is exact, and the order of the data does not matter.

    Attributes:
        base: G.
        concentration: a, as many observations as the prior is worth.
        values: v_j; zero in free slots.
        weights: w_j; zero in free slots; all NaN after data outside the base's support.
        moved: An upper bound on the sum over data of |slot's value - value seen|.
        memory: How much of the past counts.
        atoms: Values of the base in a draw.
    """

    base: Any = fixed()
    concentration: Float[Array, ""] = fixed()
    values: Float[Array, "c ..."]
    weights: Float[Array, " c"]
    moved: Float[Array, ""]
    memory: Memory
    atoms: int = eqx.field(static=True)

    def __init__(
        self,
        base: Any,
        concentration: Any = 1.0,
        *,
        atoms: int = 64,
        capacity: int = 256,
        forget: Any = None,
    ):
        """A prior around a base.

        Args:
            base: G, a distribution with numpyro's protocol: the prior guess at F.
            concentration: a, how many observations the guess is worth; zero is the bootstrap.
            atoms: Values of the base in a draw of F.
            capacity: How many different values are kept.
            forget: What remains of the evidence after one unit of time; everything, if not given.

        Raises:
            PriorError: If the base is not a proper distribution, the concentration is negative, or
                needs more atoms.
        """
        self.base = _as_base(base)
        self.concentration = as_number(
            concentration, PriorError, "concentration", "one number, zero or more", lambda a: a >= 0
        )
        self.atoms = as_count(atoms, PriorError, "atoms")
        capacity = as_count(capacity, PriorError, "capacity")
        if is_concrete(self.concentration) and (a := float(self.concentration)) > 0:
            needed = 1 + math.ceil(math.log(a / _EXCESS) / math.log1p(2.0 / a))
            if self.atoms < needed:
                raise PriorError(f"concentration {a:g} needs {needed} atoms at least, got {atoms}")
        self.values = jnp.zeros((capacity, *self.base.event_shape))
        self.weights = jnp.zeros(capacity)
        self.moved = jnp.zeros(())
        self.memory = Memory(forget)

    @property
    def displacement(self) -> Float[Array, ""]:
        """An upper bound on the mean distance between the values kept and the values seen.

        It bounds the Wasserstein distance between their distributions, hence also the error of the
        mean of any function with slope one. Zero up to the capacity.
        """
        return self.moved / jnp.maximum(jnp.sum(self.weights), jnp.finfo(float).tiny)

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Adds the weight of each observation to its slot, or a new slot."""
        del key
        new, inside, _ = jax.vmap(lambda y: self._undo(likelihood, batch.x, y))(batch.y)
        weight = batch.weight
        fresh = jnp.ones(len(batch.y)) if weight is None else jnp.maximum(weight, 0.0)
        weights = jnp.concatenate([self.weights, fresh])
        values = jnp.concatenate([self.values, new])
        possible = jnp.all(inside | (fresh == 0)) & ~jnp.any(jnp.isnan(weights))
        values, weights, moved = _keep(values, weights, self.weights.shape[0])
        weights = jnp.where(possible, weights, jnp.nan)
        moved, memory = self.moved + moved, self.memory.after(batch)
        return replaced(self, values=values, weights=weights, moved=moved, memory=memory)

    def _faded(self, share: Array) -> Self:
        weights, moved = fade((self.weights, self.moved), share)
        return replaced(self, weights=weights, moved=moved)

    @property
    def is_comparable(self) -> bool:
        """Only for a discrete base: see `log_mixture`."""
        return bool(self.base.support.is_discrete)

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Draws of F; NaN after impossible data, and if a = 0 before any data."""
        key_base, key_share, key_sticks = random.split(key, 3)
        fresh = jnp.asarray(self.base.sample(key_base, (*shape, self.atoms)), float)
        # Shares of the values seen, and of the base: gammas by their logarithms, which do not
        # underflow where weights are tiny.
        a = jnp.append(self.weights, self.concentration)
        shapes = jnp.broadcast_to(jnp.where(a > 0, a, 1.0), (*shape, a.size))
        share = jax.nn.softmax(jnp.where(a > 0, log_gamma(key_share, shapes), -jnp.inf))
        sticks = _sticks(key_sticks, self.concentration, (*shape, self.atoms))
        weights = jnp.concatenate([share[..., :-1], share[..., -1:] * sticks], axis=-1)
        # Free slots have no weight, but a cost is evaluated there: they hold a value of the base.
        event = (1,) * len(self.base.event_shape)
        filler = lax.slice_in_dim(fresh, 0, 1, axis=len(shape))
        seen = jnp.where((self.weights > 0).reshape(-1, *event), self.values, filler)
        values = jnp.concatenate([seen, fresh], axis=len(shape))
        theta, valid = {"values": values, "weights": weights}, jnp.sum(a) > 0
        return jax.tree.map(lambda leaf: jnp.where(valid, leaf, jnp.nan), theta)

    def mean(self) -> PyTree:
        """Over draws of F, slot by slot."""
        draws = self.sample(random.key(0), (_DRAWS,))
        return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), draws)

    def spread(self) -> PyTree:
        """Over draws of F, slot by slot."""
        draws = self.sample(random.key(0), (_DRAWS,))
        return jax.tree.map(lambda leaf: jnp.std(leaf, axis=0), draws)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """log (a g(v) / s(x) + sum_j w_j [v = v_j]) / (a + n), with v from xi = g(x) + s(x) v.

        For a continuous base this is a density at new values and a probability at values seen: the
        density of F_hat with respect to Lebesgue's measure plus the counting measure on the values
        seen. For a discrete base it is a probability.
        """
        v, inside, log_scale = self._undo(model, x, xi)
        equal = same(v, self.values, _ROUNDING).reshape(self.weights.shape[0], -1)
        is_seen = jnp.all(equal, axis=1) & (self.weights > 0)
        mass = jnp.sum(jnp.where(is_seen, self.weights, 0.0))
        log_g = log_density(self.base, jnp.where(inside, v, settle(self.base, v)[0]))
        if not self.base.support.is_discrete:
            log_g = jnp.where(mass > 0, -jnp.inf, log_g - log_scale)
        log_base = jnp.where(inside, jnp.log(self.concentration) + log_g, -jnp.inf)
        total = self.concentration + jnp.sum(self.weights)
        return jnp.logaddexp(log_base, jnp.log(mass)) - jnp.log(total)

    def examples(self) -> PyTree:
        """Even weights on values of the base."""
        count = self.weights.shape[0] + self.atoms
        values = jnp.asarray(self.base.sample(random.key(0), (4, count)), float)
        return {"values": values, "weights": jnp.full((4, count), 1.0 / count)}

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Checks that the model returns the given atoms, shifted and scaled at most.

        Raises:
            ModelError: If it does not.
        """
        for role, model in problem.models.items():
            self._check(role, Problem(problem.cost, model, problem.feasible), x)
        return self

    def fits(self, likelihood: Model, batch: Batch) -> Bool[Array, ""]:
        """Whether the values are shifted and scaled at most."""
        return _moves_only(self, likelihood, batch.x[None])

    def _check(self, role: str, problem: Problem, x: Decision) -> None:
        needs = (
            "DirichletProcess is the belief of a distribution: it needs "
            'Atoms(theta["values"], theta["weights"]), the values shifted and scaled at most'
        )
        theta = first(self.examples())
        returned = _returned(problem.model, x, theta)
        if not isinstance(returned, Atoms):
            name = "a function of another theta" if returned is None else type(returned).__name__
            raise ModelError(f"{needs}, but the {role} is {name}")
        if (shape := returned.event_shape) != self.base.event_shape:
            raise ModelError(
                f"the base's values have shape {self.base.event_shape}, those of the {role} {shape}"
            )
        places, tried = problem.decisions(x, self.examples()), self.examples()
        contexts = problem.in_trial_contexts(x, tried)
        if not all(bool(_moves_only(self, one.model, places)) for one in contexts):
            raise ModelError(f"{needs}, but the {role} is Atoms with other values or weights")

    def _undo(
        self, model: Model, x: Decision, y: Array
    ) -> tuple[Array, Bool[Array, ""], Float[Array, ""]]:
        """The v of y = g(x) + s(x) v, whether the base can have it, and log |s|."""
        g, s = _move(model, x, self.base.event_shape)
        v = (jnp.asarray(y, float) - g) / s
        if self.base.support.is_discrete:  # whole numbers stay whole
            whole = jnp.round(v)
            v = jnp.where(jnp.abs(v - whole) <= _ROUNDING * (1.0 + jnp.abs(v)), whole, v)
        return v, settle(self.base, v)[1], jnp.sum(jnp.log(jnp.abs(s)))


def _as_base(base: Any) -> Any:
    """A distribution whose numbers are arrays, or an error."""
    if not all(hasattr(base, name) for name in ("sample", "log_prob", "support")):
        raise PriorError(f"base must be a distribution, got {base!r}")
    if base.batch_shape != ():
        raise PriorError(f"base must be one distribution, got a stack {base.batch_shape} of them")
    base = jax.tree.map(lambda leaf: as_array(leaf, PriorError, "base"), base)
    if is_concrete(base) and not bool(has_proper_parameters(base)):
        raise PriorError(f"base must have parameters in their range, got {vars(base)}")
    return base


def _returned(model: Model, x: Decision, theta: PyTree) -> Any:
    """The model's distribution at theta, or else at theta = 1; None if neither can be computed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of a model that is given the wrong theta
        for candidate in (theta, jnp.ones(())):
            with contextlib.suppress(Exception):
                return model(x, candidate)
    return None


def _move(model: Model, x: Decision, event: tuple[int, ...]) -> tuple[Array, Array]:
    """g(x) and s(x), as the value and the derivative of v -> g(x) + s(x) v at zero."""

    def place(v: Array) -> Array:
        return model(x, {"values": v[None], "weights": jnp.ones(1)}).values[0]

    return jax.jvp(place, (jnp.zeros(event),), (jnp.ones(event),))


@eqx.filter_jit
def _moves_only(belief: DirichletProcess, model: Model, xs: Array) -> Bool[Array, ""]:
    """Whether values become g(x) + s(x) v, with s not zero, and weights stay as they are."""
    theta = first(belief.examples())
    theta["weights"] = jax.nn.softmax(jnp.arange(theta["weights"].size) % 7.0)

    def holds(x: Decision) -> Array:
        g, s = _move(model, x, belief.base.event_shape)
        found, expected = model(x, theta), g + s * theta["values"]
        size = jnp.abs(g) + jnp.abs(s * theta["values"])
        moved = jnp.abs(found.values - expected) <= _ROUNDING * size
        kept = jnp.abs(found.weights - theta["weights"]) <= _ROUNDING
        return jnp.all(moved) & jnp.all(kept) & jnp.all(s != 0) & jnp.all(jnp.isfinite(g * s))

    return jnp.all(jax.vmap(holds)(xs))


def _sticks(key: Array, a: Array, shape: tuple[int, ...]) -> Float[Array, "... n"]:
    """Weights of DP(a, .): each takes a Beta(1, a) share of the rest after those before it."""
    log_u = jnp.log(random.uniform(key, shape))
    rest = jnp.cumsum(log_u / a, axis=-1)[..., :-1]  # 1 - Beta(1, a) = U^(1/a)
    ends = jnp.pad(jnp.exp(rest), [(0, 0)] * (len(shape) - 1) + [(1, 1)])
    ends = ends.at[..., 0].set(1.0)
    return ends[..., :-1] - ends[..., 1:]


def _share(
    values: Float[Array, "n ..."], weights: Float[Array, " n"]
) -> tuple[Float[Array, "n ..."], Float[Array, " n"]]:
    """Values in order, equal ones in one slot, free slots (zeros) last."""
    n = weights.shape[0]
    columns = values.reshape(n, -1)
    order = jnp.lexsort((*columns.T[::-1], ~(weights > 0)))
    values, weights, columns = values[order], weights[order], columns[order]
    taken = weights > 0
    other = ~jnp.all(same(columns[1:], columns[:-1], _ROUNDING), axis=1)
    begins = taken & jnp.concatenate([jnp.ones(1, bool), other])
    slot = jnp.cumsum(begins) - 1
    shared = jnp.zeros(n).at[jnp.maximum(slot, 0)].add(jnp.where(taken, weights, 0.0))
    place = jnp.where(begins, slot, n)
    return jnp.zeros_like(values).at[place].set(values, mode="drop"), shared


@functools.partial(jax.jit, static_argnums=2)
def _keep(
    values: Float[Array, "n ..."], weights: Float[Array, " n"], capacity: int
) -> tuple[Float[Array, "c ..."], Float[Array, " c"], Float[Array, ""]]:
    """At most `capacity` values, and the sum of weight times distance that merging moved."""
    n = weights.shape[0]
    index = jnp.arange(n)

    def too_many(carry: tuple[Array, Array, Array]) -> Array:
        return jnp.sum(carry[1] > 0) > capacity

    def unite(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        values, weights, moved = carry
        i, j, cost = _cheapest(values, weights)
        w, v = weights[i] + weights[j], (weights[i] * values[i] + weights[j] * values[j])
        values, weights = values.at[i].set(v / w), weights.at[i].set(w)
        after = jnp.minimum(index + (index >= j), n - 1)  # slot j is closed
        values = values[after].at[-1].set(0.0)
        weights = weights[after].at[-1].set(0.0)
        return values, weights, moved + cost

    start = (*_share(values, weights), jnp.zeros(()))
    values, weights, moved = lax.while_loop(too_many, unite, start)
    return values[:capacity], weights[:capacity], moved


def _cheapest(values: Array, weights: Array) -> tuple[Array, Array, Array]:
    """The pair i < j of the smallest 2 w_i w_j / (w_i + w_j) |v_i - v_j|, and that number.

    It is the sum of weight times distance to their mean. Of single numbers in order, the cheapest
    pair are neighbours; of vectors, all pairs are compared.
    """
    n = weights.shape[0]
    if values.ndim == 1:
        i, j = jnp.arange(n - 1), jnp.arange(1, n)
    else:
        i, j = (jnp.asarray(side) for side in np.triu_indices(n, 1))
    ways = jnp.linalg.norm((values[j] - values[i]).reshape(i.size, -1), axis=1)
    less, more = jnp.minimum(weights[i], weights[j]), jnp.maximum(weights[i], weights[j])
    cost = jnp.where(less > 0, 2.0 * less / (1.0 + less / more) * ways, jnp.inf)
    best = jnp.argmin(cost)
    return i[best], j[best], cost[best]

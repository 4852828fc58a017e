"""A linear predictor: named terms, and all their coefficients as one vector."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.errors import ModelError
from postgrad.models.terms import Term
from postgrad.numerics.module import Module


class Predictor(Module):
    """A sum of terms: eta(theta, z).

        eta  =  sum over terms of  design(x, z)' theta[name]

    theta is a dictionary with the coefficients of each term under the term's name. As one vector
    they come in the order of the names, as in `jax.flatten_util.ravel_pytree`.

    Attributes:
        names: The names of the terms, sorted.
        members: The terms, in the order of their names. Programs are kept by what is not an array,
            which must be hashable: so no dictionary.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    members: tuple[Term, ...]

    def __init__(self, **terms: Term):
        """A sum of terms, `Predictor(level=Level(), weekday=Categorical(7))`.

        Raises:
            ModelError: If there is no term, or something else than a term.
        """
        if not terms:
            raise ModelError("Predictor needs at least one term, such as level=Level()")
        for name, term in terms.items():
            if not isinstance(term, Term):
                raise ModelError(f"{name} must be a term such as Numeric(), got {term!r}")
        self.names = tuple(sorted(terms))
        self.members = tuple(terms[name] for name in self.names)

    @property
    def terms(self) -> dict[str, Term]:
        """The terms by their names."""
        return dict(zip(self.names, self.members, strict=True))

    def __call__(self, theta: Mapping[str, Array], z: PyTree, x: Any = None) -> Float[Array, ""]:
        """eta; the decision x is needed where a term is a function of it.

        Of several items, which lie along the leading axis of all arrays, one eta for each.
        """
        own = {name: theta[name] for name in self.terms}
        name, term = next(iter(self.terms.items()))
        if jnp.ndim(own[name]) > len(term.shape):
            count = jnp.shape(own[name])[0]
            at = jnp.broadcast_to(x, (count,)) if x is not None and jnp.ndim(x) == 0 else x
            return jax.vmap(self)(own, z, at)
        return sum(
            (jnp.sum(term.design(name, x, z) * own[name]) for name, term in self.terms.items()),
            start=jnp.zeros(()),
        )

    def design(self, z: PyTree, x: Any = None) -> Float[Array, " d"]:
        """h, with eta = h' theta as one vector."""
        parts = (jnp.ravel(term.design(name, x, z)) for name, term in self.terms.items())
        return jnp.concatenate(list(parts))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each term's coefficients."""
        return {name: term.shape for name, term in self.terms.items()}

    def each(self, attribute: str) -> Float[Array, " d"]:
        """A number of the terms, such as "scale", for each coefficient."""
        return jnp.concatenate(
            [
                jnp.ravel(jnp.broadcast_to(getattr(term, attribute), term.shape))
                for term in self.terms.values()
            ]
        )

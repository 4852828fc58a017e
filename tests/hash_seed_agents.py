"""Makes or opens an agent of every belief and of several policies, in the file that is named.

    PYTHONHASHSEED=7 python tests/hash_seed_agents.py state.db [NAME ...]

With names only these. Prints the streams that the file was refused for, and nothing if there are
none.
"""

import sys

import jax.numpy as jnp
import optax
from test_beliefs import CASES

import postgrad as pg

POLICIES = {
    "search": {},
    "paper": pg.presets.paper(),
    "adam": {"steps": optax.adam(0.1)},
    "clipped momentum": {"steps": optax.chain(optax.clip(1.0), optax.sgd(0.1, momentum=0.9))},
    "langevin": {"steps": pg.descents.SGLD(0.1, 0.5)},
    "few draws": {"samples": 8},
    "risk": {"risk": pg.risks.CVaR(0.9)},
    "average": {"output": pg.outputs.Average()},
}


def cost(x, xi):
    """The squared distance."""
    return jnp.sum((x - xi) ** 2)


def agents(only):
    """(name, model, belief, x, options) of each stream, or only of those that are named."""
    for kind, cases in CASES.items():
        if only and kind.__name__ not in only:
            continue  # before it is made, which takes long
        made, model = cases[kind is pg.beliefs.Beta]  # the first one's support depends on x
        belief = made if isinstance(made, pg.beliefs.Belief) else made()
        x = [1.0, 1.0] if kind is pg.beliefs.Separate else 1.0
        score = pg.presets.paper(gradient=pg.gradients.Score())
        options = {} if kind is pg.beliefs.DirichletProcess else score
        yield kind.__name__, model, belief, x, options
    belief, model = CASES[pg.beliefs.Normal][0]
    for name, options in POLICIES.items():
        if not only or name in only:
            yield name, model, belief, 1.0, options


def refused(path, only):
    """Makes or opens the agents; why some were refused."""
    found = []
    with pg.Database(path) as database:
        for name, model, belief, x, options in agents(only):
            try:
                pg.Agent(pg.Problem(cost, model), belief, x, path=database, name=name, **options)
            except pg.errors.PostgradError as error:
                found.append(f"{name}: {error}")
    return found


if __name__ == "__main__":
    path, *only = sys.argv[1:]
    for line in refused(path, only):
        print(line)

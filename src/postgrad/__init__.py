"""postgrad: decisions that learn from a stream of data, even when the decisions change the data.

State a cost, a model of the uncertainty, a feasible set and a prior; every batch updates a Bayesian
posterior, and a few projected stochastic-gradient steps on the posterior-averaged cost update the
decision.

The public names are those of `__init__.pyi`. Each is imported when it is first used, so that
`postgrad --help` does not wait for JAX.
"""

import os
import sys

import lazy_loader

# Log-weights and sums that grow over a million batches need float64 (docs/design.md, "Precision").
# This must be said before JAX makes its first array, and importing JAX here would cost a second.
if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ["JAX_ENABLE_X64"] = "1"

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

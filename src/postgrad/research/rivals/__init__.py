"""Other ways to decide, from the literature, to compare with.

Each is a `Policy`, so `simulate` runs it like Bayesian-SGD. The MLE method, the plug-in of the
posterior mean, Thompson sampling, the known parameter and repeated gradient descent are
Bayesian-SGD with other parts in it and need no file here; `field` puts them together.
"""

from postgrad.research.rivals.field import BENCHMARK, Entrant, field, left_out, names
from postgrad.research.rivals.greedy import Greedy
from postgrad.research.rivals.perfgd import PerfGD
from postgrad.research.rivals.sample_average import SampleAverage
from postgrad.research.rivals.spsa import SPSA
from postgrad.research.rivals.two_stage import TwoStage
from postgrad.research.rivals.wasserstein import Wasserstein

__all__ = [
    "BENCHMARK",
    "SPSA",
    "Entrant",
    "Greedy",
    "PerfGD",
    "SampleAverage",
    "TwoStage",
    "Wasserstein",
    "field",
    "left_out",
    "names",
]

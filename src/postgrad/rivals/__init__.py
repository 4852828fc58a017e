"""Other ways to decide, from the literature, to compare with.

Each is a `Policy`, so `simulate` runs it like Bayesian-SGD. The MLE method, the plug-in of the
posterior mean, Thompson sampling, the known parameter and repeated gradient descent are
Bayesian-SGD with other parts in it and need no file here; `field` puts them together.
"""

from postgrad.rivals.field import BENCHMARK, Entrant, field, left_out, names
from postgrad.rivals.greedy import Greedy
from postgrad.rivals.perfgd import PerfGD
from postgrad.rivals.sample_average import SampleAverage
from postgrad.rivals.spsa import SPSA
from postgrad.rivals.two_stage import TwoStage
from postgrad.rivals.wasserstein import Wasserstein

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

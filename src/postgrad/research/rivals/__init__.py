"""Other ways to decide, from the literature, to compare Bayesian-SGD with.

Each is a `Policy`, so `simulate` runs it like Bayesian-SGD. The MLE method, the plug-in of the
posterior mean, Thompson sampling, the known parameter and repeated gradient descent are
Bayesian-SGD with other parts and need no file here; `entrants` puts them together.
"""

from postgrad.algorithm.policy import Policy as Policy
from postgrad.research.rivals.entrants import BENCHMARK as BENCHMARK
from postgrad.research.rivals.entrants import Entrant as Entrant
from postgrad.research.rivals.entrants import entrants as entrants
from postgrad.research.rivals.entrants import left_out as left_out
from postgrad.research.rivals.entrants import names as names
from postgrad.research.rivals.greedy import Greedy as Greedy
from postgrad.research.rivals.perfgd import PerfGD as PerfGD
from postgrad.research.rivals.sample_average import SampleAverage as SampleAverage
from postgrad.research.rivals.spsa import SPSA as SPSA
from postgrad.research.rivals.two_stage import TwoStage as TwoStage
from postgrad.research.rivals.wasserstein import Wasserstein as Wasserstein

# The public names, and where each lives: read by type checkers, and by `lazy_loader` at run time.

from . import beliefs as beliefs
from . import distributions as distributions
from . import errors as errors
from . import models as models
from . import monitoring as monitoring
from .agent.agent import Agent as Agent
from .algorithm import descents as descents
from .algorithm import gradients as gradients
from .algorithm import outputs as outputs
from .algorithm import presets as presets
from .algorithm import risks as risks
from .algorithm import step_sizes as step_sizes
from .algorithm.bayesian_sgd import BayesianSGD as BayesianSGD
from .beliefs.pooling.pool import Pool as Pool
from .monitoring.identifiability import Diagnosis as Diagnosis
from .monitoring.identifiability import diagnose as diagnose
from .numerics.program_cache.keeping import cache as cache
from .problem import feasible as feasible
from .problem import rules as rules
from .problem.items import Items as Items
from .problem.problem import Problem as Problem
from .records.explanation import Explanation as Explanation
from .records.record import Record as Record
from .records.record import Replay as Replay
from .research import plots as plots
from .research import problems as problems
from .research import rivals as rivals
from .research.comparison import Comparison as Comparison
from .research.comparison import compare as compare
from .research.simulation import Simulation as Simulation
from .research.simulation import simulate as simulate
from .spec.backtest import Backtest as Backtest
from .spec.backtest import backtest as backtest
from .store import Database as Database

__version__: str

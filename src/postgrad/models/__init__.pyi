# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .daily_demand import daily_demand as daily_demand
from .families import Bernoulli as Bernoulli
from .families import LogNormal as LogNormal
from .families import NegativeBinomial as NegativeBinomial
from .families import Normal as Normal
from .families import Poisson as Poisson
from .outliers import WithOutliers as WithOutliers
from .predictor import Predictor as Predictor
from .regression_model import RegressionModel as RegressionModel
from .terms import Categorical as Categorical
from .terms import Deviation as Deviation
from .terms import Feature as Feature
from .terms import Harmonic as Harmonic
from .terms import Level as Level
from .terms import Numeric as Numeric
from .terms import Term as Term
from .terms import Trend as Trend

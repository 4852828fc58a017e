# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .daily_demand import daily_demand as daily_demand
from .effects import Categorical as Categorical
from .effects import Feature as Feature
from .effects import Harmonic as Harmonic
from .effects import Numeric as Numeric
from .families import Bernoulli as Bernoulli
from .families import LogNormal as LogNormal
from .families import NegativeBinomial as NegativeBinomial
from .families import Normal as Normal
from .families import Poisson as Poisson
from .levels import Deviation as Deviation
from .levels import Level as Level
from .levels import Trend as Trend
from .outliers import WithOutliers as WithOutliers
from .predictor import Predictor as Predictor
from .regression_model import RegressionModel as RegressionModel
from .terms import Term as Term

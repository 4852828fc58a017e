# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .cvar import CVaR as CVaR
from .mean import Mean as Mean
from .mean_variance import MeanVariance as MeanVariance
from .risk import Risk as Risk
from .var import VaR as VaR

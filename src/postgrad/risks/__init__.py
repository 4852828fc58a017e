"""How costs under different theta are weighed."""

from postgrad.risks.cvar import CVaR
from postgrad.risks.mean import Mean
from postgrad.risks.mean_variance import MeanVariance
from postgrad.risks.risk import Risk
from postgrad.risks.var import VaR

__all__ = ["CVaR", "Mean", "MeanVariance", "Risk", "VaR"]

"""How costs under different theta are weighed."""

from postgrad.algorithm.risks.cvar import CVaR
from postgrad.algorithm.risks.mean import Mean
from postgrad.algorithm.risks.mean_variance import MeanVariance
from postgrad.algorithm.risks.risk import Risk
from postgrad.algorithm.risks.var import VaR

__all__ = ["CVaR", "Mean", "MeanVariance", "Risk", "VaR"]

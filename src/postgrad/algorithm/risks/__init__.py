"""How costs under different theta are weighed."""

from postgrad.algorithm.risks.cvar import CVaR as CVaR
from postgrad.algorithm.risks.mean import Mean as Mean
from postgrad.algorithm.risks.mean_variance import MeanVariance as MeanVariance
from postgrad.algorithm.risks.risk import Risk as Risk
from postgrad.algorithm.risks.var import VaR as VaR

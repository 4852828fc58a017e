"""Distributions, and facts about distributions, that numpyro does not have."""

from postgrad.distributions.atoms import Atoms as Atoms
from postgrad.distributions.censored import Censored as Censored
from postgrad.distributions.counts import NegativeBinomial as NegativeBinomial
from postgrad.distributions.counts import Poisson as Poisson

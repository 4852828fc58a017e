"""What is believed about theta."""

from postgrad.beliefs.adaptive import Adaptive
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.conjugate.beta import Beta
from postgrad.beliefs.conjugate.conjugate import Conjugate
from postgrad.beliefs.conjugate.dirichlet import Dirichlet
from postgrad.beliefs.conjugate.free_maximum_likelihood import FreeMaximumLikelihood
from postgrad.beliefs.conjugate.gamma import Gamma, InverseGamma
from postgrad.beliefs.conjugate.normal import Normal
from postgrad.beliefs.conjugate.normal_inverse_gamma import NormalInverseGamma
from postgrad.beliefs.conjugate.normal_inverse_wishart import NormalInverseWishart
from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.grid.product_grid import product
from postgrad.beliefs.known import Known
from postgrad.beliefs.point_mass import PointMass
from postgrad.beliefs.posterior_mean import PosteriorMean
from postgrad.beliefs.sampled.dirichlet_process import DirichletProcess
from postgrad.beliefs.sampled.langevin import Langevin
from postgrad.beliefs.sampled.particles import Particles
from postgrad.beliefs.separate import Separate
from postgrad.beliefs.thompson import Thompson

__all__ = [
    "Adaptive",
    "Belief",
    "Beta",
    "Conjugate",
    "Dirichlet",
    "DirichletProcess",
    "FreeMaximumLikelihood",
    "Gamma",
    "Gaussian",
    "Grid",
    "InverseGamma",
    "Known",
    "Langevin",
    "MaximumLikelihood",
    "Normal",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "Particles",
    "PointMass",
    "PosteriorMean",
    "Separate",
    "Thompson",
    "product",
]

"""What is believed about theta."""

from postgrad.beliefs.adaptive import Adaptive
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.beta import Beta
from postgrad.beliefs.conjugate import Conjugate
from postgrad.beliefs.dirichlet import Dirichlet
from postgrad.beliefs.dirichlet_process import DirichletProcess
from postgrad.beliefs.free_maximum_likelihood import FreeMaximumLikelihood
from postgrad.beliefs.gamma import Gamma, InverseGamma
from postgrad.beliefs.gaussian import Gaussian
from postgrad.beliefs.grid import Grid
from postgrad.beliefs.known import Known
from postgrad.beliefs.langevin import Langevin
from postgrad.beliefs.levels import product
from postgrad.beliefs.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.normal import Normal
from postgrad.beliefs.normal_inverse_gamma import NormalInverseGamma
from postgrad.beliefs.normal_inverse_wishart import NormalInverseWishart
from postgrad.beliefs.particles import Particles
from postgrad.beliefs.plug_in import PosteriorMean
from postgrad.beliefs.point_mass import PointMass
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

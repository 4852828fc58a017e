"""What is believed about theta."""

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.beta import Beta
from postgrad.beliefs.conjugate import Conjugate
from postgrad.beliefs.dirichlet import Dirichlet
from postgrad.beliefs.free_maximum_likelihood import FreeMaximumLikelihood
from postgrad.beliefs.gamma import Gamma, InverseGamma
from postgrad.beliefs.grid import Grid
from postgrad.beliefs.known import Known
from postgrad.beliefs.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.normal import Normal
from postgrad.beliefs.normal_inverse_gamma import NormalInverseGamma
from postgrad.beliefs.normal_inverse_wishart import NormalInverseWishart
from postgrad.beliefs.point_mass import PointMass
from postgrad.beliefs.product import product

__all__ = [
    "Belief",
    "Beta",
    "Conjugate",
    "Dirichlet",
    "FreeMaximumLikelihood",
    "Gamma",
    "Grid",
    "InverseGamma",
    "Known",
    "MaximumLikelihood",
    "Normal",
    "NormalInverseGamma",
    "NormalInverseWishart",
    "PointMass",
    "product",
]

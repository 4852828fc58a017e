"""What is believed about theta."""

from postgrad.beliefs.adaptive import Adaptive as Adaptive
from postgrad.beliefs.belief import Belief as Belief
from postgrad.beliefs.conjugate.beta import Beta as Beta
from postgrad.beliefs.conjugate.conjugate import Conjugate as Conjugate
from postgrad.beliefs.conjugate.dirichlet import Dirichlet as Dirichlet
from postgrad.beliefs.conjugate.free_maximum_likelihood import (
    FreeMaximumLikelihood as FreeMaximumLikelihood,
)
from postgrad.beliefs.conjugate.gamma import Gamma as Gamma
from postgrad.beliefs.conjugate.gamma import InverseGamma as InverseGamma
from postgrad.beliefs.conjugate.normal import Normal as Normal
from postgrad.beliefs.conjugate.normal_inverse_gamma import NormalInverseGamma as NormalInverseGamma
from postgrad.beliefs.conjugate.normal_inverse_wishart import (
    NormalInverseWishart as NormalInverseWishart,
)
from postgrad.beliefs.gaussian.gaussian import Gaussian as Gaussian
from postgrad.beliefs.grid.grid import Grid as Grid
from postgrad.beliefs.grid.maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from postgrad.beliefs.grid.product_grid import product_grid as product_grid
from postgrad.beliefs.known import Known as Known
from postgrad.beliefs.point_mass import PointMass as PointMass
from postgrad.beliefs.posterior_mean import PosteriorMean as PosteriorMean
from postgrad.beliefs.sampled.dirichlet_process import DirichletProcess as DirichletProcess
from postgrad.beliefs.sampled.langevin import Langevin as Langevin
from postgrad.beliefs.sampled.particles import Particles as Particles
from postgrad.beliefs.separate import Separate as Separate
from postgrad.beliefs.thompson import Thompson as Thompson

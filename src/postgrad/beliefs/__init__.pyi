# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .belief import Belief as Belief
from .conjugate.beta import Beta as Beta
from .conjugate.conjugate import Conjugate as Conjugate
from .conjugate.dirichlet import Dirichlet as Dirichlet
from .conjugate.free_maximum_likelihood import FreeMaximumLikelihood as FreeMaximumLikelihood
from .conjugate.gamma import Gamma as Gamma
from .conjugate.gamma import InverseGamma as InverseGamma
from .conjugate.normal import Normal as Normal
from .conjugate.normal_inverse_gamma import NormalInverseGamma as NormalInverseGamma
from .conjugate.normal_inverse_wishart import NormalInverseWishart as NormalInverseWishart
from .gaussian.gaussian import Gaussian as Gaussian
from .grid.grid import Grid as Grid
from .grid.maximum_likelihood import MaximumLikelihood as MaximumLikelihood
from .grid.product_grid import product_grid as product_grid
from .known import Known as Known
from .mixture.mixture import Mixture as Mixture
from .point_mass import PointMass as PointMass
from .posterior_mean import PosteriorMean as PosteriorMean
from .regression.daily_demand import daily_demand as daily_demand
from .regression.predictive import predictive_quantile as predictive_quantile
from .regression.regression import Regression as Regression
from .sampled.dirichlet_process import DirichletProcess as DirichletProcess
from .sampled.langevin import Langevin as Langevin
from .sampled.particles import Particles as Particles
from .separate import Separate as Separate
from .thompson import Thompson as Thompson

"""How the gradient of the posterior-averaged cost is estimated."""

from postgrad.algorithm.gradients.automatic import Automatic
from postgrad.algorithm.gradients.enumerate import Enumerate
from postgrad.algorithm.gradients.gradient import Gradient
from postgrad.algorithm.gradients.mixture_score import MixtureScore
from postgrad.algorithm.gradients.partial import Partial
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.algorithm.gradients.score import Score

__all__ = ["Automatic", "Enumerate", "Gradient", "MixtureScore", "Partial", "Pathwise", "Score"]

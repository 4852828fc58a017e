"""How the gradient of the posterior-averaged cost is estimated."""

from postgrad.gradients.automatic import Automatic
from postgrad.gradients.enumerate import Enumerate
from postgrad.gradients.gradient import Gradient
from postgrad.gradients.mixture_score import MixtureScore
from postgrad.gradients.partial import Partial
from postgrad.gradients.pathwise import Pathwise
from postgrad.gradients.score import Score

__all__ = ["Automatic", "Enumerate", "Gradient", "MixtureScore", "Partial", "Pathwise", "Score"]

"""How the gradient of the posterior-averaged cost is estimated."""

from postgrad.algorithm.gradients.automatic import Automatic as Automatic
from postgrad.algorithm.gradients.enumerate import Enumerate as Enumerate
from postgrad.algorithm.gradients.gradient import Gradient as Gradient
from postgrad.algorithm.gradients.gradient import Sample as Sample
from postgrad.algorithm.gradients.mixture_score import MixtureScore as MixtureScore
from postgrad.algorithm.gradients.partial import Partial as Partial
from postgrad.algorithm.gradients.pathwise import Pathwise as Pathwise
from postgrad.algorithm.gradients.score import Score as Score
from postgrad.algorithm.gradients.systematic import Systematic as Systematic

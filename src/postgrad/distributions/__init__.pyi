# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .atoms import Atoms as Atoms
from .censored import Censored as Censored
from .counts import NegativeBinomial as NegativeBinomial
from .counts import Poisson as Poisson

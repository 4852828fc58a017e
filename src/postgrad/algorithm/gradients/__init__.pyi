# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .automatic import Automatic as Automatic
from .enumerate import Enumerate as Enumerate
from .gradient import Gradient as Gradient
from .gradient import Sample as Sample
from .mixture_score import MixtureScore as MixtureScore
from .partial import Partial as Partial
from .pathwise import Pathwise as Pathwise
from .score import Score as Score
from .systematic import Systematic as Systematic

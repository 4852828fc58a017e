# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .descent import Course as Course
from .descent import Descent as Descent
from .descent import Doubt as Doubt
from .descent import Plan as Plan
from .descent import Stage as Stage
from .newton import Newton as Newton
from .search.search import Search as Search
from .sgd import SGD as SGD
from .sgd import Optax as Optax
from .sgld import SGLD as SGLD

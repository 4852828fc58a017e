# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .ball import Ball as Ball
from .box import Box as Box
from .budget import Budget as Budget
from .feasible_set import FeasibleSet as FeasibleSet
from .polyhedron import Polyhedron as Polyhedron
from .product import Product as Product
from .reals import Reals as Reals
from .simplex import Simplex as Simplex
from .whole.integers import Integers as Integers
from .whole.lots import Lots as Lots
from .whole.minimum_order import MinimumOrder as MinimumOrder

# The public names of the room, and where each lives: see `postgrad/__init__.pyi`.

from .constraints import AtLeast as AtLeast
from .constraints import AtMost as AtMost
from .constraints import Change as Change

"""A gallery of hard decision problems, each with a brute force to hold a solver against."""

# Each module fills the gallery when it is imported.
from hard_problems import valleys as valleys  # isort: skip
from hard_problems import bent_valleys as bent_valleys  # isort: skip
from hard_problems import jumps as jumps  # isort: skip
from hard_problems import flats as flats  # isort: skip
from hard_problems import tails as tails  # isort: skip
from hard_problems import scales as scales  # isort: skip
from hard_problems import dimensions as dimensions  # isort: skip
from hard_problems import allocations as allocations  # isort: skip
from hard_problems import belief_kinds as belief_kinds  # isort: skip
from hard_problems import more_beliefs as more_beliefs  # isort: skip
from hard_problems import risks as risks  # isort: skip
from hard_problems.base import GALLERY as GALLERY
from hard_problems.base import Hard as Hard

THEMES = ("valleys", "jumps", "flats", "tails", "scales", "dimensions", "beliefs", "risks")

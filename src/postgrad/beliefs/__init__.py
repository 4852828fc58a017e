"""What is believed about theta."""

from postgrad.beliefs import families
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.free_maximum_likelihood import FreeMaximumLikelihood
from postgrad.beliefs.grid import Grid
from postgrad.beliefs.known import Known
from postgrad.beliefs.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.point_mass import PointMass
from postgrad.beliefs.product import product

__all__ = [
    "Belief",
    "FreeMaximumLikelihood",
    "Grid",
    "Known",
    "MaximumLikelihood",
    "PointMass",
    "families",
    "product",
]

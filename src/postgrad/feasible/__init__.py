"""Where decisions may lie. Every set here knows the nearest point of itself: `project`."""

from postgrad.feasible.ball import Ball
from postgrad.feasible.box import Box
from postgrad.feasible.budget import Budget
from postgrad.feasible.feasible_set import FeasibleSet
from postgrad.feasible.polyhedron import Polyhedron
from postgrad.feasible.product import Product
from postgrad.feasible.reals import Reals
from postgrad.feasible.simplex import Simplex

__all__ = ["Ball", "Box", "Budget", "FeasibleSet", "Polyhedron", "Product", "Reals", "Simplex"]

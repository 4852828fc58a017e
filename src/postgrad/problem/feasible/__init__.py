"""Where decisions may lie. Every set here knows the nearest point of itself: `project`."""

from postgrad.problem.feasible.ball import Ball
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.budget import Budget
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.polyhedron import Polyhedron
from postgrad.problem.feasible.product import Product
from postgrad.problem.feasible.reals import Reals
from postgrad.problem.feasible.simplex import Simplex

__all__ = ["Ball", "Box", "Budget", "FeasibleSet", "Polyhedron", "Product", "Reals", "Simplex"]

"""Where decisions may lie: sets with `project`, which computes the nearest point of the set."""

from postgrad.problem.feasible.ball import Ball as Ball
from postgrad.problem.feasible.box import Box as Box
from postgrad.problem.feasible.budget import Budget as Budget
from postgrad.problem.feasible.feasible_set import FeasibleSet as FeasibleSet
from postgrad.problem.feasible.polyhedron import Polyhedron as Polyhedron
from postgrad.problem.feasible.product import Product as Product
from postgrad.problem.feasible.reals import Reals as Reals
from postgrad.problem.feasible.simplex import Simplex as Simplex

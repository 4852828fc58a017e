"""Ready-made problems, each with its truth and its optimum."""

from postgrad.problems import newsvendor, quadratic, sales
from postgrad.problems.instance import Instance

__all__ = ["Instance", "newsvendor", "quadratic", "sales"]

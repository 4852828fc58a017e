"""Specification files: a decision problem in TOML, without code."""

from postgrad.spec.setup import Setup
from postgrad.spec.specification import Specification, load

__all__ = ["Setup", "Specification", "load"]

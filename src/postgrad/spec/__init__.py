"""Specification files: a decision problem in TOML, without code."""

from postgrad.spec.specification import Specification as Specification
from postgrad.spec.specification import load as load

"""postgrad: decisions that learn from a stream of data, even when the decisions change the data.

State a cost, a model of the uncertainty, a feasible set and a prior; every batch updates a Bayesian
posterior, and a few projected stochastic-gradient steps on the posterior-averaged cost update the
decision.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

# Log-weights and sums that grow over a million batches need float64 (docs/design.md, "Precision").
# This must be said before JAX makes its first array, and importing JAX here would cost a second.
if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    os.environ["JAX_ENABLE_X64"] = "1"

if TYPE_CHECKING:
    from postgrad import errors as errors
    from postgrad import plots as plots
    from postgrad import presets as presets
    from postgrad import problems as problems
    from postgrad import rivals as rivals
    from postgrad.agent import Agent as Agent
    from postgrad.algorithm import BayesianSGD as BayesianSGD
    from postgrad.algorithm import Info as Info
    from postgrad.algorithm import State as State
    from postgrad.atoms import Atoms as Atoms
    from postgrad.beliefs import Adaptive as Adaptive
    from postgrad.beliefs import Belief as Belief
    from postgrad.beliefs import Beta as Beta
    from postgrad.beliefs import Dirichlet as Dirichlet
    from postgrad.beliefs import DirichletProcess as DirichletProcess
    from postgrad.beliefs import FreeMaximumLikelihood as FreeMaximumLikelihood
    from postgrad.beliefs import Gamma as Gamma
    from postgrad.beliefs import Gaussian as Gaussian
    from postgrad.beliefs import Grid as Grid
    from postgrad.beliefs import InverseGamma as InverseGamma
    from postgrad.beliefs import Known as Known
    from postgrad.beliefs import Langevin as Langevin
    from postgrad.beliefs import MaximumLikelihood as MaximumLikelihood
    from postgrad.beliefs import Normal as Normal
    from postgrad.beliefs import NormalInverseGamma as NormalInverseGamma
    from postgrad.beliefs import NormalInverseWishart as NormalInverseWishart
    from postgrad.beliefs import Particles as Particles
    from postgrad.beliefs import PosteriorMean as PosteriorMean
    from postgrad.beliefs import Separate as Separate
    from postgrad.beliefs import Thompson as Thompson
    from postgrad.beliefs import product as product
    from postgrad.censored import Censored as Censored
    from postgrad.comparison import Comparison as Comparison
    from postgrad.comparison import compare as compare
    from postgrad.contexts import Pool as Pool
    from postgrad.counts import NegativeBinomial as NegativeBinomial
    from postgrad.descents import SGD as SGD
    from postgrad.descents import SGLD as SGLD
    from postgrad.descents import Newton as Newton
    from postgrad.diagnosis import Diagnosis as Diagnosis
    from postgrad.diagnosis import diagnose as diagnose
    from postgrad.explanation import Explanation as Explanation
    from postgrad.feasible import Ball as Ball
    from postgrad.feasible import Box as Box
    from postgrad.feasible import Budget as Budget
    from postgrad.feasible import FeasibleSet as FeasibleSet
    from postgrad.feasible import Polyhedron as Polyhedron
    from postgrad.feasible import Product as Product
    from postgrad.feasible import Reals as Reals
    from postgrad.feasible import Simplex as Simplex
    from postgrad.gradients import Automatic as Automatic
    from postgrad.gradients import Enumerate as Enumerate
    from postgrad.gradients import Gradient as Gradient
    from postgrad.gradients import MixtureScore as MixtureScore
    from postgrad.gradients import Partial as Partial
    from postgrad.gradients import Pathwise as Pathwise
    from postgrad.gradients import Score as Score
    from postgrad.items import Items as Items
    from postgrad.monitor import Alarm as Alarm
    from postgrad.monitor import MisspecificationWarning as MisspecificationWarning
    from postgrad.monitor import Monitor as Monitor
    from postgrad.outlook import Outlook as Outlook
    from postgrad.outputs import Average as Average
    from postgrad.outputs import Last as Last
    from postgrad.outputs import Perturbed as Perturbed
    from postgrad.outputs import RandomIterate as RandomIterate
    from postgrad.policy import Policy as Policy
    from postgrad.problem import Problem as Problem
    from postgrad.record import Record as Record
    from postgrad.record import Replay as Replay
    from postgrad.risks import CVaR as CVaR
    from postgrad.risks import Mean as Mean
    from postgrad.risks import MeanVariance as MeanVariance
    from postgrad.risks import Risk as Risk
    from postgrad.risks import VaR as VaR
    from postgrad.simulation import Simulation as Simulation
    from postgrad.simulation import simulate as simulate
    from postgrad.stall import ConvergenceWarning as ConvergenceWarning
    from postgrad.stall import LockInWarning as LockInWarning
    from postgrad.steps import Constant as Constant
    from postgrad.steps import Harmonic as Harmonic
    from postgrad.steps import InverseSqrt as InverseSqrt
    from postgrad.store import Database as Database
    from postgrad.surprise import Surprise as Surprise
    from postgrad.walk import Backtest as Backtest
    from postgrad.walk import backtest as backtest

__version__ = "0.1.0"

# Where each public name lives. Rooms are imported when first used, so that `postgrad --help` does
# not wait for JAX.
_ROOMS = {
    "agent": ("Agent",),
    "algorithm": ("BayesianSGD", "Info", "State"),
    "atoms": ("Atoms",),
    "beliefs": (
        "Adaptive",
        "Belief",
        "Beta",
        "Dirichlet",
        "DirichletProcess",
        "FreeMaximumLikelihood",
        "Gamma",
        "Gaussian",
        "Grid",
        "InverseGamma",
        "Known",
        "Langevin",
        "MaximumLikelihood",
        "Normal",
        "NormalInverseGamma",
        "NormalInverseWishart",
        "Particles",
        "PosteriorMean",
        "Separate",
        "Thompson",
        "product",
    ),
    "censored": ("Censored",),
    "contexts": ("Pool",),
    "counts": ("NegativeBinomial",),
    "descents": ("SGD", "SGLD", "Newton"),
    "comparison": ("Comparison", "compare"),
    "diagnosis": ("Diagnosis", "diagnose"),
    "explanation": ("Explanation",),
    "feasible": (
        "Ball",
        "Box",
        "Budget",
        "FeasibleSet",
        "Polyhedron",
        "Product",
        "Reals",
        "Simplex",
    ),
    "gradients": (
        "Automatic",
        "Enumerate",
        "Gradient",
        "MixtureScore",
        "Partial",
        "Pathwise",
        "Score",
    ),
    "items": ("Items",),
    "monitor": ("Alarm", "MisspecificationWarning", "Monitor"),
    "outlook": ("Outlook",),
    "outputs": ("Average", "Last", "Perturbed", "RandomIterate"),
    "policy": ("Policy",),
    "problem": ("Problem",),
    "record": ("Record", "Replay"),
    "risks": ("CVaR", "Mean", "MeanVariance", "Risk", "VaR"),
    "simulation": ("Simulation", "simulate"),
    "stall": ("ConvergenceWarning", "LockInWarning"),
    "steps": ("Constant", "Harmonic", "InverseSqrt"),
    "store": ("Database",),
    "surprise": ("Surprise",),
    "walk": ("Backtest", "backtest"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

# Modules that are public as such.
_MODULES = ("errors", "plots", "presets", "problems", "rivals")

__all__ = [*_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"postgrad.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'postgrad' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"postgrad.{_HOME[name]}"), name)
    globals()[name] = value  # so that the next look-up is direct
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

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
    from postgrad.agent.agent import Agent as Agent
    from postgrad.agent.explanation import Explanation as Explanation
    from postgrad.agent.record import Record as Record
    from postgrad.agent.record import Replay as Replay
    from postgrad.algorithm import presets as presets
    from postgrad.algorithm.bayesian_sgd import BayesianSGD as BayesianSGD
    from postgrad.algorithm.bayesian_sgd import Info as Info
    from postgrad.algorithm.bayesian_sgd import State as State
    from postgrad.algorithm.decision_uncertainty import Outlook as Outlook
    from postgrad.algorithm.descents import SGD as SGD
    from postgrad.algorithm.descents import SGLD as SGLD
    from postgrad.algorithm.descents import Newton as Newton
    from postgrad.algorithm.gradients import Automatic as Automatic
    from postgrad.algorithm.gradients import Enumerate as Enumerate
    from postgrad.algorithm.gradients import Gradient as Gradient
    from postgrad.algorithm.gradients import MixtureScore as MixtureScore
    from postgrad.algorithm.gradients import Partial as Partial
    from postgrad.algorithm.gradients import Pathwise as Pathwise
    from postgrad.algorithm.gradients import Score as Score
    from postgrad.algorithm.outputs import Average as Average
    from postgrad.algorithm.outputs import Last as Last
    from postgrad.algorithm.outputs import Perturbed as Perturbed
    from postgrad.algorithm.outputs import RandomIterate as RandomIterate
    from postgrad.algorithm.policy import Policy as Policy
    from postgrad.algorithm.risks import CVaR as CVaR
    from postgrad.algorithm.risks import Mean as Mean
    from postgrad.algorithm.risks import MeanVariance as MeanVariance
    from postgrad.algorithm.risks import Risk as Risk
    from postgrad.algorithm.risks import VaR as VaR
    from postgrad.algorithm.step_sizes import Constant as Constant
    from postgrad.algorithm.step_sizes import Harmonic as Harmonic
    from postgrad.algorithm.step_sizes import InverseSqrt as InverseSqrt
    from postgrad.algorithm.surprise import Surprise as Surprise
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
    from postgrad.distributions.atoms import Atoms as Atoms
    from postgrad.distributions.censored import Censored as Censored
    from postgrad.distributions.counts import NegativeBinomial as NegativeBinomial
    from postgrad.monitoring.identifiability import Diagnosis as Diagnosis
    from postgrad.monitoring.identifiability import diagnose as diagnose
    from postgrad.monitoring.misspecification import Alarm as Alarm
    from postgrad.monitoring.misspecification import (
        MisspecificationWarning as MisspecificationWarning,
    )
    from postgrad.monitoring.misspecification import Monitor as Monitor
    from postgrad.monitoring.progress_warnings import ConvergenceWarning as ConvergenceWarning
    from postgrad.monitoring.progress_warnings import LockInWarning as LockInWarning
    from postgrad.problem.feasible import Ball as Ball
    from postgrad.problem.feasible import Box as Box
    from postgrad.problem.feasible import Budget as Budget
    from postgrad.problem.feasible import FeasibleSet as FeasibleSet
    from postgrad.problem.feasible import Polyhedron as Polyhedron
    from postgrad.problem.feasible import Product as Product
    from postgrad.problem.feasible import Reals as Reals
    from postgrad.problem.feasible import Simplex as Simplex
    from postgrad.problem.items import Items as Items
    from postgrad.problem.problem import Problem as Problem
    from postgrad.research import plots as plots
    from postgrad.research import problems as problems
    from postgrad.research import rivals as rivals
    from postgrad.research.comparison import Comparison as Comparison
    from postgrad.research.comparison import compare as compare
    from postgrad.research.simulation import Simulation as Simulation
    from postgrad.research.simulation import simulate as simulate
    from postgrad.spec.backtest import Backtest as Backtest
    from postgrad.spec.backtest import backtest as backtest
    from postgrad.spec.partial_pooling import Pool as Pool
    from postgrad.store import Database as Database

__version__ = "0.1.0"

# Where each public name lives. Rooms are imported when first used, so that `postgrad --help` does
# not wait for JAX.
_ROOMS = {
    "agent.agent": ("Agent",),
    "algorithm.bayesian_sgd": ("BayesianSGD", "Info", "State"),
    "distributions.atoms": ("Atoms",),
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
    "distributions.censored": ("Censored",),
    "spec.partial_pooling": ("Pool",),
    "distributions.counts": ("NegativeBinomial",),
    "algorithm.descents": ("SGD", "SGLD", "Newton"),
    "research.comparison": ("Comparison", "compare"),
    "monitoring.identifiability": ("Diagnosis", "diagnose"),
    "agent.explanation": ("Explanation",),
    "problem.feasible": (
        "Ball",
        "Box",
        "Budget",
        "FeasibleSet",
        "Polyhedron",
        "Product",
        "Reals",
        "Simplex",
    ),
    "algorithm.gradients": (
        "Automatic",
        "Enumerate",
        "Gradient",
        "MixtureScore",
        "Partial",
        "Pathwise",
        "Score",
    ),
    "problem.items": ("Items",),
    "monitoring.misspecification": ("Alarm", "MisspecificationWarning", "Monitor"),
    "algorithm.decision_uncertainty": ("Outlook",),
    "algorithm.outputs": ("Average", "Last", "Perturbed", "RandomIterate"),
    "algorithm.policy": ("Policy",),
    "problem.problem": ("Problem",),
    "agent.record": ("Record", "Replay"),
    "algorithm.risks": ("CVaR", "Mean", "MeanVariance", "Risk", "VaR"),
    "research.simulation": ("Simulation", "simulate"),
    "monitoring.progress_warnings": ("ConvergenceWarning", "LockInWarning"),
    "algorithm.step_sizes": ("Constant", "Harmonic", "InverseSqrt"),
    "store": ("Database",),
    "algorithm.surprise": ("Surprise",),
    "spec.backtest": ("Backtest", "backtest"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

# Modules that are public as such.
_MODULES = {
    "errors": "errors",
    "plots": "research.plots",
    "presets": "algorithm.presets",
    "problems": "research.problems",
    "rivals": "research.rivals",
}

__all__ = [*_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"postgrad.{_MODULES[name]}")
    if name not in _HOME:
        raise AttributeError(f"module 'postgrad' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"postgrad.{_HOME[name]}"), name)
    globals()[name] = value  # so that the next look-up is direct
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

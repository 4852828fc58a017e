"""Reports of stages of which nothing is known but that they happened."""

import jax.numpy as jnp
import numpy as np

from postgrad.algorithm.bayesian_sgd import Descended, Learned
from postgrad.algorithm.decision_uncertainty import unknown
from postgrad.algorithm.descents.descent import Course
from postgrad.algorithm.surprise import Surprise
from postgrad.engine.packing import Packed
from postgrad.engine.stage import DescendReport, LearnReport


def no_learn_report(event_shape: tuple[int, ...], rows: int) -> Packed:
    """A `LearnReport` that says nothing, packed."""
    each = jnp.full(event_shape, jnp.nan)
    learned = Learned(jnp.full(rows, jnp.nan), Surprise(each, each, each, each))
    return Packed.of(LearnReport(jnp.zeros(0), learned), np.concatenate)


def no_descend_report(x: np.ndarray) -> Packed:
    """A `DescendReport` that says nothing, packed; of a decision like x."""
    nan, none = jnp.asarray(jnp.nan), jnp.asarray(0.0)
    each = jnp.full((1, *x.shape), jnp.nan)
    curvature = jnp.full((x.size, x.size), jnp.nan)
    course = Course(each, each, curvature, nan, nan, none, none, none)
    told = DescendReport(jnp.zeros(0), Descended(course, unknown(jnp.asarray(x))))
    return Packed.of(told, np.concatenate)

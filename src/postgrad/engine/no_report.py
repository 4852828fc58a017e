"""Reports of stages of which nothing is known but that they happened."""

from typing import Any

import numpy as np

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.descent import Course
from postgrad.algorithm.stage_results import Descended, Learned
from postgrad.algorithm.surprise import Surprise
from postgrad.engine.packing import Packed
from postgrad.engine.stage import DescendReport, LearnReport

# By NumPy, where nothing needs to be compiled.
_NAN: Any = np.float64(np.nan)
_NONE: Any = np.float64(0.0)
_NOTHING: Any = np.zeros(0)


def no_learn_report(event_shape: tuple[int, ...], rows: int) -> Packed:
    """A `LearnReport` that says nothing, packed."""
    each = _nans(*event_shape)
    learned = Learned(_nans(rows), Surprise(each, each, each, each))
    return Packed.of(LearnReport(_NOTHING, learned), np.concatenate)


def no_descend_report(x: np.ndarray) -> Packed:
    """A `DescendReport` that says nothing, packed; of a decision like x."""
    steps, each = _nans(1, *x.shape), _nans(*x.shape)
    course = Course(steps, steps, _nans(x.size, x.size), _NAN, _NAN, _NONE, _NONE, _NONE)
    outlook = Outlook(each, each, each, _NAN, _NAN, _NAN)
    return Packed.of(DescendReport(_NOTHING, Descended(course, outlook)), np.concatenate)


def _nans(*shape: int) -> Any:
    return np.full(shape, np.nan)

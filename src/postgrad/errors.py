"""The errors of postgrad, by name.

Every error is a `PostgradError`, names the offending value and says what was expected. Errors are
raised before any state changes. They are `ValueError`s too, for code that does not import postgrad.
"""


class PostgradError(ValueError):
    """The base of all errors that postgrad raises."""


class BatchError(PostgradError):
    """A batch that is not data: empty, not finite, not numbers, or of the wrong shape."""


class SupportError(PostgradError):
    """Data that the model cannot have produced, whatever theta is."""


class ImpossibleDataError(PostgradError):
    """Data that no theta in the belief's support explains: the posterior would be 0/0."""


class DuplicateBatchError(PostgradError):
    """A batch whose id was seen before: counting it twice would overstate what is known."""


class DecisionError(PostgradError):
    """A decision that is not finite, has the wrong shape or lies outside the feasible set."""


class ContextError(PostgradError):
    """A context that is missing, not finite numbers, or not like the first one."""


class FeasibleSetError(PostgradError):
    """A feasible set that is empty or ill defined."""


class ModelError(PostgradError):
    """A model that yields no usable distribution at some (x, theta)."""


class ConstraintError(PostgradError):
    """Constraints on outcomes, or on changes, that no decision satisfies."""


class CostError(PostgradError):
    """A cost that is not one finite number."""


class GradientError(PostgradError):
    """A gradient estimator that would be wrong for the problem's model."""


class PriorError(PostgradError):
    """A belief whose support is empty or whose prior is not a probability distribution."""


class StepSizeError(PostgradError):
    """A step size that is not positive and finite."""


class SettingError(PostgradError):
    """A count, a name or another setting outside its range."""


class DivergenceError(PostgradError):
    """A gradient step after which the decision is not finite."""


class StoreError(PostgradError):
    """A file of decisions that cannot be read or written, is damaged, or has other settings."""


class SpecificationError(PostgradError):
    """A specification file with errors; the message lists all of them."""


class DataError(PostgradError):
    """A table of data that cannot be read, or that has a row with impossible values."""

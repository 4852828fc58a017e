"""Errors of other libraries in our words."""

import contextlib
from collections.abc import Iterator

from postgrad.errors import PostgradError


@contextlib.contextmanager
def reworded(what: str, error: type[PostgradError], *causes: type[Exception]) -> Iterator[None]:
    """Turn errors of the classes `causes` into one that says `what` is wrong, and then why.

    Raises:
        error: From the cause.
    """
    try:
        yield
    except causes as cause:
        raise error(f"{what}: {getattr(cause, 'strerror', None) or cause}") from cause

"""What all test modules share."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _programs_of_one_module_only():
    """Compiled programs are kept for one module: those of all would take gigabytes."""
    yield
    jax.clear_caches()

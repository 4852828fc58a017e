"""What all test modules share."""

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _programs_of_one_module_only():
    """Compiled programs are kept for one module: those of all would take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture(scope="module")
def quickly():
    """For modules whose programs are run once or twice: compiling them well takes longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# The longest modules, to start with: two workers then finish at about the same time.
FIRST = ("test_cli", "test_beliefs", "test_particles", "test_newsvendor", "test_agent")


def pytest_collection_modifyitems(items):
    """The longest modules first."""

    def place(item):
        name = item.module.__name__
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=place)

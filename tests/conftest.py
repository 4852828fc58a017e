"""What all test modules share."""

import os
import shutil
import tempfile
from importlib.metadata import version

import pytest

# With as many workers as processors each keeps to its own. XLA would have each use all of them, and
# its threads wait for each other by turning in circles.
if hasattr(os, "sched_setaffinity") and "PYTEST_XDIST_WORKER" in os.environ:
    _own, _workers = (os.environ[f"PYTEST_XDIST_WORKER{what}"] for what in ("", "_COUNT"))
    _processors = sorted(os.sched_getaffinity(0))
    if int(_workers) >= len(_processors):
        os.sched_setaffinity(0, {_processors[int(_own.removeprefix("gw")) % len(_processors)]})

# Most programs here are run once or twice, and compiling them takes longer than running them. So
# XLA does not optimise much, and goes without its slowest code generator and its threads; with
# `XLA_FLAGS= JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test` all is compiled as it is for users.
if version("jax").startswith("0.10."):  # a flag that XLA does not know ends the process
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )
QUICKLY = os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") != "0"

import jax  # noqa: E402

# And a worker compiles no program twice. Its folder is empty at first; others, and commands that
# tests run and kill, have no part in it, since JAX does not lock it.
PROGRAMS = tempfile.mkdtemp(prefix="postgrad-programs-")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_configure(config):
    """Of two threads, one may read what the other has half written; then it compiles as well."""
    message = "Error (reading|writing) persistent compilation cache entry"
    config.addinivalue_line("filterwarnings", f"ignore:{message}:UserWarning")


def pytest_unconfigure():
    """Nothing is kept for the next time."""
    shutil.rmtree(PROGRAMS, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def _programs_of_one_module_only():
    """Compiled programs are kept for one module: those of all would take gigabytes."""
    yield
    jax.clear_caches()
    # Tests that compare with another process to the last bit need both compiled alike.
    assert jax.config.read("jax_disable_most_optimizations") == QUICKLY, "a setting left behind"


@pytest.fixture(scope="module")
def optimised():
    """For modules whose programs run for longer than compiling them well takes."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICKLY)


# The longest modules, to start with: two workers then finish at about the same time.
FIRST = (
    *(
        "test_examples",
        "test_reference_decisions",
        "test_docs",
        "test_durable",
        "test_writers",
        "test_newsvendor",
        "test_particles",
        "test_beliefs",
        "test_claims_on_runs",
        "test_paper",
    ),
    *("test_sufficient_weights", "test_simulation", "test_dirichlet_process", "test_surprise"),
)


def pytest_collection_modifyitems(items):
    """The longest modules first."""

    def place(item):
        name = item.module.__name__
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=place)

"""What all test modules share."""

import ctypes
import gc
import os
import resource
import shutil
import tempfile
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest
from rooms import drawn

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
# JAX writes the lines of Python that each operation comes from into a program, down to pytest's
# own; XLA carries them through all its passes, for an eighth of the time that compiling takes.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

import jax  # noqa: E402

# And no program is compiled twice: all workers of a run share a folder that is empty at first. JAX
# does not lock it, but entries are compressed and carry checksums: a worker that reads what another
# has half written notices, and compiles. Commands that tests run and kill have no part in it.
PROGRAMS = os.environ.get("POSTGRAD_TEST_PROGRAMS")
IS_FIRST = PROGRAMS is None
if IS_FIRST:
    PROGRAMS = os.environ["POSTGRAD_TEST_PROGRAMS"] = tempfile.mkdtemp(prefix="postgrad-programs-")
jax.config.update("jax_compilation_cache_dir", PROGRAMS)
os.environ["POSTGRAD_CACHE"] = "off"
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# Tracing makes millions of small objects. Python looks for cycles among them less often, and never
# among those that collecting the tests has left.
gc.set_threshold(50_000, 20, 100)

# Between modules, programs and what was traced are let go of once the process takes so much memory.
# Letting go takes seconds, and so does tracing anew: where there is memory it is done less often,
# and first of all goes back to the system what compiling has left, half of all the memory that a
# process takes. Where that cannot be, the limit is then what the process takes, and some more.
_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
LEAST_LIMIT, MOST_LIMIT, MORE = max(2.5e9, _memory / 3), max(4e9, _memory / 3), 0.25e9
_limit = LEAST_LIMIT


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


def pytest_configure(config):
    """Who reads what another thread or worker has half written is warned, and compiles."""
    message = "Error (reading|writing) persistent compilation cache entry"
    config.addinivalue_line("filterwarnings", f"ignore:{message}:UserWarning")


def pytest_unconfigure():
    """Nothing is kept for the next time."""
    if IS_FIRST:
        shutil.rmtree(PROGRAMS, ignore_errors=True)


def _resident() -> float:
    """How many bytes of memory this process takes; infinite where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("inf")
    return pages * resource.getpagesize()


def _give_back() -> None:
    """Memory that was freed goes back to the system, where the C library is GNU's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@pytest.fixture(autouse=True, scope="module")
def _programs_within_memory():
    """Modules share compiled programs, but those of all modules would take many gigabytes."""
    global _limit
    yield
    if _resident() > _limit:
        _give_back()
    if _resident() > _limit:
        jax.clear_caches()
        gc.collect()
        _give_back()
        _limit = min(max(LEAST_LIMIT, _resident() + MORE), MOST_LIMIT)
    # Tests that compare with another process to the last bit need both compiled alike.
    assert jax.config.read("jax_disable_most_optimizations") == QUICKLY, "a setting left behind"


@pytest.fixture(scope="module")
def optimised():
    """For modules whose programs run for longer than compiling them well takes."""
    jax.clear_caches()  # programs of other modules were compiled quickly, these must not stay
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICKLY)
    jax.clear_caches()


@pytest.fixture
def optimised_once():
    """For one test, whose programs no other test may share: those are not compiled anew."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICKLY)


# Those that drop all programs, while there are few; then the longest modules: two workers then
# finish at about the same time.
FIRST = (
    "test_newsvendor",
    "test_rest",
    "test_paper",
    "test_particles_against_nuts",
    "test_beliefs",
    "test_simulation",
    "test_sufficient_weights",
    "test_reference_decisions",
    "test_particles",
    "test_search",
    "test_agent",
    "test_problems",
    "test_backtest",
    "test_dirichlet_process",
    "test_assumptions",
    "test_strangers",
    "test_censored",
    "test_search_laws",
    "test_surprise",
    "test_gradients",
    "test_program_cache",
    "test_tails",
    "test_quantiles",
    "test_hard",
    "test_corrections",
    "test_durable",
    "test_spec_agents",
    "test_hash_seeds",
    "test_writers",
    "test_examples",
    "test_cli",
)


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what is slow
def pytest_collection_modifyitems(items):
    """The longest modules first; of cases that are sampled, those not drawn are slow."""

    def place(item):
        name = item.module.__name__
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=place)
    sampled = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("sample")
        if mark and not item.get_closest_marker("slow"):
            pool = mark.kwargs.get("of", item.nodeid.partition("[")[0])
            sampled[pool, *mark.args].append(item)
    for (pool, count), cases in sampled.items():
        for item in set(cases) - set(drawn(pool, cases, count)):
            item.add_marker("slow")

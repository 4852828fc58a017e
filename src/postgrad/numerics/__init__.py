"""Arithmetic and random numbers that know nothing of decisions."""

import os

# Every room that compiles programs imports this one first.
if os.environ.get("POSTGRAD_CACHE"):
    from postgrad.numerics.program_cache.keeping import cache_as_told

    cache_as_told()

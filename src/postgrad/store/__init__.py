"""Batches, states and decisions in SQLite, each with a checksum; needs NumPy only, not JAX."""

from postgrad.store.database import Database as Database
from postgrad.store.store import Store as Store
from postgrad.store.stored_state import Batch as Batch
from postgrad.store.stored_state import Head as Head
from postgrad.store.stored_state import Saved as Saved
from postgrad.store.stored_state import Stale as Stale

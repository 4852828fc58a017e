"""Batches, states and decisions in SQLite, each with a checksum; needs NumPy only, not JAX."""

from postgrad.store.database import Database as Database
from postgrad.store.store import Store as Store
from postgrad.store.stored_state import WENT_BACK as WENT_BACK
from postgrad.store.stored_state import Batch as Batch
from postgrad.store.stored_state import Event as Event
from postgrad.store.stored_state import Issue as Issue
from postgrad.store.stored_state import StaleStateError as StaleStateError
from postgrad.store.stored_state import StoredState as StoredState
from postgrad.store.stored_state import StreamHead as StreamHead

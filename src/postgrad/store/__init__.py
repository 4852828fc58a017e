"""What survives: batches, states and decisions in SQLite. The only room that touches a disk."""

from postgrad.store.rows import Batch, Head, Saved, Stale
from postgrad.store.store import Store, names

__all__ = ["Batch", "Head", "Saved", "Stale", "Store", "names"]

"""What survives: batches, states and decisions in SQLite. The only room that touches a disk."""

from postgrad.store.database import Database
from postgrad.store.entries import Batch, Head, Saved, Stale
from postgrad.store.store import Store

__all__ = ["Batch", "Database", "Head", "Saved", "Stale", "Store"]

"""What survives: batches, states and decisions in SQLite. The only room that touches a disk."""

from postgrad.store.database import Database as Database
from postgrad.store.entries import Batch as Batch
from postgrad.store.entries import Head as Head
from postgrad.store.entries import Saved as Saved
from postgrad.store.entries import Stale as Stale
from postgrad.store.store import Store as Store

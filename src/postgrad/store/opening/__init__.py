"""How a database is opened: connected to, and checked."""

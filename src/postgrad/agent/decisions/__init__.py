"""Decisions for a context: sought, issued under an id, and what batches arise under them."""

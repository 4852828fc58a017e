"""What happens to a running agent besides new batches: other versions, corrections, changes."""

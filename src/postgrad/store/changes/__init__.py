"""What happens to a stream besides new batches: events on record, corrections, other formats."""

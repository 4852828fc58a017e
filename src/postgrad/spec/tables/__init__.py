"""Tables in and out: files and frames, rows as batches, exports, figures."""

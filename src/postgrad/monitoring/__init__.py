"""Warnings: data that contradict the model, descents that stall, parameters no data tell apart."""

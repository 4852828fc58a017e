"""The benchmark of data-driven newsvendors: one specification for all items and service levels."""

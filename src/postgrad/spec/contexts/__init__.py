"""Contexts of specifications: from the columns of a table to numbers known before a decision."""

"""Compiled programs that are kept on disk between processes."""

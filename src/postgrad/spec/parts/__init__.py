"""The words of a specification file, one class each."""

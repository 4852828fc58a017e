"""The parts of a problem that a specification file can name, one class each."""

"""Questions about decisions that an agent answers: what they cost, and how two of them compare."""

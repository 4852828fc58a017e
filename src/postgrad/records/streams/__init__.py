"""What is stored of a stream, and what happened to it, as told without JAX."""

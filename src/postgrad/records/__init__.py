"""What is on record of a stream, and how it is told: NumPy only, so that reading needs no JAX."""

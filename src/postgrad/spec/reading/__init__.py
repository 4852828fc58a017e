"""Reading what a specification has decided, without JAX."""

"""Partial pooling: the parameters of many streams come from one population, which is learned."""

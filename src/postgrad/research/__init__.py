"""Simulated closed loops: experiments, comparisons, the testbed, the paper."""

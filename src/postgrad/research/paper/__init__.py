"""The paper's experiments, and their figures."""

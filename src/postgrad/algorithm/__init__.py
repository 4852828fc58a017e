"""The paper's algorithm and its parts: gradients, descents, risks, outputs, step sizes."""

"""What the user states: cost, model, feasible set."""

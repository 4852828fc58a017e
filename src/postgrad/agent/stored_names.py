"""The names of classes and fields in files. They are frozen: Python may rename, files may not.

Settings name classes, and the fields that lead to a number; headers of stored arrays name the
fields that lead to an array. A class or a field that is renamed in Python keeps its name in files
by an entry in `CLASSES` or `FIELDS`. `tests/test_stored_names.py` compares `FROZEN` with the code.
"""

from typing import Any

# Of each class that is renamed since it was first stored: its name in Python, its name in files.
CLASSES: dict[str, str] = {"Mixture": "Adaptive"}
# Of each field that is renamed: the class in files, the field in Python; the field in files.
FIELDS: dict[tuple[str, str], str] = {}
# Functions of postgrad that settings name: their name in Python, their name in files.
FUNCTIONS: dict[str, str] = {}

# All classes in files, and their fields. Entries are added, and never changed.
FROZEN = {
    "Adaptive": "beliefs log_weights shared discount idle",
    "Automatic": "",
    "Average": "",
    "Ball": "center radius",
    "BatchBelief": "",
    "BayesianSGD": "problem gradient descent risk output iterations samples key",
    "Belief": "",
    "BeliefWithMemory": "",
    "Bernoulli": "predictor",
    "Beta": "prior data memory",
    "Box": "low high",
    "Bridge": "prior kept memory likelihood batch",
    "Budget": "low high weights total",
    "CVaR": "quantile",
    "Categorical": "levels column scale walk",
    "Conjugate": "prior data memory",
    "Constant": "a horizon",
    "Coordinates": "each shape",
    "CountsEvents": "prior data memory",
    "Course": "gradient noise curvature gain settled doubt switched local_only",
    "Descent": "",
    "Deviation": "scale returning",
    "Dirichlet": "prior data memory",
    "DirichletProcess": "base concentration values weights moved memory atoms",
    "Enumerate": "",
    "Estimate": "",
    "Exponential": "",
    "ExponentialFamily": "",
    "FeasibleSet": "",
    "Feature": "function size scale walk",
    "FlatModel": "model theta",
    "FreeMaximumLikelihood": "belief",
    "Gamma": "prior data memory",
    "Gaussian": "prior_loc prior_precision evidence rule memory",
    "GaussianPopulation": "strength prior_loc prior_precision",
    "Gradient": "",
    "Grid": "points weights memory",
    "GridPopulation": "strength points places log_prior",
    "Harmonic": "a b pairs column scale period",
    "InContext": "function numbers structure",
    "Info": "log_predictive surprise course outlook",
    "Integers": "set",
    "Instance": "problem theta x_star x expected_cost points prior batch_size",
    "InverseGamma": "prior data memory",
    "InverseSqrt": "a",
    "Issued": "output memory",
    "Items": "each",
    "Kalman": "exact",
    "KeptLikelihood": "",
    "KeptRows": "x y weight count context",
    "Known": "value",
    "Langevin": "prior kept positions step_size memory steps adjusted adapts",
    "Laplace": "exact",
    "Last": "",
    "Level": "level scale walk",
    "Linear": "scale",
    "LogNormal": "predictor",
    "LogWeights": "values prior",
    "Lots": "set size",
    "MaximumLikelihood": "belief",
    "Mean": "",
    "MeanVariance": "c",
    "Memory": "forget size",
    "MinimumOrder": "set least",
    "Mismatch": "underage overage",
    "MixtureScore": "",
    "Module": "",
    "Monitor": "alpha stage start since_start since_best best rest asleep outlying raised surprise",
    "MovedDraws": "prior kept positions",
    "MultivariateNormal": "origin",
    "NegativeBinomial": "predictor",
    "Newsvendor": "cost price salvage",
    "Newton": "",
    "Normal": "prior data memory origin of_logarithm predictor",
    "NormalInverseGamma": "prior data memory",
    "NormalInverseWishart": "prior data memory",
    "NormalLaw": "mean lower",
    "NormalOfScale": "scale",
    "Numeric": "column scale walk",
    "Optax": "optimizer",
    "Outlook": "epistemic low high aleatoric cost_of_not_knowing value_of_a_batch",
    "Output": "",
    "Partial": "",
    "Particles": "prior kept positions log_weights gained step memory move moves",
    "Pathwise": "",
    "Perturbed": "size decay",
    "Plan": "number key iterations samples",
    "PlugIn": "",
    "PointMass": "",
    "Poisson": "predictor",
    "Policy": "",
    "Polyhedron": "A b",
    "Pool": "strength name",
    "Population": "",
    "PosteriorMean": "belief",
    "Predictor": "names members",
    "Prior": "numbers tree order shapes",
    "Problem": "cost model feasible observation",
    "Product": "sets sizes",
    "RandomIterate": "",
    "Reals": "",
    "Regression": "shapes prior_loc scale half_life drift numbers loc covariance_matrix size",
    "RegressionModel": "",
    "Revenue": "unit_cost",
    "Risk": "",
    "Rows": "natural log_prior index blocks",
    "Rule": "",
    "SGD": "schedule",
    "SGLD": "steps temperature cooling",
    "SampledObjective": "problem gradient risk mixture only_marginals additive tails",
    "Score": "",
    "Search": "",
    "Separate": "beliefs",
    "Shift": "pivots lift rest trials here",
    "ShiftedLogNormal": "shift",
    "Simplex": "total",
    "Squared": "",
    "StackedPopulation": "each",
    "Stage": "plan objective thetas rows size wide",
    "State": "stage belief x progress output only_marginals additive tails failed whole",
    "SufficientTotals": "family shift x theta sums",
    "SufficientWeights": "family shift everything live size statistics since tally missing",
    "Sum": "high low",
    "Surprise": "pit_location pit_spread z_location z_spread",
    "Systematic": "",
    "TailLoss": "quantile",
    "TakesSteps": "",
    "Tally": "blocks leaves peaks",
    "Term": "",
    "Thompson": "belief value",
    "Track": "curvature bends squares count looks variance bend matrix reach others explained "
    "convex believed",
    "Trend": "column origin unit scale",
    "Univariate": "",
    "VaR": "quantile",
    "Weights": "",
    "WholeSet": "set",
    "WithOutliers": "model share",
    "_Cloud": "positions log_weights past present step",
}

# The functions of postgrad in files: the models of specifications.
FROZEN_FUNCTIONS = {"_bernoulli", "_exponential", "_negative_binomial", "_normal", "_poisson"}


def class_name(kind: type) -> str:
    """The name of a class in files."""
    name = kind.__qualname__
    return CLASSES.get(name, name) if kind.__module__.startswith("postgrad.") else name


def field_name(kind: type, field: str) -> str:
    """The name of a field in files."""
    return FIELDS.get((class_name(kind), field), field)


def function_name(function: Any) -> str:
    """The name of a function, or of the class of another object, in files."""
    name = getattr(function, "__qualname__", None)
    if name is None or isinstance(function, type):
        return class_name(function if isinstance(function, type) else type(function))
    own = getattr(function, "__module__", None) or ""
    return FUNCTIONS.get(name, name) if own.startswith("postgrad.") else str(name)

"""The default against the literal algorithm at equal simulation budgets.

python benchmarks/budget.py [EXPERIMENT ...] [--budgets 1 16 256] [--runs 1000] [--horizon 1000]
                            [--json]

A budget is samples x iterations, draws of (theta, xi) a stage. postgrad has all of it as samples
of one Newton step; the literal algorithm may spend it on iterations (K steps of one sample) or on
samples (one step of their mean), and the better of the two counts at each stage.
"""

import argparse
import json
import time

import numpy as np

import postgrad as pg
from postgrad.research.paper.experiments import EXPERIMENTS

_STAGES = (10, 20, 50, 100, 200, 500, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--budgets", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="mean errors at the stages only")
    arguments = parser.parse_args()
    means: dict[str, dict[int, dict[str, list[float]]]] = {}
    for name in arguments.names or list(EXPERIMENTS):
        experiment = EXPERIMENTS[name]
        instance = experiment.instance(experiment.region.feasible)
        for budget in arguments.budgets:
            literal = pg.presets.paper(gradient=experiment.gradient)
            options = {
                "postgrad": {"samples": budget, "iterations": 1},
                "K steps": literal | {"iterations": budget},
                "one step": literal | {"samples": budget},
            }
            if budget == 1:
                del options["one step"]
            errors, began = {}, time.perf_counter()
            for label, option in options.items():
                result = pg.simulate(
                    pg.BayesianSGD(instance.problem, **option),
                    pg.beliefs.Grid(instance.points),
                    instance.x,
                    instance.theta,
                    runs=arguments.runs,
                    horizon=arguments.horizon,
                    batch_size=experiment.batch_size,
                )
                errors[label] = result.errors(instance.x_star)
            stages = [t for t in _STAGES if t <= arguments.horizon]
            means.setdefault(name, {})[budget] = {
                label: error.mean(axis=0)[stages].tolist() for label, error in errors.items()
            }
            if arguments.json:
                continue
            print(f"{name}, budget {budget} ({time.perf_counter() - began:.0f} s)", flush=True)
            for t in stages:
                own = errors["postgrad"][:, t]
                other = min((errors[key][:, t] for key in errors if key != "postgrad"), key=np.mean)
                lead = other - own
                half = 1.96 * lead.std() / np.sqrt(len(lead))
                verdict = "" if lead.mean() > 0 else "  NOT LOWER"
                print(
                    f"  t = {t:5d}  postgrad {own.mean():.4f}  literal {other.mean():.4f}  "
                    f"difference {lead.mean():.4f} +- {half:.4f}{verdict}",
                    flush=True,
                )
    if arguments.json:
        print(json.dumps(means))


if __name__ == "__main__":
    main()

"""Several policies in one world, on the same random numbers."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from scipy.special import stdtrit

from postgrad.engine.bulk import Progress
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count
from postgrad.research import rivals
from postgrad.research.problems import Instance
from postgrad.research.progress import RunStages, silent
from postgrad.research.rivals import BENCHMARK, Entrant
from postgrad.research.side_by_side import side_by_side

# Mean differences below this share of the initial regret are rounding errors of the expected cost.
_ROUNDING = 1e-9
# Decisions whose expected cost is computed at once.
_AT_ONCE = 4096


class Difference(NamedTuple):
    """How much worse a rival was than the reference, run by run on the same random numbers.

    Attributes:
        mean: The mean over runs of (rival's regret - reference's regret).
        low: The lower end of its 95 % interval.
        high: The upper end.
        verdict: What the reference is: "better" if the interval lies above zero, "worse" if below,
            "tied" if zero is in it.
    """

    mean: float
    low: float
    high: float
    verdict: str


class Comparison(eqx.Module):
    """The record of a comparison, as plain NumPy arrays.

    A run whose decision is not a number or beyond 1e6 has diverged. It is not dropped: from then on
    it counts with the worst error and regret that any algorithm had in any run at any stage.

    Attributes:
        errors: |x_t - x*| by algorithm, (run, stage); stage 0 is the initial decision.
        regrets: H(x_t) - H(x*), likewise.
        diverged: How many runs of each algorithm diverged.
        left_out: Algorithms that do not apply, with the reason.
        reference: The algorithm that the others are compared with.
        settings: runs, horizon, batch_size, seed, x_star.
    """

    errors: dict[str, np.ndarray]
    regrets: dict[str, np.ndarray]
    diverged: dict[str, int]
    left_out: dict[str, str]
    reference: str
    settings: dict[str, Any]

    @property
    def competitors(self) -> list[str]:
        """The names of all algorithms but the reference and the one that knows the truth."""
        return [name for name in self.regrets if name not in (self.reference, BENCHMARK)]

    def at_the_end(self, rival: str) -> Difference:
        """The paired difference of the regrets at the last stage."""
        return self._difference(rival, lambda regret: regret[:, -1])

    def over_all_stages(self, rival: str) -> Difference:
        """The paired difference of the mean regrets over the stages 1, ..., T."""
        return self._difference(rival, lambda regret: regret[:, 1:].mean(axis=1))

    def _difference(self, rival: str, of: Callable[[np.ndarray], np.ndarray]) -> Difference:
        reference = self.regrets[self.reference]
        slack = _ROUNDING * float(np.abs(reference[:, 0]).mean())
        return paired(of(self.regrets[rival]) - of(reference), slack)

    def summary(self) -> dict[str, Any]:
        """Plain lists and numbers, of the kind that `postgrad reproduce` writes."""
        algorithms: dict[str, Any] = {
            name: {
                f"{statistic.__name__}_{what}": statistic(values[name], axis=0).tolist()
                for what, values in (("error", self.errors), ("regret", self.regrets))
                for statistic in (np.mean, np.std)
            }
            | {"diverged": self.diverged[name]}
            for name in self.regrets
        }
        against = {}
        others = [name for name in self.regrets if name != self.reference]
        for name in others:
            last, mean = self.at_the_end(name), self.over_all_stages(name)
            against[name] = {"last": last._asdict(), "mean": mean._asdict()}
        found = {"algorithms": algorithms, "against": against, "left_out": self.left_out}
        return {**self.settings, "reference": self.reference, **found}

    def table(self) -> str:
        """Regrets and verdicts as plain text, the least regret at the last stage first."""
        rows = [["algorithm", "regret at T", "mean regret", f"{self.reference} at T", "over all t"]]
        for name in sorted(self.regrets, key=lambda name: self.regrets[name][:, -1].mean()):
            regret = self.regrets[name]
            cells = [_mean_and_half_width(v) for v in (regret[:, -1], regret[:, 1:].mean(axis=1))]
            if name != self.reference:
                cells += [self.at_the_end(name).verdict, self.over_all_stages(name).verdict]
            rows.append([with_diverged(name, self.diverged[name]), *cells, "", ""][:5])
        first, *numbers, last, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [
            f"{a:{first}}  {b:>{numbers[0]}}  {c:>{numbers[1]}}  {d:{last}}  {e}".rstrip()
            for a, b, c, d, e in rows
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        lines += [f"left out: {name} ({reason})" for name, reason in self.left_out.items()]
        return "\n".join(lines)

    __str__ = table

    def __repr__(self) -> str:
        last = ", ".join(f"{name}: {r[:, -1].mean():.4g}" for name, r in self.regrets.items())
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"Comparison({settings}, reference={self.reference!r}, regret at T = {{{last}}})"


def compare(
    instance: Instance,
    entrants: Mapping[str, Entrant] | Sequence[str] | None = None,
    *,
    runs: int = 100,
    horizon: int = 1000,
    batch_size: int | None = None,
    seed: int = 0,
    reference: str = "postgrad",
    progress: Progress = silent,
) -> Comparison:
    """Runs several policies on an instance and compares their regrets, run by run.

    Run i of every policy meets the same data noise, so that differences between policies are known
    far better than their means.

    Args:
        instance: The problem with its truth.
        entrants: Policies with their beliefs, by name; or names out of `rivals.entrants(instance)`;
            all of these, if not given.
        runs: How many runs of each.
        horizon: T, how many stages.
        batch_size: D; the instance's own, if not given.
        seed: The seed of everything.
        reference: The name of the policy that the others are compared with.
        progress: Called with what is being run, and the run-stages done and to do.

    Raises:
        SettingError: On unknown names, and if the reference is not among the entrants.
    """
    chosen, missing = _choose(instance, entrants)
    if reference not in chosen:
        raise SettingError(f"the reference {reference!r} must be among {', '.join(chosen)}")
    size = instance.batch_size if batch_size is None else batch_size
    settings = {**as_counts(runs=runs, horizon=horizon, batch_size=size), "seed": seed}
    counter = RunStages(progress, len(chosen) * settings["runs"] * settings["horizon"])
    jobs = {
        name: functools.partial(counter.simulate, name, instance, *entrant, **settings)
        for name, entrant in chosen.items()
    }
    done = dict(side_by_side(jobs, counter))
    results = {name: done[name] for name in chosen}
    lost = {name: result.diverged_by_stage() for name, result in results.items()}
    errors = {name: result.errors(instance.x_star) for name, result in results.items()}
    regrets = {name: _regrets(instance, result.decisions) for name, result in results.items()}
    return Comparison(
        errors=_penalised(errors, lost),
        regrets=_penalised(regrets, lost),
        diverged={name: int(mask[:, -1].sum()) for name, mask in lost.items()},
        left_out=missing,
        reference=reference,
        settings=settings | {"x_star": np.atleast_1d(instance.x_star).tolist()},
    )


def _choose(
    instance: Instance, entrants: Mapping[str, Entrant] | Sequence[str] | None
) -> tuple[dict[str, Entrant], dict[str, str]]:
    """The entrants to run, and the reasons why others that were asked for are not run."""
    if isinstance(entrants, Mapping):
        return {name: Entrant(*entrant) for name, entrant in entrants.items()}, {}
    able, unable = rivals.entrants(instance), rivals.left_out(instance)
    wanted = known_names(entrants or (), rivals.names(), "algorithm")
    missing = {name: unable[name] for name in wanted if name in unable}
    return {name: able[name] for name in wanted if name in able}, missing


def as_counts(**counts: Any) -> dict[str, Any]:
    """The numbers by name, each a positive int.

    Raises:
        SettingError: If one is not a positive whole number; the message names it.
    """
    return {what: as_count(count, SettingError, what) for what, count in counts.items()}


def known_names(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """`names` without repeats, or all known names if there are none.

    Raises:
        SettingError: On an unknown name; the message lists the known ones.
    """
    unknown = [name for name in names if name not in known]
    if unknown:
        listed = ", ".join(map(repr, unknown))
        raise SettingError(f"unknown {what} {listed}; known are {', '.join(known)}")
    return list(dict.fromkeys(names)) or list(known)


def paired(differences: Float[np.ndarray, " runs"], slack: float = 0.0) -> Difference:
    """The mean of paired differences with its 95 % t-interval, and the verdict.

    Args:
        differences: Rival less reference, one for each run.
        slack: A mean as small as this is no difference.
    """
    mean, half = float(differences.mean()), float(half_width(differences))
    low, high = mean - half, mean + half
    if abs(mean) <= slack or low <= 0.0 <= high:
        return Difference(mean, low, high, "tied")
    return Difference(mean, low, high, "better" if mean > 0 else "worse")


def half_width(values: Float[np.ndarray, "runs ..."]) -> np.ndarray:
    """Half of Student's 95 % interval of the mean over runs; infinite for a single run."""
    n = len(values)
    if n == 1:
        return np.full(values.shape[1:], np.inf)
    return stdtrit(n - 1, 0.975) * values.std(axis=0, ddof=1) / np.sqrt(n)


def with_diverged(name: str, count: int) -> str:
    """The name of an algorithm, and how many of its runs diverged, if any did."""
    return f"{name} ({count} diverged)" if count else name


def _penalised(values: dict[str, np.ndarray], lost: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values, with the largest of all algorithms, runs and stages where a run has diverged."""
    bad = {name: lost[name] | ~np.isfinite(value) for name, value in values.items()}
    kept = np.concatenate([value[~bad[name]] for name, value in values.items()])
    worst = kept.max() if kept.size else np.nan
    return {name: np.where(bad[name], worst, value) for name, value in values.items()}


def _regrets(instance: Instance, decisions: np.ndarray) -> np.ndarray:
    """H(x_t) - H(x*), (run, stage)."""
    costs = _expected_costs(instance, jnp.asarray(decisions.reshape(-1, *decisions.shape[2:])))
    best = float(instance.expected_cost(instance.x_star))
    return np.asarray(costs).reshape(decisions.shape[:2]) - best


@eqx.filter_jit
def _expected_costs(instance: Instance, decisions: Float[Array, "n ..."]) -> Float[Array, " n"]:
    return lax.map(instance.expected_cost, decisions, batch_size=_AT_ONCE)


def _mean_and_half_width(values: Float[np.ndarray, " runs"]) -> str:
    half = float(half_width(values))
    return f"{values.mean():.4g} ± {half:.2g}" if np.isfinite(half) else f"{values.mean():.4g}"

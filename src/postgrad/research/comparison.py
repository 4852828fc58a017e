"""Several policies in one world, on the same random numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import betainc
from jaxtyping import Array, Float

from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count
from postgrad.research.problems import Instance
from postgrad.research.rivals import BENCHMARK, Entrant, field, left_out
from postgrad.research.rivals import names as known_names
from postgrad.research.simulation import simulate

Watch = Callable[[str, int, int], None]
# Differences below this share of the initial regret are rounding, or that of a quadrature.
_ROUNDING = 1e-9
# A decision beyond this, or not a number, has diverged.
_BEYOND = 1e6
_ROWS = 4096


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
        """All but the reference and the one who knows the truth."""
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
        algorithms = {
            name: {
                "mean_error": self.errors[name].mean(axis=0).tolist(),
                "std_error": self.errors[name].std(axis=0).tolist(),
                "mean_regret": self.regrets[name].mean(axis=0).tolist(),
                "std_regret": self.regrets[name].std(axis=0).tolist(),
                "diverged": self.diverged[name],
            }
            for name in self.regrets
        }
        against = {
            name: {
                "last": self.at_the_end(name)._asdict(),
                "mean": self.over_all_stages(name)._asdict(),
            }
            for name in self.regrets
            if name != self.reference
        }
        return {
            **self.settings,
            "reference": self.reference,
            "algorithms": algorithms,
            "against": against,
            "left_out": self.left_out,
        }

    def table(self) -> str:
        """Regrets and verdicts as plain text, the least regret at the end first."""
        rows = [["algorithm", "regret at T", "mean regret", f"{self.reference} at T", "over all t"]]
        order = sorted(self.regrets, key=lambda name: float(self.regrets[name][:, -1].mean()))
        for name in order:
            regret = self.regrets[name]
            columns = regret[:, -1], regret[:, 1:].mean(axis=1)
            cells = [_with_half_width(values) for values in columns]
            if name == self.reference:
                cells += ["", ""]
            else:
                cells += [self.at_the_end(name).verdict, self.over_all_stages(name).verdict]
            count = self.diverged[name]
            rows.append([f"{name} ({count} diverged)" if count else name, *cells])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.rjust(width) if 1 <= i <= 2 else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines.insert(1, "-" * max(map(len, lines)))
        lines += [f"left out: {name} ({reason})" for name, reason in self.left_out.items()]
        return "\n".join(lines)


def compare(
    instance: Instance,
    entrants: Mapping[str, Entrant] | Sequence[str] | None = None,
    *,
    runs: int = 100,
    horizon: int = 1000,
    batch_size: int | None = None,
    seed: int = 0,
    reference: str = "postgrad",
    progress: Watch = lambda label, done, total: None,
) -> Comparison:
    """Runs several policies on an instance and compares their regrets, run by run.

    Run i of every policy meets the same data noise, so that differences between policies are known
    far better than their means.

    Args:
        instance: The problem with its truth.
        entrants: Policies with their beliefs, by name; or names out of `rivals.field(instance)`;
            all of these, if not given.
        runs: How many runs of each.
        horizon: T, how many stages.
        batch_size: D; the instance's own, if not given.
        seed: The seed of everything.
        reference: The one that the others are compared with.
        progress: Called with what is being run, and the run-stages done and to do.

    Raises:
        SettingError: On names that nobody has, and without the reference among the entrants.
    """
    chosen, missing = _choose(instance, entrants)
    if reference not in chosen:
        raise SettingError(f"the reference {reference!r} must be among {', '.join(chosen)}")
    runs = as_count(runs, SettingError, "runs")
    horizon = as_count(horizon, SettingError, "horizon")
    size = as_count(
        instance.batch_size if batch_size is None else batch_size, SettingError, "batch_size"
    )
    total, done = len(chosen) * runs * horizon, 0
    decisions = {}
    for name, entrant in chosen.items():
        progress(name, done, total)

        def more(count: int, name: str = name) -> None:
            nonlocal done
            done += count
            progress(name, done, total)

        decisions[name] = simulate(
            entrant.policy,
            entrant.belief,
            instance.x,
            instance.theta,
            runs=runs,
            horizon=horizon,
            batch_size=size,
            seed=seed,
            progress=more,
        )
    lost = {name: _lost(result.decisions) for name, result in decisions.items()}
    errors = {name: result.errors(instance.x_star) for name, result in decisions.items()}
    regrets = {name: _regrets(instance, result.decisions) for name, result in decisions.items()}
    return Comparison(
        errors=_penalised(errors, lost),
        regrets=_penalised(regrets, lost),
        diverged={name: int(mask[:, -1].sum()) for name, mask in lost.items()},
        left_out=missing,
        reference=reference,
        settings={
            "runs": runs,
            "horizon": horizon,
            "batch_size": size,
            "seed": seed,
            "x_star": np.atleast_1d(instance.x_star).tolist(),
        },
    )


def _choose(
    instance: Instance, entrants: Mapping[str, Entrant] | Sequence[str] | None
) -> tuple[dict[str, Entrant], dict[str, str]]:
    if isinstance(entrants, Mapping):
        return {name: Entrant(*entrant) for name, entrant in entrants.items()}, {}
    everybody, missing = field(instance), left_out(instance)
    if entrants is None:
        return everybody, missing
    wanted = select(entrants, known_names(), "algorithm")
    return (
        {name: everybody[name] for name in wanted if name in everybody},
        {name: missing[name] for name in wanted if name in missing},
    )


def select(names: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """`names` without repeats, or all known ones if there are none.

    Raises:
        SettingError: On an unknown name; the message lists the known ones.
    """
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SettingError(
            f"unknown {what} {', '.join(map(repr, unknown))}; known are {', '.join(known)}"
        )
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
    """Half of the 95 % t-interval of the mean over runs; infinite for a single run."""
    n = len(values)
    if n == 1:
        return np.full(values.shape[1:], np.inf)
    return float(_t_quantile(n - 1)) * values.std(axis=0, ddof=1) / np.sqrt(n)


@jax.jit
def _t_quantile(degrees: int) -> Float[Array, ""]:
    """The t with P(|T| <= t) = 0.95: P(|T| > t) is a beta function, and bisection inverts it."""
    nu = jnp.asarray(degrees, jnp.float64)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        too_small = betainc(0.5 * nu, 0.5, nu / (nu + middle**2)) > 0.05
        return jnp.where(too_small, middle, low), jnp.where(too_small, high, middle)

    return lax.fori_loop(0, 60, halve, (jnp.asarray(0.0), jnp.asarray(16.0)))[1]


def _lost(decisions: np.ndarray) -> np.ndarray:
    """Whether a run has diverged by each stage, (run, stage)."""
    flat = np.abs(decisions).reshape(*decisions.shape[:2], -1)
    return np.logical_or.accumulate(~(flat <= _BEYOND).all(axis=-1), axis=1)


def _penalised(values: dict[str, np.ndarray], lost: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With the worst of all instead of what diverged."""
    kept = [value[~lost[name] & np.isfinite(value)] for name, value in values.items()]
    worst = max((float(part.max()) for part in kept if part.size), default=np.nan)
    return {
        name: np.where(lost[name] | ~np.isfinite(value), worst, value)
        for name, value in values.items()
    }


def _regrets(instance: Instance, decisions: np.ndarray) -> np.ndarray:
    """H(x_t) - H(x*), (run, stage)."""
    flat = decisions.reshape(-1, *decisions.shape[2:])
    missing = -len(flat) % _ROWS
    rows = np.concatenate([flat, np.repeat(flat[-1:], missing, axis=0)])
    costs = np.asarray(_costs(instance, jnp.asarray(rows.reshape(-1, _ROWS, *flat.shape[1:]))))
    best = float(instance.expected_cost(instance.x_star))
    return costs.reshape(-1)[: len(flat)].reshape(decisions.shape[:2]) - best


@eqx.filter_jit
def _costs(instance: Instance, rows: Float[Array, "k n ..."]) -> Float[Array, "k n"]:
    return lax.map(jax.vmap(instance.expected_cost), rows)


def _with_half_width(values: np.ndarray) -> str:
    half = float(half_width(values))
    return f"{values.mean():.4g} ± {half:.2g}" if np.isfinite(half) else f"{values.mean():.4g}"

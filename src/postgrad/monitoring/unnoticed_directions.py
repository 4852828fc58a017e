"""Directions in which theta can move without a change in the distribution of the data."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, PyTree

from postgrad.beliefs.belief import as_rows

# Singular values of scores count as zero below this share of the largest.
_ZERO = 1e-6


@dataclass(frozen=True)
class Direction:
    """A direction of theta along which the distribution of the data does not change.

    Attributes:
        entries: How far each entry of theta moves, by its name; entries that stay are left out.
        at: The theta where the direction holds; None if it holds at all values of theta.
    """

    entries: dict[str, float]
    at: PyTree = None

    def __str__(self) -> str:
        names, steps = list(self.entries), list(self.entries.values())
        near = "" if self.at is None else f"near theta = {rounded(self.at)}, "
        if len(names) == 1:
            return f"{near}{names[0]} has no effect"
        if len(names) == 2:
            through = _sum({names[0]: 1.0, names[1]: -steps[0] / steps[1]})
            return f"{near}{names[0]} and {names[1]} enter only through {through}"
        return f"{near}a step along {_sum(self.entries)} has no effect"


class DirectionSpace:
    """The span of the differences of given values of theta, each entry in units of its spread.

    Values of theta on a simplex, or symmetric matrices, do not vary in all directions, and the
    other directions need not be identified.

    Args:
        thetas: Values of theta along a leading axis.
        smooth: Whether densities have derivatives in theta; if not, the space is empty.
    """

    def __init__(self, thetas: PyTree, smooth: bool = True):
        rows = as_rows(thetas)
        self.names = _entry_names(thetas)
        self.scale = rows.std(axis=0)
        scaled = (rows - rows.mean(axis=0)) / np.where(self.scale > 0, self.scale, 1.0)
        _, lengths, basis = np.linalg.svd(scaled, full_matrices=False)
        self.basis = basis[(lengths > 1e-8 * max(lengths[0], 1e-8)) & smooth]

    def project(self, scores: Float[np.ndarray, "m J p"]) -> Float[np.ndarray, "m J r"]:
        """The scores along the basis; zero where a score is not finite."""
        proper = np.isfinite(scores).all(axis=-1, keepdims=True)
        return np.where(proper, scores, 0.0) * self.scale @ self.basis.T

    def nullities(self, scores: Float[np.ndarray, "k m J r"]) -> np.ndarray:
        """The number of null directions at each theta, given data from all k decisions."""
        return np.asarray([len(self._null(scores[:, i])) for i in range(scores.shape[1])])

    def directions(
        self, scores: Float[np.ndarray, "k m J r"], first: PyTree
    ) -> tuple[Direction, ...]:
        """The directions that are null at all theta, if there are any; else those at `first`."""
        if not np.all(self.nullities(scores) > 0):
            return ()
        common = self._null(scores)
        rows, at = (common, None) if len(common) else (self._null(scores[:, 0]), first)
        return tuple(Direction(self._entries(row), at) for row in _echelon(rows))

    def _null(self, scores: Float[np.ndarray, "... r"]) -> Float[np.ndarray, "m p"]:
        """Null vectors of the information matrix, in units of each entry's spread."""
        if not len(self.basis):
            return np.empty((0, len(self.names)))
        rows = scores.reshape(-1, scores.shape[-1])
        _, lengths, vectors = np.linalg.svd(rows, full_matrices=False)
        return vectors[lengths <= max(_ZERO * lengths[0], 1e-12)] @ self.basis

    def _entries(self, row: Float[np.ndarray, " p"]) -> dict[str, float]:
        moved = np.abs(row) > _ZERO * np.abs(row).max()
        steps = row[moved] * self.scale[moved]
        steps = steps / (np.sign(steps[0]) * np.abs(steps).max())
        return dict(zip(np.asarray(self.names)[moved].tolist(), steps.tolist(), strict=True))


def rounded(value: PyTree) -> str:
    """Numbers to four digits, as text."""
    to_four_digits = np.vectorize(lambda number: float(f"{number:.4g}"), otypes=[float])
    return str(jax.tree.map(lambda leaf: to_four_digits(leaf).tolist(), value))


def _entry_names(thetas: PyTree) -> list[str]:
    """theta['mean'][2] and the like, in the order of `as_rows`."""
    return [
        f"theta{jax.tree_util.keystr(path)}" + (str(list(index)) if index else "")
        for path, leaf in jax.tree_util.tree_leaves_with_path(thetas)
        for index in np.ndindex(leaf.shape[1:])
    ]


def _echelon(rows: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "m p"]:
    """Rows with the same span, each with an entry that is zero in the others: easier to read."""
    rows = rows.copy()
    for i in range(len(rows)):
        pivot, j = divmod(int(np.abs(rows[i:]).argmax()), rows.shape[1])
        rows[[i, i + pivot]] = rows[[i + pivot, i]]
        rows[i] /= rows[i, j]
        others = np.arange(len(rows)) != i
        rows[others] -= np.outer(rows[others, j], rows[i])
    return rows


def _sum(terms: dict[str, float]) -> str:
    text = " + ".join(f"{float(f'{factor:.3g}')}*{name}" for name, factor in terms.items())
    return text.replace("+ -", "- ")

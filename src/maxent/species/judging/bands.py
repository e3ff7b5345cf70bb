"""Intervals of a fitted species: what curves, maps, areas and places lie between."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent._support.threads import num_threads
from maxent.density import FittedDensity
from maxent.density.intervals import LEVEL, tails
from maxent.features import Cells
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Sample
from maxent.species.judging import spatial_folds
from maxent.species.judging.refits import sample_task

REFITS = 100
DRAWS = 100  # maps that areas are counted on
_BLOCKS = 20  # of records, which are drawn whole
_SEED = 0  # of the drawn maps; the same in all windows and all scenarios
OF_LAPLACE = (
    f"intervals of {LEVEL:.0%} are from the curvature of the fitted problem (Laplace), given the "
    "features in use: they know nothing of what the features cannot express, nor of what is wrong "
    "with how the records were collected"
)


def with_intervals(
    recipe: Any,
    sample: Sample,
    model: FittedDensity,
    method: str,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[FittedDensity, str]:
    """A density of a sample that knows its intervals, and what they are in words."""
    task = sample_task(recipe, sample)
    if method == "laplace":
        return task.with_laplace(model), OF_LAPLACE
    blocks, said = record_blocks(sample, task.points.n_cells)
    n_jobs = num_threads() if n_jobs is None else n_jobs
    start = task.fit().w
    refitted = task.with_refits(
        model, start, n=REFITS, blocks=blocks, seed=seed, n_jobs=n_jobs, verbose=verbose
    )
    return refitted, of_refits(said)


def of_refits(drawn: str) -> str:
    """What intervals of refits are, in words."""
    return (
        f"intervals of {LEVEL:.0%} are from the spread of {REFITS} refits to {drawn} drawn with "
        "replacement (bootstrap)"
    )


def record_blocks(sample: Sample, n_points: int) -> tuple[Array | None, str]:
    """The block of each row, and what is drawn in words; None where places are not known."""
    n = min(_BLOCKS, int((sample.counts > 0).sum()))
    if sample.coordinates is None:
        return None, "single records (their places are not known)"
    if n_points != len(sample.counts):  # a preset makes one point of equal rows
        return None, "single records (the preset merges rows, which then have no place)"
    block = np.zeros(n_points, dtype=np.intp)
    for k, (_, test) in enumerate(spatial_folds.blocks(sample, n).split(None, sample.counts)):
        block[test] = k
    return block, f"{n} spatial blocks of records"


@dataclass(frozen=True, eq=False)
class DrawnMaps:
    """Maps that are as likely as one another, cut at a threshold.

    Attributes
    ----------
    density : FittedDensity
        The density, which knows its intervals.
    threshold : float
        A cloglog value.
    clamp : bool
        Whether variables are held in their ranges.
    """

    density: FittedDensity
    threshold: float
    clamp: bool = True

    def exponents(self, cells: Cells) -> Array:
        """`eta` of each map in each cell, (cells, maps): cloglog is `1 - exp(-exp(eta))`."""
        known = self.density.known_uncertainty()
        return np.asarray(known.exponents(self.density, cells, DRAWS, _SEED, self.clamp))

    def has(self, exponents: Array) -> Array:
        """Where exponents are of presence."""
        with np.errstate(divide="ignore"):
            return np.asarray(exponents >= np.log(-np.log1p(-self.threshold)))

    def present(self, cells: Cells) -> Array:
        """Whether each map has presence in each cell, (cells, maps)."""
        return self.has(self.exponents(cells))


@dataclass
class DrawnAreas:
    """What drawn maps add up to, by name: an array of one number for each map."""

    sums: dict[str, Array] = field(default_factory=dict)

    def add(self, name: str, present: Array, size: Array) -> None:
        """Add the sizes of the cells where each map has presence."""
        total = size @ present
        self.sums[name] = self.sums.get(name, 0.0) + total

    def merge(self, other: DrawnAreas) -> None:
        """Add those of other cells."""
        for name, total in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + total

    def interval(self, name: str) -> tuple[float, float]:
        """The interval of one of the sums."""
        low, high = np.quantile(self.sums[name], tails(LEVEL))
        return float(low), float(high)

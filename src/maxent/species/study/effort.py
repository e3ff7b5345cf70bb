"""Sampling effort from the records themselves: their kernel density."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import OUTSIDE, Grid, Window
from maxent.species.input.layers.sources import Source

LEAST = 1e-3  # of the largest effort: places far from all records are rarely drawn, not never
_REACH = 7.0  # bandwidths beyond which a kernel, below 3e-11, adds nothing
_PAIRS = 1 << 23  # of cells and records at once
AUTO = "auto"


@dataclass(frozen=True, eq=False)
class RecordEffort(Source):
    """A layer of effort: a Gaussian kernel around every record, 1 at the record with the most.

    The effort at the centre of a cell is `sum_i exp(-|c - r_i|^2 / 2 h^2)`, divided by the largest
    at any cell with a record, and at least 0.001. Records lie at the centres of their cells.
    Distances are chords of the ellipsoid under the map, within 0.03 % of the way along it up to
    500 km (on a sphere that makes the kernel of von Mises and Fisher); without a CRS, lengths in
    the plane.

    Attributes
    ----------
    grid : Grid
        Grid of the layer.
    source : str
        Where the records are from.
    places : array
        Cells with records, in km in the plane or in space.
    counts : array
        How many records each of them has.
    bandwidth : float
        h in km.
    rule : str
        How it was chosen.
    largest : float
        Largest of the sums at cells with records.

    Examples
    --------
    >>> grid = Grid(None, (1000.0, 0.0, 0.0, 0.0, -1000.0, 3000.0), width=5, height=3)
    >>> effort = RecordEffort.from_records([500.0, 500.0, 4500.0], [1500.0] * 3, grid, "three", "1")
    >>> effort.read(Window(1, 0, 1, 5))[0].round(3)
    array([[1.   , 0.612, 0.203, 0.314, 0.5  ]])
    """

    grid: Grid
    source: str
    places: Array
    counts: Array
    bandwidth: float
    rule: str
    largest: float = 1.0

    name = "effort"

    @property
    def label(self) -> str:  # type: ignore[override]
        """What it is, in words."""
        return (
            f"kernel density of {int(self.counts.sum())} records of {self.source}, bandwidth "
            f"{self.bandwidth:.4g} km ({self.rule})"
        )

    @classmethod
    def from_records(
        cls, x: Array, y: Array, grid: Grid, source: str, bandwidth: str
    ) -> RecordEffort:
        """From records in the coordinates of a grid; ``bandwidth`` is "auto" or a number of km.

        "auto" is Scott's rule in two dimensions, `h = s n^(-1/6)`, with `s^2` half of the mean
        squared distance of the n records to their mean.
        """
        cells = grid.cells_at(x, y)
        cell, counts = np.unique(cells[cells != OUTSIDE], return_counts=True)
        if not cell.size:
            raise ValueError(f"{source}: no record lies on the layers, so effort is not known")
        places = _km(cell, grid)
        rule = "given"
        if bandwidth == AUTO:
            rule, n = "Scott's rule", counts.sum()
            away = places - np.average(places, axis=0, weights=counts)
            spread = float((counts * (away**2).sum(axis=1)).sum() / max(n - 1, 1) / 2)
            if not spread:
                raise ValueError(
                    f"{source}: all records lie in one cell, which says nothing of how far effort "
                    "reaches; give a bandwidth in km (--bias-kernel 50)"
                )
            km = float(np.sqrt(spread) * n ** (-1 / 6))
        else:
            km = float(bandwidth)
        made = cls(grid, source, places, counts, km, rule)
        return replace(made, largest=float(made.sums(places).max()))

    def on(self, grid: Grid) -> RecordEffort:
        """The same effort on another grid of the same coordinates."""
        return replace(self, grid=grid)

    def read(self, window: Window) -> tuple[Array, Array]:
        """The effort in a window, where all of it is known."""
        row, column, height, width = window
        rows = np.arange(row, row + height, dtype=np.int64)[:, None]
        cells = (rows * self.grid.width + np.arange(column, column + width)).ravel()
        effort = np.maximum(self.sums(_km(cells, self.grid)) / self.largest, LEAST)
        return effort.reshape(height, width), np.ones((height, width), dtype=bool)

    def sums(self, at: Array) -> Array:
        """Of the kernels of all records, at places in km."""
        from scipy.spatial.distance import cdist

        sums = np.zeros(len(at))
        step = max(_PAIRS // len(self.places), 1)
        for start in range(0, len(at), step):
            part = at[start : start + step]
            middle = part.mean(axis=0)
            radius = np.sqrt(((part - middle) ** 2).sum(axis=1).max())
            away = np.sqrt(((self.places - middle) ** 2).sum(axis=1))
            near = away <= radius + _REACH * self.bandwidth
            squared = cdist(part, self.places[near], "sqeuclidean")
            squared *= -0.5 / self.bandwidth**2
            sums[start : start + step] = np.exp(squared, out=squared) @ self.counts[near]
        return sums


def _km(cells: Array, grid: Grid) -> Array:
    """Centres of cells as points of space in km."""
    return Earth.under(grid).space(*grid.centres(cells))

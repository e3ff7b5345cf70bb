"""Visits as sampling effort: what the next fit must know of a survey whose sites were chosen.

Records that were found at chosen sites are no sample of where the species lives: a site that was
chosen had a chance to yield one, whatever it is like. With n records of effort 1 everywhere, a cell
of density q is expected to have n q of them; a visit to it finds the species with probability d p.
So a visit is worth the effort d p / (n q), and a fit that takes effort out of the density
(``--bias effort.tif --bias-as prior``) learns from visits that found nothing as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent.density.model import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.input.layers.grid import OUTSIDE, Grid, Window


def visit_effort(
    density: FittedDensity,
    X: Any,
    region: Any,
    n_cells: float | None = None,
    *,
    detection: float = 1.0,
    effort: ArrayLike | None = None,
) -> Array:
    """Effort that a visit to each row of X adds, in units of the effort of the records.

    `d p / (n q)`, with p the cloglog output, n the number of records of the fit and q its density
    over the cells of the region.

    Parameters
    ----------
    density : FittedDensity
        The fit before the visits.
    X : table (n_visits, n_variables)
        Where visits were made.
    region : table (n_rows, n_variables)
        Cells that stand for the region.
    n_cells : float, default None
        How many cells the region has; None is one for each row.
    detection : float, default 1.0
        Chance to find the species where it lives, in one visit.
    effort : array (n_rows,), default None
        Effort of the records in the region, where the fit allowed for it; None is 1 everywhere.

    Examples
    --------
    >>> from maxent import MaxentDensity
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> density = MaxentDensity("lq").fit(X, np.arange(50) % 7 == 3).density_
    >>> p, q = density.predict(X, "cloglog"), density.predict(X, "raw")
    >>> bool(np.allclose(visit_effort(density, X, X), p / (7 * q)))
    True
    """
    if not 0 < detection <= 1:
        raise ValueError(f"detection must lie above 0 and at most at 1, got {detection:g}")
    everywhere = density.predict(region, "raw")
    weighted = everywhere if effort is None else everywhere * np.asarray(effort)
    n = len(everywhere) if n_cells is None else n_cells
    records = density.n_presences * density.predict(X, "raw") / (weighted.mean() * n)
    return np.asarray(detection * density.predict(X, "cloglog") / records)


@dataclass(frozen=True, eq=False)
class Visits:
    """Cells that were visited.

    Attributes
    ----------
    cell : array (n_visited,)
        Index of each in the grid, increasing.
    counts : array (n_visited,)
        How often.
    n_lost : int
        Visits that lie on no cell with values.
    """

    cell: Array
    counts: Array
    n_lost: int = 0

    @classmethod
    def on(cls, grid: Grid, x: ArrayLike, y: ArrayLike) -> Visits:
        """From the places of visits, in the CRS of the grid."""
        cells = grid.cells_at(x, y)
        cell, counts = np.unique(cells[cells != OUTSIDE], return_counts=True)
        return cls(cell, counts, int(np.sum(cells == OUTSIDE)))

    def known(self, cell: Array) -> Visits:
        """Those on cells with values, which ``cell`` holds."""
        there = np.isin(self.cell, cell)
        lost = self.n_lost + int(self.counts[~there].sum())
        return Visits(self.cell[there], self.counts[there], lost)

    def effort_in(self, window: Window, width: int, added: Array) -> Array:
        """What the visits add in a window of a grid of so many columns, ``added`` by each."""
        row, column, height, across = window
        rows, columns = self.cell // width - row, self.cell % width - column
        here = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < across)
        effort = np.zeros((height, across))
        effort[rows[here], columns[here]] = self.counts[here] * added[here]
        return effort

"""Intervals of trends: maps that are as likely as one another, each followed through all times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.density import FittedDensity
from maxent.density.intervals import LEVEL, tails
from maxent.rows.arrays import Array
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.times.dated_layers import DatedLayers, Step
from maxent.species.judging.bands import DrawnMaps
from maxent.species.projecting.plan import Compiled

_CELLS = 1 << 14  # whose drawn maps are there at once


def strips(grid: Grid) -> list[Window]:
    """Full rows, as many at a time as drawn maps are made of."""
    height = max(1, _CELLS // grid.width)
    return [
        Window(row, 0, min(height, grid.height - row), grid.width)
        for row in range(0, grid.height, height)
    ]


class DrawnTrends:
    """Slopes of drawn maps over years, strip by strip; one time of the layers is open at once.

    Each drawn map has the same weights at all times, so that what is wrong at all of them cancels
    out of its slopes.

    Parameters
    ----------
    density : FittedDensity
        The density, which knows its intervals.
    layers : DatedLayers
        The layers.
    steps : sequence of Step
        Their times.
    threshold : float
        The least cloglog value that counts as suitable.
    clamp : bool
        Whether variables are held in their ranges.
    """

    def __init__(
        self,
        density: FittedDensity,
        layers: DatedLayers,
        steps: Sequence[Step],
        threshold: float,
        clamp: bool,
    ) -> None:
        self.layers, self.steps = layers, list(steps)
        self.compiled = Compiled.from_density(density)
        self.maps = DrawnMaps(density, threshold, clamp)
        years = np.array([step.span.year for step in steps])
        self.years = years - years.mean()
        self.areas = cell_areas(layers.grid)
        # by time, an array of one number for each map
        self.suitable: list[Any] = [0.0] * len(steps)
        self.total: list[Any] = [0.0] * len(steps)
        self.cells = np.zeros(len(steps))
        self.rising = self.falling = 0

    def ends(self, window: Window, values: Sequence[Array], slopes: Array) -> tuple[Array, Array]:
        """The ends of the slopes of the cells of a strip, from what the maps have there."""
        shape, known = slopes.shape, [~np.isnan(at).ravel() for at in values]
        size = np.ones(slopes.size) if self.areas is None else self.areas.read(window).ravel()
        n, t, tt = (np.zeros((slopes.size, 1)) for _ in range(3))
        y = ty = np.zeros((slopes.size, 1))
        for i, (year, there) in enumerate(zip(self.years, known, strict=True)):
            rows = np.flatnonzero(there)
            if not rows.size:
                continue
            exponents = self._exponents(self.steps[i], window, rows)
            with np.errstate(over="ignore"):
                drawn = -np.expm1(-np.exp(exponents))
            if y.shape[1] != drawn.shape[1]:
                y, ty = (np.zeros((slopes.size, drawn.shape[1])) for _ in range(2))
            y[rows] += drawn
            ty[rows] += year * drawn
            self.suitable[i] = self.suitable[i] + size[rows] @ self.maps.has(exponents)
            self.total[i] = self.total[i] + drawn.sum(axis=0)
            self.cells[i] += rows.size
            for sums, part in ((n, 1.0), (t, year), (tt, year * year)):
                sums[rows] += part
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = (ty - t * y / n) / (tt - t * t / n)
        found = np.flatnonzero(~np.isnan(slopes.ravel()))
        low, high = np.full(slopes.size, np.nan), np.full(slopes.size, np.nan)
        if found.size:
            low[found], high[found] = np.quantile(drawn[found], tails(LEVEL), axis=1)
            low, high = np.fmin(low, slopes.ravel()), np.fmax(high, slopes.ravel())
        self.rising += int((low > 0).sum())
        self.falling += int((high < 0).sum())
        return low.reshape(shape), high.reshape(shape)

    def _exponents(self, step: Step, window: Window, rows: Array) -> Array:
        with self.layers.at(step) as opened:
            block = opened.read(window).values
        cells = self.compiled.cells({name: x.ravel()[rows] for name, x in block.items()})
        return self.maps.exponents(cells)

    def slopes(self, found: dict[str, float]) -> dict[str, tuple[float, float]]:
        """The ends of the slopes of area and mean suitability a year, which hold those found."""
        drawn = {"suitable_km2": self.suitable, "suitable": self.suitable}
        drawn["mean"] = [sums / max(n, 1) for sums, n in zip(self.total, self.cells, strict=True)]
        ends = {}
        for name, sums in drawn.items():
            if name in found and self.cells.all():
                low, high = np.quantile(np.polyfit(self.years, np.array(sums), 1)[0], tails(LEVEL))
                ends[name] = (min(float(low), found[name]), max(float(high), found[name]))
        return ends

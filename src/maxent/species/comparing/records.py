"""What a comparison of maps found: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from maxent import io

CLASSES = {0: "absent in both", 1: "lost", 2: "kept", 3: "gained"}
_NO_COLUMNS = ("extrapolating", "within", "intervals")  # of their own
ENSEMBLE = ("scenarios_mean", "scenarios_sd", "scenarios_agreement")


@io.register
@dataclass(frozen=True)
class RangeChange:
    """Cells and km2 of one scenario: presence is a suitability of at least ``threshold``.

    Only the ``cells`` that both maps know count. Present range = lost + kept, future range = kept +
    gained. Areas are NaN where they are not known: without a CRS, or on a turned grid in degrees.

    Attributes
    ----------
    scenario : str
        Name of the scenario.
    threshold : float
        The least suitability that counts as presence.
    cells : int
        Cells that both maps know.
    lost_cells : int
        Cells of presence now, not then.
    kept_cells : int
        Cells of presence now and then.
    gained_cells : int
        Cells of presence then, not now.
    lost_km2 : float
        Their area.
    kept_km2 : float
        Their area.
    gained_km2 : float
        Their area.
    extrapolating : int or None
        How many of the cells extrapolate in one of the maps (MESS below 0), None where not known.
    within : RangeChange or None
        The same without these cells, None where they are not known.
    intervals : dict
        Lower and upper end, of 90 %, of each of ``ranges`` and of ``change``; empty where the model
        knows none.
    """

    scenario: str
    threshold: float
    cells: int
    lost_cells: int
    kept_cells: int
    gained_cells: int
    lost_km2: float
    kept_km2: float
    gained_km2: float
    extrapolating: int | None = field(default=None, metadata=io.LATER)
    within: RangeChange | None = field(default=None, metadata=io.LATER)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict, metadata=io.LATER)

    @property
    def measured(self) -> bool:
        """Whether areas are known."""
        return not np.isnan(self.kept_km2)

    def ranges(self) -> dict[str, float]:
        """Present, future, lost, kept and gained: in km2, or in cells where areas are not known."""
        if self.measured:
            lost, kept, gained = self.lost_km2, self.kept_km2, self.gained_km2
        else:
            lost, kept, gained = self.lost_cells, self.kept_cells, self.gained_cells
        sums = {"present": lost + kept, "future": kept + gained}
        return {**sums, "lost": lost, "kept": kept, "gained": gained}

    @property
    def _unit(self) -> str:
        return "km2" if self.measured else "cells"

    @property
    def change(self) -> float:
        """Future over present range, minus 1; inf where there was none before, NaN without any."""
        ranges = self.ranges()
        if not ranges["present"]:
            return np.inf if ranges["future"] else np.nan
        return ranges["future"] / ranges["present"] - 1

    def with_intervals(self, found: Mapping[str, tuple[float, float]]) -> RangeChange:
        """With intervals of drawn maps, widened where they do not hold what the maps say."""
        said = {**self.ranges(), "change": self.change}
        held = {
            name: (float(np.fmin(low, said[name])), float(np.fmax(high, said[name])))
            for name, (low, high) in found.items()
        }
        return replace(self, intervals=held)

    def change_in_words(self) -> str:
        """The change in percent, or why there is none."""
        change = self.change
        if not self.cells:
            return "nothing to compare"
        if np.isfinite(change):
            if "change" in self.intervals:
                low, high = self.intervals["change"]
                return f"{change:+.1%} ({low:+.1%} to {high:+.1%})"
            return f"{change:+.1%}"
        return "no range" if np.isnan(change) else "none before"

    @property
    def share(self) -> float:
        """The share of the cells that extrapolate, NaN where it is not known."""
        if self.extrapolating is None:
            return np.nan
        return self.extrapolating / self.cells if self.cells else 0.0

    def row(self) -> dict[str, Any]:
        """As a line of a table: all cells, then those alone that extrapolate in neither map."""
        counted = {k: v for k, v in vars(self).items() if k not in _NO_COLUMNS}
        line = {**counted, "change_percent": 100 * self.change}
        line |= {"extrapolating_cells": self.extrapolating}
        line |= {"extrapolating_percent": 100 * self.share}
        for name, (low, high) in self.intervals.items():
            times, unit = (100, "percent") if name == "change" else (1, self._unit)
            line |= {f"{name}_{unit}_low": times * low, f"{name}_{unit}_high": times * high}
        if self.within is None:
            return line
        names = [name for name in counted if name.endswith(("_cells", "_km2"))]
        line |= {f"{name}_within": getattr(self.within, name) for name in names}
        return {**line, "change_percent_within": 100 * self.within.change}

    def describe(self) -> str:
        """The change, with and without the cells that extrapolate, in one sentence.

        >>> inside = RangeChange("wet", 0.5, 4, 1, 3, 0, 1.0, 3.0, 0.0)
        >>> RangeChange("wet", 0.5, 9, 1, 3, 5, 1.0, 3.0, 5.0, 5, inside).describe()
        'wet: range +100.0%, 5 of 9 cells (56%) extrapolate; without them -25.0%'
        """
        said = f"{self.scenario}: range {self.change_in_words()}"
        if self.within is None:
            return f"{said}; how many cells extrapolate is not known"
        if not self.extrapolating:
            return f"{said}, none of {self.cells:,} cells extrapolates"
        share = f"{self.extrapolating:,} of {self.cells:,} cells ({self.share:.0%})"
        return f"{said}, {share} extrapolate; without them {self.within.change_in_words()}"


@io.register
@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare_maps` wrote.

    Attributes
    ----------
    changes : tuple of RangeChange
        One per scenario.
    files : dict
        Maps and table by what they hold, beside each other: ``change:<scenario>`` (classes of
        ``CLASSES``), and of several scenarios mean and standard deviation of their suitability, and
        how many of them say presence ("scenarios_agreement").
    rule : str
        Where the threshold comes from, in words.
    """

    changes: tuple[RangeChange, ...]
    files: dict[str, str]
    rule: str = ""

    def unit(self) -> str:
        """What the ranges are counted in."""
        return "km2" if self.changes[0].measured else "cells (areas are not known without a CRS)"

    def remarks(self) -> list[str]:
        """Maps without a common cell, or not divided by the threshold, as if on another scale."""
        first = self.changes[0]
        apart = [
            f"{c.scenario} has no cell with a value in common with the first map, so that nothing "
            "can be said of its change: is all of it left out where the model extrapolates?"
            for c in self.changes
            if not c.cells
        ]
        found = {"the first map": (first.lost_cells + first.kept_cells, first.cells)}
        found |= {c.scenario: (c.kept_cells + c.gained_cells, c.cells) for c in self.changes}
        return apart + [
            f"{name} is {'at or above' if present else 'below'} {first.threshold:g} in every cell: "
            "is it a map of suitability, and the threshold on its scale?"
            for name, (present, cells) in found.items()
            if cells and present in (0, cells)
        ]

"""Timing: how a fit treated time, for its model and its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from maxent import io


@io.register
@dataclass(frozen=True, eq=False)
class Timing:
    """How a fit treated time, for its model and its report.

    Attributes
    ----------
    series : dict of int
        The layers with times, and how many each has.
    static : tuple of str
        Those that are the same at all times.
    start : str
        The first time that all layers have.
    end : str
        The last one.
    columns : str
        The columns of dates.
    window : str or None
        How far back the mean of each time reaches; None for the time alone.
    background : "records" or "uniform"
        How the background was drawn in time.
    steps : list of dict
        The times used: step (its number in ``SpeciesResult.records``), label, year (with a
        fraction), records (of all species) and background cells.
    left : dict of int
        Records by what was wrong with their time.
    layer_times : str or None
        The table that says which file is a layer at which time.
    """

    series: dict[str, int]
    static: tuple[str, ...]
    start: str
    end: str
    columns: str
    window: str | None
    background: str
    steps: list[dict[str, Any]]
    left: dict[str, int]
    layer_times: str | None = field(default=None, metadata=io.LATER)

    def describe(self) -> str:
        """In one sentence."""
        how = "nearest time" if self.window is None else f"mean over {self.window} up to its time"
        drawn = {
            "records": "in time like the records",
            "uniform": "evenly over the times",
            "target group": "at the times of the target group",
        }[self.background]
        count = sum(self.series.values())
        return (
            f"each record has the layers of its own time ({how}): {', '.join(self.series)} at "
            f"{count} times in all, {self.start} to {self.end}, dates from {self.columns}; "
            f"background drawn {drawn}, at {len(self.steps)} times"
        )

"""What a comparison of maps found: plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from maxent import io

CLASSES = {0: "absent in both", 1: "lost", 2: "kept", 3: "gained"}
ENSEMBLE = ("scenarios_mean", "scenarios_sd", "scenarios_agreement")


@io.register
@dataclass(frozen=True)
class RangeChange:
    """Areas in km2 of one scenario: presence is a suitability of at least ``threshold``.

    Only cells that both maps know count. ``present_km2`` = lost + kept, ``future_km2`` = kept +
    gained; ``lost_share`` is of the present range, ``change`` = future / present - 1.
    """

    scenario: str
    threshold: float
    cells: int
    present_km2: float
    future_km2: float
    lost_km2: float
    kept_km2: float
    gained_km2: float

    @property
    def change(self) -> float:
        """Relative change of the range, inf where there was none before."""
        if not self.present_km2:
            return np.inf if self.future_km2 else 0.0
        return self.future_km2 / self.present_km2 - 1

    def row(self) -> dict[str, Any]:
        """As a line of a table."""
        return {**asdict(self), "change_percent": 100 * self.change}


@io.register
@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare_maps` wrote.

    changes : one per scenario; files : maps and table by what they hold, beside each other:
    ``change:<scenario>`` (classes of ``CLASSES``), and of several scenarios mean and standard
    deviation of their suitability, and how many of them say presence ("scenarios_agreement");
    rule : where the threshold comes from, in words.
    """

    changes: tuple[RangeChange, ...]
    files: dict[str, str]
    rule: str = ""

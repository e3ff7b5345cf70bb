"""Predictions on their way to a certificate: a change that is the same for all rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxent.rows.arrays import Array, Rows


class Moved(NamedTuple):
    """Rows x = s max(L p + b, least) + (1 - s) observed: p_w on its way to a certificate.

    L p = scale p + <1 - scale, p> share: what ``scale`` takes from some columns goes to others in
    proportion to ``share`` (None: to none). ``shift`` b is the same for all rows.
    """

    s: float = 1.0
    scale: Array | float | None = None
    share: Array | None = None
    shift: Array | float = 0.0
    least: float = -np.inf

    def linear(self, p: Rows) -> Rows:
        """L p of every row."""
        if self.scale is None:
            return p
        moved = p * self.scale
        return moved if self.share is None else moved + np.outer(p @ (1 - self.scale), self.share)

    def rows(self, p: Rows) -> Rows:
        """max(L p + b, least)."""
        x = self.linear(p)
        if np.any(self.shift) or np.isfinite(self.least):
            x = np.maximum(x + self.shift, self.least)
        return x

    def applied(self, p: Rows, observed: Rows) -> Rows:
        """The rows x."""
        x = self.rows(p)
        return x if self.s == 1 else self.s * x + (1 - self.s) * observed

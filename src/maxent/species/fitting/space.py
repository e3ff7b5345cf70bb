"""The species' own models beside a joint one that looks at places: they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from maxent.density import DensityTask, Recipe
from maxent.features import Cells
from maxent.species.input.layers.places import PLACE


@dataclass(frozen=True)
class WithoutPlaces(Recipe):
    """A recipe for tables with the columns of places, of which no feature is made.

    >>> import numpy as np, pandas as pd
    >>> X = {"place x": np.arange(8.0), "place y": np.arange(8.0) ** 2, "heat": np.arange(8.0) % 3}
    >>> task = WithoutPlaces("l").task(pd.DataFrame(X), np.arange(8) % 3 == 2)
    >>> list(task.fit().density.coef)
    ['heat']
    """

    def task_of(self, points: Any) -> DensityTask:
        """The density over given points, all of which are taken for one place."""
        names = points.schema.continuous
        values = points.cells.values.copy()
        for place in (names.index(name) for name in PLACE if name in names):
            values[place] = values[place].mean()
        return super().task_of(replace(points, cells=Cells(values, points.cells.codes)))

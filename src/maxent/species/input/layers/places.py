"""The coordinates of cells as two layers, for models that look at places."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.layers.sources import Source

PLACE = ("place x", "place y")  # the names of the layers


class PlaceSource(Source):
    """x or y of the centre of every cell, in the coordinates of the grid.

    >>> grid = Grid(None, (2.0, 0.0, 10.0, 0.0, -2.0, 50.0), width=3, height=2)
    >>> PlaceSource("place x", grid).read(Window(0, 1, 1, 2))[0]
    array([[13., 15.]])
    """

    def __init__(self, name: str, grid: Grid) -> None:
        self.name, self.grid = name, grid
        self.label = f"{name} of the cells"

    def read(self, window: Window) -> tuple[Array, Array]:
        """The coordinates in a window, where all are known."""
        row, column, height, width = window
        rows = np.arange(row, row + height)[:, None] + 0.5
        columns = np.arange(column, column + width) + 0.5
        x, y = self.grid.coordinates(*np.broadcast_arrays(rows, columns))
        values = x if self.name == PLACE[0] else y
        return np.array(values, dtype=np.float64), np.ones((height, width), dtype=bool)


def looks_at_places(names: Iterable[str]) -> bool:
    """Whether some of the variables are the coordinates."""
    return not set(PLACE).isdisjoint(names)

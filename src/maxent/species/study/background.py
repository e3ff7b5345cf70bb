"""Background: the cells that stand for the region, drawn in one pass over the layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent._support.progress import Progress
from maxent.rows.arrays import Array
from maxent.species.input.layers.grid import OUTSIDE, Window
from maxent.species.input.layers.layers import Block, Layers
from maxent.species.input.layers.placement import same_grid
from maxent.species.libraries import geo
from maxent.species.study.study_region import StudyRegion

_CACHE = 1 << 27  # bytes of blocks that GDAL keeps: each is read once
_NOT_DRAWN = np.inf  # the key of cells that were only asked for
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # steps of SplitMix64


@dataclass(frozen=True, eq=False)
class Drawn:
    """Cells read from the layers.

    Attributes
    ----------
    X : table
        Their values, one column per layer, sorted by cell.
    cell : array (n_rows,)
        Index of each cell in the grid.
    background : array (n_rows,)
        Which rows were drawn as background; the others were asked for by ``at``.
    bias : array (n_rows,) or None
        Value of the bias raster, None without one.
    n_known : int
        Cells of the grid, or of the region drawn from, where every layer (and the bias raster) is
        known.
    """

    X: Any
    cell: Array
    background: Array
    bias: Array | None
    n_known: int


def draw_background(
    layers: Layers,
    n: int | None = 10_000,
    *,
    at: Array | None = None,
    bias: Layers | None = None,
    weighted: bool = False,
    within: StudyRegion | None = None,
    seed: int = 0,
    verbose: int = 1,
) -> Drawn:
    """Draw cells at random among those where every layer is known.

    One pass over the files in constant memory.

    Every cell has a random key, a function of the seed and its index alone, and the cells of the
    ``n`` lowest keys are drawn: without replacement, and the same whatever the windows. The key
    is a uniform number; with weights w it is E / w, E exponential (Efraimidis and Spirakis 2006).

    Parameters
    ----------
    layers : Layers
        The layers.
    n : int or None, default 10000
        How many; None, or more than there are, is all of them.
    at : array, default None
        Further cells to read (those with records); those without values are left out.
    bias : Layers, default None
        A raster of sampling effort on the same grid, which is read too.
    weighted : bool, default False
        Whether cells are drawn in proportion to ``bias``.
    within : StudyRegion, default None
        Region to draw from: cells whose centre it holds.
    seed : int, default 0
        Seed of the draw.
    verbose : int, default 1
        0 silences progress.
    """
    if n is not None and n < 1:
        raise ValueError(f"background must be at least 1 cell, got {n}")
    if bias is None and weighted:
        raise ValueError("weighted=True needs a bias raster")
    if bias is not None:
        _check_bias(bias, layers)
    draw = _Draw(n, [] if at is None else at, layers.grid.width, seed)
    progress = Progress("background", verbose)
    n_windows = len(layers.windows())
    try:
        with geo("rasterio").Env(GDAL_CACHEMAX=_CACHE):
            for done, block in enumerate(layers.blocks()):
                valid, columns = block.valid, list(block.values.values())
                if bias is not None:
                    effort = bias.read(block.window)
                    valid = valid & effort.valid
                    columns.append(checked_effort(effort, valid, bias))
                inside = None if within is None else within.cells(layers.grid, block.window)
                draw.see(block.window, valid, columns, columns[-1] if weighted else None, inside)
                progress.update(f"{done + 1} of {n_windows} windows")
    finally:
        progress.close()
    cells = draw.result()
    if cells is None:
        raise ValueError(why_no_cell(layers, bias, draw.n_known, within))
    X = geo("pandas").DataFrame(dict(zip(layers.names, cells.columns, strict=False)))
    effort_at = None if bias is None else cells.columns[-1]
    return Drawn(X, cells.index, cells.key < _NOT_DRAWN, effort_at, draw.n_known)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells in hand: index, key of the draw, whether they were asked for, and their values."""

    index: Array
    key: Array
    asked: Array
    columns: list[Array]

    @classmethod
    def joined(cls, parts: list[_Cells]) -> _Cells:
        return cls(
            np.concatenate([p.index for p in parts]),
            np.concatenate([p.key for p in parts]),
            np.concatenate([p.asked for p in parts]),
            [np.concatenate(column) for column in zip(*(p.columns for p in parts), strict=True)],
        )

    def take(self, rows: Array) -> _Cells:
        columns = [column[rows] for column in self.columns]
        return _Cells(self.index[rows], self.key[rows], self.asked[rows], columns)

    def lowest(self, n: int) -> _Cells:
        """Those of the n lowest keys, and those asked for."""
        best = _lowest(self.key, self.index, n)
        key = np.full(self.key.shape, _NOT_DRAWN)
        key[best] = self.key[best]
        return replace(self, key=key).take(np.flatnonzero(self.asked | (key < _NOT_DRAWN)))


class _Draw:
    """The cells drawn and those asked for, as windows go by."""

    def __init__(self, n: int | None, at: ArrayLike, width: int, seed: int) -> None:
        wanted = np.unique(np.asarray(at, dtype=np.int64))
        self.n, self.wanted, self.width, self.seed = n, wanted[wanted != OUTSIDE], width, seed
        self.n_known = 0
        self._bound = _NOT_DRAWN  # keys above are not among the n lowest
        self._parts: list[_Cells] = []

    def see(
        self,
        window: Window,
        valid: Array,
        columns: list[Array],
        weight: Array | None,
        inside: Array | None = None,
    ) -> None:
        """Take what is drawn so far, and what was asked for, from the known cells of a window.

        Cells that are not ``inside`` are not drawn.
        """
        allowed = valid if inside is None else valid & inside
        self.n_known += int(np.count_nonzero(allowed))
        index = _indices(window, self.width)
        drawn = np.flatnonzero(allowed if weight is None else allowed & (weight > 0))
        key = np.zeros(drawn.size)
        if self.n is not None:
            key = _keys(index[drawn], self.seed, None if weight is None else weight.ravel()[drawn])
            low = np.flatnonzero(key <= self._bound)
            low = low[_lowest(key[low], index[drawn[low]], self.n)]
            drawn, key = drawn[low], key[low]
        asked = asked_in(window, self.wanted, self.width)[1]
        asked = asked[valid.ravel()[asked]]
        keys = np.full(valid.size, _NOT_DRAWN)
        keys[drawn] = key
        is_asked = np.zeros(valid.size, dtype=bool)
        is_asked[asked] = True
        rows = np.flatnonzero(is_asked | (keys < _NOT_DRAWN))
        taken = [column.ravel()[rows] for column in columns]
        self._parts.append(_Cells(index[rows], keys[rows], is_asked[rows], taken))
        self._forget()

    def _forget(self) -> None:
        """Let go of cells that are out of the draw, once there are many."""
        if (
            self.n is None
            or sum(p.index.size for p in self._parts) <= 2 * self.n + self.wanted.size
        ):
            return
        cells = _Cells.joined(self._parts).lowest(self.n)
        self._parts = [cells]
        self._bound = float(cells.key[cells.key < _NOT_DRAWN].max())

    def result(self) -> _Cells | None:
        """All of them, sorted by cell; None where no cell could be drawn."""
        if not any((p.key < _NOT_DRAWN).any() for p in self._parts):
            return None
        cells = _Cells.joined(self._parts)
        if self.n is not None:
            cells = cells.lowest(self.n)
        return cells.take(np.argsort(cells.index))


def asked_in(window: Window, cells: Array, grid_width: int) -> tuple[Array, Array]:
    """Which of some sorted cells lie in a window, and their positions in it."""
    row, column, height, width = window
    first, last = np.searchsorted(cells, [row * grid_width, (row + height) * grid_width])
    rows, columns = np.divmod(cells[first:last], grid_width)
    inside = np.flatnonzero((columns >= column) & (columns < column + width))
    return first + inside, (rows[inside] - row) * width + columns[inside] - column


def _lowest(key: Array, index: Array, n: int) -> Array:
    """Rows of the n lowest keys that were drawn; of equal keys, those of the first cells."""
    rows = np.flatnonzero(key < _NOT_DRAWN)
    if rows.size <= n:
        return rows
    rows = rows[key[rows] <= np.partition(key[rows], n - 1)[n - 1]]
    return rows[np.lexsort((index[rows], key[rows]))[:n]]


def _indices(window: Window, width: int) -> Array:
    row = np.arange(window.row, window.row + window.height, dtype=np.int64)
    column = np.arange(window.column, window.column + window.width, dtype=np.int64)
    return (row[:, None] * width + column).ravel()


def _keys(index: Array, seed: int, weight: Array | None) -> Array:
    bits = _mixed(
        index.astype(np.uint64) * _GOLDEN + _mixed(np.array([seed % 2**64], dtype=np.uint64))
    )
    uniform = ((bits >> np.uint64(12)) + 0.5) * 2.0**-52  # in (0, 1), exactly
    if weight is None:
        return uniform
    return np.log(-np.log(uniform)) - np.log(weight)  # logarithms of E / w do not overflow


def _mixed(bits: Array) -> Array:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection without pattern."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _check_bias(bias: Layers, layers: Layers) -> None:
    label = next(iter(bias.labels().values()))
    if len(bias.names) != 1:
        raise ValueError(
            f"{label}: the bias raster must be one layer, got {', '.join(bias.names)}; pick one "
            "with only="
        )
    if not same_grid(bias.grid, layers.grid):
        raise ValueError(
            f"{label}: the bias raster has {bias.grid.describe()}, the layers have "
            f"{layers.grid.describe()}; open it with like=layers.grid"
        )


def checked_effort(block: Block, valid: Array, bias: Layers) -> Array:
    """The effort in the valid cells of a window, 0 in others; an error where it is negative."""
    (effort,) = block.values.values()
    if (effort[block.valid] < 0).any():
        label = next(iter(bias.labels().values()))
        raise ValueError(
            f"{label}: the bias raster has negative values, down to {effort[block.valid].min():g}; "
            "expected sampling effort, 0 or more"
        )
    return np.where(valid, effort, 0).astype(np.float64)


def why_no_cell(
    layers: Layers, bias: Layers | None, n_known: int, within: StudyRegion | None = None
) -> str:
    """What to say where no cell can be drawn."""
    if n_known and bias is not None:
        (label,) = bias.labels().values()
        return f"{label}: the bias raster is 0 wherever the layers are known; no cell can be drawn"
    empty = layers.empty_layers() + ([] if bias is None else bias.empty_layers())
    if empty:
        return (
            f"{empty[0]}: every cell is nodata, so no cell has all layers; leave this layer out or "
            "write it again"
        )
    if within is not None:
        return (
            f"{within.describe()}: no cell of the layers that has its centre there has a value in "
            "all of them; give a wider one (--buffer)"
        )
    count = len(layers.names) + (bias is not None)
    return (
        f"no cell has a value in all {count} layers: they cover different places; check their "
        "nodata values and extents"
    )

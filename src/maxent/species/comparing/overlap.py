"""How alike two maps of suitability are: Schoener's D and Warren's I."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maxent.rows.arrays import Array
from maxent.species.comparing.map_files import MapStack


@dataclass(frozen=True)
class Overlap:
    """Both are 1 for maps that are alike and 0 for maps without a place in common.

    With p and q the two maps, scaled to add up to 1 over the cells that both know: Schoener's
    `D = 1 - 1/2 sum |p - q|`, Warren's `I = 1 - 1/2 sum (sqrt p - sqrt q)^2 = sum sqrt(p q)`, as
    dismo and ENMTools compute them (cells count alike, whatever their area).

    Attributes
    ----------
    d : float
        Schoener's D.
    i : float
        Warren's I.
    correlation : float
        Pearson's, of the suitabilities as they are.
    cells : int
        Cells that both know.
    """

    d: float
    i: float
    correlation: float
    cells: int


def niche_overlap(one: str | Path, other: str | Path) -> Overlap:
    """Overlap of two GeoTIFFs of suitability on one grid, read a few rows at a time.

    Parameters
    ----------
    one : path
        A GeoTIFF.
    other : path
        Another on the same grid.
    """
    paths = {"one": Path(one), "other": Path(other)}
    with MapStack.open(paths) as stack:
        cells, sums, products = 0, np.zeros(2), np.zeros((2, 2))
        for both in _pairs(stack):
            for path, values in zip(paths.values(), both, strict=True):
                if values.min(initial=0) < 0:
                    raise ValueError(
                        f"{path} has values below 0: overlap is of suitabilities (cloglog, "
                        "logistic, cumulative or raw), not of logarithms"
                    )
            cells += both.shape[1]
            sums += both.sum(axis=1)
            products += both @ both.T
        if not cells:
            raise ValueError(f"{one} and {other} have no cell with data in common")
        for path, total in zip(paths.values(), sums, strict=True):
            if not total:
                raise ValueError(f"{path} is 0 in all cells of both maps: nothing can overlap")
        apart = common = 0.0
        for both in _pairs(stack):
            parts = _apart_and_common(*(both / sums[:, None]))
            apart, common = apart + parts[0], common + parts[1]
    covariance = products / cells - np.outer(sums, sums) / cells**2
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    correlation = float(covariance[0, 1] / spread.prod()) if spread.all() else float("nan")
    return Overlap(1 - apart / 2, common, correlation, cells)


def overlap_of(one: Array, other: Array) -> tuple[float, float]:
    """Schoener's D and Warren's I of two arrays of suitabilities (or densities) of the same cells.

    Parameters
    ----------
    one : array (n_cells,)
        Suitabilities of 0 or more, not all 0; they are scaled to add up to 1.
    other : array (n_cells,)
        Another at the same cells.

    Examples
    --------
    >>> overlap_of(np.array([1.0, 1.0, 2.0]), np.array([2.0, 2.0, 4.0]))
    (1.0, 1.0)
    >>> overlap_of(np.array([1.0, 0.0]), np.array([0.0, 3.0]))
    (0.0, 0.0)
    """
    apart, common = _apart_and_common(one / one.sum(), other / other.sum())
    return 1 - apart / 2, min(common, 1.0)


def _apart_and_common(p: Array, q: Array) -> tuple[float, float]:
    """`sum |p - q|` and `sum sqrt(p q)`."""
    return float(np.abs(p - q).sum()), float(np.sqrt(p * q).sum())


def _pairs(stack: MapStack) -> Iterator[Array]:
    """(2, cells): the values of both maps where both are known."""
    for window in stack.windows():
        both = np.array([stack.read(name, window).ravel() for name in stack.files], np.float64)
        yield both[:, ~np.isnan(both).any(axis=0)]

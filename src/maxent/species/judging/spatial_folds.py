"""Folds that are places or conditions: how the rows of a sample are cut apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from maxent import evaluation
from maxent.density import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize, Sample
from maxent.species.input.layers.geodesy import Earth

_PLACES = 700  # that a variogram looks at, 245,000 pairs
_LINES = 60  # between blocks along a side that a picture shows at most
_SQUARES = range(4, 9)  # squares of a checkerboard along the longer side of the records


def unrolled(sample: Sample) -> Array:
    """Coordinates of the rows, where records on both sides of the date line are neighbours."""
    earth, x, y, presence = _earth(sample)
    return np.column_stack([earth.unrolled(x, presence), y])


def in_km(sample: Sample) -> Array:
    """The rows in a plane of equal areas around the records, in km; as given without a CRS."""
    if sample.crs is None:
        return unrolled(sample)
    x, y = np.asarray(sample.coordinates).T
    return Earth(sample.crs).flat(x, y, sample.counts > 0)


def blocks(
    sample: Sample, n: int, size: BlockSize | None = None, seed: int = 0
) -> evaluation.SpatialBlocks:
    """Blocks with as many records each; or of one size, dealt to the folds at random."""
    if size is None:
        return evaluation.SpatialBlocks(unrolled(sample), n_splits=n)
    earth, x, y, presence = _earth(sample)
    places = earth.flat(x, y, presence)
    return evaluation.SpatialBlocks(places, n_splits=n, size=size.km, random_state=seed)


def environment(
    sample: Sample, n: int, variables: Sequence[str] | None = None, seed: int = 0
) -> evaluation.EnvironmentalBlocks:
    """Groups of records in like conditions, by some of the variables; None for all numbers."""
    X = numbers(sample, variables)
    if not X.shape[1]:
        raise ValueError("groups of environment need a variable that is a number, not a category")
    return evaluation.EnvironmentalBlocks(X, n_splits=n, random_state=seed)


def numbers(sample: Sample, variables: Sequence[str] | None = None) -> Array:
    """Some of the columns, or all that are numbers, (n_rows, n_columns)."""
    names = list(sample.X.columns) if variables is None else list(variables)
    columns = [np.asarray(sample.X[name]) for name in names]
    kept = [column.astype(np.float64) for column in columns if column.dtype.kind in "fiu"]
    return np.column_stack(kept) if kept else np.empty((len(sample.counts), 0))


def residuals(model: FittedDensity, sample: Sample) -> Array:
    """Pearson residuals of the rows: `(c - e) / sqrt(e)` for c occurrences where e are expected.

    With N occurrences in all, `e = N p`, p the density over the background, times the effort.
    """
    log = np.asarray(model.predict_cells(model.schema.read(sample.X), "log"), dtype=np.float64)
    if sample.prior is not None:
        log = log + np.log(np.maximum(sample.prior, 1e-300))
    known = log[sample.at_background]
    top = known.max()
    share = np.exp(log - top) / np.exp(known - top).sum()
    expected = np.maximum(sample.counts.sum() * share, 1e-12)
    return np.asarray((sample.counts - expected) / np.sqrt(expected))


def block_size(
    sample: Sample,
    how: str,
    variables: Sequence[str] = (),
    fitted: Callable[[], FittedDensity] | None = None,
    seed: int = 0,
) -> BlockSize:
    """The size of blocks: km, or the range over which "layers" or "residuals" are alike.

    Ranges are those of variograms of the rows (700 of them, at random), over geodesic distances.

    Parameters
    ----------
    sample : Sample
        Records and background, with their places.
    how : str
        A number of km, "layers" or "residuals".
    variables : sequence of str, default ()
        The layers to look at: those that are numbers.
    fitted : callable, default None
        Makes the fit for "residuals".
    seed : int, default 0
        Seed of the draw.

    Examples
    --------
    >>> import pandas as pd
    >>> places = np.random.default_rng(0).uniform([0, 40], [10, 50], (500, 2))
    >>> X = pd.DataFrame({"heat": np.sin(2 * places[:, 1])})  # a wave of 350 km
    >>> sample = Sample(X, np.arange(500) < 50, places, crs="EPSG:4326")
    >>> found = block_size(sample, "layers", ["heat"])
    >>> found.rule, 80 < found.km < 200
    ('layers', True)
    """
    if sample.coordinates is None:
        raise ValueError("block_size needs the places of the records, and there are none")
    if how not in ("layers", "residuals"):
        return _with_edges(BlockSize(float(how), "given"), sample)
    rows, distances = _pairs(sample, how, seed)
    reach = float(distances.max()) / 3
    if how == "residuals":
        assert fitted is not None
        values = {"residuals": residuals(fitted(), sample)[rows]}
    else:
        table = numbers(sample, variables)[rows]
        values = {n: v for n, v in zip(variables, table.T, strict=True) if np.ptp(v) > 0}
    found = {
        name: evaluation.variogram(column / column.std(), distances, reach=reach)
        for name, column in values.items()
        if column.std() > 0
    }
    ranges = [min(v.range, reach) for v in found.values() if v.range > 0]
    if not ranges:
        raise ValueError(
            f"neighbouring {how} are no more alike than others, which says nothing of how large "
            "blocks should be; give their size in km, or use random folds"
        )
    return _with_edges(BlockSize(float(np.median(ranges)), how, found, reach), sample)


def _pairs(sample: Sample, how: str, seed: int) -> tuple[Array, Array]:
    """Rows at random, and the geodesic distances of all their pairs; records where they matter."""
    earth, x, y, presence = _earth(sample)
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(sample.at_background)
    if how == "residuals":  # a residual without its record is hardly one
        rows = np.union1d(rows, np.flatnonzero(presence))
    if rows.size > _PLACES:
        kept = np.flatnonzero(presence)[:_PLACES] if how == "residuals" else rows[:0]
        others = np.setdiff1d(rows, kept)
        drawn = rng.choice(others, max(_PLACES - kept.size, _PLACES // 2), replace=False)
        rows = np.union1d(kept, drawn)
    if rows.size < 3:
        raise ValueError(f"{rows.size} places are too few to see how far {how} are alike")
    first, second = np.triu_indices(rows.size, 1)
    one, other = rows[first], rows[second]
    return rows, earth.distances(x[one], y[one], x[other], y[other])


def _with_edges(size: BlockSize, sample: Sample) -> BlockSize:
    """With the lines between blocks, where a picture could show them."""
    earth, x, y, presence = _earth(sample)
    places = earth.flat(x, y, presence)
    low, span = places.min(axis=0), np.ptp(places, axis=0)
    count = np.ceil(span / size.km).astype(int)
    if count.max() > _LINES:
        return size
    edges = []
    for axis in (0, 1):
        along = low[1 - axis] + np.linspace(0, size.km * max(count[1 - axis], 1), 120)
        for k in range(count[axis] + 1):
            line = np.empty((along.size, 2))
            line[:, axis], line[:, 1 - axis] = low[axis] + k * size.km, along
            made = earth.unflat(line, x, y, presence)
            made = np.where(np.isfinite(made), made, np.nan)
            if earth.turn:  # no line straight across the map from one side to the other
                made[1:][np.abs(np.diff(made[:, 0])) > earth.turn / 2] = np.nan
            edges.append(made)
    return replace(size, edges=edges)


def _earth(sample: Sample) -> tuple[Earth, Array, Array, Array]:
    """The earth under a sample, its coordinates, and which rows have records."""
    places = np.asarray(sample.coordinates, dtype=np.float64)
    earth = Earth.of(sample.crs, (*places.min(axis=0), *places.max(axis=0)))
    return earth, places[:, 0], places[:, 1], np.asarray(sample.counts > 0)


def checkerboard(sample: Sample, n: int) -> evaluation.Checkerboard:
    """The board of 4 to 8 squares along the records whose smallest set holds most of them."""
    if n not in (2, 4):
        raise ValueError(f'kind="checkerboard" makes n = 2 or 4 replicates, got n={n}')
    places = in_km(sample)
    presence = sample.counts > 0
    side = float(np.ptp(places[presence], axis=0).max())
    if side == 0:
        raise ValueError("all records are at one place, which no checkerboard can divide")
    levels: Literal[1, 2] = 1 if n == 2 else 2
    boards = [evaluation.Checkerboard(places, side / k, levels=levels) for k in _SQUARES]
    least = [np.bincount(b.folds(sample.counts)[presence], minlength=n).min() for b in boards]
    return boards[int(np.argmax(least))]

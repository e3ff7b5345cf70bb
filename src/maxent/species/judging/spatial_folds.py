"""Folds that are places: where the rows of a sample lie for those that cut them apart."""

from __future__ import annotations

from typing import Literal

import numpy as np

from maxent import evaluation
from maxent.rows.arrays import Array
from maxent.species.fitting.results import Sample
from maxent.species.input.layers.geodesy import Earth

_SQUARES = range(4, 9)  # squares of a checkerboard along the longer side of the records


def unrolled(sample: Sample) -> Array:
    """Coordinates of the rows, where records on both sides of the date line are neighbours."""
    places = np.asarray(sample.coordinates, dtype=np.float64)
    earth = Earth.of(sample.crs, (*places.min(axis=0), *places.max(axis=0)))
    return np.column_stack([earth.unrolled(places[:, 0], sample.counts > 0), places[:, 1]])


def in_km(sample: Sample) -> Array:
    """The rows in a plane of equal areas around the records, in km; as given without a CRS."""
    if sample.crs is None:
        return unrolled(sample)
    x, y = np.asarray(sample.coordinates).T
    return Earth(sample.crs).flat(x, y, sample.counts > 0)


def blocks(sample: Sample, n: int) -> evaluation.SpatialBlocks:
    """Blocks with as many records each."""
    return evaluation.SpatialBlocks(unrolled(sample), n_splits=n)


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

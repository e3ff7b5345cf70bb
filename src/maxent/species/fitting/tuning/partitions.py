"""Partitions: which records, and which background, each fold of a comparison is fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maxent import evaluation
from maxent.rows.arrays import Array
from maxent.species.fitting.results import BlockSize, Sample
from maxent.species.fitting.tuning_settings import TuningSettings
from maxent.species.judging.spatial_folds import blocks, checkerboard, environment, unrolled


@dataclass(frozen=True, eq=False)
class Fold:
    """Records held out of a fit.

    Attributes
    ----------
    name : str
        For tables.
    test : array
        Rows whose records are held out.
    block : array or None
        Rows of the fold's own part of the map, records and background; None where folds are not
        places, and the background belongs to all of them.
    """

    name: str
    test: Array
    block: Array | None = None

    def training(self, sample: Sample) -> tuple[Array, Array]:
        """Occurrences in each row to train on, and the rows of the fit."""
        counts = np.where(self.test, 0.0, sample.counts)
        if self.block is not None:
            return counts, ~self.block
        return counts, sample.at_background | (counts > 0)


def partition(
    sample: Sample,
    settings: TuningSettings,
    *,
    seed: int = 0,
    labels: Array | None = None,
    cell_size: tuple[float, float] | None = None,
    size: BlockSize | None = None,
    variables: Sequence[str] | None = None,
) -> list[Fold]:
    """The folds of a sample.

    ``labels`` are those of the rows with records, by a column of the user's; ``cell_size`` that of
    the grid, for squares of so many cells; ``size`` that of blocks, ``variables`` those that tell
    environments apart. A block is held out with its background; random folds,
    the jackknife and a column of labels leave all background in.
    """
    presence = sample.counts > 0
    rows = np.flatnonzero(presence)
    if labels is not None:
        return _labelled(rows, presence, labels)
    kind = settings.partition
    if kind == "jackknife":
        if rows.size < 2:
            raise ValueError(f"a jackknife needs two cells with records, got {rows.size}")
        alone = rows[:, None]
        return [Fold(f"record {i + 1}", _only(presence, row)) for i, row in enumerate(alone)]
    if kind == "random":
        folds = evaluation.PresenceKFold(settings.n_folds, random_state=seed)
        parts = [test[presence[test]] for _, test in folds.split(None, sample.counts)]
        return [Fold(f"fold {i + 1}", _only(presence, part)) for i, part in enumerate(parts)]
    splitter: Any
    if sample.coordinates is None and kind != "environment":
        raise ValueError(f"{kind} need the places of the records; use --partition random")
    if kind == "environment":
        splitter = environment(sample, settings.n_folds, variables, seed)
    elif kind == "blocks":
        splitter = blocks(sample, settings.n_folds, size, seed)
    elif settings.squares is None:
        splitter = checkerboard(sample, 2 if kind == "checkerboard" else 4)
    else:
        if cell_size is None:
            raise ValueError("squares are counted in cells: give cell_size, that of the grid")
        side = [settings.squares * length for length in cell_size]
        levels: Literal[1, 2] = 1 if kind == "checkerboard" else 2
        splitter = evaluation.Checkerboard(unrolled(sample), side, levels=levels)
    word = {"blocks": "block", "environment": "group"}.get(kind, "squares")
    parts = [_only(presence, test) for _, test in splitter.split(None, sample.counts)]
    return [Fold(f"{word} {i + 1}", part & presence, part) for i, part in enumerate(parts)]


def _only(like: Array, rows: Array) -> Array:
    mask = np.zeros(like.size, dtype=bool)
    mask[rows] = True
    return mask


def _labelled(rows: Array, presence: Array, labels: Array) -> list[Fold]:
    names = list(dict.fromkeys(labels.tolist()))
    if len(names) < 2:
        raise ValueError(
            f"the column of folds holds {', '.join(map(repr, names)) or 'nothing'} alone; two "
            "folds or more are needed"
        )
    if len(names) == len(rows) > 20:
        raise ValueError(
            f"the column of folds has another value for each of {len(rows)} records; for that use "
            "--partition jackknife"
        )
    return [Fold(f"fold {name}", _only(presence, rows[labels == name])) for name in names]

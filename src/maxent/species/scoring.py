"""Scores of a fitted model on records it has not seen."""

from __future__ import annotations

import csv
import io as text
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxent import evaluation, io
from maxent._rows import Array
from maxent.species.inputs import LayerFiles, RecordFile
from maxent.species.layers.background import draw_background
from maxent.species.layers.grid import OUTSIDE
from maxent.species.layers.layers import Layers
from maxent.species.model import SpeciesModel
from maxent.species.tables.text import plain_cell

_RULES = {
    "omission_minimum": "Minimum training presence",
    "omission_10_percentile": "10 percentile training presence",
}


def score_records(
    model: SpeciesModel,
    records: RecordFile,
    layers: LayerFiles,
    *,
    species: Sequence[str] = (),
    absences: RecordFile | None = None,
    background: int | None = 10_000,
    seed: int = 0,
    verbose: int = 1,
) -> dict[str, Any]:
    """AUC, Boyce index, TSS, omission and gain of records against absences or background cells.

    ``species`` picks records by name (default: those of the model's species if the file has them,
    else all). Records on cells without values are left out and counted.
    """
    with layers.open(only=model.density.schema.names) as opened:
        for note in opened.notes:
            warnings.warn(note, stacklevel=2)
        at_presence, lost = _predictions(model, records, opened, species or (model.species,))
        if absences is None:
            drawn = draw_background(opened, background, seed=seed, verbose=verbose)
            against = model.density.predict(drawn.X, output="log")
        else:
            against, _ = _predictions(model, absences, opened, ())
    scores: dict[str, Any] = {
        "species": model.species,
        "n_presences": int(at_presence.size),
        "n_without_data": lost,
        "n_background" if absences is None else "n_absences": int(against.size),
    }
    auc = evaluation.auc_delong(at_presence, against)
    best = evaluation.max_tss(at_presence, against)
    suitability, other = (_cloglog(model, v) for v in (at_presence, against))
    scores |= {
        "auc": auc.auc,
        "auc_sd": auc.sd,
        "max_tss": best.tss,
        "max_tss_threshold": float(_cloglog(model, np.array([best.threshold]))[0]),
        "correlation": evaluation.correlation(suitability, other),
    }
    if absences is None:
        scores["boyce"] = evaluation.boyce(suitability, other).index
        top = against.max()
        total = top + np.log(np.exp(against - top).sum())
        scores["gain"] = float(at_presence.mean() - total + np.log(against.size))
    for name, rule in _RULES.items():
        if rule in (model.thresholds or {}):
            scores[name] = evaluation.omission(suitability, model.threshold(rule))
    return scores


def write_scores(scores: dict[str, Any], path: Path) -> None:
    """Write the scores as a CSV file of one row."""
    lines = text.StringIO()
    writer = csv.DictWriter(lines, list(scores), lineterminator="\n")
    writer.writeheader()
    writer.writerow({name: plain_cell(value) for name, value in scores.items()})
    io.write_atomically(path, lines.getvalue().encode())


def _cloglog(model: SpeciesModel, log_raw: Array) -> Array:
    return -np.expm1(-np.exp(log_raw + model.density.raw_entropy))


def _predictions(
    model: SpeciesModel, records: RecordFile, layers: Layers, species: Sequence[str]
) -> tuple[Array, int]:
    """Log density at the records, and how many of them lie on cells without values."""
    located, _ = records.read(layers.grid)
    names = located.names()
    chosen = [name for name in species if name in names]
    if species and not chosen and species != (model.species,):
        raise ValueError(
            f"{records.path}: no species {species[0]!r}; it has {', '.join(names[:10])}"
        )
    if chosen:
        located = located.take(np.flatnonzero(np.isin(located.species.astype(str), chosen)))
    cells = layers.grid.cells_at(located.x, located.y)
    inside = cells != OUTSIDE
    X, known = layers.at(cells[inside])
    if not known.any():
        raise ValueError(
            f"{records.path}: none of its {len(located)} records lies on a cell with data; check "
            "coordinates and CRS (--x, --y, --crs)"
        )
    return model.density.predict(X[known], output="log"), int(len(located) - known.sum())

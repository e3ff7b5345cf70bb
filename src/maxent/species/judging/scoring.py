"""Scores of a fitted model on records it has not seen."""

from __future__ import annotations

import csv
import io as text
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent import evaluation, io
from maxent.rows.arrays import Array
from maxent.species.fitting.model import SpeciesModel
from maxent.species.input.files import LayerFiles, RecordFile, chosen_species
from maxent.species.input.layers.grid import OUTSIDE, Grid
from maxent.species.input.layers.layers import Layers
from maxent.species.input.records.columns import listed
from maxent.species.input.records.locating import located
from maxent.species.input.records.names import find_name, spelling_key
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.records.selection import OFFERED
from maxent.species.input.records.swd import SWD
from maxent.species.report import figures
from maxent.species.report.tables.text import plain_cell
from maxent.species.study.background import draw_background

_RULES = {
    "omission_minimum": "Minimum training presence",
    "omission_10_percentile": "10 percentile training presence",
}
_CURVES = ("calibration", "curves")
_CURVE = 400  # points of a curve that are kept


class NoEffect(ValueError):
    """An argument that changes nothing was given."""


def score_records(
    model: SpeciesModel,
    records: RecordFile,
    layers: LayerFiles,
    *,
    species: Sequence[str] = (),
    absences: RecordFile | None = None,
    use_absences: bool = True,
    background: int | None = 10_000,
    seed: int | None = None,
    verbose: int = 1,
    tell: Callable[[str], None] = lambda note: None,
) -> dict[str, Any]:
    """AUC, Boyce index, TSS, omission and gain of records against absences or background cells.

    Against absences the cloglog output is judged as a probability too, see
    :func:`maxent.evaluation.calibration`, whose answer is the entry "calibration". The entry
    "curves" has the ROC curve and, against background, that of the Boyce index.

    Records are compared with ``absences``, else with those that a column of presence and absence
    marks in ``records`` (unless not ``use_absences``), else with background cells. Records on cells
    without values are left out and counted.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    records : RecordFile
        The file of records.
    layers : LayerFiles
        Which rasters to open, and how.
    species : sequence of str, default ()
        Names to take; if empty those of the model's species, or all of a file with one species.
    absences : RecordFile, default None
        A file of absences.
    use_absences : bool, default True
        Whether absences that a column of ``records`` marks are used.
    background : int or None, default 10000
        Number of background cells, None for every cell.
    seed : int, default None
        Seed of the background, 0 where not given; refused where none is drawn.
    verbose : int, default 1
        0 silences progress.
    tell : callable, default does nothing
        Called with every note on what was assumed.
    """
    with layers.open(only=model.density.schema.names) as opened:
        for note in opened.notes:
            tell(note)
        grid = opened.grid
        own = use_absences and absences is None  # compared with them, which is told below
        placed = _located(records, grid, tell, silent=OFFERED if own else None)
        names = _chosen(model, placed, species, records.path, tell)
        absent = None
        if absences is not None:
            absent = _given_absences(_located(absences, grid, tell, absent=True), names, tell)
        elif own and placed.absences is not None:
            absent = _marked(placed.absences, names, grid, tell)
        if absent is not None and seed is not None:
            raise NoEffect(
                "seed has no effect: presences are compared with absences, so no background is "
                "drawn (one is with --background 10000)"
            )
        mine, lost = _values(placed.take(np.isin(placed.species.astype(str), names)), opened)
        if absent is None:
            other = draw_background(opened, background, seed=seed or 0, verbose=verbose).X
        else:
            other, _ = _values(absent, opened)
    _tell_of_units(model, mine, other, layers.sources[0], tell)
    if absent is not None and model.kinds is not None and model.kinds.log_scale is not None:
        tell(
            f"the probabilities that are judged are those that {model.kinds.area_in_words()} holds "
            "the species, as at the fit"
        )
    at_presence, against = (model.density.predict(X, output="log") for X in (mine, other))
    counts = {"species": model.species, "n_presences": at_presence.size, "n_without_data": lost}
    return counts | _scores(model, at_presence, against, absences=absent is not None)


def _tell_of_units(
    model: SpeciesModel, mine: Any, other: Any, name: str, tell: Callable[[str], None]
) -> None:
    """A note for each variable that is in other units at the places of the scores."""
    names = model.density.schema.continuous
    both = {v: np.concatenate([np.asarray(mine[v]), np.asarray(other[v])]) for v in names}
    for unlike in model.unlike(both):
        tell(unlike.describe(name, "these scores"))


def _scores(
    model: SpeciesModel, at_presence: Array, against: Array, *, absences: bool
) -> dict[str, Any]:
    """Of log densities at presences and at absences or background points."""
    scores: dict[str, Any] = {"n_absences" if absences else "n_background": int(against.size)}
    auc = evaluation.auc_delong(at_presence, against)
    best = evaluation.max_tss(at_presence, against)
    suitability, other = (_cloglog(model, v) for v in (at_presence, against))
    curves = {"roc": _thinned(evaluation.roc_curve(suitability, other)._asdict())}
    scores |= {
        "auc": auc.auc,
        "auc_sd": auc.sd,
        "max_tss": best.tss,
        "max_tss_threshold": float(_cloglog(model, np.array([best.threshold]))[0]),
        "correlation": evaluation.correlation(suitability, other),
    }
    if absences:
        chances = suitability, other
        if model.kinds is not None and model.kinds.log_scale is not None:
            chances = _probability(model, at_presence), _probability(model, against)
        told = evaluation.calibration(*chances)
        scores |= {
            "brier": told.brier,
            "log_loss": told.log_loss,
            "calibration_slope": told.slope,
            "calibration_intercept": told.intercept,
            "calibration": told,
        }
    else:
        boyce = evaluation.boyce(suitability, other)
        scores["boyce"] = boyce.index
        curves["boyce"] = {"prediction": boyce.suitability, "ratio": boyce.ratio}
        top = against.max()
        total = top + np.log(np.exp(against - top).sum())
        scores["gain"] = float(at_presence.mean() - total + np.log(against.size))
    for name, rule in _RULES.items():
        if rule in (model.thresholds or {}):
            scores[name] = evaluation.omission(suitability, model.threshold(rule))
    return scores | {"curves": curves}


def _thinned(curve: dict[str, Array]) -> dict[str, Array]:
    """At most ``_CURVE`` of its points, both ends among them."""
    size = len(next(iter(curve.values())))
    few = np.unique(np.linspace(0, size - 1, min(size, _CURVE)).round().astype(np.intp))
    return {name: np.asarray(values)[few] for name, values in curve.items()}


def numbers(scores: dict[str, Any]) -> dict[str, Any]:
    """The scores without curves."""
    return {name: value for name, value in scores.items() if name not in _CURVES}


def score_swd(
    model: SpeciesModel,
    samples: RecordFile,
    background: str | None = None,
    *,
    species: Sequence[str] = (),
    absences: str | None = None,
    use_absences: bool = True,
    tell: Callable[[str], None] = lambda note: None,
) -> dict[str, Any]:
    """Scores as of :func:`score_records`, of tables with data.

    Rows of ``samples`` are compared with those of ``absences``, else with those that a column of
    presence and absence marks (unless not ``use_absences``), else with the ``background`` table.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    samples : RecordFile
        The table of samples.
    background : str, default None
        The table of the background.
    species : sequence of str, default ()
        Names to take; if empty those of the model's species, or all of a file with one species.
    absences : str, default None
        A table of absences.
    use_absences : bool, default True
        Whether absences that a column of ``samples`` marks are used.
    tell : callable, default does nothing
        Called with every note on what was assumed.
    """
    schema = model.density.schema

    def read(path: str, **how: bool) -> SWD:
        rows = replace(samples, path=path).read_swd(schema.categorical, **how)
        for note in (rows.summary(), *rows.notes):
            tell(note)
        lacking = [name for name in schema.names if name not in rows.X.columns]
        if lacking:
            raise ValueError(f"{path} has no column {listed(lacking)}, which the model needs")
        return rows

    rows = read(samples.path)
    names = _chosen(model, rows, species, samples.path, tell)
    other = None
    if absences is not None:
        other = read(absences, absent=True)
    elif use_absences and rows.absences is not None:
        other = rows.absences.take(np.isin(rows.absences.species.astype(str), ["", *names]))
        tell(f"{rows.source}: presences are compared with its {len(other.species)} absences")
    marked = other is not None
    if other is None:
        if background is None:
            raise ValueError(
                f"{samples.path}: no absences to compare with; give the table of background points "
                "after it, or --absences"
            )
        other = read(background, background=True)
    mine = rows.take(np.isin(rows.species.astype(str), names))
    _tell_of_units(model, mine.X, other.X, samples.path, tell)
    at_presence, against = (
        model.density.predict(part.X[list(schema.names)], output="log") for part in (mine, other)
    )
    counts = {"species": model.species, "n_presences": at_presence.size}
    return counts | _scores(model, at_presence, against, absences=marked)


def score_files(scores: dict[str, Any], path: Path) -> list[Path]:
    """The files that :func:`write_scores` writes."""
    curve = _curve_path(path)
    return [path, curve, curve.with_suffix(".png")] if "calibration" in scores else [path]


def write_scores(
    scores: dict[str, Any], path: Path, tell: Callable[[str], None] = lambda note: None
) -> None:
    """Write the scores as a CSV file of one row, and a calibration curve and its picture beside it.

    The picture needs matplotlib; without it ``tell`` is called with a note.
    """
    told = scores.get("calibration")
    io.write_atomically(path, _csv([numbers(scores)]))
    if told is not None:
        names = ("predicted", "observed", "low", "high", "n")
        columns = zip(*(getattr(told, name) for name in names), strict=True)
        rows = [dict(zip(names, values, strict=True)) for values in columns]
        io.write_atomically(_curve_path(path), _csv(rows))
        _draw_curve(told, _curve_path(path).with_suffix(".png"), tell)


def _draw_curve(told: Any, path: Path, tell: Callable[[str], None]) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        tell("no picture of the calibration curve: it needs matplotlib (pip install maxent[plot])")
        return
    buffer = text.BytesIO()
    with figures.drawing():
        figures.probability_figure(told).savefig(buffer, format="png", dpi=200)
    io.write_atomically(path, buffer.getvalue())


def _curve_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}_calibration.csv")


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = text.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: plain_cell(value) for name, value in row.items()} for row in rows)
    return lines.getvalue().encode()


def _probability(model: SpeciesModel, log_raw: Array) -> Array:
    """Of presence in the area of the fit, from the log density."""
    kinds = model.kinds
    assert kinds is not None
    assert kinds.log_scale is not None
    assert kinds.area is not None
    level = model.density.output(np.zeros(1), "log")[0]  # of a score of 0
    return -np.expm1(-kinds.area * np.exp(log_raw - level + kinds.log_scale))


def _cloglog(model: SpeciesModel, log_raw: Array) -> Array:
    return -np.expm1(-np.exp(log_raw + model.density.raw_entropy))


def _located(
    records: RecordFile,
    grid: Grid,
    tell: Callable[[str], None],
    absent: bool = False,
    silent: str | None = None,
) -> Occurrences:
    """The records of a file; notes on it are told but for those that end in ``silent``."""
    placed, notes = records.read(grid, absent)
    for note in notes:
        if silent is None or not note.endswith(silent):
            tell(note)
    return placed


def _chosen(
    model: SpeciesModel,
    records: Occurrences | SWD,
    species: Sequence[str],
    path: str,
    tell: Callable[[str], None],
) -> list[str]:
    """The species to score, as the file spells them."""
    present = records.names()
    if species:
        return chosen_species(present, species, path)
    mine = find_name(model.species, present)
    if mine is not None:
        return [mine]
    if len(present) > 1:
        raise ValueError(
            f"{path}: no record of {model.species!r}, the species of the model; name those to "
            f"score with species= (-s), of {listed(present, 10)}"
        )
    tell(f"{path}: its records of {present[0]!r} score the model of {model.species!r}")
    return present


def _given_absences(
    records: Occurrences, names: Sequence[str], tell: Callable[[str], None]
) -> Occurrences:
    """The records of a file of absences: those of the species, or all."""
    keys = {spelling_key(name) for name in names}
    mine = np.array([spelling_key(name) in keys for name in records.species.tolist()])
    if mine.any():
        records = records.take(mine)
    tell(f"{records.source}: {len(records)} of its records are the absences")
    return records


def _marked(
    absences: Occurrences, names: Sequence[str], grid: Grid, tell: Callable[[str], None]
) -> Occurrences | None:
    """The absences of some species that a file marks, or of none in particular."""
    mine = absences.take(np.isin(absences.species.astype(str), ["", *names]))
    if not len(mine):
        tell(f"{absences.source}: no absences of {listed(names)}; compared with the background")
        return None
    tell(f"{absences.source}: presences are compared with its {len(mine)} absences")
    return located(mine, grid)[0]


def _values(records: Occurrences, layers: Layers) -> tuple[Any, int]:
    """The layers at the records, and how many of these lie on cells without values."""
    cells = layers.grid.cells_at(records.x, records.y)
    inside = cells != OUTSIDE
    X, known = layers.read_cells(cells[inside])
    if not known.any():
        raise ValueError(
            f"{records.source}: none of its {len(records)} records lies on a cell with data; check "
            "coordinates and CRS (--x, --y, --crs)"
        )
    return X[known], int(len(records) - known.sum())

"""The tables of one fit: those that maxent.jar writes, and the numbers behind the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent.rows.arrays import Array
from maxent.species.batch.slugs import slug
from maxent.species.fitting.results import Jackknife, MapFiles, Sample, SpeciesResult
from maxent.species.report.tables.jar_results import RESULTS, joined, results_rows, write_results
from maxent.species.report.tables.odmap import HEADER, odmap_rows
from maxent.species.report.tables.text import csv_bytes

_OMISSION = {
    "raw": "Raw value",
    "cumulative": "Corresponding cumulative value",
    "threshold": "Corresponding Cloglog value",
    "area": "Fractional area",
    "training_omission": "Training omission",
    "test_omission": "Test omission",
}
_SAMPLE_PREDICTIONS = (
    "X",
    "Y",
    "Test or train",
    "Raw prediction",
    "Cumulative prediction",
    "Cloglog prediction",
)
_SAMPLE_AVERAGES = ("Predictor variable", "Categorical", "Sample average")
_RULES = {  # the headings of the jar's report
    "name": "Description",
    "cumulative": "Cumulative threshold",
    "value": "Cloglog threshold",
    "raw": "Raw threshold",
    "area": "Fractional predicted area",
    "training_omission": "Training omission rate",
    "test_omission": "Test omission rate",
    "p_value": "P-value",
}
_RESPONSES = ("variable", "kind", "x", "y", "low", "high")
_MEASURES = ("contribution", "permutation", "permutation_sd", "auc_drop", "auc_drop_sd")
_MAPS = (
    "map",
    "extent",
    "cells",
    "km2",
    "extrapolating_cells",
    "new_combination_cells",
    "masked_cells",
    "present_cells",
    "present_km2",
    "present_low",
    "present_high",
    "present_unit",
    "expected",
    "expected_low",
    "expected_high",
    "region_cells",
    "region_km2",
    "region_extrapolating_cells",
    "region_present_cells",
    "region_present_km2",
)
_JACKKNIFE_HEADER = ("score", "variable", "only", "without", "all")


def write_tables(
    result: SpeciesResult, sample: Sample, test: Sample | None, folder: Path
) -> dict[str, str]:
    """Write all tables of a fit; returns the file of each, by what it holds.

    Parts that the fit left out (jackknife, replicates ...) have no file.

    Parameters
    ----------
    result : SpeciesResult
        The result of a fit.
    sample : Sample
        Training records with their environment.
    test : Sample or None
        Test records with theirs.
    folder : path
        Folder to write to.
    """
    folder = Path(folder)
    write_results(results_rows(result), folder / RESULTS)
    written = {"results": RESULTS}
    for what, file, header, rows in (*_of_the_jar(result, sample, test), *_of_the_report(result)):
        io.write_atomically(folder / file, csv_bytes(header, rows))
        written[what] = file
    return written


class _Table(NamedTuple):
    what: str
    file: str
    header: Iterable[str]
    rows: Iterable[Iterable[Any]]


def _of_the_jar(result: SpeciesResult, sample: Sample, test: Sample | None) -> Iterator[_Table]:
    name, curve = slug(result.species), result.evaluation.omission
    unknown = np.full(len(curve["raw"]), np.nan)
    columns = [curve.get(key, unknown).tolist() for key in _OMISSION]
    file = f"{name}_omission.csv"
    yield _Table("omission", file, _OMISSION.values(), zip(*columns, strict=True))
    predictions = _predictions(result, sample, "train")
    if test is not None:
        predictions += _predictions(result, test, "test")
    file = f"{name}_samplePredictions.csv"
    yield _Table("sample_predictions", file, _SAMPLE_PREDICTIONS, predictions)
    file = f"{name}_sampleAverages.csv"
    yield _Table("sample_averages", file, _SAMPLE_AVERAGES, _averages(result, sample))


def _of_the_report(result: SpeciesResult) -> Iterator[_Table]:
    rules = [[rule.get(key) for key in _RULES] for rule in result.evaluation.thresholds]
    yield _Table("thresholds", "thresholds.csv", _RULES.values(), rules)
    if result.responses:
        yield _Table("responses", "responses.csv", _RESPONSES, _curves(result))
    if result.importance is not None:
        values = [getattr(result.importance, measure).tolist() for measure in _MEASURES]
        shares = zip(result.importance.variables, *values, strict=True)
        yield _Table("importance", "importance.csv", ("variable", *_MEASURES), shares)
    if result.collinearity is not None:
        found = result.collinearity
        header = ("variable", "vif", *found.variables)
        table = [
            [name, factor, *row]
            for name, factor, row in zip(
                found.variables, found.vif.tolist(), found.correlation.tolist(), strict=True
            )
        ]
        yield _Table("collinearity", "collinearity.csv", header, table)
    if result.selection is not None:
        chosen = result.selection
        reasons = [[name, "kept", ""] for name in chosen.kept]
        reasons += [[name, "dropped", why] for name, why in chosen.dropped.items()]
        yield _Table("selection", "selection.csv", ("variable", "used", "why"), reasons)
    if result.jackknife is not None:
        rows = _jackknife_rows(result.jackknife)
        yield _Table("jackknife", "jackknife.csv", _JACKKNIFE_HEADER, rows)
    if result.replicates:
        entries = [{"kind": part.kind, **row} for part in result.replicates for row in part.table]
        yield _Table("replicates", "replicates.csv", *joined(entries))
    if result.maps:
        yield _Table("maps", "maps.csv", _MAPS, [_map_row(written) for written in result.maps])
    yield _Table("odmap", "odmap.csv", HEADER, odmap_rows(result))
    model = result.model
    names = [feature for operator in model.operators for feature in operator.names()]
    weights = zip(names, model.weights.tolist(), model.beta.tolist(), strict=True)
    yield _Table("coefficients", "coefficients.csv", ("feature", "weight", "beta"), weights)


# -- rows ------------------------------------------------------------------------------------------


def _map_row(written: MapFiles) -> list[Any]:
    """How much a map shows, in all and in the study region: like beside like."""
    inside, present = written.region, written.presence
    in_all: list[Any] = [written.n_cells, written.km2, written.n_extrapolated, written.n_novel]
    in_all += [written.n_masked, present.get("cells"), present.get("km2")]
    unit, *ends = written.area_ends() or (None, None, None)
    in_all += [*ends, unit, written.expected, *(written.expected_ends or (None, None))]
    region = ("cells", "km2", "extrapolated", "present", "present_km2")
    extent = written.extent or "all of the layers"
    return [written.name, extent, *in_all, *(inside.get(what) for what in region)]


def _predictions(result: SpeciesResult, sample: Sample, label: str) -> list[list[Any]]:
    """One row per record: place, label and predictions."""
    presences = sample.take(np.flatnonzero(sample.counts > 0))
    if not len(presences.counts):
        return []
    outputs = [result.model.predict(presences.X, o) for o in ("raw", "cumulative", "cloglog")]
    places, row = _places(result, presences, label == "test")
    values = np.column_stack(outputs)[row].tolist()
    return [[*place, label, *entry] for place, entry in zip(places.tolist(), values, strict=True)]


def _places(result: SpeciesResult, presences: Sample, test: bool) -> tuple[Array, Array]:
    """Coordinates of each record, and its row: as recorded, or of its row where that is unknown."""
    row = np.repeat(np.arange(len(presences.counts)), np.rint(presences.counts).astype(int))
    if presences.coordinates is None:
        return np.full((row.size, 2), np.nan), row
    mine = result.records["test"] == test
    recorded = np.column_stack([result.records["x"][mine], result.records["y"][mine]])
    if result.grid is not None and "step" in result.records and len(recorded) == row.size:
        # rows are in the order of time and cell, and one place may be there at several times
        cell = result.grid.cells_at(*recorded.T) + result.grid.size * result.records["step"][mine]
        found, place = np.unique(cell, return_inverse=True)
        if found.size == len(presences.counts):
            return recorded, place
    elif result.grid is not None and len(recorded) == row.size:
        cell = result.grid.cells_at(*presences.coordinates.T)
        wanted = result.grid.cells_at(*recorded.T)
        order = np.argsort(cell)
        place = order[np.searchsorted(cell, wanted, sorter=order).clip(max=cell.size - 1)]
        if (cell[place] == wanted).all():
            return recorded, place
    return presences.coordinates[row], row


def _averages(result: SpeciesResult, sample: Sample) -> list[list[Any]]:
    """Mean over the training records, of categories the commonest level (the first of several)."""
    present = sample.counts > 0
    counts = sample.counts[present]
    rows: list[list[Any]] = []
    for name in sample.X.columns:
        values = np.asarray(sample.X[name])[present]
        if name in result.categorical:
            levels, place = np.unique(values, return_inverse=True)
            average = levels[np.argmax(np.bincount(place, weights=counts))]
        else:
            average = np.average(values.astype(np.float64), weights=counts)
        rows.append([name, name in result.categorical, average])
    return rows


def _curves(result: SpeciesResult) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for curve in result.responses:
        unknown = np.full(len(curve.x), np.nan)
        columns = [
            curve.x,
            curve.y,
            unknown if curve.low is None else curve.low,
            unknown if curve.high is None else curve.high,
        ]
        values = zip(*(np.asarray(c).tolist() for c in columns), strict=True)
        rows += [[curve.variable, curve.kind, *entry] for entry in values]
    return rows


def _jackknife_rows(jackknife: Jackknife) -> list[list[Any]]:
    return [
        [key, name, only, without, score["all"]]
        for key, score in jackknife.scores.items()
        for name, only, without in zip(
            jackknife.variables, score["only"], score["without"], strict=True
        )
    ]

"""CSV files of a fit: maxent.jar's under its column names, and the numbers behind the report.

=================================  ===========================================================
``maxentResults.csv``              a row a species, a row a replicate and one of their averages
``<species>_omission.csv``         omission and area at every threshold
``<species>_samplePredictions``    the three predictions at every record
``<species>_sampleAverages.csv``   mean of each variable over the training records
``thresholds.csv`` ...             threshold rules, response curves, importance, jackknife,
                                   replicates and coefficients, a table each
=================================  ===========================================================

Numbers have ten digits; what is not known is empty. Files are UTF-8 and replaced in one step.
"""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxent import io
from maxent._rows import Array
from maxent.species.results import Jackknife, Replicates, Sample, SpeciesResult

RESULTS = "maxentResults.csv"
Row = dict[str, Any]

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
_JACKKNIFE_HEADER = ("score", "variable", "only", "without", "all")
_JACKKNIFE = {"train_gain": "Training gain", "test_gain": "Test gain", "test_auc": "AUC"}
_TEST = {
    "n": "#Test samples",
    "gain": "Test gain",
    "auc": "Test AUC",
    "auc_sd": "AUC Standard Deviation",
}
_ELSEWHERE = ("n", "auc", "gain", "unregularized_gain", "entropy", "prevalence")  # jar's columns
_SCORES = {  # others, of training and of test records
    "auc_sd": "AUC standard deviation",
    "boyce": "Boyce index",
    "max_tss": "maximum TSS",
    "tss_threshold": "maximum TSS Cloglog threshold",
    "log_loss": "log loss",
}
_FIT = {  # of the fit alone
    "aicc": "AICc",
    "n_parameters": "Nonzero weights",
    "max_auc": "AUC expected if the model is right",
}
_REPLICATE = {
    "n_train": "#Training samples",
    "gain": "Regularized training gain",
    "train_auc": "Training AUC",
    "n_test": "#Test samples",
    "test_gain": "Test gain",
    "test_auc": "Test AUC",
    "omission_minimum": "Minimum training presence test omission",
    "omission_10_percentile": "10 percentile training presence test omission",
    "boyce": "Test Boyce index",
    "auc_difference": "AUC difference",
    "gap": "Duality gap",
}


def write_tables(
    result: SpeciesResult, sample: Sample, test: Sample | None, folder: Path
) -> dict[str, str]:
    """Write all tables of a fit; returns the file of each, by what it holds.

    ``sample`` and ``test`` are the training and the test records with their environment. Parts
    that the fit left out (jackknife, replicates ...) have no file.
    """
    folder = Path(folder)
    write_results(results_rows(result), folder / RESULTS)
    written = {"results": RESULTS}
    for what, file, header, rows in (*_of_the_jar(result, sample, test), *_of_the_report(result)):
        io.write_atomically(folder / file, _csv(header, rows))
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
    if result.jackknife is not None:
        rows = _jackknife_rows(result.jackknife)
        yield _Table("jackknife", "jackknife.csv", _JACKKNIFE_HEADER, rows)
    if result.replicates:
        entries = [{"kind": part.kind, **row} for part in result.replicates for row in part.table]
        yield _Table("replicates", "replicates.csv", *_joined(entries))
    model = result.model
    names = [feature for operator in model._operators_ for feature in operator.names()]
    weights = zip(names, model._weights_.tolist(), model.beta_.tolist(), strict=True)
    yield _Table("coefficients", "coefficients.csv", ("feature", "weight", "beta"), weights)


# -- maxentResults.csv ---------------------------------------------------------------------------


def write_results(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows under the union of their columns, in order of first appearance.

    What a row lacks is empty; the file is replaced in one step.
    """
    io.write_atomically(path, _csv(*_joined(rows)))


def _joined(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return columns, [[row.get(column) for column in columns] for row in rows]


def results_rows(result: SpeciesResult) -> list[Row]:
    """All rows of a species: its own, "name_0", "name_1" ... of replicates, "name (average)".

    With replicates of several kinds, names have the kind as well: "name_blocks_0".
    """
    rows = [results_row(result)]
    for part in result.replicates:
        kind = part.kind if len(result.replicates) > 1 else ""
        rows += _replicate_rows(result.species, part, kind)
    return rows


def results_row(result: SpeciesResult) -> Row:
    """The row of a species in maxentResults.csv: the jar's columns in its order, then others.

    As in the jar, "#Background points" counts the presences that were added to them, and "AUC
    with only" and "without" a variable are of test records. Contributions are Aumann-Shapley
    shares, not what the jar counts on its way to the optimum.
    """
    evaluation = result.evaluation
    return (
        _summary(result)
        | _variables(result)
        | {
            "Entropy": result.model.entropy_,
            "Prevalence (average probability of presence over background sites)": (
                evaluation.scores["prevalence"]
            ),
        }
        | _rules(result)
        | _additions(result)
    )


def _summary(result: SpeciesResult) -> Row:
    model, tests = result.model, result.evaluation.test_scores
    row: Row = {
        "Species": result.species,
        "#Training samples": _whole(model.n_presences_),
        "Regularized training gain": model.gain_,
        "Unregularized training gain": model.unregularized_gain_,
        "Iterations": model.n_iter_,
        "Training AUC": result.evaluation.scores["auc"],
    }
    if tests is not None or result.replicates:
        row |= {column: (tests or {}).get(key) for key, column in _TEST.items()}
    return row | {"#Background points": _whole(model.n_points_)}


def _variables(result: SpeciesResult) -> Row:
    row: Row = {}
    if result.importance is not None:
        names = result.importance.variables
        contribution, permutation = result.importance.contribution, result.importance.permutation
        row |= _by_variable("{} contribution", names, contribution)
        row |= _by_variable("{} permutation importance", names, permutation)
    if result.jackknife is not None:
        row |= _jackknife_columns(result.jackknife, _JACKKNIFE)
    return row


def _jackknife_columns(jackknife: Jackknife, labels: Mapping[str, str]) -> Row:
    row: Row = {}
    for key, label in labels.items():
        if key in jackknife.scores:
            score = jackknife.scores[key]
            row |= _by_variable(f"{label} without {{}}", jackknife.variables, score["without"])
            row |= _by_variable(f"{label} with only {{}}", jackknife.variables, score["only"])
    return row


def _by_variable(title: str, names: Sequence[str], values: Iterable[Any]) -> Row:
    return {title.format(name): float(v) for name, v in zip(names, values, strict=True)}


def _rules(result: SpeciesResult) -> Row:
    row: Row = {}
    for rule in result.evaluation.thresholds:
        name = rule["name"]
        row[f"{name} cumulative threshold"] = rule["cumulative"]
        row[f"{name} Cloglog threshold"] = rule["value"]
        row[f"{name} area"] = rule["area"]
        row[f"{name} training omission"] = rule["training_omission"]
        test_omission = f"{name} test omission"
        if result.evaluation.test_scores is not None:
            row[test_omission] = rule["test_omission"]
            row[f"{name} binomial probability"] = rule["p_value"]
        elif result.replicates and test_omission in _REPLICATE.values():
            row[test_omission] = None
    return row


def _additions(result: SpeciesResult) -> Row:
    """What the jar has no column for."""
    row: Row = {}
    for key, value in result.evaluation.scores.items():
        if key not in _ELSEWHERE:
            row[_FIT.get(key) or f"Training {_SCORES.get(key, key)}"] = value
    for key, value in (result.evaluation.test_scores or {}).items():
        if key not in _TEST:
            row[f"Test {_SCORES.get(key, key)}"] = value
    if result.jackknife is not None:
        row |= _jackknife_columns(result.jackknife, {"auc": "Training AUC"})
    row["Duality gap"] = result.model.gap_
    row["Seconds"] = float(sum(result.seconds.values()))
    return row


def _replicate_rows(species: str, part: Replicates, kind: str) -> list[Row]:
    stem = f"{species}_{kind}" if kind else species
    rows: list[Row] = [
        {"Species": f"{stem}_{i}"} | {c: entry.get(key) for key, c in _REPLICATE.items()}
        for i, entry in enumerate(part.table)
    ]
    average: Row = {"Species": f"{species} ({kind} average)" if kind else f"{species} (average)"}
    for column in _REPLICATE.values():
        values = [row[column] for row in rows if _known(row[column])]
        average[column] = float(np.mean(values)) if values else None
    return [*rows, average]


# -- the other tables ----------------------------------------------------------------------------


def _predictions(result: SpeciesResult, sample: Sample, label: str) -> list[list[Any]]:
    """A row a record: place, label and predictions."""
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
    if result.grid is not None and len(recorded) == row.size:
        cell = result.grid.cells_at(*presences.coordinates.T)
        wanted = result.grid.cells_at(*recorded.T)
        order = np.argsort(cell)
        found = order[np.searchsorted(cell, wanted, sorter=order).clip(max=cell.size - 1)]
        if (cell[found] == wanted).all():
            return recorded, found
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


# -- text ----------------------------------------------------------------------------------------


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> bytes:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_text(value) for value in row] for row in rows)
    return buffer.getvalue().encode()


def _text(value: Any) -> str:
    if not _known(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return f"{value:.10g}"
    return str(value)


def _known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float | np.floating) and math.isnan(value))


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


# -- names of files ------------------------------------------------------------------------------

_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_MAX_BYTES = 120  # of a name, so that what is put behind it stays below the 255 of file systems


def slug(name: str) -> str:
    """A file name for a species on any system: letters, digits, ".", "_" and "-".

    Letters of all scripts stay; runs of anything else become "_".

    >>> slug("Bradypus variegatus"), slug("Picea abies (L.) H.Karst."), slug("Ñandú: pampa/sur")
    ('Bradypus_variegatus', 'Picea_abies_L._H.Karst', 'Ñandú_pampa_sur')
    >>> slug("con"), slug("..")
    ('con_', 'species')
    """
    text = "".join(
        c if c in "._-" or unicodedata.category(c)[0] in "LMN" else " "
        for c in unicodedata.normalize("NFC", name)
    )
    text = "_".join(text.split())
    text = text.encode()[:_MAX_BYTES].decode(errors="ignore")
    # a dot or dash first hides a file or looks like an option; Windows drops dots at the end
    text = text.lstrip(".-").rstrip(".") or "species"
    stem, dot, rest = text.partition(".")
    return f"{stem}_{dot}{rest}" if _DEVICES.fullmatch(text) else text


def slugs(names: Iterable[str]) -> dict[str, str]:
    """A file name for each species, no two the same where upper and lower case are one.

    >>> slugs(["Acer sp.", "acer sp", "Acer sp. 2"])
    {'Acer sp.': 'Acer_sp', 'acer sp': 'acer_sp_2', 'Acer sp. 2': 'Acer_sp._2'}
    """
    taken: set[str] = set()
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        stem = free = slug(name)
        number = 1
        while free.casefold() in taken:
            number += 1
            free = f"{stem}_{number}"
        taken.add(free.casefold())
        found[name] = free
    return found

"""maxentResults.csv: the columns of maxent.jar under its names and in its order, then others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent.species.fitting.results import (
    Borrowing,
    Jackknife,
    Replicates,
    Sharing,
    SpeciesResult,
)
from maxent.species.report.tables.text import csv_bytes, is_known

RESULTS = "maxentResults.csv"
Row = dict[str, Any]

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


def write_results(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows under the union of their columns, in order of first appearance.

    What a row lacks is empty; the file is replaced in one step.

    Parameters
    ----------
    rows : sequence of dict
        The rows.
    path : path
        The file.
    """
    io.write_atomically(path, csv_bytes(*joined(rows)))


def joined(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """The columns of all rows, in order of first appearance, and the values under them."""
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
            "Entropy": result.model.raw_entropy,
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
        "#Training samples": _whole(model.n_presences),
        "Regularized training gain": model.certificate.gain,
        "Unregularized training gain": model.certificate.unregularized_gain,
        "Iterations": model.certificate.n_iter,
        "Training AUC": result.evaluation.scores["auc"],
    }
    if tests is not None or result.replicates:
        row |= {column: (tests or {}).get(key) for key, column in _TEST.items()}
    return row | {"#Background points": _whole(model.n_points)}


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
    row |= _sharing(result.sharing)
    row |= _joint(result.borrowing)
    row |= _intervals(result)
    row["Duality gap"] = result.model.certificate.gap
    row["Seconds"] = float(sum(result.seconds.values()))
    return row


def _intervals(result: SpeciesResult) -> Row:
    """The area of presence and the number expected on the layers of the fit, with intervals."""
    row: Row = {}
    drawn = next((written for written in result.maps if written.training), None)
    if drawn is None:
        return row
    ends = drawn.area_ends()
    if ends is not None:
        unit, low, high = ends
        row |= {f"Presence {unit}": drawn.presence[unit]}
        row |= {f"Presence {unit} lower": low, f"Presence {unit} upper": high}
    if drawn.expected_ends is not None:
        low, high = drawn.expected_ends
        row |= {"Expected number": drawn.expected}
        row |= {"Expected number lower": low, "Expected number upper": high}
    return row


def _sharing(told: Sharing | None) -> Row:
    if told is None:
        return {}
    row: Row = {"Shared with other species": "yes" if told.chosen else "no"}
    for way, scores in (("alone", told.own), ("shared", told.shared)):
        row[f"Held-out gain {way}"] = scores.get("gain")
        row[f"Held-out AUC {way}"] = scores.get("auc")
    return row


def _joint(told: Borrowing | None) -> Row:
    if told is None:
        return {}
    row: Row = {"Species fitted together": told.n_species}
    for way, scores in (("alone", told.own), ("joint", told.joint)):
        row[f"Held-out gain {way}"] = scores.get("gain")
        row[f"Held-out AUC {way}"] = scores.get("auc")
    return row


def _replicate_rows(species: str, part: Replicates, kind: str) -> list[Row]:
    stem = f"{species}_{kind}" if kind else species
    rows: list[Row] = [
        {"Species": f"{stem}_{i}"} | {c: entry.get(key) for key, c in _REPLICATE.items()}
        for i, entry in enumerate(part.table)
    ]
    average: Row = {"Species": f"{species} ({kind} average)" if kind else f"{species} (average)"}
    for column in _REPLICATE.values():
        values = [row[column] for row in rows if is_known(row[column])]
        average[column] = float(np.mean(values)) if values else None
    return [*rows, average]


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value

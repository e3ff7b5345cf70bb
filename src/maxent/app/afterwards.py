"""What is made of results after their fits: scores on other records, overlap of two, survey sites.

Each lies in a folder of its own beside the results, as the command wrote it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from maxent.app import models
from maxent.app.folders import EVALUATIONS, OVERLAPS, SURVEYS, Folders, fresh
from maxent.app.runs import later, result_of
from maxent.species.batch.outputs import MODEL
from maxent.species.fitting.options import typed
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile
from maxent.species.input.layers.naming import named_layers
from maxent.species.report.tables.text import number_or_text

_SCORES, _OVERLAP, _SITES = "scores.csv", "overlap.json", "sites.csv"
_MODEL_LAYERS = ("align", "resampling", "crs", "nodata", "layer")  # what a model does not know
_OF_MAPS = ("clamp", "mask", "extent")  # settings of a fit that its maps are drawn by
_LISTED = 12  # of each kind, the latest


def place_for(folders: Folders, run: str, what: str, name: str) -> str:
    """A new, empty folder for what is made of a result."""
    folder = folders.find(str(fresh(later(folders, run, what) / (name or what))))
    folder.mkdir(parents=True)
    return folders.name(folder)


def model_and_layers(folders: Folders, run: str, files: LayerFiles) -> tuple[str, list[str]]:
    """The model of a result, and the words for the layers of its fit, as commands take them."""
    model = folders.find(run) / MODEL
    if not model.is_file():
        raise FileNotFoundError(f"{run!r} holds no model of `maxent fit`")
    named = tuple(
        f"{one.name}={folders.name(Path(one.path))}" + (f":{one.band}" if one.band else "")
        for one in named_layers(files.layer)
    )
    how = {name: getattr(files, name) for name in _MODEL_LAYERS} | {"layer": named}
    words = typed(LayerFiles((), **how))
    there = {str(Path(one.path)) for one in named_layers(files.layer)}
    sources = [folders.name(Path(path)) for path in files.sources if path not in there]
    return folders.name(model), [*(plain_word(path) for path in sources), *words]


def plain_word(path: str) -> str:
    """A file whose name begins like an option, as a path."""
    return f"./{path}" if path.startswith("-") else path


def project_words(
    folders: Folders, run: str, layers: Path, out: str, changes: Mapping[str, Any] | None = None
) -> list[str]:
    """The words of ``maxent project``: other layers, read and drawn as those of the fit were.

    ``changes`` are settings of maps that were asked for instead.
    """
    result = result_of(folders, run)
    model = folders.find(run) / MODEL
    drawn = {name: result.settings[name] for name in _OF_MAPS if name in result.settings}
    drawn |= changes or {}
    extent = drawn.get("extent")
    if extent not in (None, "layers", "region"):
        polygons = folders.find(extent)  # refused outside of the opened folders
        if not polygons.is_file():
            raise FileNotFoundError(f"{extent}: no such file; choose it again")
        drawn["extent"] = folders.name(polygons)
    stored = {} if result.reading is None else result.reading
    read = {name: stored[name] for name in _MODEL_LAYERS if name in stored and name != "layer"}
    words = ["project", plain_word(folders.name(model)), plain_word(folders.name(layers))]
    words += typed(LayerFiles.stored({"sources": (), **read}))
    return [*words, *typed(Settings(**drawn)), "-o", out]


def evaluate_words(
    folders: Folders, asked: models.AskEvaluation, files: LayerFiles, out: str
) -> list[str]:
    """The words of ``maxent evaluate``."""
    model, layers = model_and_layers(folders, asked.run, files)
    records = RecordFile(asked.records, presence=asked.presence)
    words = ["evaluate", plain_word(model), plain_word(asked.records), *layers, *typed(records)]
    words += ["--absences", asked.absences] if asked.absences else []
    words += ["-s", asked.species] if asked.species else []
    return [*words, "-o", f"{out}/{_SCORES}"]


def overlap_words(asked: models.AskOverlap, out: str) -> list[str]:
    """The words of ``maxent overlap``."""
    words = ["overlap", plain_word(asked.one), plain_word(asked.other)]
    words += [] if asked.space == "geography" else ["--space", asked.space]
    if asked.test is not None:
        words += ["--test", asked.test, "--null", str(asked.null)]
    return [*words, "--out", f"{out}/overlap.csv", "--json", f"{out}/{_OVERLAP}"]


def sites_words(folders: Folders, asked: models.AskSites, files: LayerFiles, out: str) -> list[str]:
    """The words of ``maxent sites``."""
    model, layers = model_and_layers(folders, asked.run, files)
    words = ["sites", plain_word(model), *layers, "--sites", str(asked.count)]
    words += ["--apart", f"{asked.apart:.15g}"] if asked.apart else []
    words += ["--visited", asked.visited] if asked.visited else []
    words += [] if asked.detection == 1 else ["--detection", f"{asked.detection:.15g}"]
    return [*words, "-o", out]


# -- what came of it -------------------------------------------------------------------------------


def of_run(folders: Folders, run: str) -> dict[str, Any]:
    """Scores on other records and sites to visit, the latest first."""
    return {
        "evaluations": [_evaluation(folders, place) for place in _made(folders, run, EVALUATIONS)],
        "surveys": [_survey(folders, place) for place in _made(folders, run, SURVEYS)],
    }


def against(run: str) -> str:
    """A result in the name of a folder."""
    return run.replace("/", "_").lstrip(".")


def overlaps_of(folders: Folders, one: str, other: str) -> list[dict[str, Any]]:
    """What was found about two results, the latest first."""
    found = []
    for run, another in ((one, other), (other, one)):
        base, start = later(folders, run, OVERLAPS), against(another)
        places = [p for p in base.glob("*") if re.fullmatch(rf"{re.escape(start)}(-\d+)?", p.name)]
        for place in places:
            path = place / _OVERLAP
            if path.is_file() and folders.holds(path):
                facts = from_json(path.read_bytes(), allow_inf_nan=False)
                found.append((path.stat().st_mtime, _overlap(folders, place, facts)))
    latest = sorted(found, key=lambda item: -item[0])[:_LISTED]
    return [told for _, told in latest]


def _made(folders: Folders, run: str, what: str) -> Iterator[Path]:
    file = {EVALUATIONS: _SCORES, SURVEYS: _SITES}[what]
    places = [p for p in later(folders, run, what).glob("*") if (p / file).is_file()]
    inside = [p for p in places if folders.holds(p / file)]
    yield from sorted(inside, key=lambda p: -(p / file).stat().st_mtime)[:_LISTED]


def _evaluation(folders: Folders, place: Path) -> dict[str, Any]:
    rows = _table(place / _SCORES)
    curve = place / _SCORES.replace(".csv", "_calibration.csv")
    known = curve.is_file() and folders.holds(curve)
    return {
        "name": place.name,
        "scores": rows[0] if rows else {},
        "calibration": _table(curve) if known else [],
        "file": folders.name(place / _SCORES),
    }


def _survey(folders: Folders, place: Path) -> dict[str, Any]:
    files = [p for p in sorted(place.iterdir()) if p.suffix in (".gpx", ".geojson", ".csv")]
    return {
        "name": place.name,
        "sites": _table(place / _SITES),
        "files": [folders.name(p) for p in files if folders.holds(p)],
    }


def _overlap(folders: Folders, place: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of the command, of an overlap of maps alone too."""
    tests = [
        {
            **{k: test[k] for k in ("test", "statistic", "direction", "observed", "null_mean")},
            **{k: test[k] for k in ("p_different", "p_similar", "p_value", "null")},
            "says": test["sentence"],
        }
        for test in facts.get("tests", [])
    ]
    maps = facts.get("maps") or {}
    return {
        "name": place.name,
        "space": facts.get("space", "geography"),
        "species": facts.get("species"),
        "output": facts["output"],
        "schoener_d": facts["schoener_d"],
        "warren_i": facts["warren_i"],
        "maps": {"schoener_d": maps["d"], "warren_i": maps["i"]} if maps else None,
        "cells": facts.get("cells"),
        "tests": tests,
        "environment": facts.get("environment"),
        "notes": [folders.without_paths(note) for note in facts.get("notes", [])],
        "file": folders.name(place / "overlap.csv"),
    }


def _table(path: Path) -> list[dict[str, Any]]:
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [{k: number_or_text(v) for k, v in row.items() if k is not None} for row in rows]

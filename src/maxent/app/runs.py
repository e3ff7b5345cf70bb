"""Finished results as the page shows them: what a folder of ``maxent fit`` holds, as plain data."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maxent.app.folders import SURVEYS, Folders, OutsideError
from maxent.app.surveys import layer_file
from maxent.app.wording import for_page
from maxent.species.batch.outputs import RESULT
from maxent.species.batch.richness import PRESENCES, SUITABILITY, TABLE
from maxent.species.comparing.folders import DEFAULT_RULE
from maxent.species.fitting.record_kinds import APART
from maxent.species.fitting.results import SpeciesResult, read_result
from maxent.species.input.file_access import open_raster
from maxent.species.input.layers.grid_facts import grid_facts
from maxent.species.report.maps import LABELS
from maxent.species.report.tables.text import number_or_text, plain_json

PROJECTIONS, CHANGES = "projections", "changes"  # folders beside the results
_CURVE = 400  # points of a curve that are sent
plain = plain_json


def result_of(folders: Folders, run: str) -> SpeciesResult:
    """The result in a folder, kept in memory as long as the file stays the same."""
    folder = folders.find(run)
    path = folders.find(str(folder / RESULT))
    if not path.is_file():
        raise FileNotFoundError(f"{run!r} holds no result of `maxent fit`")
    return _read(folder, path.stat().st_mtime)


@lru_cache(maxsize=4)
def _read(folder: Path, written: float) -> SpeciesResult:
    return read_result(folder)


def describe_result(folders: Folders, run: str) -> dict[str, Any]:
    """Everything that the page shows of a result, but for the maps themselves."""
    result = result_of(folders, run)
    folder = folders.find(run)
    study = [] if result.study is None else [r for p in result.study.polygons for r in p]
    return {
        "run": run,
        "species": result.species,
        "created": result.created,
        "version": result.version,
        "command": result.command,
        "notes": [for_page(folders.without_paths(note)) for note in result.notes],
        "cleaning": [plain(step) for step in result.cleaning],
        "bound": result.bound,
        "n_background": result.n_background,
        "certificate": {
            "said": result.model.certificate.describe(),
            "gap": plain(result.model.certificate.gap),
            "gain": plain(result.model.certificate.gain),
        },
        "grid": None if result.grid is None else grid_facts(result.grid),
        "records": plain(result.records),
        "study": plain(study),
        "evaluation": {
            "scores": plain(result.evaluation.scores),
            "test_scores": plain(result.evaluation.test_scores),
            "roc": _thin(result.evaluation.roc),
            "omission": _thin({"curve": result.evaluation.omission})["curve"],
            "thresholds": plain(result.evaluation.thresholds),
        },
        "replicates": [{"kind": r.kind, "table": plain(r.table)} for r in result.replicates],
        "importance": plain(result.importance),
        "jackknife": plain(result.jackknife),
        "responses": [_response(r) for r in result.responses],
        "variables": list(result.model.schema.names),
        "categorical": list(result.categorical),
        "layers_reachable": _reachable(folders, result),
        "maps": maps_of(folders, run),
        "changes": _changes(folders, run, result),
        "default_rule": result.settings.get("threshold") or DEFAULT_RULE,
        "extent": _extent(folders, result),
        "mask": result.settings.get("mask"),
        "report": f"{run}/report.html" if (folder / "report.html").is_file() else None,
        "files": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()),
    }


def _reachable(folders: Folders, result: SpeciesResult) -> bool:
    """Whether the layers of the fit lie in opened folders, so that places can be explained."""
    try:
        found = [folders.locate(layer_file(label)[0]) for label in result.layers.values()]
    except (OSError, OutsideError):
        return False
    return bool(found)


def _extent(folders: Folders, result: SpeciesResult) -> str:
    """What the maps of the fit were cut to, for further ones; nothing where its file is gone."""
    extent = str(result.settings.get("extent", "layers"))
    if extent in ("layers", "region"):
        return extent
    try:
        return folders.name(folders.locate(extent))
    except (OSError, OutsideError):
        return "layers"


def maps_of(folders: Folders, run: str) -> list[dict[str, Any]]:
    """The maps of a result: those of the fit, of its projections and changes, and later ones."""
    result, folder = result_of(folders, run), folders.find(run)
    found: list[dict[str, Any]] = []
    for written in result.maps:
        apart = {} if result.kinds is None else result.kinds.apart(written.files)
        for kind, name in written.files.items():
            classes = plain(written.classes) if kind == "mod" else None
            one = _map(folder / name, kind, written.name, written.training, classes)
            if kind in apart:
                one["label"] = f"{apart[kind]} {LABELS[APART]}"
            found.append(one)
    changes = [*folder.glob("change/*.tif")]
    for place in sorted(later(folders, run, PROJECTIONS).glob("*")):
        for path in sorted(place.glob("*.tif")):
            classes = _classes(path) if path.stem == "mod" else None
            found.append(_map(path, path.stem, place.name, False, classes))
    for path in sorted(later(folders, run, SURVEYS).glob("*/*.tif")):
        found.append(_map(path, path.stem, path.parent.name, False, None))
    for place in sorted(later(folders, run, CHANGES).glob("*")):
        changes += place.glob("*.tif")
    for path in sorted(changes):
        scenarios = path.stem.startswith("scenarios")
        of = path.stem.removeprefix("change_")
        found.append(_map(path, path.stem if scenarios else "change", of, False, None))
    return [
        {**{k: v for k, v in one.items() if k != "path"}, "file": folders.name(one["path"])}
        for one in found
        if one["path"].is_file()
    ]


def _map(
    path: Path, kind: str, of: str, training: bool, classes: dict[str, str] | None
) -> dict[str, Any]:
    label = "range change" if kind == "change" else LABELS.get(kind, kind)
    return {
        "path": path,
        "kind": kind,
        "label": label,
        "of": of,
        "training": training,
        "classes": classes,
    }


def _classes(path: Path) -> dict[str, str] | None:
    """The names of the classes of a raster, where it holds them."""
    with open_raster(path) as raster:
        tags = raster.tags(1)
    return {k: v for k, v in tags.items() if k.isdecimal()} or None


def richness_of(folders: Folders, batch: str) -> dict[str, Any]:
    """The sums over the species of a run of many, and what was summed."""
    folder = folders.find(batch)
    table = folders.find(str(folder / TABLE))
    if not table.is_file():
        raise FileNotFoundError(
            f"{batch!r} has no maps of richness: `maxent fit` writes them for two species or more"
        )
    with open(table, newline="", encoding="utf-8") as file:
        species = [_summed(folders, folder, row) for row in csv.DictReader(file)]
    maps = []
    for kind in (SUITABILITY, PRESENCES):
        for path in sorted(folder.glob(f"{kind}*.tif")):
            of = path.stem.removeprefix(kind).removeprefix("_") or "training layers"
            made = _map(path, kind, of, of == "training layers", None)
            name = folders.name(made.pop("path"))
            maps.append({**made, "file": name})
    return {"species": species, "maps": maps}


def _summed(folders: Folders, folder: Path, row: Mapping[str, str]) -> dict[str, Any]:
    place = folder / row["folder"]
    there = bool(row["folder"]) and folders.holds(place / RESULT)
    return {
        "species": row["species"],
        "run": folders.name(place) if there else None,
        "summed": row["summed"] == "yes",
        "rule": row["rule"],
        "threshold": None if row["threshold"] == "" else plain(float(row["threshold"])),
        "said": row["said"],
    }


def later(folders: Folders, run: str, what: str) -> Path:
    """Where projections and changes go that are made of a result after its fit."""
    name = folders.name(folders.find(run)).replace("/", "_").lstrip(".") or "result"
    return folders.find(f"{what}/{name}")


def _changes(folders: Folders, run: str, result: SpeciesResult) -> list[dict[str, Any]]:
    """Range change by scenario: of the fit, and made later."""
    found = () if result.change is None else result.change.changes
    rows: list[dict[str, Any]] = [plain(change.row()) for change in found]
    tables = later(folders, run, CHANGES).glob("*/range_change.csv")
    for path in sorted(path for path in tables if folders.holds(path)):
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                numbers = {k: number_or_text(v) for k, v in row.items()}
                rows.append({**numbers, "scenario": row["scenario"]})  # which may be a year
    return rows


def _response(response: Any) -> dict[str, Any]:
    thinned = plain(response)
    if response.categorical or len(response.x) <= _CURVE:
        return dict(thinned)
    few = np.linspace(0, len(response.x) - 1, _CURVE).round().astype(int)
    for name in ("x", "y", "low", "high"):
        values = getattr(response, name)
        thinned[name] = None if values is None else plain(np.asarray(values)[few])
    return dict(thinned)


def _thin(curves: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Curves with a few hundred points each, ends included."""
    made: dict[str, Any] = {}
    for name, columns in curves.items():
        size = max((len(np.atleast_1d(v)) for v in columns.values() if v is not None), default=0)
        few = np.unique(np.linspace(0, max(size - 1, 0), min(size, _CURVE)).round().astype(int))
        made[name] = {
            key: None if values is None else plain(np.atleast_1d(values)[few])
            for key, values in columns.items()
        }
    return made

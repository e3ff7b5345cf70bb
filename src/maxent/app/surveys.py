"""Records and layers looked at before a fit, as the page shows them."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent._support.terminal import in_words as in_words_of
from maxent.app.draft import Draft
from maxent.app.folders import Folders
from maxent.app.wording import for_page
from maxent.rows.arrays import Array
from maxent.species.input.checking import RecordFates, check_layers, check_records
from maxent.species.input.crs import short_crs
from maxent.species.input.files import LayerFiles, RecordFile
from maxent.species.input.layers.geodesy import Earth
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.grid_facts import grid_facts
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.naming import named_layers
from maxent.species.input.records.occurrences import Occurrences, read_occurrences
from maxent.species.input.records.rows import in_words, rows_named
from maxent.species.input.records.site_records import counts_alone, header_of, read_sites
from maxent.species.input.records.study_files import read_extent
from maxent.species.input.source_settings import COUNTS, SURVEY, SourceSettings
from maxent.species.study.sites import place_sites
from maxent.species.study.study_region import StudyRegion

_SIDE = 512  # cells along the longer side of a map without layers
_SHOWN = 20_000  # records of one species on the map
BY_HAND = "left out by hand"


def records_of(draft: Draft, folders: Folders) -> dict[str, Any]:
    """The fate of every record, and the study region of each species.

    Without layers, the records as they were read.
    """
    asked = draft.record_file()
    records = replace(asked, path=str(folders.find(asked.path)), leave_out=())
    if not draft.layers.get("sources"):
        return _unplaced(records, folders)
    layers, settings, study = _layers(draft, folders), draft.fit_settings(), _study(draft, folders)
    fates, notes = check_records(records, layers, settings, study=study)
    dropped = set(rows_named(asked.leave_out))
    known = {int(row) for one in fates for row in one.row}
    if dropped & known:
        fewer: list[RecordFates] = []
        if not known <= dropped:
            rest = replace(records, leave_out=(in_words(dropped & known),))
            fewer, _ = check_records(rest, layers, settings, study=study)
        fates = _with_dropped(fates, fewer, dropped)
    with layers.open() as opened:
        grid = grid_facts(opened.grid)
    return {
        "species": [_fates(one, folders) for one in fates],
        "notes": [for_page(folders.without_paths(note)) for note in notes],
        "grid": grid,
    }


def _with_dropped(
    every: list[RecordFates], fewer: list[RecordFates], dropped: set[int]
) -> list[RecordFates]:
    """The fates without some rows, and these rows marked."""
    left = {one.species: one for one in fewer}
    made = []
    for one in every:
        rest = left.get(one.species)
        out = np.isin(one.row, list(dropped))
        hand = np.full(int(out.sum()), BY_HAND, dtype=object)
        if rest is None:
            made.append(replace(one, fate=np.full(len(one.row), BY_HAND, dtype=object)))
            continue
        made.append(
            replace(
                rest,
                x=np.concatenate([rest.x, one.x[out]]),
                y=np.concatenate([rest.y, one.y[out]]),
                row=np.concatenate([rest.row, one.row[out]]),
                fate=np.concatenate([rest.fate, hand]),
                doubt=None
                if rest.doubt is None or one.doubt is None
                else np.concatenate([rest.doubt, one.doubt[out]]),
            )
        )
    return made


def _unplaced(file: RecordFile, folders: Folders) -> dict[str, Any]:
    """Records on a grid around them, before there are layers."""
    how = {
        f.name: getattr(file, f.name) for f in fields(file) if f.name not in ("path", "leave_out")
    }
    records = read_occurrences(file.path, **how)
    known = np.isfinite(records.x) & np.isfinite(records.y)
    if not known.any():
        raise ValueError(f"{records.source}: no record has both coordinates; check the columns")
    grid = grid_around(records.x[known], records.y[known], records.crs)
    fates = []
    for name in records.names():
        one = records.of_species(name)
        fate = np.full(len(one), "read; choose layers to see which can be used", dtype=object)
        fates.append(RecordFates(name, one.x, one.y, one.row, fate, []))
    return {
        "species": [_fates(one, folders) for one in fates],
        "notes": [
            for_page(folders.without_paths(note)) for note in (records.summary(), *records.notes)
        ],
        "grid": {**grid, "words": _around_records(records)},
    }


def visits_of(draft: Draft, folders: Folders) -> dict[str, Any]:
    """Files of surveys and counts as they were understood, on the layers where there are any."""
    settings = replace(draft.source_settings() or SourceSettings(), effort_layers=())
    with ExitStack() as opened:
        layers = None
        if draft.layers.get("sources"):
            with suppress(OSError, ValueError):  # which the layers' own step tells of
                layers = opened.enter_context(_layers(draft, folders).open())
        return {
            "files": [
                _visits(kind, file, settings, layers, folders) for kind, file in draft.visits()
            ]
        }


def _visits(
    kind: str,
    file: RecordFile,
    settings: SourceSettings,
    layers: Layers | None,
    folders: Folders,
) -> dict[str, Any]:
    """One of these files, or why it cannot be read."""
    told: dict[str, Any] = {
        "path": file.path,
        "kind": kind,
        "error": "",
        "columns": "",
        "notes": [],
    }
    told |= {"visits": 0, "finds": 0, "x": [], "y": [], "found": [], "hidden": 0}
    try:
        read = read_sites(replace(file, path=str(folders.find(file.path))), kind, settings)
        here = read if layers is None else place_sites([read], layers)[0].records
    except (OSError, ValueError) as error:
        return told | {"error": for_page(folders.without_paths(in_words_of(error)))}
    places, found = here.places, here.value > 0
    known = np.flatnonzero(np.isfinite(places.x) & np.isfinite(places.y))
    few = known[:_SHOWN]
    return told | {
        "visits": len(here),
        "finds": int(found.sum()),
        "columns": places.columns,
        "notes": [for_page(folders.without_paths(note)) for note in here.notes],
        "x": numbers(places.x[few]),
        "y": numbers(places.y[few]),
        "found": found[few].tolist(),
        "hidden": known.size - few.size,
    }


def kind_of_visits(path: str, folders: Folders) -> str:
    """Counts where a file has a column of counts and none of presence; else a survey."""
    header = header_of(folders.find(path))
    return COUNTS if counts_alone(header) else SURVEY


def grid_around(x: Any, y: Any, crs: str | None) -> dict[str, Any]:
    """The facts of a grid with points inside, for a map where there are no layers.

    Points on both sides of the date line are neighbours, the shorter way around.
    """
    x, y = _side_by_side(x, y, crs), np.asarray(y, dtype=np.float64)
    west, east, south, north = x.min(), x.max(), y.min(), y.max()
    margin = 0.1 * max(east - west, north - south) or 1.0
    side = (max(east - west, north - south) + 2 * margin) / _SIDE
    grid = Grid(
        crs,
        (float(side), 0.0, float(west - margin), 0.0, float(-side), float(north + margin)),
        int(np.ceil((east - west + 2 * margin) / side)),
        int(np.ceil((north - south + 2 * margin) / side)),
    )
    return grid_facts(grid)


def _side_by_side(x: Any, y: Any, crs: str | None) -> Array:
    """x of places, some of them beyond the date line where they lie on both its sides."""
    bounds = (np.min(x), np.min(y), np.max(x), np.max(y))
    return Earth.of(crs, bounds).side_by_side(x)


def grid_of_places(draft: Draft | None, folders: Folders, x: Any, y: Any) -> dict[str, Any]:
    """The grid of the layers of a draft, or one around places if these lie on both its ends."""
    grid = None if draft is None else grid_of(draft, folders)
    if grid is None:
        return grid_around(x, y, None)
    crs = grid["definition"]
    apart = np.ptp(x) > np.ptp(_side_by_side(x, y, crs))
    return grid_around(x, y, crs) if apart else grid


def grid_of(draft: Draft, folders: Folders) -> dict[str, Any] | None:
    """The grid of the layers of a draft; None where they cannot be read any more."""
    try:
        with _layers(draft, folders).open() as opened:
            return grid_facts(opened.grid)
    except (OSError, ValueError):
        return None


def _around_records(records: Occurrences) -> str:
    """What a map without layers shows: its cells are nobody's, and are not told."""
    known = np.isfinite(records.x) & np.isfinite(records.y)
    x, y = records.x[known], records.y[known]
    x = _side_by_side(x, y, records.crs)
    crs = "" if records.crs is None else f", {short_crs(records.crs)}"
    return (
        f"no layers yet; records from x {x.min():.6g} to {x.max():.6g}, "
        f"y {y.min():.6g} to {y.max():.6g}{crs}"
    )


def _fates(one: RecordFates, folders: Folders) -> dict[str, Any]:
    few = slice(None, _SHOWN)
    doubt = np.full(len(one.x), "", dtype=object) if one.doubt is None else one.doubt
    return {
        "name": one.species,
        "counts": one.counts,
        "x": numbers(one.x[few]),
        "y": numbers(one.y[few]),
        "row": one.row[few].tolist(),
        "fate": one.fate[few].tolist(),
        "doubt": doubt[few].tolist(),
        "hidden": max(len(one.x) - _SHOWN, 0),
        "study": _rings(one.study),
        "region": "" if one.study is None else folders.without_paths(one.study.in_words()),
        "notes": [for_page(folders.without_paths(note)) for note in one.notes],
    }


def extent_of(draft: Draft, folders: Folders) -> dict[str, Any]:
    """The polygons that maps are cut to; refused where the file holds none on the layers."""
    name = draft.extent_file()
    if name is None:
        raise ValueError("maps are not drawn within the polygons of a file")
    with _layers(draft, folders).open() as opened:
        extent, notes = read_extent(str(folders.find(name)), opened.grid)
    return {
        "words": folders.without_paths(extent.in_words()),
        "rings": _rings(extent),
        "notes": [folders.without_paths(note) for note in notes],
    }


def _rings(region: StudyRegion | None) -> list[Any]:
    """The outlines of polygons and of their holes."""
    polygons = () if region is None else region.polygons
    return [np.asarray(ring).tolist() for polygon in polygons for ring in polygon]


def layers_of(draft: Draft, folders: Folders) -> dict[str, Any]:
    """Layers side by side: grids, ranges, correlations, and which to leave out."""
    found = check_layers(_layers(draft, folders, everything=True))
    without = set(draft.layer_files().without)
    used = {fact.name: fact for fact in found.layers}
    if found.fits and without & set(used) and not set(used) <= without:
        # those in use are compared with each other alone
        used = {fact.name: fact for fact in check_layers(_layers(draft, folders)).layers}
    told = []
    for fact in found.layers:
        among = used.get(fact.name)
        fact = replace(
            fact,
            vif=np.nan if among is None else among.vif,
            drop="" if among is None else among.drop,
        )
        row = {k: v for k, v in asdict(fact).items() if k != "grid"}
        path, band = layer_file(fact.label)
        row |= {"file": folders.name(Path(path)), "band": band, "grid": fact.grid.describe()}
        row["label"] = folders.without_paths(fact.label)
        row |= {k: number(row[k]) for k in ("low", "high", "vif")}
        row["difference"] = folders.without_paths(fact.difference)
        row["vif_infinite"] = bool(np.isinf(fact.vif))
        told.append(row)
    close = found.collinearity
    return {
        "layers": told,
        "fits": found.fits,
        "grid": None if found.grid is None else grid_facts(found.grid),
        "correlation": None
        if close is None
        else {
            "variables": list(close.variables),
            "values": [numbers(row) for row in close.correlation],
        },
        "notes": [for_page(folders.without_paths(note)) for note in found.notes],
    }


def _layers(draft: Draft, folders: Folders, everything: bool = False) -> LayerFiles:
    """The layers of a draft by their real paths; ``everything``: with those left out."""
    asked = draft.layer_files()
    places = tuple(str(folders.find(source)) for source in asked.sources)
    named = tuple(
        f"{one.name}={folders.find(one.path)}" + (f":{one.band}" if one.band else "")
        for one in named_layers(asked.layer)
    )
    without = () if everything else asked.without
    return replace(asked, sources=places, layer=named, without=without)


def _study(draft: Draft, folders: Folders) -> Any:
    asked = draft.study_files()
    real: dict[str, Any] = {
        name: str(folders.find(getattr(asked, name)))
        for name in ("polygons", "ecoregions")
        if getattr(asked, name)
    }
    return replace(asked, **real)


def layer_file(label: str) -> tuple[str, int]:
    """File and band of what messages call a layer.

    >>> layer_file("climate.tif, band 3"), layer_file("a, b.tif")
    (('climate.tif', 3), ('a, b.tif', 1))
    """
    path, found, band = label.rpartition(", band ")
    return (path, int(band)) if found and band.isdecimal() else (label, 1)


def number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return None if value is None or not np.isfinite(value) else float(value)


def numbers(values: Array) -> list[float | None]:
    """The same of many."""
    return [number(value) for value in np.asarray(values, dtype=np.float64)]

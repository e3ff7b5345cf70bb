"""maxent.species: from occurrence records and rasters to a map and a report (extra ``geo``).

A room uses those that stand before it in this table, and none that stand after it.

================================================  ================================================
``extras``, ``crs``, ``options``                  libraries, coordinate systems, fields as options
``layers/``                                       rasters on one grid
``results``, ``records/``                         what a fit consists of; occurrence records
``settings``, ``tuning_settings``, ``inputs``     what a fit is told, and the files it reads
``model``, ``region``, ``diagnostics/``           a saved density; species on cells; their scores
``sharing``                                       strength lent between the species of a group
``selection``, ``checking``                       variables chosen; files looked at before a fit
``fitting``, ``direct``, ``explaining``           a species fitted and judged; why a place suits it
``projection/``, ``comparison/``                  its maps, and maps side by side
``slugs``, ``tables/``, ``report/``, ``outputs``  what is written, and the folders for it
``workers``, ``crew``                             who does the work: processes, or a cluster
``job``, ``workflow``                             one species or many, from files to folders
``scoring``, ``tuning/``                          a model scored on new records; settings chosen
================================================  ================================================

>>> from maxent import species
>>> species.Settings(features="lq", multiplier=2.0).multiplier
2.0
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "checking": ["LayerCheck", "LayerFacts", "RecordFates", "check_layers", "check_records"],
    "comparison.change": ["compare_maps"],
    "comparison.overlap": ["Overlap", "niche_overlap"],
    "comparison.records": ["Comparison", "RangeChange"],
    "crew": ["ClusterSettings"],
    "diagnostics": [
        "collinearity",
        "evaluate",
        "importance",
        "jackknife",
        "replicate",
        "responses",
    ],
    "direct": ["fit"],
    "explaining": ["PlaceExplained", "Share", "explain_place", "explain_places"],
    "fitting": ["fit_species"],
    "inputs": ["LayerFiles", "RecordFile", "StudyFiles"],
    "job": ["rewrite_report"],
    "layers.background": ["Drawn", "draw_background"],
    "layers.effort": ["RecordEffort"],
    "layers.extrapolation": ["Extrapolation"],
    "layers.grid": ["Grid", "Window"],
    "layers.layers": ["Block", "Layers"],
    "layers.similarity": ["Reference"],
    "layers.study_region": ["StudyRegion"],
    "model": ["SpeciesModel", "load_model"],
    "projection": ["project", "project_xarray"],
    "projection.rows": ["project_rows"],
    "records.cleaning": ["Cleaned", "clean", "thin"],
    "records.locating": ["located"],
    "records.occurrences": ["Occurrences", "read_occurrences"],
    "records.study_files": ["StudyChoice", "read_polygons"],
    "records.swd": ["SWD", "read_swd", "swd_sample", "write_swd"],
    "region": ["Prepared", "Region", "prepare", "survey"],
    "report": ["write_index", "write_map_png", "write_report"],
    "results": [
        "CleaningStep",
        "Collinearity",
        "Evaluation",
        "Importance",
        "Jackknife",
        "MapFiles",
        "Replicates",
        "Response",
        "Sample",
        "Selection",
        "Sharing",
        "SpeciesResult",
    ],
    "scoring": ["score_records", "score_swd"],
    "settings": ["Settings"],
    "sharing": ["share"],
    "tables": ["write_results", "write_tables"],
    "tuning": ["Tuned", "Tuning", "tune", "tune_files"],
    "tuning_settings": ["TuningSettings"],
    "workflow": ["fit_files", "fit_swd"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
_ROOMS = {module.partition(".")[0] for module in _PUBLIC}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

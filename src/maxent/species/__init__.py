"""maxent.species: from occurrence records and rasters to a map and a report (extra ``geo``).

Its rooms follow the steps of the work:

===============  ===================================================================================
``input/``       the files of a user: records, layers, where they lie and how far they may reach
``study/``       the region, the background that is drawn from it, the variables that are used
``fitting/``     what a fit is told, one species fitted, its model and its result; settings chosen
``judging/``     scores, curves, importance, responses, replicates; why a place suits a species
``projecting/``  maps of a model, on its own layers or on others
``comparing/``   maps side by side: change of a range, ensembles, overlap of niches
``report/``      pages and tables
``batch/``       one species or many, from files to folders that appear whole or not at all
===============  ===================================================================================

>>> from maxent import species
>>> species.Settings(features="lq", multiplier=2.0).multiplier
2.0
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "input.checking": ["LayerCheck", "LayerFacts", "RecordFates", "check_layers", "check_records"],
    "input.files": ["LayerFiles", "RecordFile", "StudyFiles"],
    "input.layers.extrapolation": ["Extrapolation"],
    "input.layers.grid": ["Grid", "Window"],
    "input.layers.layers": ["Block", "Layers"],
    "input.layers.similarity": ["Reference"],
    "input.records.cleaning": ["Cleaned", "clean", "thin"],
    "input.records.locating": ["located"],
    "input.records.occurrences": ["Occurrences", "read_occurrences"],
    "input.records.study_files": ["StudyChoice", "read_polygons"],
    "input.records.swd": ["SWD", "read_swd", "swd_sample", "write_swd"],
    "study.background": ["Drawn", "draw_background"],
    "study.effort": ["RecordEffort"],
    "study.polygons": ["StudyRegion"],
    "study.region": ["Prepared", "Region", "prepare", "survey"],
    "fitting.model": ["SpeciesModel", "load_model"],
    "fitting.one_call": ["fit"],
    "fitting.one_species": ["fit_species"],
    "fitting.results": [
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
    "fitting.settings": ["Settings"],
    "fitting.sharing": ["share"],
    "fitting.tuning": ["Tuned", "Tuning", "tune", "tune_files"],
    "fitting.tuning_settings": ["TuningSettings"],
    "judging": ["collinearity", "evaluate", "importance", "jackknife", "replicate", "responses"],
    "judging.explaining": ["PlaceExplained", "Share", "explain_place", "explain_places"],
    "judging.scoring": ["score_records", "score_swd"],
    "projecting": ["project", "project_xarray"],
    "projecting.rows": ["project_rows"],
    "comparing.change": ["compare_maps"],
    "comparing.overlap": ["Overlap", "niche_overlap"],
    "comparing.records": ["Comparison", "RangeChange"],
    "report": ["write_index", "write_map_png", "write_report"],
    "report.tables": ["write_results", "write_tables"],
    "batch.crew": ["ClusterSettings"],
    "batch.job": ["rewrite_report"],
    "batch.workflow": ["fit_files", "fit_swd"],
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

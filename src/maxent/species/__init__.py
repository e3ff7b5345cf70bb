"""maxent.species: from occurrence records and rasters to a map and a report (extra ``geo``).

>>> from maxent import species
>>> species.Settings(features="lq", multiplier=2.0).multiplier
2.0
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "background": ["Drawn", "draw_background"],
    "cleaning": ["Cleaned", "clean", "thin"],
    "diagnostics": ["evaluate", "importance", "jackknife", "replicate", "responses"],
    "fitting": ["Prepared", "Region", "Settings", "fit_species", "prepare", "survey"],
    "grid": ["Grid", "Window"],
    "layers": ["Block", "Layers"],
    "locating": ["located"],
    "model": ["SpeciesModel", "load_model"],
    "occurrences": ["Occurrences", "read_occurrences"],
    "projection": ["project", "project_xarray"],
    "report": ["write_index", "write_map_png", "write_report"],
    "results": [
        "CleaningStep",
        "Evaluation",
        "Importance",
        "Jackknife",
        "MapFiles",
        "Replicates",
        "Response",
        "Sample",
        "SpeciesResult",
    ],
    "scoring": ["score_records"],
    "similarity": ["Reference"],
    "swd": ["SWD", "read_swd", "swd_sample", "write_swd"],
    "tables": ["write_results", "write_tables"],
    "tuning": ["tune", "tune_files"],
    "workflow": ["LayerFiles", "RecordFile", "fit_files", "fit_swd", "rewrite_report"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _PUBLIC:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

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

from typing import Any

from maxent._support.lazy import LazyNames

PUBLIC = {
    "maxent.species.input.checking": [
        "LayerCheck",
        "LayerFacts",
        "RecordFates",
        "ScenarioCheck",
        "check_layers",
        "check_records",
        "check_scenarios",
    ],
    "maxent.species.input.files": ["LayerFiles", "RecordFile", "StudyFiles"],
    "maxent.species.input.layers.extrapolation": ["Extrapolation"],
    "maxent.species.input.layers.grid": ["Grid", "Window"],
    "maxent.species.input.layers.layers": ["Block", "Layers"],
    "maxent.species.input.layers.similarity": ["Reference"],
    "maxent.species.input.layers.units": ["UnlikeUnits", "unlike_units"],
    "maxent.species.input.records.cleaning": ["Cleaned", "clean", "thin"],
    "maxent.species.input.records.locating": ["located"],
    "maxent.species.input.records.occurrences": ["Occurrences", "read_occurrences"],
    "maxent.species.input.records.site_records": ["SiteRecords", "read_sites"],
    "maxent.species.input.records.study_files": ["StudyChoice", "read_polygons"],
    "maxent.species.input.records.swd": ["SWD", "read_swd", "swd_sample", "write_swd"],
    "maxent.species.input.times.dated_layers": ["DatedLayers"],
    "maxent.species.input.times.settings": ["TimeSettings"],
    "maxent.species.input.times.timing": ["Timing"],
    "maxent.species.input.source_settings": ["SourceSettings"],
    "maxent.species.study.background": ["Drawn", "draw_background"],
    "maxent.species.study.effort": ["RecordEffort"],
    "maxent.species.study.study_region": ["StudyRegion"],
    "maxent.species.study.samples": ["Prepared", "Region", "prepare", "survey"],
    "maxent.species.fitting.model": ["SpeciesModel", "load_model"],
    "maxent.species.fitting.joint": ["Joint", "SpeciesGroup", "fit_group"],
    "maxent.species.fitting.one_call": ["fit"],
    "maxent.species.fitting.one_species": ["fit_species"],
    "maxent.species.fitting.record_kinds": ["KindsOfRecords", "SourceFile"],
    "maxent.species.fitting.results": [
        "BlockSize",
        "Borrowing",
        "CleaningStep",
        "Collinearity",
        "Evaluation",
        "Importance",
        "Jackknife",
        "MapFiles",
        "MapsInTime",
        "Origin",
        "Replicates",
        "Response",
        "Sample",
        "Selection",
        "Sharing",
        "SpeciesResult",
    ],
    "maxent.species.fitting.settings": ["Settings"],
    "maxent.species.fitting.sharing": ["share"],
    "maxent.species.fitting.tuning": ["Tuned", "Tuning", "tune", "tune_files"],
    "maxent.species.fitting.tuning_settings": ["TuningSettings"],
    "maxent.species.judging": [
        "collinearity",
        "evaluate",
        "importance",
        "jackknife",
        "replicate",
        "responses",
    ],
    "maxent.species.judging.explaining": [
        "PlaceExplained",
        "Share",
        "explain_place",
        "explain_places",
    ],
    "maxent.species.judging.spatial_folds": ["block_size"],
    "maxent.species.judging.scoring": ["score_records", "score_swd"],
    "maxent.species.judging.sites": ["Site", "SurveyPlan", "plan_survey"],
    "maxent.species.judging.visits": ["visit_effort"],
    "maxent.species.projecting": ["project", "project_xarray"],
    "maxent.species.projecting.in_time": ["project_in_time"],
    "maxent.species.projecting.rows": ["project_rows"],
    "maxent.species.comparing.change": ["compare_maps"],
    "maxent.species.comparing.niches.comparison": ["NicheComparison", "compare_niches"],
    "maxent.species.comparing.niches.environment": [
        "EnvironmentAxes",
        "EnvironmentSpace",
        "NicheDensity",
    ],
    "maxent.species.comparing.niches.null_tests": ["NullTest"],
    "maxent.species.comparing.overlap": ["Overlap", "niche_overlap", "overlap_of"],
    "maxent.species.comparing.records": ["Comparison", "RangeChange"],
    "maxent.species.report": ["write_index", "write_map_png", "write_report"],
    "maxent.species.report.tables": ["write_results", "write_tables"],
    "maxent.species.batch.cluster": ["ClusterSettings"],
    "maxent.species.batch.job": ["rewrite_report"],
    "maxent.species.batch.workflow": ["fit_files", "fit_swd"],
}
NAMES = LazyNames(__name__, PUBLIC, {".".join(module.split(".")[:3]) for module in PUBLIC})

__all__ = sorted(NAMES.home)


def __getattr__(name: str) -> Any:
    return NAMES.load(name)


def __dir__() -> list[str]:
    return __all__

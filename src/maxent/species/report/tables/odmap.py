"""ODMAP: the standard description of a distribution model (Zurell et al. 2020), as far as known.

Ecography 43:1261-1277. The table has the sections and elements of the protocol, in the layout that
its web form reads; what only the authors of a study can know is empty and marked so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from platform import python_version
from typing import Any

import numpy as np

from maxent.density.intervals import LEVEL, Refits
from maxent.species.fitting.record_kinds import WHAT
from maxent.species.fitting.results import (
    MapFiles,
    Replicates,
    SpeciesResult,
    counts_in_words,
)
from maxent.species.input.crs import short_crs
from maxent.species.input.records.selection import LEFT_OUT
from maxent.species.input.times.timing import Timing

HEADER = ("section", "subsection", "element", "Value", "filled by")
PROGRAM, AUTHOR, NEITHER = "maxent", "author", "not applicable"
_PACKAGES = ("numpy", "scipy", "numba", "rasterio", "pandas", "pyproj", "shapely")
_REFITS = ("bootstrap", "subsample")  # whose parts are drawn anew, and are no folds
_SCORES = {
    "auc": "AUC",
    "test_auc": "AUC",
    "auc_difference": "absolute difference of training and test AUC",
    "boyce": "Boyce index",
    "max_tss": "largest TSS",
    "gain": "gain",
    "aicc": "AICc",
    "omission_minimum": "omission at the minimum training presence",
    "omission_10_percentile": "omission at the 10 percentile training presence",
}
_DOUBLE = "Model selection - model averaging - ensembles"
_DEPEND = "Analysis and Correction of non-independence"
# of the protocol, in its order: section, subsection, elements
_ELEMENTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Overview", "Authorship", ("Study title", "Author names", "Contact", "Study link")),
    ("Overview", "Model objective", ("Model objective", "Target output")),
    ("Overview", "Focal Taxon", ("Focal Taxon",)),
    ("Overview", "Location", ("Location",)),
    ("Overview", "Scale of Analysis", (
        "Spatial extent", "Spatial resolution", "Temporal extent", "Temporal resolution",
        "Boundary",
    )),
    ("Overview", "Biodiversity data", ("Observation type", "Response data type")),
    ("Overview", "Predictors", ("Predictor types",)),
    ("Overview", "Hypotheses", ("Hypotheses",)),
    ("Overview", "Assumptions", ("Model assumptions",)),
    ("Overview", "Algorithms", ("Modelling techniques", "Model complexity", "Model averaging")),
    ("Overview", "Workflow", ("Model workflow",)),
    ("Overview", "Software", ("Software", "Code availability", "Data availability")),
    ("Data", "Biodiversity data", (
        "Taxon names", "Taxonomic reference system", "Ecological level", "Data sources",
        "Sampling design", "Sample size", "Clipping", "Scaling", "Cleaning", "Absence data",
        "Background data", "Errors and biases",
    )),
    ("Data", "Data partitioning", ("Training data", "Validation data", "Test data")),
    ("Data", "Predictor variables", (
        "Predictor variables", "Data sources", "Spatial extent", "Spatial resolution",
        "Coordinate reference system", "Temporal extent", "Temporal resolution",
        "Data processing", "Errors and biases", "Dimension reduction",
    )),
    ("Data", "Transfer data", (
        "Data sources", "Spatial extent", "Spatial resolution", "Temporal extent",
        "Temporal resolution", "Models and scenarios", "Data processing",
        "Quantification of Novelty",
    )),
    ("Model", "Variable pre-selection", ("Variable pre-selection",)),
    ("Model", "Multicollinearity", ("Multicollinearity",)),
    ("Model", "Model settings", ("Model settings (fitting)", "Model settings (extrapolation)")),
    ("Model", "Model estimates", ("Coefficients", "Parameter uncertainty", "Variable importance")),
    ("Model", _DOUBLE, ("Model selection", "Model averaging", "Model ensembles")),
    ("Model", _DEPEND, ("Spatial autocorrelation", "Temporal autocorrelation", "Nested data")),
    ("Model", "Threshold selection", ("Threshold selection",)),
    ("Assessment", "Performance statistics", (
        "Performance on training data", "Performance on validation data",
        "Performance on test data",
    )),
    ("Assessment", "Plausibility check", ("Response shapes", "Expert judgement")),
    ("Prediction", "Prediction output", ("Prediction unit", "Post-processing")),
    ("Prediction", "Uncertainty quantification", (
        "Algorithmic uncertainty", "Input data uncertainty", "Parameter uncertainty",
        "Scenario uncertainty", "Novel environments",
    )),
)  # fmt: skip


def odmap_rows(result: SpeciesResult) -> list[tuple[str, str, str, str, str]]:
    """One row per element: section, subsection, element, value, and who fills it."""
    known = dict(_known(result))
    projected = any(not written.training for written in result.maps)
    rows = []
    for section, subsection, elements in _ELEMENTS:
        for element in elements:
            value = known.pop((subsection, element) if section != "Data" else
                              (f"data: {subsection}", element), "")  # fmt: skip
            by = PROGRAM if value else AUTHOR
            transfer = subsection == "Transfer data" or element == "Scenario uncertainty"
            if not value and transfer and not projected:
                by = NEITHER
            rows.append((section, subsection, element, value, by))
    assert not known, f"not elements of the protocol: {list(known)}"
    return rows


def _known(result: SpeciesResult) -> Iterator[tuple[tuple[str, str], str]]:
    for part in (_overview, _data, _model, _assessment, _prediction):
        for subsection, element, value in part(result):
            prefix = "data: " if part is _data else ""
            yield (f"{prefix}{subsection}", element), value


def _overview(result: SpeciesResult) -> Iterator[tuple[str, str, str]]:
    asked, fitted = result.settings, result.model
    outputs = ", ".join(asked.get("outputs", ("cloglog",)))
    shown = any("presence" in written.files for written in result.maps)
    output = f"continuous index of habitat suitability ({outputs})"
    output += "; presence and absence" if shown else ""
    if result.kinds is not None and result.kinds.log_scale is not None:
        output += f"; intensity per {result.kinds.per}; probability that "
        output += f"{result.kinds.area_in_words()} holds the species"
    yield "Model objective", "Target output", output
    yield "Focal Taxon", "Focal Taxon", result.species
    if result.grid is not None:
        yield "Scale of Analysis", "Spatial extent", _extent(result)
        yield "Scale of Analysis", "Spatial resolution", _resolution(result)
        edge = "rectangle: all of the layers" if result.study is None else result.study.describe()
        edges = [edge, *(f"map of the {m.name}: {m.extent_in_words()}" for m in result.maps[:1])]
        yield "Scale of Analysis", "Boundary", "; ".join(edges)
    if result.timing is not None:
        yield "Scale of Analysis", "Temporal extent", _temporal_extent(result.timing)
        yield "Scale of Analysis", "Temporal resolution", _temporal_resolution(result.timing)
    kinds = result.kinds
    response = "presence-only"
    if kinds is not None:
        response = _joined(f"{WHAT[file.kind]} ({file.name})" for file in kinds.files)
    yield "Biodiversity data", "Response data type", response
    together = result.borrowing
    technique = "maximum entropy (Maxent)"
    if together is not None:
        technique += f", {together.n_species} species fitted jointly"
    if kinds is not None:
        technique += ": one intensity of an inhomogeneous Poisson process, fitted to all kinds of "
        technique += "records by their likelihoods (penalised cloglog and Poisson regression)"
    yield "Algorithms", "Modelling techniques", technique
    penalty = f"{asked.get('potential', 'box')}, multiplier {asked.get('multiplier', 1.0):g}"
    yield (
        "Algorithms",
        "Model complexity",
        (
            f"feature classes {asked.get('features', 'auto')}: {len(fitted.coef)} of "
            f"{fitted.n_features} features in use under the regularization ({penalty})"
        ),
    )
    yield "Algorithms", "Model averaging", _averaging(result)
    yield "Workflow", "Model workflow", _workflow(result)
    yield "Software", "Software", _software(result.version)


def _averaging(result: SpeciesResult) -> str:
    """Of densities: the joint one and that of the species' own records."""
    told = result.borrowing
    if told is None or not told.own_share:
        return "none"
    return (
        f"mean of log densities: {1 - told.own_share:.0%} of the joint fit of {told.whose}, "
        f"{told.own_share:.0%} of the fit of the species' own records"
    )


def _workflow(result: SpeciesResult) -> str:
    steps = ["records cleaned", "background drawn", "density fitted"]
    steps += [
        f"{'refitted' if made.kind in _REFITS else 'cross-validated'} ({_kind(made)})"
        for made in result.replicates[:1]
    ]
    steps += ["variables judged"] if result.importance or result.jackknife else []
    steps += [f"drawn on {written.name}" for written in result.maps]
    return "; ".join(steps) + (f". Command: {result.command}" if result.command else "")


def _software(version: str) -> str:
    parts = [f"maxent {version}", f"Python {python_version()}"]
    for name in _PACKAGES:
        try:
            parts.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(parts)


def _data(result: SpeciesResult) -> Iterator[tuple[str, str, str]]:
    asked, about = result.settings, "Biodiversity data"
    test = np.asarray(result.records["test"], bool)
    n = int(result.model.n_presences)
    yield about, "Taxon names", result.species
    known = [(origin.source, origin.describe()) for origin in result.origins]
    told = [f"{name}: {what}" for name, what in known if what]
    if result.kinds is not None:
        given = {name for name, what in known if what}
        told += [file.name for file in result.kinds.files if file.name not in given]
    yield about, "Data sources", _joined(told)
    flags = [
        f"{origin.source}, flagged by the publisher: {counts_in_words(origin.flags)}"
        for origin in result.origins
        if origin.flags
    ]
    yield about, "Errors and biases", _joined(flags)
    yield about, "Sample size", f"{n} presences to fit" + (f", {test.sum()} to test" if test.any()
                                                          else "")  # fmt: skip
    if result.study is not None:
        yield about, "Clipping", result.study.describe()
    every = "every record counts" if asked.get("keep_duplicates") else "one record per cell"
    every += "" if asked.get("keep_duplicates") or result.timing is None else " and time"
    thin = asked.get("thin")
    apart = "" if thin is None else f", at least {thin:g} km apart"
    yield about, "Scaling", every + apart
    before = (note for note in result.notes if LEFT_OUT in note)  # as the file was read
    steps = (f"{s.what}: {s.records}" for s in result.cleaning)
    yield about, "Cleaning", _joined([*before, *steps])
    vain = (
        ()
        if result.kinds is None
        else [
            f"{file.name}: {file.n_rows - file.n_records:g} of {file.n_rows} visits in vain"
            + (f", {file.left_out}" if file.left_out else "")
            for file in result.kinds.files
            if file.kind != "presences"
        ]
    )
    yield about, "Absence data", _joined(vain) or "none used"
    how = [f"{result.n_background} points"]
    if result.n_cells is not None:
        how = [f"all {result.n_cells} cells; {result.n_background} of them for evaluation"]
    how += [f"sampling effort: {asked['bias']}"] if "bias" in asked else []
    how += [note for note in result.notes if note.startswith("background: ")]
    how += [result.study.describe()] if result.study is not None else []
    how += [result.timing.describe()] if result.timing is not None else []
    alone = result.kinds is not None and all(f.kind != "presences" for f in result.kinds.files)
    yield (
        about,
        "Background data",
        "none: visits say where people looked" if alone else "; ".join(how),
    )
    background = result.n_cells or result.n_background
    trained = f"{n} presences, {background} background"
    if result.kinds is not None:
        trained = _joined(
            f"{f.name}: {f.n_records:g} finds in {f.n_rows} "
            f"{'places' if f.kind == 'presences' else 'visits'}, {f.size_in_words()}"
            for f in result.kinds.files
        )
    yield "Data partitioning", "Training data", trained
    made = result.replicates[:1]
    yield (
        "Data partitioning",
        "Validation data",
        _joined(map(_parts, made)),
    )
    yield "Data partitioning", "Test data", f"{test.sum()} records held out" if test.any() else ""
    names = [
        f"{name} (categorical)" if name in result.categorical else name
        for name in result.model.schema.names
    ]
    about = "Predictor variables"
    yield about, "Predictor variables", ", ".join(names)
    yield about, "Data sources", _joined(f"{n}: {file}" for n, file in result.layers.items())
    if result.grid is not None:
        yield about, "Spatial extent", _extent(result)
        yield about, "Spatial resolution", _resolution(result)
        yield about, "Coordinate reference system", short_crs(result.grid.crs)
    if result.timing is not None:
        yield about, "Temporal extent", _temporal_extent(result.timing)
        yield about, "Temporal resolution", _temporal_resolution(result.timing)
    others = [written for written in result.maps if not written.training]
    extents = _joined(f"{written.name}: {written.extent_in_words()}" for written in others)
    yield "Transfer data", "Spatial extent", extents
    yield "Transfer data", "Data sources", ", ".join(written.name for written in others)
    yield "Transfer data", "Quantification of Novelty", _joined(map(_novelty, others))


def _novelty(written: MapFiles) -> str:
    told = []
    if written.n_extrapolated is not None:
        told.append(
            f"{written.n_extrapolated} with a variable outside its range or a new category "
            "(MESS below 0)"
        )
    if written.n_novel is not None:
        told.append(f"{written.n_novel} with a new combination of variables (ExDet above 1)")
    return f"{written.name}, of {written.n_cells} cells: {', '.join(told)}" if told else ""


def _model(result: SpeciesResult) -> Iterator[tuple[str, str, str]]:
    asked, chosen, found = result.settings, result.selection, result.collinearity
    if chosen is not None:
        lost = ", ".join(f"{name} ({why})" for name, why in chosen.dropped.items()) or "none"
        said = f"{chosen.rule}: {', '.join(chosen.kept)} kept; left out: {lost}"
        yield "Variable pre-selection", "Variable pre-selection", said
    if found is not None and len(found.variables) > 1:
        sizes = np.abs(found.correlation - np.eye(len(found.variables)))
        i, j = np.unravel_index(np.nanargmax(sizes), sizes.shape)
        worst = int(np.nanargmax(found.vif))
        yield (
            "Multicollinearity",
            "Multicollinearity",
            (
                f"largest correlation {found.correlation[i, j]:.2f} ({found.variables[i]}, "
                f"{found.variables[j]}), largest variance inflation factor {found.vif[worst]:.3g} "
                f"({found.variables[worst]}) over the background"
            ),
        )
    listed = ", ".join(
        f"{name} ({' '.join(value) if isinstance(value, tuple) else value})"
        for name, value in asked.items()
        if value is not None
    )
    yield "Model settings", "Model settings (fitting)", f"maxent: {listed}" if listed else ""
    mask = asked.get("mask")
    yield (
        "Model settings",
        "Model settings (extrapolation)",
        (
            ("clamped to the ranges of the fit" if asked.get("clamp", True) else "not clamped")
            + ("" if mask is None else f"; cells that extrapolate are left out ({mask})")
        ),
    )
    fitted = result.model
    yield (
        "Model estimates",
        "Coefficients",
        (f"{len(fitted.coef)} of {fitted.n_features} weights are not 0: coefficients.csv"),
    )
    uncertain = [part for part in (_refits(result), _intervals(result)) if part]
    yield "Model estimates", "Parameter uncertainty", "; ".join(uncertain)
    if result.importance is not None:
        shares = zip(result.importance.variables, result.importance.permutation, strict=True)
        told = ", ".join(f"{name} {share:.1f} %" for name, share in shares)
        yield "Model estimates", "Variable importance", f"permutation importance: {told}"
    yield (
        _DOUBLE,
        "Model selection",
        (
            f"shrinkage by regularization: {asked.get('potential', 'box')}, multiplier "
            f"{asked.get('multiplier', 1.0):g}"
        )
        + (
            ""
            if result.borrowing is None
            else ", of the species' own part; quadratic, coupled across species, of the joint part"
        ),
    )
    yield _DOUBLE, "Model averaging", _averaging(result)
    yield _DOUBLE, "Model ensembles", "none"
    blocks = [made for made in result.replicates if made.kind in ("blocks", "checkerboard")]
    if blocks:
        size = blocks[0].blocks
        what = f"{blocks[0].kind} of space" if size is None else size.describe()
        spatial = result.borrowing is not None and result.borrowing.spatial
        places = "; a kernel of the coordinates in the fit" if spatial else ""
        yield _DEPEND, "Spatial autocorrelation", f"{what} in cross-validation{places}"
    elif any(made.kind == "environment" for made in result.replicates):
        said = (
            "not accounted for: cross-validation holds out groups of like conditions, which are "
            "no places, so that neighbours of a test record may be in the training set"
        )
        yield _DEPEND, "Spatial autocorrelation", said
    if result.timing is not None:
        said = "records and background by time of the layers; times are not kept apart in folds"
        yield _DEPEND, "Temporal autocorrelation", said
    yield "Threshold selection", "Threshold selection", _threshold(result)


def _temporal_extent(timing: Timing) -> str:
    return f"{timing.start} to {timing.end}"


def _temporal_resolution(timing: Timing) -> str:
    told = ", ".join(f"{name} at {count} times" for name, count in timing.series.items())
    static = f"; the same at all times: {', '.join(timing.static)}" if timing.static else ""
    how = "" if timing.window is None else f", means over {timing.window} up to each time"
    return f"{told}{how}{static}"


def _threshold(result: SpeciesResult) -> str:
    said = [written.presence for written in result.maps if written.presence]
    if said:
        return f"{said[0]['rule']}: cloglog {said[0]['threshold']:.4f}"
    if result.change is not None:
        return f"{result.change.rule}: cloglog {result.change.changes[0].threshold:.4f}"
    return f"none applied; {len(result.evaluation.thresholds)} rules in thresholds.csv"


def _refits(result: SpeciesResult) -> str:
    refits = [_parts(made) for made in result.replicates[1:]]
    told = result.model.uncertainty is not None  # which the bands of marginal curves are of
    banded = any(
        c.low is not None and not (told and c.kind == "marginal") for c in result.responses
    )
    bands = int(result.settings.get("bootstrap") or 0) if banded else 0
    refits += [f"{bands} bootstrap refits for the bands of response curves"] if bands else []
    return "; ".join(refits)


def _intervals(result: SpeciesResult) -> str:
    """What intervals are made of, "" without any."""
    known = result.model.uncertainty
    if known is None:
        return ""
    of = "the curvature of the fitted problem (Laplace), given the features in use"
    if isinstance(known, Refits):
        what = f"{known.blocks} spatial blocks of records" if known.blocks else "single records"
        of = f"the spread of {known.weights.shape[1]} refits to {what} drawn with replacement"
    return f"intervals of {LEVEL:.0%} of curves, maps and areas from {of}"


def _assessment(result: SpeciesResult) -> Iterator[tuple[str, str, str]]:
    judged, about = result.evaluation, "Performance statistics"
    yield about, "Performance on training data", _scores(judged.scores)
    yield about, "Performance on validation data", _joined(map(_folds, result.replicates[:1]))
    yield about, "Performance on test data", _scores(judged.test_scores or {})
    kinds = sorted({curve.kind for curve in result.responses})
    yield (
        "Plausibility check",
        "Response shapes",
        (f"{' and '.join(kinds)} response curves: responses.csv and the report" if kinds else ""),
    )


def _scores(scores: dict[str, float]) -> str:
    return ", ".join(
        f"{words} {scores[name]:.4g}"
        for name, words in _SCORES.items()
        if name in scores and np.isfinite(scores[name])
    )


def _folds(made: Replicates) -> str:
    means = {}
    for name in _SCORES:
        values = np.array([row[name] for row in made.table if row.get(name) is not None], float)
        if np.isfinite(values).any():
            means[name] = float(np.nanmean(values))
    means.pop("gain", None)  # that of the fit, not of the records held out
    return f"{_parts(made)}, their mean: {_scores(means)}" if means else ""


def _parts(made: Replicates) -> str:
    """How records were parted, and how often."""
    return f"{_kind(made)}, {len(made.table)} {'refits' if made.kind in _REFITS else 'folds'}"


def _kind(made: Replicates) -> str:
    """How records were parted, in words."""
    return "groups of like conditions" if made.kind == "environment" else made.kind


def _prediction(result: SpeciesResult) -> Iterator[tuple[str, str, str]]:
    about = "Uncertainty quantification"
    unit = "relative suitability from 0 to 1 (cloglog)"
    if result.kinds is not None and result.kinds.log_scale is not None:
        unit += f"; intensity per {result.kinds.per}; probabilities and counts of "
        unit += result.kinds.area_in_words()
    yield "Prediction output", "Prediction unit", unit
    done = [
        f"{written.name}: {written.presence_in_words()}"
        for written in result.maps
        if written.presence
    ]
    done += [f"{m.name}: {m.n_masked} cells that extrapolate left out ({m.mask})"
             for m in result.maps if m.mask is not None]  # fmt: skip
    if result.over_time is not None:
        done.append(f"maps of {len(result.over_time.rows)} times; {result.over_time.describe()}")
    done += [change.describe() for change in (result.change.changes if result.change else ())]
    yield "Prediction output", "Post-processing", "; ".join(done)
    told = result.model.certificate
    if told.status is not None:
        yield (
            about,
            "Algorithmic uncertainty",
            (f"convex problem, solved to a duality gap of {max(told.gap, 0.0):.1e}"),
        )
    drawn = any("replicates_sd" in written.files for written in result.maps)
    spread = f"maps of mean and spread over replicates ({_refits(result)})" if drawn else ""
    yield about, "Input data uncertainty", spread
    if result.change is not None and len(result.change.changes) > 1:
        n = len(result.change.changes)
        yield about, "Scenario uncertainty", f"mean, spread and agreement of {n} projections"
    novel = [
        f"{_novelty(m)} (maps of {', '.join(k for k in ('mess', 'mod', 'exdet') if k in m.files)})"
        for m in result.maps
        if "mess" in m.files and m.n_extrapolated is not None
    ]
    novel += [one.describe(m.name) for m in result.maps for one in m.unlike]
    yield about, "Novel environments", "; ".join(novel)


def _joined(parts: Iterable[Any]) -> str:
    return "; ".join(str(part) for part in parts if part)


def _extent(result: SpeciesResult) -> str:
    assert result.grid is not None
    west, south, east, north = result.grid.bounds
    return f"x {west:.8g} to {east:.8g}, y {south:.8g} to {north:.8g} ({_unit(result)})"


def _resolution(result: SpeciesResult) -> str:
    assert result.grid is not None
    across, down = result.grid.cell_size
    return f"{across:.8g} x {down:.8g} ({_unit(result)})"


def _unit(result: SpeciesResult) -> str:
    assert result.grid is not None
    return f"units of {short_crs(result.grid.crs)}"

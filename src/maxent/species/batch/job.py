"""One species of a run: fitted, drawn, and written to a folder of its own.

The folder holds ``report.html``, ``map.png``, ``model.json``, ``maps/``, ``projections/``,
``tables/``, ``result.json``, from which the report can be made again, and ``manifest.json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from maxent import io
from maxent._version import __version__
from maxent.density import FittedDensity, write_lambdas
from maxent.species import report
from maxent.species.batch import fingerprints
from maxent.species.batch.keeping import SUMMARY, files_in, renew_manifest
from maxent.species.batch.outputs import MODEL, RESULT, staged
from maxent.species.batch.slugs import slug
from maxent.species.comparing.change import compare_maps
from maxent.species.comparing.drawn import Drawn, drawn_changes
from maxent.species.comparing.folders import DEFAULT_RULE, OUTPUT, similarities
from maxent.species.comparing.map_files import on_one_grid
from maxent.species.comparing.records import Comparison
from maxent.species.fitting.joint import Joint
from maxent.species.fitting.model import SpeciesModel
from maxent.species.fitting.one_species import fit_species
from maxent.species.fitting.results import (
    TRAINING,
    Borrowing,
    MapFiles,
    MapsInTime,
    Sample,
    SpeciesResult,
    read_result,
)
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, by_folder
from maxent.species.input.layers.extrapolation import Extrapolation
from maxent.species.input.layers.grid import Grid
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.placement import same_grid
from maxent.species.input.layers.similarity import Reference
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.source_settings import SourceSettings
from maxent.species.input.times.dated_layers import DatedLayers
from maxent.species.input.times.settings import TimeSettings
from maxent.species.libraries import geo
from maxent.species.projecting import project
from maxent.species.projecting.in_time import project_in_time
from maxent.species.report import tables
from maxent.species.study.all_cells import WholeLayers
from maxent.species.study.effort import RecordEffort
from maxent.species.study.kinds import PlacedSites
from maxent.species.study.samples import Prepared, Region, Regions, prepare
from maxent.species.study.sites import prepare_sites, with_sites
from maxent.species.study.study_region import StudyRegion

TIMES = "times"  # the folder of the maps of all times
_HELD_OUT = {  # whose AUC is shown where there are no test records
    "blocks": "block CV",
    "checkerboard": "checkerboard CV",
    "environment": "environmental CV",
    "random": "random CV",
    "bootstrap": "bootstrap",
    "subsample": "subsamples",
}


@dataclass(frozen=True, eq=False)
class Shared:
    """What all species of a run have in common; it is sent to worker processes as it is.

    ``inputs`` is the digest of the files that they share, see ``fingerprints.py``; ``whole`` the
    layers whose cells are fitted in windows, None where those of the regions are fitted; ``grid``
    that of the layers, and ``extent`` the polygons that maps are cut to, None for none; ``times``
    what was asked of time, None where layers have none; ``sources`` is how surveys and counts are
    used, None for presences alone.
    """

    settings: Settings
    categorical: tuple[str, ...] = ()
    layers: LayerFiles | None = None
    projections: tuple[LayerFiles, ...] = ()
    regions: Regions | None = None
    command: str = ""
    lambdas: bool = False
    maps: bool = True
    inputs: str = ""
    whole: WholeLayers | None = None
    grid: Grid | None = None
    extent: StudyRegion | None = None
    times: TimeSettings | None = None
    sources: SourceSettings | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """One species: where its results go, and its records (or a table made from them already).

    ``joint`` is its part of the fit of its group, None where species are fitted one by one;
    ``group_files`` are the names of the files of the group, by what they hold; ``sites`` are the
    visits of surveys and counts, those of other species among them.
    """

    species: str
    folder: Path
    overwrite: bool
    records: Occurrences | None = None
    test: Occurrences | None = None
    prepared: Prepared | None = None
    notes: tuple[str, ...] = ()
    joint: Joint | None = None
    sites: tuple[PlacedSites, ...] = ()
    group_files: Mapping[str, str] = field(default_factory=dict)


def fit_job(
    job: Job, shared: Shared, stage: Callable[[str], None], client: Any = None
) -> dict[str, Any]:
    """Fit a species and write its folder; returns its summary row.

    ``client`` is of a cluster whose workers read the windows of ``shared.whole``.
    """
    start = perf_counter()
    stage("records")
    prepared, region = ready(job, shared)
    shared.settings.check_tested(prepared.test is not None)
    kept: list[str] = []
    with staged(job.folder, job.overwrite, kept.append) as place:
        result = _write_species(prepared, region, job.joint, shared, place, stage, client)
        row = _summary(result, job.folder, perf_counter() - start, job.group_files)
        row["notes"] = prepared.new_notes(result.notes, _told(job, shared))
        summary = {"fingerprint": fingerprint(job, shared), "files": files_in(place), "row": row}
        io.write_atomically(place / SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
    return row | {"notes": [*row["notes"], *kept]}


def _told(job: Job, shared: Shared) -> set[str]:
    """Notes on what all species share, which were shown before any was fitted."""
    told = {*job.notes} if job.prepared is None else {*job.prepared.notes}
    region = None if shared.regions is None else shared.regions.shared
    return told if region is None else told | {*region.notes}


def ready(job: Job, shared: Shared) -> tuple[Prepared, Region | None]:
    """A species ready to be fitted, and the cells it lies on where it comes from rasters."""
    if job.prepared is not None:
        _check_enough(job.prepared, shared.settings)
        return job.prepared, None
    assert shared.regions is not None
    if job.records is None:  # visits alone
        region, sources = shared.regions.shared, shared.sources
        assert region is not None
        assert sources is not None
        prepared = prepare_sites(job.species, job.sites, shared.settings, sources, region)
        return replace(prepared, notes=[*job.notes, *prepared.notes]), region
    region = shared.regions.region_of(job.records, job.test)
    prepared = prepare(region, job.records, shared.settings, job.test)
    if shared.sources is not None:
        prepared = with_sites(prepared, job.sites, shared.sources, region)
    return replace(prepared, notes=[*job.notes, *prepared.notes]), region


def _check_enough(prepared: Prepared, settings: Settings) -> None:
    """Refuse a species of a table with too few rows."""
    n = int((prepared.train.counts > 0).sum())
    if n < settings.minimum:
        held = 0 if prepared.test is None else len(prepared.test.counts)
        raise ValueError(
            f"{prepared.species}: {n} rows to fit ({held} for testing), at least "
            f"{settings.minimum} are needed (--minimum)"
        )


def _write_species(
    prepared: Prepared,
    region: Region | None,
    joint: Joint | None,
    shared: Shared,
    place: Path,
    stage: Callable[[str], None],
    client: Any,
) -> SpeciesResult:
    settings = shared.settings
    whole = None
    if shared.whole is not None and region is not None:
        whole = partial(shared.whole.density, region=region, client=client)
    result, models = fit_species(
        prepared,
        settings,
        categorical=shared.categorical,
        labels=None if region is None else region.labels,
        grid=None if region is None else region.grid,
        command=shared.command,
        whole=whole,
        joint=joint,
        stage=stage,
    )
    sample, test = (_used(part, result) for part in (prepared.train, prepared.test))
    assert sample is not None
    reference, extrapolation = _training(sample, result)
    model = SpeciesModel(
        result.species,
        result.model,
        reference,
        {row["name"]: float(row["value"]) for row in result.evaluation.thresholds},
        None if region is None else region.grid.crs,
        prepared.study,
        result.selection,
        extrapolation,
        timing=result.timing,
        kinds=result.kinds,
    )
    extra_files = {"model": MODEL}
    if shared.lambdas:
        write_lambdas(result.model, place / f"{slug(result.species)}.lambdas")
        extra_files["lambdas"] = f"{slug(result.species)}.lambdas"
    model.check_outputs(shared.settings.outputs)
    stage("maps")
    start = perf_counter()
    kernel = None if region is None else region.kernel
    maps, notes = _write_maps(model, models, shared, place, kernel)
    over_time = _write_times(model, shared, place)
    io.save(_with_layers(model, maps), place / MODEL)
    change = _write_change(model, maps, shared, place)
    result.seconds["maps"] = perf_counter() - start
    (place / "tables").mkdir()
    stage("report")
    notes = list(dict.fromkeys([*result.notes, *notes]))
    reading = None if shared.layers is None else asdict(shared.layers)
    projected = {name: asdict(files) for name, files in by_folder(shared.projections).items()}
    result = replace(
        result,
        maps=maps,
        notes=notes,
        change=change,
        reading=reading,
        projected=projected,
        over_time=over_time,
    )
    written = tables.write_tables(result, sample, test, place / "tables")
    files = {what: f"tables/{name}" for what, name in written.items()}
    result = replace(result, tables={**extra_files, **files})
    start = perf_counter()
    _write_pages(result, place)
    result.seconds["report"] = perf_counter() - start
    io.save(result, place / RESULT)
    return result


def _training(sample: Sample, result: SpeciesResult) -> tuple[Reference, Extrapolation | None]:
    """What other places are compared with: all points of the fit, as far as clamping reaches.

    Where the density is over more cells than the sample has, ranges and levels are those of all.
    """
    schema = result.model.schema
    low, high = (
        dict(zip(schema.continuous, ends.tolist(), strict=True))
        for ends in (result.model.low, result.model.high)
    )
    levels = dict(zip(schema.categorical, schema.levels, strict=True))
    reference = Reference.from_table(sample.X, result.categorical).reaching(low, high, levels)
    extrapolation = Extrapolation.from_table(sample.X, result.categorical)
    return reference, None if extrapolation is None else extrapolation.reaching(low, high)


def _used(sample: Sample | None, result: SpeciesResult) -> Sample | None:
    """With the variables that were selected alone."""
    if sample is None or result.selection is None:
        return sample
    return replace(sample, X=sample.X[list(result.selection.kept)])


def _write_maps(
    model: SpeciesModel,
    replicates: Sequence[FittedDensity],
    shared: Shared,
    place: Path,
    effort: RecordEffort | None,
) -> tuple[list[MapFiles], list[str]]:
    """The maps of the training layers and of every projection, with those of replicates."""
    maps, notes = [], []
    if shared.layers is not None and shared.maps:
        drawn, _ = _write_map(
            model, shared, shared.layers, place, "maps", TRAINING, replicates, effort
        )
        maps.append(drawn)
        model = _with_layers(model, maps)
    for name, files in by_folder(shared.projections).items():
        folder = f"projections/{slug(name)}"
        drawn, more = _write_map(model, shared, files, place, folder, name, replicates)
        maps.append(drawn)
        notes += more
    for drawn in maps:
        notes += [one.describe(drawn.name) for one in drawn.unlike]
        if drawn.mask is not None:
            notes.append(
                f"{drawn.name}: {drawn.n_masked} of {drawn.n_cells} cells extrapolate and are left "
                f"out (--mask {drawn.mask})"
            )
    return maps, notes


def _write_map(
    model: SpeciesModel,
    shared: Shared,
    files: LayerFiles,
    place: Path,
    folder: str,
    name: str,
    replicates: Sequence[FittedDensity] = (),
    effort: RecordEffort | None = None,
) -> tuple[MapFiles, list[str]]:
    settings = shared.settings
    rule, threshold = "", None
    if settings.threshold is not None:
        rule, threshold = model.rule(settings.threshold)
    (place / folder).mkdir(parents=True)
    with _open(model, shared, files, name) as (layers, assumed):
        extent, told = _extent(model, shared, layers, name)
        if name != TRAINING:
            told = [*model.check_places(layers.grid), *told]
        written = project(
            model.density,
            layers,
            place / folder,
            outputs=_outputs(model, settings),
            clamp=settings.clamp,
            reference=model.reference,
            threshold=threshold,
            rule=rule,
            replicates=replicates,
            extrapolation=model.extrapolation,
            mask=settings.mask,
            effort=effort,
            kinds=model.kinds,
            apart=name == TRAINING,
            extent=extent,
            region=model.study,
            compare_units=name != TRAINING,
            units=model.layers,
            name=name,
            verbose=settings.verbose,
        )
        notes = [*assumed, *told]
    beside = {what: f"{folder}/{Path(file).name}" for what, file in written.files.items()}
    return replace(written, files=beside), notes


@contextmanager
def _open(
    model: SpeciesModel, shared: Shared, files: LayerFiles, name: str
) -> Iterator[tuple[Layers, list[str]]]:
    """The layers that a model needs, those of a fit in time at their last time; notes."""
    needed = model.density.schema.names
    if shared.times is None:
        with files.open(only=needed) as layers:
            yield layers, list(layers.notes)
        return
    times = shared.times if name == TRAINING else replace(shared.times, layer_times=None)
    with DatedLayers.open(files, times, only=needed) as dated:
        step, notes = dated.last(), list(dated.notes)
        if step is not None:
            where = f"; those of all times are in {TIMES}/" if name == TRAINING else ""
            notes.append(f"{name}: the map is that of the last time, {step.label}{where}")
        with dated.at(step) as layers:
            yield layers, notes


@contextmanager
def _layers(model: SpeciesModel, shared: Shared, files: LayerFiles, name: str) -> Iterator[Layers]:
    """The same without notes."""
    with _open(model, shared, files, name) as (layers, _):
        yield layers


def _write_times(model: SpeciesModel, shared: Shared, place: Path) -> MapsInTime | None:
    """A map of each time of the training layers, and what changes over them."""
    if shared.times is None or shared.layers is None or not shared.maps:
        return None
    settings = shared.settings
    rule, value = model.rule(settings.threshold or DEFAULT_RULE)
    with DatedLayers.open(shared.layers, shared.times, only=model.density.schema.names) as dated:
        if not dated.series:  # the variables with times were not selected
            return None
        extent, _ = _extent(model, shared, dated, TRAINING)
        found, _ = project_in_time(
            model.density,
            dated,
            place / TIMES,
            threshold=value,
            rule=rule,
            clamp=settings.clamp,
            reference=model.reference,
            extras=("mess",),
            extrapolation=model.extrapolation,
            mask=settings.mask,
            extent=extent,
            compare_units=False,
            verbose=settings.verbose,
        )
    files = {what: f"{TIMES}/{name}" for what, name in found.files.items()}
    return replace(found, files=files)


def _outputs(model: SpeciesModel, settings: Settings) -> tuple[str, ...]:
    """The outputs asked for, and the intensity where its scale is known."""
    more = () if model.kinds is None else model.kinds.outputs
    return tuple(dict.fromkeys([*settings.outputs, *more]))


def _with_layers(model: SpeciesModel, maps: Sequence[MapFiles]) -> SpeciesModel:
    """With what the training layers hold, where the background is of a part of them."""
    drawn = next((written for written in maps if written.training), None)
    if model.study is None or drawn is None or not drawn.quantiles:
        return model
    table = geo("pandas").DataFrame(drawn.quantiles)
    return replace(model, layers=Reference.from_table(table))


def _extent(
    model: SpeciesModel, shared: Shared, layers: Layers | DatedLayers, name: str
) -> tuple[StudyRegion | None, list[str]]:
    """What the maps of layers are cut to, None for nothing; and what is to be said of it.

    Other layers on the grid of the fit are cut like it, so that like stands beside like.
    """
    asked, grid = shared.settings.extent, shared.grid
    if asked == "layers" or grid is None:
        return None, []
    if not same_grid(layers.grid, grid):
        return None, [f"{name}: on another grid than the training layers, so drawn whole"]
    if asked != "region":
        return shared.extent, []
    return model.study_on(layers.grid), []


def _write_change(
    model: SpeciesModel, maps: Sequence[MapFiles], shared: Shared, place: Path
) -> Comparison | None:
    """Range change from the training layers to the projections that are on their grid."""
    shown = {
        written.name: place / written.files[OUTPUT] for written in maps if OUTPUT in written.files
    }
    now = shown.pop(TRAINING, None)
    futures = (
        {} if now is None else {n: path for n, path in shown.items() if on_one_grid(now, path)}
    )
    if now is None or not futures:
        return None
    settings = shared.settings
    rule, value = model.rule(settings.threshold or DEFAULT_RULE)
    intervals = None
    if model.density.uncertainty is not None and shared.layers is not None:
        layers = by_folder(shared.projections)
        intervals = drawn_changes(
            model.density,
            Drawn(now, partial(_layers, model, shared, shared.layers, TRAINING)),
            {
                name: Drawn(path, partial(_layers, model, shared, layers[name], name))
                for name, path in futures.items()
            },
            value,
            settings.clamp,
        )
    return compare_maps(
        now,
        futures,
        value,
        place / "change",
        rule=rule,
        similarity=similarities(now, futures),
        intervals=intervals,
        verbose=settings.verbose,
    )


def _write_pages(result: SpeciesResult, folder: Path) -> list[Path]:
    """The picture, where there are maps, and the page, which comes last."""
    drawn = result.maps and "cloglog" in result.maps[0].files
    picture = [report.write_map_png(result, folder)] if drawn else []
    return [*picture, report.write_report(result, folder)]


def rewrite_report(folder: Path) -> Path:
    """Make report.html and map.png of a folder again from its result.json.

    Parameters
    ----------
    folder : path
        The folder.
    """
    result = read_result(Path(folder))
    made = _write_pages(result, Path(folder))
    renew_manifest(Path(folder), [page.name for page in made])
    return made[-1]


# -- the summary ----------------------------------------------------------------------------------


def _summary(
    result: SpeciesResult, folder: Path, seconds: float, files: Mapping[str, str]
) -> dict[str, Any]:
    """The row of a species in the index."""
    test, auc, of = result.evaluation.test_scores, None, None
    folds = [r["test_auc"] for c in result.replicates[:1] for r in c.table if "test_auc" in r]
    if test is not None:
        auc, of = test["auc"], "test records"
    elif np.isfinite(folds).any():
        auc, of = float(np.nanmean(folds)), _HELD_OUT[result.replicates[0].kind]
    return {
        "species": result.species,
        "status": "ok",
        "folder": folder.name,
        "report": f"{folder.name}/report.html",
        "thumbnail": f"{folder.name}/map.png" if result.maps else None,
        "n_records": int(result.model.n_presences),
        "auc": result.evaluation.scores["auc"],
        "test_auc": auc,
        "test_auc_of": of,
        "gain": result.model.certificate.gain,
        "gap": result.model.certificate.gap,
        "seconds": seconds,
        "maps": [f"{drawn.name}: {drawn.extent_in_words()}" for drawn in result.maps],
        "presence": [
            f"{drawn.name}: {drawn.presence_in_words()}" for drawn in result.maps if drawn.presence
        ],
        "change": [] if result.change is None else [c.describe() for c in result.change.changes],
        "joint": None if result.borrowing is None else _joint(result.borrowing, files),
        "results": [{k: _plain(v) for k, v in r.items()} for r in tables.results_rows(result)],
    }


def _joint(told: Borrowing, files: Mapping[str, str]) -> dict[str, Any]:
    """What the index says of the joint fit."""
    return asdict(told) | {"files": dict(files)}


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def finished(job: Job, shared: Shared) -> dict[str, Any] | None:
    """The summary row of an earlier run that was given the same, if all of its files are there."""
    summary = _earlier(job, shared)
    if summary is None or not set(summary["files"]) <= set(files_in(job.folder)):
        return None
    return dict(summary["row"], resumed=True)


def begun(job: Job, shared: Shared) -> bool:
    """Whether an earlier run that was given the same wrote the folder, whole or not by now."""
    return _earlier(job, shared) is not None


def _earlier(job: Job, shared: Shared) -> dict[str, Any] | None:
    try:
        summary = json.loads((job.folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(summary, dict) and {"fingerprint", "files", "row"} <= summary.keys()
    return summary if known and summary["fingerprint"] == fingerprint(job, shared) else None


def fingerprint(job: Job, shared: Shared) -> str:
    """A digest of what the results depend on: settings, files, records and the version."""
    parts: list[Any] = [__version__, shared.settings.listed(), shared.categorical, shared.layers]
    parts += [shared.projections, shared.lambdas, shared.maps, shared.inputs, job.species]
    parts += [] if shared.whole is None else ["in windows"]
    if shared.times is not None:
        given = [records for records in (job.records, job.test) if records is not None]
        parts += [shared.times, *(records.step for records in given)]
    for records in (job.records, job.test):
        parts += [None] if records is None else [records.x, records.y]
    if shared.sources is not None:
        parts += [shared.sources, *(part for site in job.sites for part in site.digest())]
    if job.prepared is not None:
        sample = job.prepared.train
        parts += [sample.X, sample.counts, sample.coordinates, sample.prior, sample.at_background]
    return fingerprints.of_values(*parts)

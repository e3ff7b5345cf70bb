"""From files to folders: one species or many, each folder whole or not at all.

A species' folder holds ``report.html``, ``map.png``, ``model.json``, ``maps/``, ``projections/``,
``tables/`` and ``result.json``, from which the report can be made again. Many species get a folder
each, with ``index.html`` and ``maxentResults.csv`` above them.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from maxent import io
from maxent.estimators import MaxentDensity, write_lambdas
from maxent.species import report, tables
from maxent.species.alignment import ALIGN
from maxent.species.fitting import (
    Prepared,
    Region,
    Settings,
    fit_species,
    prepare,
    survey,
)
from maxent.species.grid import Grid
from maxent.species.layers import Layers
from maxent.species.locating import located
from maxent.species.model import SpeciesModel
from maxent.species.occurrences import Occurrences, read_occurrences
from maxent.species.outputs import MODEL, RESULT, check_free, locked, staged
from maxent.species.projection import project
from maxent.species.results import MapFiles, SpeciesResult
from maxent.species.similarity import Reference
from maxent.species.swd import read_swd, swd_sample

SUMMARY = "summary.json"
BATCH = "maxentResults.csv"


@dataclass(frozen=True)
class LayerFiles:
    """Which rasters to open, and how; see ``Layers.open``."""

    sources: tuple[str, ...]
    categorical: tuple[str, ...] = ()
    align: str = "refuse"
    resampling: str = "bilinear"
    crs: str | None = None

    def __post_init__(self) -> None:
        if self.align not in ALIGN:
            raise ValueError(f"align must be one of {', '.join(ALIGN)}, got {self.align!r}")

    def open(self, like: Grid | None = None, only: Sequence[str] | None = None) -> Layers:
        """The layers."""
        return Layers.open(
            self.sources,
            categorical=self.categorical,
            align=self.align,
            like=like,
            resampling=self.resampling,
            crs=self.crs,
            only=only,
        )


@dataclass(frozen=True)
class RecordFile:
    """A file of records and the names of its columns, where they are not to be guessed."""

    path: str
    species: str | None = None
    x: str | None = None
    y: str | None = None
    crs: str | None = None

    def read(self, grid: Grid) -> tuple[Occurrences, list[str]]:
        """The records in the CRS of the grid, and notes on how they got there."""
        found = read_occurrences(self.path, species=self.species, x=self.x, y=self.y, crs=self.crs)
        return located(found, grid)


class Listener(Protocol):
    """Who is told how a run goes."""

    def begin(self, species: Sequence[str]) -> None:
        """These species will be fitted."""

    def stage(self, species: str, name: str) -> None:
        """A step of a species begins."""

    def done(self, row: dict[str, Any]) -> None:
        """A species is finished, failed or was there already."""


class Silence:
    """A listener that says nothing."""

    def begin(self, species: Sequence[str]) -> None:
        """Say nothing."""

    def stage(self, species: str, name: str) -> None:
        """Say nothing."""

    def done(self, row: dict[str, Any]) -> None:
        """Say nothing."""


@dataclass(frozen=True, eq=False)
class Shared:
    """What all species of a run have in common; goes to worker processes as it is."""

    settings: Settings
    categorical: tuple[str, ...] = ()
    layers: LayerFiles | None = None
    projections: tuple[LayerFiles, ...] = ()
    region: Region | None = None
    command: str = ""
    lambdas: bool = False
    maps: bool = True


@dataclass(frozen=True, eq=False)
class Task:
    """One species: where its results go, and its records (or ready-made table)."""

    species: str
    folder: Path
    overwrite: bool
    records: Occurrences | None = None
    test: Occurrences | None = None
    prepared: Prepared | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Surveyed:
    """Files of records read, and what they and the background need of the layers."""

    region: Region
    records: Occurrences
    tests: Occurrences | None
    notes: tuple[str, ...]

    def tests_of(self, species: str) -> Occurrences | None:
        """The test records of a species, None without any."""
        if self.tests is None or species not in self.tests.names():
            return None
        return self.tests.of(species)


def survey_files(
    records: RecordFile,
    layers: LayerFiles,
    settings: Settings,
    *,
    test: RecordFile | None = None,
    bias: str | None = None,
    group: RecordFile | None = None,
) -> Surveyed:
    """Read all records, then all that is needed of the layers in one pass."""
    with ExitStack() as files:
        opened = files.enter_context(layers.open())
        everything, notes = records.read(opened.grid)
        read: dict[str, Occurrences | None] = {"test": None, "group": None}
        for name, file in (("test", test), ("group", group)):
            if file is not None:
                read[name], more = file.read(opened.grid)
                notes += more
        effort = None
        if bias is not None:
            effort = files.enter_context(Layers.open(bias, like=opened.grid, crs=layers.crs))
        tests = read["test"]
        asked = everything if tests is None else _together(everything, tests)
        region = survey(opened, asked, settings, bias=effort, group=read["group"])
    return Surveyed(region, everything, tests, tuple(notes))


# -- entry points --------------------------------------------------------------------------------


def fit_files(
    records: RecordFile,
    layers: LayerFiles,
    out: Path,
    settings: Settings | None = None,
    *,
    species: Sequence[str] = (),
    test: RecordFile | None = None,
    bias: str | None = None,
    group: RecordFile | None = None,
    projections: Sequence[LayerFiles] = (),
    lambdas: bool = False,
    maps: bool = True,
    jobs: int = 1,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    listener: Listener | None = None,
) -> list[dict[str, Any]]:
    """Fit every species of a file to layers and write a folder for each; a summary row a species.

    ``species`` picks some; ``test`` holds records of the same species for testing; ``bias`` is a
    raster of sampling effort; ``group`` records whose cells are the background; ``resume`` keeps
    the species that an earlier run of the same settings finished.
    """
    settings = settings or Settings()
    out = Path(out)
    with locked(out):
        found = survey_files(records, layers, settings, test=test, bias=bias, group=group)
        names = chosen_species(found.records.names(), species, records.path)
        _check_out(out, len(names), overwrite, resume)
        shared = Shared(
            settings,
            layers.categorical,
            layers,
            tuple(projections),
            found.region,
            command,
            lambdas,
            maps,
        )
        folders = _folders(out, names)
        tasks = [
            Task(
                name,
                folders[name],
                overwrite,
                found.records.of(name),
                found.tests_of(name),
                notes=found.notes,
            )
            for name in names
        ]
        return _run(tasks, shared, out, jobs, resume, listener or Silence())


def fit_swd(
    samples: str,
    background: str,
    out: Path,
    settings: Settings | None = None,
    *,
    categorical: Sequence[str] = (),
    species: Sequence[str] = (),
    projections: Sequence[LayerFiles] = (),
    lambdas: bool = False,
    jobs: int = 1,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    listener: Listener | None = None,
) -> list[dict[str, Any]]:
    """Fit every species of a table of samples with data, against a table of background."""
    settings = settings or Settings()
    out = Path(out)
    with locked(out):
        table = read_swd(samples, categorical=categorical)
        points = read_swd(background, categorical=categorical)
        present = list(dict.fromkeys(map(str, table.species)))
        names = chosen_species(present, species, samples)
        _check_out(out, len(names), overwrite, resume)
        shared = Shared(
            settings, tuple(categorical), None, tuple(projections), None, command, lambdas
        )
        folders = _folders(out, names)
        tasks = []
        for name in names:
            sample = swd_sample(table, points, name, categorical)
            places = np.empty((0, 2))
            if sample.coordinates is not None:
                places = sample.coordinates[sample.counts > 0]
            records = {"x": places[:, 0], "y": places[:, 1], "test": np.zeros(len(places), bool)}
            ready = Prepared(name, sample, None, records, [], [*table.notes, *points.notes])
            tasks.append(Task(name, folders[name], overwrite, prepared=ready))
        return _run(tasks, shared, out, jobs, resume, listener or Silence())


def rewrite_report(folder: Path) -> Path:
    """Make report.html and map.png of a folder again from its result.json."""
    path = Path(folder) / RESULT
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: no such file; give a folder that `maxent fit` wrote (one species)"
        )
    result = io.load(path)
    if not isinstance(result, SpeciesResult):
        raise ValueError(f"{path} does not hold the result of `maxent fit`")
    return _write_pages(result, Path(folder))


# -- many species --------------------------------------------------------------------------------


def _run(
    tasks: Sequence[Task],
    shared: Shared,
    out: Path,
    jobs: int,
    resume: bool,
    listener: Listener,
) -> list[dict[str, Any]]:
    if shared.lambdas and shared.settings.entropy != "shannon":
        raise ValueError(
            f"a .lambdas file (--lambdas) holds Gibbs densities, entropy shannon; got "
            f"{shared.settings.entropy!r}"
        )
    listener.begin([task.species for task in tasks])
    rows: dict[str, dict[str, Any]] = {}
    waiting = []
    for task in tasks:
        kept = _finished(task, shared) if resume else None
        if kept is None:
            waiting.append(task)
        else:
            rows[task.species] = kept
            listener.done(kept)
    _check_changed(waiting, len(tasks))
    alone = len(tasks) == 1
    for row in _fitted(waiting, shared, jobs, alone, listener):
        rows[row["species"]] = row
        listener.done(row)
    ordered = [rows[task.species] for task in tasks]
    if not alone:
        _write_batch(ordered, out)
    return ordered


def _fitted(
    tasks: Sequence[Task], shared: Shared, jobs: int, alone: bool, listener: Listener
) -> Iterator[dict[str, Any]]:
    if alone:  # its error is the error of the run
        for task in tasks:
            yield _fit_task(task, shared, partial(listener.stage, task.species))
        return
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield _attempt(task, shared, partial(listener.stage, task.species))
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, _start_worker, (shared,))
    try:
        for future in as_completed([pool.submit(_work, task) for task in tasks]):
            yield future.result()
    except BaseException:  # Ctrl-C: what is under way is given up, its stages are tidied away
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_worker: list[Shared] = []  # what the process was started with


def _start_worker(shared: Shared) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    os.environ["MAXENT_NUM_THREADS"] = "1"
    _worker.append(shared)


def _work(task: Task) -> dict[str, Any]:
    return _attempt(task, _worker[0], lambda name: None)


def _attempt(task: Task, shared: Shared, stage: Callable[[str], None]) -> dict[str, Any]:
    """A summary row whatever happens: one species does not stop the others."""
    try:
        return _fit_task(task, shared, stage)
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        text = text.removeprefix(f"{task.species}: ")
        return {"species": task.species, "status": "failed", "error": text}


def _finished(task: Task, shared: Shared) -> dict[str, Any] | None:
    """The summary row of an earlier run with the same settings and records, if there is one."""
    try:
        summary = json.loads((task.folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if summary.get("fingerprint") != _fingerprint(task, shared):
        return None
    return dict(summary["row"], resumed=True)


def _check_changed(waiting: Sequence[Task], n_tasks: int) -> None:
    """Results of other settings are replaced only where that was asked for."""
    changed = [t for t in waiting if not t.overwrite and (t.folder / SUMMARY).is_file()]
    if changed:
        raise FileExistsError(
            f"{changed[0].folder}: the results of {len(changed)} of {n_tasks} species come from "
            "other settings or records; fit these again with --overwrite, or give another folder"
        )


def _fingerprint(task: Task, shared: Shared) -> str:
    """What the results depend on: settings, layers and records."""
    digest = hashlib.sha256()
    parts = [shared.settings.listed(), shared.layers, shared.projections, shared.maps]
    digest.update(repr(parts).encode())
    arrays: list[Any] = []
    for records in (task.records, task.test):
        if records is not None:
            arrays += [records.x, records.y]
    if task.prepared is not None:
        sample = task.prepared.train
        arrays += [sample.counts, sample.X.to_numpy(dtype=str).astype("U").ravel()]
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _folders(out: Path, names: Sequence[str]) -> dict[str, Path]:
    if len(names) == 1:
        return {names[0]: out}
    return {name: out / slug for name, slug in tables.slugs(names).items()}


def _check_out(out: Path, n_species: int, overwrite: bool, resume: bool) -> None:
    if n_species == 1:
        check_free(out, overwrite or resume)
        return
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out} is a file; give a folder for the results")
    started = any((p / SUMMARY).is_file() for p in out.iterdir()) if out.is_dir() else False
    if started and not (overwrite or resume):
        raise FileExistsError(
            f"{out} holds the results of an earlier run; go on with it by --resume, write over it "
            "by --overwrite, or give another folder"
        )
    if out.is_dir() and any(out.iterdir()) and not started:
        raise FileExistsError(
            f"{out} holds other files; give an empty or a new folder for the results"
        )


def _write_batch(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """The table and the index page of all species."""
    out.mkdir(parents=True, exist_ok=True)
    tables.write_results([r for row in rows for r in row.get("results", ())], out / BATCH)
    report.write_index([{k: v for k, v in row.items() if k != "results"} for row in rows], out)


# -- one species ---------------------------------------------------------------------------------


def _fit_task(task: Task, shared: Shared, stage: Callable[[str], None]) -> dict[str, Any]:
    start = perf_counter()
    stage("records")
    prepared = task.prepared
    if prepared is None:
        assert shared.region is not None
        assert task.records is not None
        prepared = prepare(shared.region, task.records, shared.settings, task.test)
        prepared = replace(prepared, notes=[*task.notes, *prepared.notes])
    with staged(task.folder, task.overwrite) as place:
        result = _write_species(prepared, shared, place, stage)
        row = _summary(result, task.folder, perf_counter() - start)
        text = json.dumps({"fingerprint": _fingerprint(task, shared), "row": row}, indent=1)
        io.write_atomically(place / SUMMARY, (text + "\n").encode())
    return row


def _write_species(
    prepared: Prepared, shared: Shared, place: Path, stage: Callable[[str], None]
) -> SpeciesResult:
    settings, region = shared.settings, shared.region
    sample = prepared.train
    result, models = fit_species(
        prepared,
        settings,
        categorical=shared.categorical,
        labels=None if region is None else region.labels,
        grid=None if region is None else region.grid,
        command=shared.command,
        stage=stage,
    )
    model = SpeciesModel(
        result.species,
        result.model,
        Reference.of(sample.X[sample.at_background], result.categorical),
        {row["name"]: float(row["value"]) for row in result.evaluation.thresholds},
        None if region is None else region.grid.crs,
    )
    io.save(model, place / MODEL)
    extra_files = {"model": MODEL}
    if shared.lambdas:
        write_lambdas(result.model, place / f"{tables.slug(result.species)}.lambdas")
        extra_files["lambdas"] = f"{tables.slug(result.species)}.lambdas"
    stage("maps")
    start = perf_counter()
    maps, notes = _write_maps(model, models, shared, place)
    result.seconds["maps"] = perf_counter() - start
    (place / "tables").mkdir()
    stage("report")
    result = replace(result, maps=maps, notes=list(dict.fromkeys([*result.notes, *notes])))
    written = tables.write_tables(result, sample, prepared.test, place / "tables")
    files = {what: f"tables/{name}" for what, name in written.items()}
    result = replace(result, tables={**extra_files, **files})
    start = perf_counter()
    _write_pages(result, place)
    result.seconds["report"] = perf_counter() - start
    io.save(result, place / RESULT)
    return result


def _write_maps(
    model: SpeciesModel, replicates: Sequence[MaxentDensity], shared: Shared, place: Path
) -> tuple[list[MapFiles], list[str]]:
    """The map of the training layers, with those of replicates, and of every projection."""
    maps, notes = [], []
    if shared.layers is not None and shared.maps:
        drawn, _ = _write_map(
            model, shared, shared.layers, place, "maps", "training layers", replicates
        )
        maps.append(drawn)
    for name, files in _named(shared.projections).items():
        folder = f"projections/{tables.slug(name)}"
        drawn, more = _write_map(model, shared, files, place, folder, name)
        maps.append(drawn)
        notes += more
    return maps, notes


def _named(projections: Sequence[LayerFiles]) -> dict[str, LayerFiles]:
    """By the name of the folder, or by all of its path where two have the same name."""
    names = [Path(files.sources[0]).name for files in projections]
    return {
        name if names.count(name) == 1 else files.sources[0]: files
        for name, files in zip(names, projections, strict=True)
    }


def _write_map(
    model: SpeciesModel,
    shared: Shared,
    files: LayerFiles,
    place: Path,
    folder: str,
    name: str,
    replicates: Sequence[MaxentDensity] = (),
) -> tuple[MapFiles, list[str]]:
    settings = shared.settings
    (place / folder).mkdir(parents=True)
    with files.open(only=model.density.schema_.names) as layers:
        written = project(
            model.density,
            layers,
            place / folder,
            outputs=settings.outputs,
            clamp=settings.clamp,
            reference=model.reference,
            threshold=None if settings.threshold is None else model.threshold(settings.threshold),
            replicates=replicates,
            extras=() if files is shared.layers else ("clamping", "mess", "mod"),
            name=name,
            verbose=settings.verbose,
        )
        notes = list(layers.notes)
    beside = {what: f"{folder}/{Path(file).name}" for what, file in written.files.items()}
    return replace(written, files=beside), notes


def _write_pages(result: SpeciesResult, folder: Path) -> Path:
    if result.maps and "cloglog" in result.maps[0].files:
        report.write_map_png(result, folder)
    return report.write_report(result, folder)


def _summary(result: SpeciesResult, folder: Path, seconds: float) -> dict[str, Any]:
    """The row of a species in the index."""
    test, auc = result.evaluation.test_scores, None
    folds = [r["test_auc"] for c in result.replicates[:1] for r in c.table if "test_auc" in r]
    if test is not None:
        auc = test["auc"]
    elif folds:
        auc = float(np.nanmean(folds))
    return {
        "species": result.species,
        "status": "ok",
        "folder": folder.name,
        "report": f"{folder.name}/report.html",
        "thumbnail": f"{folder.name}/map.png" if result.maps else None,
        "n_records": int(result.model.n_presences_),
        "auc": result.evaluation.scores["auc"],
        "test_auc": auc,
        "gain": result.model.gain_,
        "gap": result.model.gap_,
        "seconds": seconds,
        "results": [{k: _plain(v) for k, v in r.items()} for r in tables.results_rows(result)],
    }


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def chosen_species(present: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """The species of a file, or those asked for."""
    lacking = [name for name in wanted if name not in present]
    if lacking:
        some = ", ".join(map(repr, present[:10]))
        raise ValueError(f"{path}: no species {lacking[0]!r}; it has {some}")
    return [name for name in present if not wanted or name in wanted]


def _together(one: Occurrences, other: Occurrences) -> Occurrences:
    """Two sets of records in the same CRS, for looking up their cells."""
    return replace(
        one,
        species=np.concatenate([one.species, other.species]),
        x=np.concatenate([one.x, other.x]),
        y=np.concatenate([one.y, other.y]),
        row=np.concatenate([one.row, other.row]),
    )

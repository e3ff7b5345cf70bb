"""From files to folders: one species or many, each folder whole or not at all.

Many species get a folder each (see ``job.py``), with ``index.html`` and ``maxentResults.csv`` above
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from maxent._terminal import in_words
from maxent.species import report, tables
from maxent.species.fingerprints import of_rasters, of_values
from maxent.species.inputs import LayerFiles, RecordFile, chosen_species, raster_parts
from maxent.species.job import SUMMARY, Job, Shared, begun, finished, fit_job
from maxent.species.locks import Lock
from maxent.species.outputs import check_free, check_unread, contents, locked, resolved
from maxent.species.records.occurrences import Occurrences
from maxent.species.records.swd import read_swd, swd_sample
from maxent.species.region import Prepared, survey_files
from maxent.species.settings import Settings
from maxent.species.slugs import slugs
from maxent.species.workers import Killed, in_processes


class Listener(Protocol):
    """Who is told how a run goes."""

    def begin(self, species: Sequence[str]) -> None:
        """These species will be fitted."""

    def stage(self, species: str, name: str) -> None:
        """A step of a species begins."""

    def done(self, row: dict[str, Any]) -> None:
        """A species is finished, has failed, or was there already."""


class Silence:
    """A listener that says nothing."""

    def begin(self, species: Sequence[str]) -> None:
        """Say nothing."""

    def stage(self, species: str, name: str) -> None:
        """Say nothing."""

    def done(self, row: dict[str, Any]) -> None:
        """Say nothing."""


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
    """Fit every species of a file to layers, with a folder and a summary row for each.

    ``species`` picks some; ``test`` holds records of the same species for testing; ``bias`` is a
    raster of sampling effort; ``group`` records whose cells are the background; ``resume`` keeps
    the species that an earlier run of the same settings finished.
    """
    settings = settings or Settings()
    out = resolved(out)
    tables_read = [file.path for file in (records, test, group) if file is not None]
    rasters = [bias] if bias is not None else []
    check_unread(out, [*tables_read, *raster_parts([*rasters, *_sources(layers, *projections)])])
    with locked(out) as lock:
        surveyed = survey_files(records, layers, settings, test=test, bias=bias, group=group)
        names = chosen_species(surveyed.records.names(), species, records.path)
        _check_out(out, len(names), overwrite, resume)
        shared = Shared(
            settings,
            layers.categorical,
            layers,
            tuple(projections),
            surveyed.region,
            command,
            lambdas,
            maps,
            _shared_inputs(layers, bias, surveyed.group, projections),
        )
        folders = _folders(out, names)
        queue = [
            Job(
                name,
                folders[name],
                overwrite,
                surveyed.records.of(name),
                surveyed.tests_of(name),
                notes=surveyed.notes,
            )
            for name in names
        ]
        return _run(queue, shared, out, jobs, resume, listener or Silence(), lock)


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
    """Fit every species of a table of samples with data, against a table of background points."""
    settings = settings or Settings()
    out = resolved(out)
    check_unread(out, [samples, background, *raster_parts(_sources(*projections))])
    with locked(out) as lock:
        table = read_swd(samples, categorical=categorical)
        points = read_swd(background, categorical=categorical)
        present = list(dict.fromkeys(map(str, table.species)))
        names = chosen_species(present, species, samples)
        _check_out(out, len(names), overwrite, resume)
        shared = Shared(
            settings,
            tuple(categorical),
            projections=tuple(projections),
            command=command,
            lambdas=lambdas,
            inputs=_shared_inputs(None, None, None, projections),
        )
        folders = _folders(out, names)
        queue = []
        for name in names:
            sample = swd_sample(table, points, name, categorical)
            places = np.empty((0, 2))
            if sample.coordinates is not None:
                places = sample.coordinates[sample.counts > 0]
            records = {"x": places[:, 0], "y": places[:, 1], "test": np.zeros(len(places), bool)}
            ready = Prepared(name, sample, None, records, [], [*table.notes, *points.notes])
            queue.append(Job(name, folders[name], overwrite, prepared=ready))
        return _run(queue, shared, out, jobs, resume, listener or Silence(), lock)


# -- many species --------------------------------------------------------------------------------


def _run(
    queue: Sequence[Job],
    shared: Shared,
    out: Path,
    jobs: int,
    resume: bool,
    listener: Listener,
    lock: Lock,
) -> list[dict[str, Any]]:
    if shared.lambdas and shared.settings.entropy != "shannon":
        raise ValueError(
            f"a .lambdas file (--lambdas) holds Gibbs densities, entropy shannon; got "
            f"{shared.settings.entropy!r}"
        )
    listener.begin([job.species for job in queue])
    rows: dict[str, dict[str, Any]] = {}
    waiting = []
    for job in queue:
        kept = finished(job, shared) if resume else None
        if kept is None:
            lost = resume and begun(job, shared)  # the same results again, in place of the rest
            waiting.append(replace(job, overwrite=True) if lost else job)
        else:
            rows[job.species] = kept
            listener.done(kept)
    _check_changed(waiting, len(queue))
    alone = len(queue) == 1
    with closing(_fitted(waiting, shared, jobs, alone, listener, lock)) as fitted:
        for row in fitted:
            rows[row["species"]] = row
            listener.done(row)
    ordered = [rows[job.species] for job in queue]
    if not alone:
        _write_batch(ordered, out)
    return ordered


def _fitted(
    queue: Sequence[Job], shared: Shared, jobs: int, alone: bool, listener: Listener, lock: Lock
) -> Generator[dict[str, Any], None, None]:
    if alone:  # its error is the error of the run
        for job in queue:
            yield fit_job(job, shared, partial(listener.stage, job.species))
        return
    if jobs <= 1 or len(queue) <= 1:
        for job in queue:
            yield _attempt(job, shared, partial(listener.stage, job.species))
        return
    with closing(in_processes(_work, queue, (shared, lock), jobs)) as rows:
        for job, row in rows:
            yield _failed(job, str(row)) if isinstance(row, Killed) else row


def _work(job: Job, shared: Shared, lock: Lock) -> dict[str, Any]:
    """In a process of its own, which holds the lock of the folder for as long as it lives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        row = _attempt(job, shared, lambda name: None)
    told = [*row.get("notes", ()), *(str(warning.message) for warning in caught)]
    return row | {"notes": list(dict.fromkeys(told))}


def _attempt(job: Job, shared: Shared, stage: Callable[[str], None]) -> dict[str, Any]:
    """A summary row whatever happens: one species does not stop the others."""
    try:
        return fit_job(job, shared, stage)
    except Exception as error:
        return _failed(job, in_words(error).removeprefix(f"{job.species}: "))


def _failed(job: Job, error: str) -> dict[str, Any]:
    return {"species": job.species, "status": "failed", "error": error}


def _check_changed(waiting: Sequence[Job], n_species: int) -> None:
    """Results of other settings are replaced only where that was asked for."""
    changed = [job for job in waiting if not job.overwrite and (job.folder / SUMMARY).is_file()]
    if changed:
        raise FileExistsError(
            f"{changed[0].folder}: the results of {len(changed)} of {n_species} species come from "
            "other settings, files or records; fit these again with --overwrite, or give another "
            "folder"
        )


def _sources(*rasters: LayerFiles) -> list[str]:
    return [source for files in rasters for source in files.sources]


def _shared_inputs(
    layers: LayerFiles | None,
    bias: str | None,
    group: Occurrences | None,
    projections: Sequence[LayerFiles],
) -> str:
    """The digest of what all species are fitted to and drawn on."""
    rasters = [files.sources for files in (layers, *projections) if files is not None]
    rasters += [(bias,)] if bias is not None else []
    digests = [of_rasters(sources) for sources in rasters]
    return of_values(digests, *(() if group is None else (group.x, group.y)))


def _folders(out: Path, names: Sequence[str]) -> dict[str, Path]:
    if len(names) == 1:
        return {names[0]: out}
    return {name: out / slug for name, slug in slugs(names).items()}


def _check_out(out: Path, n_species: int, overwrite: bool, resume: bool) -> None:
    if n_species == 1:
        check_free(out, overwrite or resume)
        return
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"{out} is a file; give a folder for the results")
    started = any((p / SUMMARY).is_file() for p in out.iterdir()) if out.is_dir() else False
    if started and not (overwrite or resume):
        raise FileExistsError(
            f"{out} holds the results of an earlier run; continue it with --resume, replace it "
            "with --overwrite, or give another folder"
        )
    if out.is_dir() and contents(out) and not started:
        raise FileExistsError(
            f"{out} holds other files; give an empty or a new folder for the results"
        )


def _write_batch(rows: Sequence[dict[str, Any]], out: Path) -> None:
    """The table and the index page of all species."""
    out.mkdir(parents=True, exist_ok=True)
    tables.write_results([r for row in rows for r in row.get("results", ())], out / tables.RESULTS)
    report.write_index([{k: v for k, v in row.items() if k != "results"} for row in rows], out)

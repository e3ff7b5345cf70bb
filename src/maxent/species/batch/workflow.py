"""From files to folders: one species or many, each folder whole or not at all.

Many species get a folder each (see ``job.py``), with ``index.html`` and ``maxentResults.csv`` above
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar

from maxent._support.terminal import in_words
from maxent.density import JointDensity
from maxent.species import report
from maxent.species.batch.cluster import ClusterSettings, Crew, check_files, spread
from maxent.species.batch.fingerprints import of_file, of_rasters, of_values
from maxent.species.batch.groups import file_names, fit_groups, missing, write_groups
from maxent.species.batch.job import Job, Shared, begun, fingerprint, finished, fit_job
from maxent.species.batch.keeping import SUMMARY
from maxent.species.batch.locks import Lock
from maxent.species.batch.outputs import (
    check_free,
    check_unread,
    contents,
    locked,
    resolved,
)
from maxent.species.batch.richness import TABLE, Richness, write_richness
from maxent.species.batch.slugs import slugs
from maxent.species.fitting.kinds import check_kinds
from maxent.species.fitting.record_kinds import INTENSITIES
from maxent.species.fitting.settings import NO_REGION, Settings
from maxent.species.input.files import (
    LayerFiles,
    RecordFile,
    StudyFiles,
    chosen_species,
    raster_parts,
)
from maxent.species.input.records.columns import listed
from maxent.species.input.records.names import find_name
from maxent.species.input.records.occurrences import Occurrences
from maxent.species.input.records.site_records import unlooked
from maxent.species.input.records.study_files import read_extent
from maxent.species.input.records.swd import SWD, swd_rows, swd_sample
from maxent.species.input.source_settings import NOT_IN_TIME, PRESENCES, SourceSettings
from maxent.species.input.times.settings import TimeSettings
from maxent.species.report import tables
from maxent.species.study.all_cells import small_cache, whole_layers
from maxent.species.study.groups import groups_of, in_groups, regions_of_groups
from maxent.species.study.kinds import PlacedSites
from maxent.species.study.samples import (
    GROUPED,
    Prepared,
    Regions,
    prepare_swd,
    prepare_swd_group,
    survey_files,
)
from maxent.species.study.sites import (
    read_visits,
    region_of_sites,
    visits_given,
    without_column_of_surveys,
)

_Tests = TypeVar("_Tests", Occurrences, SWD)
_EVERY = 10.0  # seconds after which the table of all species is written again
_PLACES_OF_TABLES = (
    "the places of the joint fit are the {} different rows of {} and {}; a background of the "
    "places where any of the species was recorded tells where people looked"
)


class Listener(Protocol):
    """Who is told how a run goes."""

    def note(self, text: str) -> None:
        """Something was assumed about the files."""

    def begin(self, species: Sequence[str]) -> None:
        """These species will be fitted."""

    def stage(self, species: str, name: str) -> None:
        """A step of a species begins."""

    def done(self, row: dict[str, Any]) -> None:
        """A species is finished, has failed, or was there already."""


class Silence:
    """A listener that says nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

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
    study: StudyFiles | None = None,
    times: TimeSettings | None = None,
    surveys: Sequence[RecordFile] = (),
    counts: Sequence[RecordFile] = (),
    sources: SourceSettings | None = None,
    projections: Sequence[LayerFiles] = (),
    lambdas: bool = False,
    maps: bool = True,
    jobs: int = 1,
    cluster: ClusterSettings | None = None,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    listener: Listener | None = None,
) -> list[dict[str, Any]]:
    """Fit every species of a file to layers, with a folder and a summary row for each.

    Parameters
    ----------
    records : RecordFile
        The file of records.
    layers : LayerFiles
        Which rasters to open, and how.
    out : path
        Folder to write to.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    species : sequence of str, default ()
        Names of the species to take; all of them if empty.
    test : RecordFile, default None
        Records of the same species for testing.
    bias : str, default None
        File of a raster of sampling effort.
    group : RecordFile, default None
        Records whose cells are the background.
    study : StudyFiles, default None
        Where background is drawn from; None for all of the layers.
    times : TimeSettings, default None
        Dates of the records and times of the layers; None for none.
    surveys : sequence of RecordFile, default ()
        Surveys with absences, to be fitted with the records.
    counts : sequence of RecordFile, default ()
        Counts, to be fitted with the records.
    sources : SourceSettings, default None
        How surveys and counts are read and used, and what the records are.
    projections : sequence of LayerFiles, default ()
        Other layers to project to.
    lambdas : bool, default False
        Whether to write ``.lambdas`` files as well.
    maps : bool, default True
        Whether to write maps.
    jobs : int, default 1
        Species fitted at a time.
    cluster : ClusterSettings, default None
        Workers that fit as many species as they are; it also says how much memory there is for a
        background of all cells.
    overwrite : bool, default False
        Whether files that are there already are replaced.
    resume : bool, default False
        Whether to keep the species that an earlier run of the same settings finished.
    command : str, default ""
        The command that repeats the run, for the report.
    listener : Listener, default None
        Who is told how the run goes; None for nobody.
    """
    order = _Order.checked(out, settings, jobs, cluster, overwrite, resume, listener)
    settings = order.settings
    by_records = settings.joint and group is None and bias is None and settings.bias_kernel is None
    group = records if by_records else group
    visits, sources = visits_given(records, surveys, counts, sources)
    if sources is not None and sources.kind == PRESENCES:
        records = without_column_of_surveys(records, visits)
        test = None if test is None else without_column_of_surveys(test, visits)
        group = None if group is None else without_column_of_surveys(group, visits)
    wrong = [output for output in settings.outputs if output in INTENSITIES]
    if sources is None and wrong:
        raise ValueError(
            f"output {wrong[0]} (--output) needs surveys or counts (--survey, --counts, --kind): "
            "presences tell where there are more, not how many"
        )
    if sources is not None:
        if times is not None and times.date_column is not None:
            raise ValueError(NOT_IN_TIME)
        alone = sources.kind != PRESENCES
        _check_visits(settings, cluster, alone, test, bias, group, study)
    has_region = study is not None and study.kind is not None
    if settings.extent == "region" and not has_region:
        raise ValueError(NO_REGION)
    cut = None if settings.extent in ("layers", "region") else settings.extent
    given = (records, test, group, study, *(file for _, file in visits))
    read = [file.path for file in given if file is not None]
    tables_read = [path for path in (*read, cut) if path is not None]
    rasters = [bias] if bias is not None else []
    files_read = [*tables_read, *raster_parts([*rasters, *_sources(layers, *projections)])]
    within = nullcontext() if cluster is None or cluster.memory is None else small_cache()
    with within, order.crew(files_read, files_read) as crew:
        if sources is not None and sources.kind != PRESENCES:
            return _fit_visits(visits, sources, layers, order, crew, species, overwrite, {
                "projections": tuple(projections), "command": command, "lambdas": lambdas,
                "maps": maps, "extent": cut,
            })  # fmt: skip
        whole = whole_layers(
            settings,
            layers,
            bias=bias,
            grouped=group is not None and settings.bias_kernel is None,
            cluster=cluster or ClusterSettings(),
            client=crew.client,
            tell=order.listener.note,
        )
        drawn = settings if whole is None else replace(settings, background=Settings.background)
        surveyed = survey_files(
            records, layers, drawn, test=test, bias=bias, group=group, study=study, times=times
        )
        names = chosen_species(surveyed.records.names(), species, records.path)
        surveyed = replace(surveyed, tests=_tests_of(names, surveyed.tests))
        notes = [*surveyed.notes, *_untested(names, surveyed.tests)]
        extent, more = (None, []) if cut is None else read_extent(cut, surveyed.grid)
        notes += more
        placed, more = _placed(visits, sources, layers, names)
        notes += more
        if settings.spatial and surveyed.regions.shared is not None:
            with_places = surveyed.regions.shared.with_places()
            surveyed = replace(surveyed, regions=replace(surveyed.regions, shared=with_places))
        region = surveyed.regions.shared  # None where each species has its own
        groups: dict[str, tuple[str, ...]] = {}
        regions = surveyed.regions
        if settings.joint:
            column = settings.group_column
            grouped = None if column is None else replace(records, species=column).occurrences()
            of_species = groups_of(surveyed.records, grouped, column, names)
            groups = in_groups(of_species, names)
            if by_records and region is not None:
                places, more = regions_of_groups(region, surveyed.records, of_species)
                regions, notes = replace(regions, by_species=places), [*notes, *more]
        told = () if region is None else region.notes
        if regions.by_species:  # each group has a background of its own
            told = tuple(note for note in told if GROUPED not in note)
        order.begin(names, (*notes, *told), region is not None)
        shared = Shared(
            settings,
            layers.categorical,
            layers,
            tuple(projections),
            regions,
            command,
            lambdas,
            maps,
            _shared_inputs(layers, bias, surveyed.group, projections, study, cut),
            whole=whole,
            grid=surveyed.grid,
            extent=extent,
            times=times if times is not None and times.date_column is not None else None,
            sources=sources,
        )
        queue = [
            Job(
                name,
                folder,
                overwrite,
                surveyed.records.of_species(name),
                surveyed.tests_of(name),
                notes=tuple(notes),
                sites=placed,
            )
            for name, folder in _folders(order.out, names).items()
        ]
        return _run(queue, shared, order, crew, groups)


def _check_visits(
    settings: Settings,
    cluster: ClusterSettings | None,
    alone: bool,
    test: RecordFile | None,
    bias: str | None,
    group: RecordFile | None,
    study: StudyFiles | None,
) -> None:
    """Refuse what is not done with surveys and counts."""
    held_out = test is not None or settings.test_share > 0
    check_kinds(settings, held_out=held_out, presences=not alone)
    if cluster is not None and cluster.memory is not None:
        raise ValueError(
            "--memory is for a background of all cells in windows, and surveys and counts are read "
            "into memory; leave it out"
        )
    region = study is not None and study.kind is not None
    drawn = bias is not None or group is not None or settings.bias_kernel is not None or region
    if alone and drawn:
        raise ValueError(
            "a background (--bias, --bias-kernel, --target-group, --background-records, --region "
            "and the like) has no effect without presences: surveys and counts say themselves "
            "where people looked"
        )


def _placed(
    visits: Sequence[tuple[str, RecordFile]],
    sources: SourceSettings | None,
    layers: LayerFiles,
    names: Sequence[str],
) -> tuple[tuple[PlacedSites, ...], list[str]]:
    """The visits of files on the layers; and what to say of them."""
    if sources is None or not visits:
        return (), []
    with layers.open() as opened:
        placed, notes = read_visits(visits, sources, opened)
    if len(names) > 1:
        pooled = [site.name for site in placed if site.records.places.pooled]
        if pooled:
            raise ValueError(
                f"{pooled[0]} has no column of species, so its visits could be for any of the "
                f"{len(names)} that are fitted ({listed(names, 5)}): add one, name it with "
                "--species-column, or fit one species with --species NAME"
            )
    elif not any(site.of_species(names[0]) for site in placed):
        raise ValueError("; ".join(unlooked(names[0], site.records) for site in placed))
    return tuple(placed), notes


def _fit_visits(
    visits: Sequence[tuple[str, RecordFile]],
    sources: SourceSettings,
    layers: LayerFiles,
    order: _Order,
    crew: Crew,
    species: Sequence[str],
    overwrite: bool,
    others: dict[str, Any],
) -> list[dict[str, Any]]:
    """Fit the species of surveys and counts, without presences."""
    with layers.open() as opened:
        placed, notes = read_visits(visits, sources, opened)
        region = region_of_sites(placed, opened)
    first = visits[0][1].path
    known = dict.fromkeys(
        name for site in placed if not site.records.places.pooled for name in site.records.names()
    )
    names = chosen_species(list(known) or placed[0].records.names(), species, first)
    if len(names) > 1:
        _placed(visits, sources, layers, names)  # refuses files without species
    cut = others.pop("extent")
    extent, more = (None, []) if cut is None else read_extent(cut, region.grid)
    order.begin(names, [*notes, *more])
    shared = Shared(
        order.settings,
        layers.categorical,
        layers,
        regions=Regions(region, layers, order.settings),
        inputs=_shared_inputs(layers, None, None, others["projections"], None, cut),
        grid=region.grid,
        extent=extent,
        sources=sources,
        **others,
    )
    queue = [
        Job(name, folder, overwrite, notes=tuple(notes), sites=tuple(placed))
        for name, folder in _folders(order.out, names).items()
    ]
    return _run(queue, shared, order, crew)


def fit_swd(
    samples: str | RecordFile,
    background: str,
    out: Path,
    settings: Settings | None = None,
    *,
    categorical: Sequence[str] = (),
    species: Sequence[str] = (),
    test: str | None = None,
    projections: Sequence[LayerFiles] = (),
    lambdas: bool = False,
    jobs: int = 1,
    cluster: ClusterSettings | None = None,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    listener: Listener | None = None,
) -> list[dict[str, Any]]:
    """Fit every species of a table of samples with data, against a table of background points.

    Parameters
    ----------
    samples : path or RecordFile
        The table of samples; a ``RecordFile`` names the columns of all tables too.
    background : path
        The table of background points.
    out : path
        Folder to write to.
    settings : Settings, default None
        What the fit is told; None is ``Settings()``.
    categorical : sequence of str, default ()
        Names of the variables that hold categories.
    species : sequence of str, default ()
        Names of the species to take; all of them if empty.
    test : path, default None
        A table of the same species for testing.
    projections : sequence of LayerFiles, default ()
        Other layers to project to.
    lambdas : bool, default False
        Whether to write ``.lambdas`` files as well.
    jobs : int, default 1
        Species fitted at a time.
    cluster : ClusterSettings, default None
        Who does the work; None is this process.
    overwrite : bool, default False
        Whether files that are there already are replaced.
    resume : bool, default False
        Whether to keep the species that an earlier run of the same settings finished.
    command : str, default ""
        The command that repeats the run, for the report.
    listener : Listener, default None
        Who is told how the run goes; None for nobody.
    """
    order = _Order.checked(out, settings, jobs, cluster, overwrite, resume, listener)
    told = order.settings
    if told.joint and (told.spatial or told.group_column is not None):
        flag = "--spatial" if told.spatial else "--group-column"
        raise ValueError(f"{flag} needs layers; the tables of --swd hold variables alone")
    if cluster is not None and cluster.memory is not None:
        raise ValueError(f"memory={cluster.memory!r} is for layers; tables are read into memory")
    file = samples if isinstance(samples, RecordFile) else RecordFile(samples)
    given = [file.path, background, *([] if test is None else [test])]
    rasters = raster_parts(_sources(*projections))
    with order.crew([*given, *rasters], rasters) as crew:
        table = file.read_swd(categorical)
        points = replace(file, path=background).read_swd(categorical, background=True)
        tests = None if test is None else replace(file, path=test).read_swd(categorical)
        names = chosen_species(table.names(), species, file.path)
        tests = _tests_of(names, tests)
        notes = [
            note
            for read in (table, points, tests)
            if read is not None
            for note in (read.summary(), *read.notes)
        ]
        notes += _untested(names, tests)
        order.begin(names, notes)
        shared = Shared(
            order.settings,
            tuple(categorical),
            projections=tuple(projections),
            command=command,
            lambdas=lambdas,
            inputs=_shared_inputs(None, None, None, projections),
        )
        made: dict[str, Prepared] = {}
        if order.settings.joint:
            made = prepare_swd_group(
                table, points, names, tests, order.settings, categorical, notes
            )
            places = len(next(iter(made.values())).train.counts)
            order.listener.note(_PLACES_OF_TABLES.format(places, points.source, table.source))
        queue = []
        for name, folder in _folders(order.out, names).items():
            if name not in made:
                sample = swd_sample(table, points, name, categorical)
                tested = None if tests is None else swd_rows(tests, name, sample)
                made[name] = prepare_swd(name, sample, tested, order.settings, notes)
            queue.append(Job(name, folder, overwrite, prepared=made[name]))
        groups = {"": tuple(names)} if order.settings.joint else None
        return _run(queue, shared, order, crew, groups)


@dataclass(frozen=True)
class _Order:
    """What a run is asked for, wherever its records come from."""

    out: Path
    settings: Settings
    jobs: int
    cluster: ClusterSettings | None
    overwrite: bool
    resume: bool
    listener: Listener

    @classmethod
    def checked(
        cls,
        out: Path,
        settings: Settings | None,
        jobs: int,
        cluster: ClusterSettings | None,
        overwrite: bool,
        resume: bool,
        listener: Listener | None,
    ) -> _Order:
        """With defaults, and settings that go together."""
        settings = settings or Settings()
        listener = listener or Silence()
        return cls(resolved(out), settings, jobs, cluster, overwrite, resume, listener)

    @contextmanager
    def crew(self, read: Sequence[str], read_by_workers: Sequence[str]) -> Iterator[Crew]:
        """Who does the work; the folder is theirs meanwhile, and holds none of what is read."""
        check_unread(self.out, read)
        advice = "the species that it finished stay, go on with --resume"
        workers = (self.cluster or ClusterSettings()).connected(self.listener.note, advice)
        with locked(self.out) as lock, workers as client:
            check_files(client, self.out, read_by_workers)
            yield Crew(self.jobs, client, lock)

    def begin(
        self, names: Sequence[str], notes: Iterable[str], one_background: bool = True
    ) -> None:
        """Tell the notes, and refuse what cannot be done with these species in this folder."""
        for note in notes:
            self.listener.note(note)
        _check_lending(self.settings, names, one_background)
        _check_out(self.out, len(names), self.overwrite, self.resume)


# -- many species --------------------------------------------------------------------------------


def _run(
    queue: Sequence[Job],
    shared: Shared,
    order: _Order,
    crew: Crew,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[dict[str, Any]]:
    out, listener = order.out, order.listener
    if shared.lambdas and shared.settings.entropy != "shannon":
        raise ValueError(
            f"a .lambdas file (--lambdas) holds Gibbs densities, entropy shannon; got "
            f"{shared.settings.entropy!r}"
        )
    if shared.lambdas and (shared.settings.joint or "k" in shared.settings.features):
        raise ValueError(
            "kernels have no place in a .lambdas file (--lambdas), and --joint and -f k make "
            "densities of kernels; leave --lambdas out"
        )
    if groups:  # the results of each depend on the records of all
        prints = [fingerprint(job, shared) for job in queue]
        shared = replace(shared, inputs=of_values(shared.inputs, prints, str(dict(groups))))
    listener.begin([job.species for job in queue])
    rows: dict[str, dict[str, Any]] = {}
    waiting = []
    for job in queue:
        kept = finished(job, shared) if order.resume else None
        if kept is None:
            lost = order.resume and begun(
                job, shared
            )  # the same results again, in place of the rest
            waiting.append(replace(job, overwrite=True) if lost else job)
        else:
            rows[job.species] = kept
            listener.done(kept)
    _check_changed(waiting, len(queue))
    joints: dict[str, JointDensity] = {}
    if groups and (waiting or missing(groups, out)):
        joints, parts, failed = fit_groups(queue, shared, groups, listener.stage)
        for row in failed:
            rows[row["species"]] = row
            listener.done(row)
        files = {name: f for group, f in file_names(groups).items() for name in groups[group]}
        waiting = [
            replace(job, joint=parts.get(job.species), group_files=files[job.species])
            for job in waiting
            if job.species not in rows
        ]
    alone = len(queue) == 1
    with (
        spread(crew.client),
        closing(_fitted(waiting, shared, crew, alone, listener)) as fitted,
    ):
        written = perf_counter()
        for row in fitted:
            rows[row["species"]] = row
            listener.done(row)
            if not alone and perf_counter() - written > _EVERY:  # a long run can be looked at
                _write_batch([rows[job.species] for job in queue if job.species in rows], out)
                written = perf_counter()
    ordered = [rows[job.species] for job in queue]
    write_groups(joints, out)
    if not alone:
        _write_batch(ordered, out)  # whatever becomes of the sums
        sums = write_richness(ordered, out, shared.settings.threshold)
        if sums is not None:
            listener.note(_richness_in_words(sums, len(ordered)))
            _write_batch(ordered, out, sums)
    return ordered


def _richness_in_words(sums: Richness, asked: int) -> str:
    left = (
        "" if sums.n_species == asked else f"; see {TABLE} for the {asked - sums.n_species} others"
    )
    (rule, *others) = dict.fromkeys(row["rule"] for row in sums.rows if row["summed"])
    assert not others
    return (
        f"richness_suitability.tif and richness_presences.tif sum {sums.n_species} of {asked} "
        f"species, present from their own threshold on ({rule}){left}"
    )


def _fitted(
    queue: Sequence[Job], shared: Shared, crew: Crew, alone: bool, listener: Listener
) -> Generator[dict[str, Any], None, None]:
    if alone:  # its error is the error of the run
        for job in queue:
            yield fit_job(job, shared, partial(listener.stage, job.species), crew.client)
        return
    if not crew.hands_out(len(queue)):
        for job in queue:
            yield _attempt(job, shared, partial(listener.stage, job.species), crew.client)
        return
    with closing(crew.work(_work, queue, shared)) as rows:
        for job, row in rows:  # what is no row says why there is none
            yield row if isinstance(row, dict) else _failed(job, str(row))


def _work(job: Job, shared: Shared, lock: Lock | None) -> dict[str, Any]:
    """In a process of its own, which holds the lock of the folder for as long as it lives."""
    if not job.overwrite:
        kept = finished(job, shared)  # by a worker of this run that was lost before it could tell
        if kept is not None:
            return kept | {"resumed": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        row = _attempt(job, shared, lambda name: None)
    told = [*row.get("notes", ()), *(str(warning.message) for warning in caught)]
    return row | {"notes": list(dict.fromkeys(told))}


def _attempt(
    job: Job, shared: Shared, stage: Callable[[str], None], client: Any = None
) -> dict[str, Any]:
    """A summary row whatever happens: one species does not stop the others."""
    try:
        return fit_job(job, shared, stage, client)
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


def _check_lending(settings: Settings, names: Sequence[str], one_background: bool = True) -> None:
    """Refuse to lend where nobody could, or where densities are not over the same places."""
    if not settings.joint:
        return
    if len(names) < 2:
        raise ValueError(
            f"--joint lends strength between several species, and there is one: {names[0]}"
        )
    if not one_background:
        raise ValueError(
            "--joint compares densities over one background, and a study region around the records "
            "of each species (--buffer, --hull, --ecoregions) gives each its own; give --region, "
            "or none"
        )


def _tests_of(names: Sequence[str], tests: _Tests | None) -> _Tests | None:
    """Test records by their species; those without a column of species are of the only one."""
    if tests is None or any(find_name(name, tests.names()) is not None for name in names):
        return tests
    if not tests.pooled:
        raise ValueError(
            f"{tests.source} (--test) has no record of {listed(names, 5)}; it has "
            f"{listed(tests.names(), 5)}: give test records of the species that are fitted"
        )
    if len(names) == 1:
        return tests.of_one(names[0])
    raise ValueError(
        f"{tests.source} (--test) has no column of species, so its records could be of any of the "
        f"{len(names)} that are fitted ({listed(names, 5)}): add one, name it with "
        "--species-column, or fit one species with --species NAME"
    )


def _untested(names: Sequence[str], tests: Occurrences | SWD | None) -> list[str]:
    """What to say of species without records among the tests, where there are tests."""
    if tests is None:
        return []
    lacking = [name for name in names if find_name(name, tests.names()) is None]
    return [f"{tests.source}: no test records of {listed(lacking, 5)}"] if lacking else []


def _sources(*rasters: LayerFiles) -> list[str]:
    return [source for files in rasters for source in files.sources]


def _shared_inputs(
    layers: LayerFiles | None,
    bias: str | None,
    group: Occurrences | None,
    projections: Sequence[LayerFiles],
    study: StudyFiles | None = None,
    extent: str | None = None,
) -> str:
    """The digest of what all species are fitted to and drawn on."""
    rasters = [files.sources for files in (layers, *projections) if files is not None]
    rasters += [(bias,)] if bias is not None else []
    digests = [of_rasters(sources) for sources in rasters]
    if study is not None and study.kind is not None:
        digests += [repr(study), *([] if study.path is None else [of_file(study.path)])]
    digests += [] if extent is None else [of_file(extent)]
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


def _write_batch(rows: Sequence[dict[str, Any]], out: Path, sums: Richness | None = None) -> None:
    """The table and the index page of all species."""
    out.mkdir(parents=True, exist_ok=True)
    tables.write_results([r for row in rows for r in row.get("results", ())], out / tables.RESULTS)
    listing = [{k: v for k, v in row.items() if k != "results"} for row in rows]
    report.write_index(listing, out, richness=None if sums is None else sums.files)

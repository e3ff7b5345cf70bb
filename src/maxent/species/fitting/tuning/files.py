"""From files to the table, the picture and the page of a comparison of settings."""

from __future__ import annotations

import csv
import io as text
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from maxent import evaluation as metrics
from maxent import io
from maxent._support.progress import tell_event
from maxent._version import __version__
from maxent.density import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.batch.cluster import ClusterSettings, spread
from maxent.species.batch.outputs import check_unread, locked, staged
from maxent.species.batch.slugs import slugs
from maxent.species.fitting.options import typed
from maxent.species.fitting.results import BlockSize, Sample
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.tuning.candidates import Totals, Trial, compare
from maxent.species.fitting.tuning.choice import ranked
from maxent.species.fitting.tuning.nulls import null_models
from maxent.species.fitting.tuning.partitions import partition
from maxent.species.fitting.tuning_settings import NO_MEMORY, TuningSettings
from maxent.species.input.files import (
    LayerFiles,
    RecordFile,
    StudyFiles,
    chosen_species,
    raster_parts,
)
from maxent.species.input.records.occurrences import Occurrences, read_column
from maxent.species.judging import fit_sample
from maxent.species.judging.spatial_folds import block_size
from maxent.species.report import figures
from maxent.species.report.tuning import TuningPage, write_tuning_report
from maxent.species.study.samples import Prepared, Region, prepare, survey_files

_NAMES = ("features", "potential", "multiplier")


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a comparison found.

    Attributes
    ----------
    rows : list of dict
        One per candidate, best first: rank, features, potential, multiplier, n_weights, statistics
        with their deviations over folds, and ``folds``, the statistics of each fold.
    names : list of str
        Names of the folds.
    fold : array
        Fold of each row with records.
    nulls : list of dict
        Statistics of each null model.
    null_table : list of dict
        The chosen model beside them.
    blocks : BlockSize or None
        The size of the blocks, where they have one.
    """

    rows: list[dict[str, Any]]
    names: list[str]
    fold: Array
    nulls: list[dict[str, float]] = field(default_factory=list)
    null_table: list[dict[str, Any]] = field(default_factory=list)
    blocks: BlockSize | None = None


@dataclass(frozen=True, eq=False)
class Tuned:
    """What was tried for one species, best first, the files written, and what to type next.

    Attributes
    ----------
    species : str
        Name of the species.
    rows : list of dict
        What was tried, best first.
    files : list of path
        The files written.
    advice : str
        What to type next.
    notes : list of str
        What was assumed.
    null_table : list of dict
        The chosen model beside null models.
    """

    species: str
    rows: list[dict[str, Any]]
    files: list[Path]
    advice: str
    notes: list[str]
    null_table: list[dict[str, Any]] = field(default_factory=list)


def tune(
    prepared: Prepared,
    settings: Settings,
    categorical: Sequence[str],
    *,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    tuning: TuningSettings | None = None,
    labels: Array | None = None,
    cell_size: tuple[float, float] | None = None,
    totals: Totals | None = None,
    jobs: int = 1,
) -> Tuning:
    """Statistics of every combination over the folds of a partition, best first.

    Along the multipliers each fit starts from the one before.

    Parameters
    ----------
    prepared : Prepared
        The species, ready to be fitted.
    settings : Settings
        What all fits are told.
    categorical : sequence of str
        Names of the variables that hold categories.
    features : sequence of str
        Features to choose from.
    multipliers : sequence of float
        Multipliers to choose from.
    potentials : sequence of str
        Potentials to choose from.
    tuning : TuningSettings, default None
        How candidates are compared; None is ``TuningSettings()``.
    labels : array, default None
        Folds of the rows with records, where they are the user's own.
    cell_size : (float, float), default None
        Cell size of the grid.
    totals : callable, default None
        For densities, the log of their sum over the study area, for AICc.
    jobs : int, default 1
        Fits at a time.
    """
    tuning = tuning or TuningSettings()
    sample = prepared.train
    letters = [f + "c" if categorical and not {"c", "k"} & set(f) else f for f in features]
    variables = [name for name in sample.X.columns if name not in categorical]
    size = None
    if tuning.block_size is not None:
        recipe = settings.recipe(tuple(categorical))
        size = block_size(
            sample,
            tuning.block_size,
            variables,
            lambda: fit_sample(recipe, sample),
            settings.seed,
        )
    folds = partition(
        sample,
        tuning,
        seed=settings.seed,
        labels=labels,
        cell_size=cell_size,
        size=size,
        variables=variables,
    )
    trial = Trial.from_sample(sample, tuning, folds, categorical, settings.preset)
    rows = compare(
        trial,
        features=letters,
        multipliers=multipliers,
        potentials=potentials,
        totals=totals,
        jobs=jobs,
        verbose=settings.verbose,
    )
    rows = ranked(rows, tuning)
    presence = sample.counts > 0
    fold = np.argmax([f.test[presence] for f in folds], axis=0)
    made = Tuning(rows, [f.name for f in folds], fold, blocks=size)
    if not tuning.null:
        return made
    how: dict[str, Any] = {"seed": settings.seed, "jobs": jobs, "verbose": settings.verbose}
    nulls, table = null_models(trial, rows[0], tuning.null, **how)
    return replace(made, nulls=nulls, null_table=table)


def tune_files(
    records: RecordFile,
    layers: LayerFiles,
    out: Path,
    settings: Settings,
    *,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    tuning: TuningSettings | None = None,
    species: Sequence[str] = (),
    bias: str | None = None,
    group: RecordFile | None = None,
    study: StudyFiles | None = None,
    jobs: int = 1,
    cluster: ClusterSettings | None = None,
    overwrite: bool = False,
    command: str = "",
    tell: Callable[[str], None] = lambda note: None,
) -> list[Tuned]:
    """Tune every species of a file, with tables, a picture and a page of each in ``out``.

    Parameters
    ----------
    records : RecordFile
        The file of records.
    layers : LayerFiles
        Which rasters to open, and how.
    out : path
        Folder to write to.
    settings : Settings
        What all fits are told.
    features : sequence of str
        Features to choose from.
    multipliers : sequence of float
        Multipliers to choose from.
    potentials : sequence of str
        Potentials to choose from.
    tuning : TuningSettings, default None
        How candidates are compared; None is ``TuningSettings()``.
    species : sequence of str, default ()
        Names of the species to take; all of them if empty.
    bias : str, default None
        File of a raster of sampling effort.
    group : RecordFile, default None
        Records whose cells are the background.
    study : StudyFiles, default None
        Where background is drawn from; None for all of the layers.
    jobs : int, default 1
        Threads.
    cluster : ClusterSettings, default None
        Who does the work; None is this process.
    overwrite : bool, default False
        Whether files that are there already are replaced.
    command : str, default ""
        The command that repeats the run, for the report.
    tell : callable, default does nothing
        Called with every note on what was assumed.
    """
    tuning = tuning or TuningSettings()
    crew = cluster or ClusterSettings()
    if crew.memory is not None:
        raise ValueError(f"memory={crew.memory!r} is for fits: {NO_MEMORY}")
    read = [file.path for file in (records, group, study) if file is not None]
    tables = [path for path in read if path is not None]
    rasters = raster_parts([*layers.sources, *([] if bias is None else [bias])])
    check_unread(out, [*tables, *rasters])
    with (
        locked(out),
        staged(out, overwrite, tell) as place,
        crew.connected(tell) as client,
        spread(client),
    ):
        column = None if tuning.column is None else read_column(records.path, tuning.column)
        surveyed = survey_files(records, layers, settings, bias=bias, group=group, study=study)
        for note in surveyed.notes:
            tell(note)
        names = chosen_species(surveyed.records.names(), species, records.path)
        tell_event("begin", species=list(names))
        tuned = []
        for name, slug in slugs(names).items():
            tell_event("stage", species=name, stage="comparing settings")
            mine = surveyed.records.of_species(name)
            region = surveyed.regions.region_of(mine)
            ready = prepare(region, mine, settings)
            made = tune(
                ready,
                settings,
                region.categorical,
                features=features,
                multipliers=multipliers,
                potentials=potentials,
                tuning=tuning,
                labels=None if column is None else _labels(column, mine, region, ready.train),
                cell_size=region.grid.cell_size,
                totals=_totals(layers, region, ready.train),
                jobs=jobs,
            )
            several, fit = len(names) > 1, out.with_name(f"{out.name}-fit")
            only, place_of_fit = (name, fit / slug) if several else (None, fit)
            where = [*_background(settings, bias, group), *([] if study is None else typed(study))]
            advice = _advice(records, layers, where, only, made.rows[0], place_of_fit)
            notes = [*ready.new_notes(ready.notes, surveyed.notes), *_remarks(made, tuning)]
            page = _page(name, tuning, ready, made, surveyed.notes, advice, command)
            files = _write(page, made, place, slug)
            tuned.append(
                Tuned(name, made.rows, [out / f for f in files], advice, notes, made.null_table)
            )
            tell_event("done", species=name, status="ok")
        best = {one.species: {k: one.rows[0][k] for k in _NAMES} for one in tuned}
        io.save(best, place / "tuning.json")
    return tuned


def _page(
    species: str,
    settings: TuningSettings,
    ready: Prepared,
    made: Tuning,
    notes: Sequence[str],
    advice: str,
    command: str,
) -> TuningPage:
    return TuningPage(
        species=species,
        rows=made.rows,
        settings=settings,
        folds=made.names,
        coordinates=np.asarray(ready.train.coordinates)[ready.train.counts > 0],
        crs=ready.train.crs,
        fold=made.fold,
        study=ready.study,
        blocks=made.blocks,
        null_rows=made.nulls,
        null_table=made.null_table,
        notes=[*notes, *ready.notes, *_remarks(made, settings)],
        advice=advice,
        command=command,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
    )


def _write(page: TuningPage, made: Tuning, place: Path, slug: str) -> list[str]:
    files = {
        f"{slug}_tuning.csv": _csv([_without_folds(row) for row in made.rows]),
        f"{slug}_folds.csv": _csv(_by_fold(made)),
        f"{slug}_partition.csv": _csv(
            [
                {"x": x, "y": y, "fold": made.names[k]}
                for (x, y), k in zip(page.coordinates.tolist(), made.fold.tolist(), strict=True)
            ]
        ),
    }
    if made.nulls:
        files[f"{slug}_null_models.csv"] = _csv(made.nulls)
        files[f"{slug}_null_test.csv"] = _csv(made.null_table)
    picture = f"{slug}_tuning.png"
    files[picture] = _picture(page)
    for name, content in files.items():
        io.write_atomically(place / name, content)
    write_tuning_report(page, place / f"{slug}_tuning.html", list(files))
    return [f"{slug}_tuning.html", *files]


def _picture(page: TuningPage) -> bytes:
    """What chose, against the multiplier, for a slide."""
    _, ((name, _, _), *_) = page.settings.rule()
    with figures.drawing():
        buffer = text.BytesIO()
        figures.multiplier_figure(page.rows, name, name.replace("_", " ")).savefig(
            buffer, format="png", dpi=200
        )
    return buffer.getvalue()


def _remarks(made: Tuning, settings: TuningSettings) -> list[str]:
    """What the reader should know about the table."""
    remarks = [] if made.blocks is None else [f"folds: {made.blocks.describe()}"]
    many = sum(np.isnan(row["aicc"]) for row in made.rows)
    if many:
        remarks.append(
            f"{many} of {len(made.rows)} candidates have no AICc: as many weights as records, or "
            "more"
        )
    if settings.partial_roc is not None:
        empty = sum(bool(np.isnan(fold["partial_roc"])) for fold in made.rows[0]["folds"])
        fewest = metrics.fewest_presences(settings.partial_roc / 100)
        if empty:
            remarks.append(
                f"{empty} of {len(made.names)} folds have no partial ROC: at "
                f"{settings.partial_roc:g} % omission it needs {fewest:.0f} records in a fold, "
                "since with fewer any map seems better than chance. Make fewer folds, or give a "
                "larger --partial-roc"
            )
    return remarks


def _without_folds(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "folds"}


def _by_fold(made: Tuning) -> list[dict[str, Any]]:
    return [
        {"rank": row["rank"]} | {k: row[k] for k in _NAMES} | {"fold": name} | scores
        for row in made.rows
        for name, scores in zip(made.names, row["folds"], strict=True)
    ]


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = text.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue().encode()


def _labels(column: dict[int, str], records: Occurrences, region: Region, sample: Sample) -> Array:
    """The user's fold of each row with records: that of the first record of its cell."""
    cell = region.grid.cells_at(records.x, records.y)
    first: dict[int, int] = {}
    for at, row in zip(cell.tolist(), records.row.tolist(), strict=True):
        first.setdefault(at, row)
    places = np.asarray(sample.coordinates)[sample.counts > 0]
    rows = [first[at] for at in region.grid.cells_at(*places.T).tolist()]
    labels = [column[row] for row in rows]
    empty = [row for row, label in zip(rows, labels, strict=True) if not label]
    if empty:
        raise ValueError(
            f"{records.source}, row {empty[0]}: no fold is given there, nor for {len(empty) - 1} "
            "other records; fill the column in"
        )
    return np.array(labels, dtype=object)


def _totals(layers: LayerFiles, region: Region, sample: Sample) -> Totals | None:
    """The sum of densities over all cells of the study area; None where the fit has them all."""
    if region.n_known is not None and region.n_known <= int(sample.at_background.sum()):
        return None

    def sums(models: Sequence[FittedDensity]) -> Array:
        total = np.full(len(models), -np.inf)
        with layers.open() as opened:
            for block in opened.blocks():
                where = block.valid
                if region.study is not None:
                    where = where & region.study.cells(opened.grid, block.window)
                if not where.any():
                    continue
                cells = models[0].schema.read(block.frame(where))
                for i, model in enumerate(models):
                    log = model.predict_cells(cells, "log")
                    total[i] = np.logaddexp(total[i], np.logaddexp.reduce(log))
        return total

    return sums


def _background(settings: Settings, bias: str | None, group: RecordFile | None) -> list[str]:
    """The options that ask for the same records, background and effort."""
    words = [] if bias is None else ["--bias", bias]
    words += [] if group is None else ["--background-records", group.path]
    for flag, value, usual in (
        ("--bias-as", settings.bias, Settings.bias),
        ("--bias-kernel", settings.bias_kernel, None),
        ("--background", settings.background or "all", Settings.background),
        ("--thin", settings.thin, None),
        ("--preset", settings.preset, None),
        ("--seed", settings.seed, Settings.seed),
    ):
        words += [] if value == usual else [flag, str(value)]
    return [*words, "--clean"] if settings.clean else words


def _advice(
    records: RecordFile,
    layers: LayerFiles,
    where: Sequence[str],
    species: str | None,
    best: dict[str, Any],
    out: Path,
) -> str:
    words = ["maxent", "fit", records.path, *layers.sources, *typed(records), *typed(layers)]
    words += ["-s", species] if species else []
    words += where
    words += ["-f", best["features"], "-m", f"{best['multiplier']:g}"]
    words += ["--potential", best["potential"]] if best["potential"] != "box" else []
    words += ["-o", str(out)]
    return shlex.join(words)

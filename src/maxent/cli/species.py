"""Commands of an ecologist: fit, project, evaluate, tune and report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent import _limits
from maxent.cli._console import console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, given, with_fields
from maxent.cli._screen import Screen, conclude, show_notes
from maxent.species.inputs import LayerFiles, RecordFile, StudyFiles, check_there, raster_parts
from maxent.species.options import BACKGROUND, CHECKS, DATA, MODEL, OUTPUT
from maxent.species.settings import Settings
from maxent.species.tuning_settings import TuningSettings

if TYPE_CHECKING:
    from maxent.species.results import MapFiles

# -- arguments and options that several commands share --------------------------------------------

Records = Annotated[
    Path, typer.Argument(help="Records: CSV, Darwin Core, GeoPackage, GeoJSON or shapefile.")
]
MaybeLayers = Annotated[
    list[Path] | None,
    typer.Argument(help="Raster files, or folders of them, all on one grid (see --align)."),
]
Model = Annotated[Path, typer.Argument(help="model.json of a fit, or a .lambdas file.")]
Species = Annotated[
    list[str] | None,
    typer.Option("--species", "-s", help="Only this species; repeat.", rich_help_panel=DATA),
]
BackgroundRecords = Annotated[
    Path | None,
    typer.Option(
        "--background-records",
        help="Records whose cells are the background: a target group, or points of your own.",
        rich_help_panel=BACKGROUND,
    ),
]
TargetGroup = Annotated[
    bool,
    typer.Option(
        "--target-group",
        help="The cells of all records of the file are the background.",
        rich_help_panel=BACKGROUND,
    ),
]
Bias = Annotated[
    Path | None, typer.Option(help="Raster of sampling effort.", rich_help_panel=BACKGROUND)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace earlier results.", rich_help_panel=OUTPUT)
]


def _allow_cells(context: typer.Context, cells: int | None) -> int | None:
    if cells is not None:
        context.with_resource(_limits.allowed(cells))
    return cells


MaxCells = Annotated[
    int | None,
    typer.Option(
        "--max-cells",
        help="Cells of a grid, or numbers of a model, above which a file is refused as damaged "
        f"[default: {_limits.ON_DISK:.0e}, {_limits.IN_MEMORY}; or {_limits.VARIABLE}].",
        min=1,
        callback=_allow_cells,
        rich_help_panel=DATA,
    ),
]

# what makes a dataclass from the options of its fields
MakeRecords = Annotated[Callable[..., RecordFile], Fields(RecordFile)]
MakeLayers = Annotated[Callable[..., LayerFiles], Fields(LayerFiles)]
MakeModelLayers = Annotated[  # the model knows which of them hold categories
    Callable[..., LayerFiles], Fields(LayerFiles, "align", "resampling", "crs", "nodata", "layer")
]
MakeStudy = Annotated[Callable[..., StudyFiles], Fields(StudyFiles)]
MakeSettings = Annotated[Callable[..., Settings], Fields(Settings)]


@one_line_errors
@with_fields
def fit(
    context: typer.Context,
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    swd: Annotated[
        bool,
        typer.Option(
            "--swd",
            help="The two arguments are tables with data: samples.csv background.csv.",
            rich_help_panel=DATA,
        ),
    ] = False,
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeLayers,
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    make_study: MakeStudy,
    test: Annotated[
        Path | None, typer.Option(help="Records for testing.", rich_help_panel=CHECKS)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results.", rich_help_panel=OUTPUT)
    ] = Path("maxent-results"),
    project: Annotated[
        list[Path] | None,
        typer.Option(
            "--project", "-p", help="Folder of other layers to map too.", rich_help_panel=OUTPUT
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Species at a time.", min=1)] = 1,
    make_settings: MakeSettings,
    maps: Annotated[bool, typer.Option(help="Write maps.", rich_help_panel=OUTPUT)] = True,
    lambdas: Annotated[
        bool,
        typer.Option("--lambdas", help="Also write a .lambdas file.", rich_help_panel=OUTPUT),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the species that an earlier run finished.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    quiet: Quiet = False,
) -> None:
    """From occurrence records and rasters to a map and a report, for one species or many."""
    settings = make_settings(verbose=0)
    _check_effort(settings, bias, target_group)
    if settings.mask is not None and not project:
        raise typer.BadParameter(
            "--mask has no effect without --project: the training layers are what is known"
        )
    opened = make_layers(_paths(layers))
    files = opened.sources
    if not files:
        raise typer.BadParameter(
            "give the layers (or, with --swd, the background table) after the records"
        )
    if swd:
        if len(files) != 1:
            raise typer.BadParameter("--swd takes two tables: samples.csv background.csv")
        _check_swd_options(context, projects=bool(project))
    tables = [occurrences, *([layers[0]] if swd and layers else []), test, background_records]
    check_there(*tables, rasters=[*(() if swd else files), bias, *(project or [])])
    from maxent.species import workflow

    study, records = make_study(), make_records(str(occurrences))
    shared: dict[str, Any] = {
        "species": species or (),
        "projections": [
            replace(opened, sources=(str(folder),), layer=()) for folder in project or []
        ],
        "lambdas": lambdas,
        "jobs": jobs,
        "overwrite": overwrite,
        "resume": resume,
        "command": shlex.join(["maxent", *sys.argv[1:]]),
    }
    with recorded_warnings() as notes, Screen(quiet) as screen:
        if swd:
            rows = workflow.fit_swd(
                records,
                files[0],
                out,
                settings,
                test=None if test is None else str(test),
                categorical=opened.categorical,
                listener=screen,
                **shared,
            )
        else:
            rows = workflow.fit_files(
                records,
                opened,
                out,
                settings,
                test=_like(records, test),
                bias=None if bias is None else str(bias),
                group=_like(records, background_records or (occurrences if target_group else None)),
                study=study,
                maps=maps,
                listener=screen,
                **shared,
            )
    conclude(rows, out, notes, quiet)


@one_line_errors
@with_fields
def project(
    context: typer.Context,
    model: Model,
    *,
    layers: MaybeLayers = None,
    swd: Annotated[
        bool,
        typer.Option(
            "--swd", help="Instead of layers, a table with data; --out is then a .csv file."
        ),
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .tif file, or a folder.")],
    output: Annotated[
        list[str] | None, typer.Option(help="raw, logistic, cloglog, cumulative or log; repeat.")
    ] = None,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, "clamp", "mask", clamp={"group": None}, mask={"group": None}),
    ],
    similarity: Annotated[
        bool, typer.Option(help="Also clamping, MESS, most dissimilar variable and ExDet.")
    ] = True,
    threshold: Annotated[
        str | None, typer.Option(help="Map of presence: a threshold rule or a value.")
    ] = None,
    make_layers: MakeModelLayers,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    quiet: Quiet = False,
) -> None:
    """Draw the map of a fitted model on other layers: another place, another climate."""
    files = make_layers(_paths(layers)).sources
    _check_layers(files)
    check_there(model, *(files if swd else ()), rasters=() if swd else files)
    from maxent.species.model import load_model
    from maxent.species.outputs import check_unread, locked
    from maxent.species.projection import EXTRAS
    from maxent.species.projection import project as draw
    from maxent.species.projection.geotiff import targets
    from maxent.species.projection.plan import check_mask

    settings = make_settings()
    fitted = load_model(model)
    density = fitted.density
    try:
        check_mask(settings.mask, fitted.reference, fitted.extrapolation)
    except ValueError as error:
        raise typer.BadParameter(f"--{error}") from None
    if swd:
        for name in ("align", "resampling", "layers_crs", "nodata", "layer"):
            if given(context, name):
                flag = "--" + name.replace("_", "-")
                raise typer.BadParameter(f"{flag} has no effect with --swd")
        if len(files) != 1 or out.suffix.lower() != ".csv":
            raise typer.BadParameter("--swd takes one table, and -o a .csv file")
        _check_free_file(out, [model, *files], overwrite)
        _project_rows(
            fitted,
            Path(files[0]),
            out,
            _teller(quiet),
            outputs=tuple(output or ["cloglog"]),
            clamp=settings.clamp,
            mask=settings.mask,
            similarity=similarity,
            threshold=None if threshold is None else fitted.threshold(threshold),
        )
        return
    opened = make_layers(_paths(layers), categorical=density.schema.categorical)
    outputs = tuple(output or ["cloglog"])
    rule, value = ("", None) if threshold is None else fitted.rule(threshold)
    rasters = raster_parts(opened.sources)  # with those that the model does not need
    for target in targets(out, [*outputs, *EXTRAS, "presence"]).values():
        check_unread(target, rasters)
    with (
        locked(out),
        recorded_warnings() as notes,
        opened.open(only=density.schema.names) as stack,
    ):
        written = draw(
            density,
            stack,
            out,
            outputs=outputs,
            clamp=settings.clamp,
            reference=fitted.reference,
            extrapolation=fitted.extrapolation,
            mask=settings.mask,
            threshold=value,
            rule=rule,
            extras=EXTRAS if similarity else (),
            name=opened.sources[0],
            overwrite=overwrite,
            verbose=0 if quiet else 1,
        )
    if quiet:
        return
    screen = console()
    show_notes([*stack.notes, *notes], screen)
    screen.print(_encountered(written, settings.clamp))
    if written.presence:
        screen.print(escape(written.presence_in_words()), soft_wrap=True)
    if similarity and fitted.reference is None:
        why = "the model file does not hold the environment of the fit"
        show_notes([f"similarity (MESS) is not known: {why}"], screen)
    folder = out.parent if out.suffix else out
    for what, name in written.files.items():
        screen.print(f"{what:>12}  {escape(str(folder / Path(name).name))}", soft_wrap=True)


@one_line_errors
@with_fields
def evaluate(
    context: typer.Context,
    model: Model,
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    swd: Annotated[
        bool,
        typer.Option(
            "--swd",
            help="The arguments are tables with data: samples.csv background.csv, the second of "
            "which may be missing where the first has absences.",
            rich_help_panel=DATA,
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv file for the scores.")
    ] = None,
    absences: Annotated[
        Path | None,
        typer.Option(
            help="Records of absence, to compare with instead of the background; a column of "
            "presence and absence among the records does without."
        ),
    ] = None,
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeModelLayers,
    make_settings: Annotated[Callable[..., Settings], Fields(Settings, "background", "seed")],
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    quiet: Quiet = False,
) -> None:
    """Score a fitted model on records it has not seen."""
    settings = make_settings()
    files = make_layers(_paths(layers)).sources
    for name in ("background", "seed"):
        if absences is not None and given(context, name):
            raise typer.BadParameter(f"--{name} has no effect with --absences")
    if swd:
        _check_evaluated_tables(context, len(files))
    else:
        _check_layers(files)
    tables = (model, occurrences, absences, *(files if swd else ()))
    check_there(*tables, rasters=() if swd else files)
    from maxent.species import scoring
    from maxent.species.model import load_model

    fitted = load_model(model)
    records = make_records(str(occurrences))
    if out is not None:
        read = [path for path in (model, occurrences, absences) if path is not None]
        _check_free_file(out, [*read, *(files if swd else raster_parts(files))], overwrite)
    shared: dict[str, Any] = {"species": tuple(species or ()), "tell": _teller(quiet)}
    with recorded_warnings() as notes, _no_effects():
        if swd:
            scores = scoring.score_swd(
                fitted,
                records,
                *files,
                absences=None if absences is None else str(absences),
                use_absences=not files,
                **shared,
            )
        else:
            scores = scoring.score_records(
                fitted,
                records,
                make_layers(_paths(layers), categorical=fitted.density.schema.categorical),
                absences=_like(records, absences),
                use_absences=not given(context, "background"),
                background=settings.background,
                seed=settings.seed if given(context, "seed") else None,
                verbose=0 if quiet else 1,
                **shared,
            )
    if out is not None:
        for path in scoring.score_files(scores, out)[1:]:
            _check_free_file(path, [model, occurrences], overwrite)
        scoring.write_scores(scores, out, shared["tell"])
    if not quiet:
        show_notes(notes, console(stderr=True))
        table = Table(show_header=False, box=None)
        told = scores.pop("calibration", None)
        for name, value in scores.items():
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
        console().print(table)
        if told is not None:
            console().print(_calibration_table(told))


@one_line_errors
@with_fields
def tune(
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the table and the picture.")
    ] = Path("maxent-tuning"),
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeLayers,
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    make_study: MakeStudy,
    features: Annotated[
        str,
        typer.Option("--features", "-f", help="Feature classes to try.", rich_help_panel=MODEL),
    ] = "l,lq,lqh,lqph",
    multipliers: Annotated[
        str, typer.Option("--multipliers", "-m", help="To try.", rich_help_panel=MODEL)
    ] = "0.5,1,2,4,8",
    potentials: Annotated[
        str, typer.Option(help="Potentials to try.", rich_help_panel=MODEL)
    ] = "box",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads.", min=1)] = 1,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, *("thin", "background", "bias", "bias_kernel", "preset", "seed")),
    ],
    make_tuning: Annotated[Callable[..., TuningSettings], Fields(TuningSettings)],
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    quiet: Quiet = False,
) -> None:
    """Choose feature classes, multiplier and potential by spatially blocked cross-validation."""
    opened = make_layers(_paths(layers))
    _check_layers(opened.sources)
    settings = make_settings(verbose=0 if quiet else 1)
    _check_effort(settings, bias, target_group)
    check_there(occurrences, background_records, rasters=[*opened.sources, bias])
    from maxent.species import tuning

    how = make_tuning()
    records = make_records(str(occurrences))
    with recorded_warnings() as notes:
        tuned = tuning.tune_files(
            records,
            opened,
            out,
            settings,
            features=[letters.lower() for letters in _words(features)],
            multipliers=[_number(m) for m in _words(multipliers)],
            potentials=_words(potentials),
            species=species or (),
            bias=None if bias is None else str(bias),
            group=_like(records, background_records or (occurrences if target_group else None)),
            study=make_study(),
            tuning=how,
            jobs=jobs,
            overwrite=overwrite,
            command=shlex.join(["maxent", *sys.argv[1:]]),
            tell=_teller(quiet),
        )
    if quiet:
        return
    told = dict.fromkeys([*(note for one in tuned for note in one.notes), *notes])
    show_notes(told, console(stderr=True))
    screen = console()
    for one in tuned:
        screen.print(_candidates(one.species, one.rows))
        if one.null_table:
            screen.print(_null_test(one.null_table))
        screen.print(f"fit it with: {escape(one.advice)}", soft_wrap=True)
    for path in (p for one in tuned for p in one.files):
        screen.print(f"wrote {escape(str(path))}", soft_wrap=True)


@one_line_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a fitted species.")],
    quiet: Quiet = False,
) -> None:
    """Write the report of a fitted species again."""
    from maxent.species import job

    path = job.rewrite_report(folder)
    if not quiet:
        console().print(f"wrote {escape(str(path))}", soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, project, evaluate, tune, report):
        app.command()(command)


# -- options that do nothing for tables with data --------------------------------------------------

_FOR_MAPS = {
    *("align", "resampling", "layers_crs", "nodata", "output", "clamp", "mask", "threshold"),
}
_WITH_SWD = {
    *("occurrences", "layers", "swd", "species", "species_column", "x", "y", "presence_column"),
    *("categorical", "test", "out", "project", "jobs", "features", "potential", "entropy"),
    "share",
    *("multiplier", "preset", "minimum", "test_share", "cv", "folds", "replicates"),
    *("replicate_type", "jackknife", "bootstrap", "permutations", "prevalence", "seed"),
    *("lambdas", "resume", "overwrite", "max_cells", "quiet"),
}


def _check_swd_options(context: typer.Context, projects: bool) -> None:
    """Refuse an option that was typed beside --swd and does nothing there."""
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in _WITH_SWD or not given(context, name):
            continue
        flag = " / ".join([*parameter.opts[:1], *parameter.secondary_opts[:1]])
        if name not in _FOR_MAPS:
            raise typer.BadParameter(f"{flag} has no effect with --swd, whose tables are complete")
        if not projects:
            raise typer.BadParameter(f"{flag} has no effect with --swd, unless with --project")


_EVALUATED_SWD = {
    *("model", "occurrences", "layers", "swd", "species", "species_column", "x", "y"),
    *("presence_column", "absences", "out", "overwrite", "max_cells", "quiet"),
}


def _check_evaluated_tables(context: typer.Context, n_tables: int) -> None:
    """Refuse what does nothing for `evaluate --swd`."""
    for parameter in context.command.params:
        if str(parameter.name) not in _EVALUATED_SWD and given(context, str(parameter.name)):
            raise typer.BadParameter(f"{parameter.opts[0]} has no effect with --swd")
    if n_tables > 1:
        raise typer.BadParameter("--swd takes one table or two: samples.csv background.csv")
    if n_tables and given(context, "absences"):
        raise typer.BadParameter("give --absences or the background table, not both")


@contextmanager
def _no_effects() -> Iterator[None]:
    """What changes nothing is wrong usage."""
    from maxent.species.scoring import NoEffect

    try:
        yield
    except NoEffect as error:
        raise typer.BadParameter(f"--{error}") from None


def _check_free_file(path: Path, read: Sequence[str | Path], overwrite: bool) -> None:
    """A file to write must not be one that is read, nor be there without --overwrite."""
    from maxent.species.outputs import check_unread

    check_unread(path, read)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; replace it with --overwrite")


def _project_rows(
    model: Any, table: Path, out: Path, tell: Callable[[str], None], **how: Any
) -> None:
    from maxent import io
    from maxent.species.projection.rows import project_rows
    from maxent.species.records.swd import read_swd

    rows = read_swd(table, categorical=model.density.schema.categorical, background=True)
    for note in (rows.summary(), *rows.notes):
        tell(note)
    frame = project_rows(model, rows, **how)
    io.write_atomically(out, frame.to_csv(index=False, lineterminator="\n").encode())
    if how["mask"] is not None:
        n = int(frame[how["outputs"][0]].isna().sum())
        tell(f"{n} of {len(frame)} rows extrapolate and are left empty (--mask {how['mask']})")
    tell(f"wrote {len(frame)} rows to {out}")


def _calibration_table(told: Any) -> Table:
    table = Table(title="calibration: presences by predicted probability", title_justify="left")
    for name in ("predicted", "observed", "95 % interval", "points"):
        table.add_column(name, justify="right")
    for p, share, low, high, n in zip(
        told.predicted, told.observed, told.low, told.high, told.n, strict=True
    ):
        table.add_row(f"{p:.3f}", f"{share:.3f}", f"{low:.3f} to {high:.3f}", str(n))
    return table


def _check_effort(settings: Settings, bias: Path | None, target_group: bool) -> None:
    """Refuse two answers to where people went."""
    for flag, typed in (("--bias", bias is not None), ("--target-group", target_group)):
        if settings.bias_kernel is not None and typed:
            raise typer.BadParameter(
                f"--bias-kernel and {flag} are two ways to allow for sampling effort; give one"
            )


# -- what was typed --------------------------------------------------------------------------------


def _paths(paths: Sequence[Path] | None) -> tuple[str, ...]:
    return tuple(str(path) for path in paths or ())


def _check_layers(files: Sequence[str]) -> None:
    if not files:
        raise typer.BadParameter("give the layers last, or name them with --layer NAME=FILE:BAND")


def _encountered(written: MapFiles, clamp: bool) -> str:
    """How many cells a map has, and how many of them are unlike those of the fit."""
    parts = [f"{written.n_cells} cells"]
    if written.n_extrapolated is not None:
        parts.append(f"{written.n_extrapolated} unlike any of the fit")
    if clamp:
        parts.append(f"{written.n_clamped} clamped")
    else:
        parts.append(f"{written.n_outside} beyond the ranges of the fit (not clamped)")
    parts.append(f"{written.n_unseen} with an unseen category")
    if written.n_novel is not None:
        parts.append(f"{written.n_novel} with a new combination of variables")
    left = "" if written.mask is None else f"; {written.n_masked} left out (--mask {written.mask})"
    return ", ".join(parts) + left


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _candidates(species: str, rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"{escape(species)}: best first", title_justify="left")
    shown = {
        "features": "features",
        "potential": "potential",
        "multiplier": "multiplier",
        "test_log_density": "log density",
        "test_auc": "AUC",
        "auc_difference": "difference",
        "omission_10_percentile": "omission",
        "test_boyce": "Boyce",
        "delta_aicc": "ΔAICc",
        "n_weights": "weights",
    }
    words = ("features", "potential")
    if all(row["potential"] == "box" for row in rows):
        del shown["potential"]
    for name, title in shown.items():
        table.add_column(title, justify="left" if name in words else "right")
    for row in rows[:10]:
        table.add_row(*(_cell(row[name]) for name in shown))
    return table


def _null_test(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="beside null models", title_justify="left")
    shown = ("statistic", "value", "null_mean", "null_sd", "z", "p_value")
    for name in shown:
        table.add_column(name.replace("_", " "), justify="left" if name == "statistic" else "right")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in shown))
    return table


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if value != value else f"{value:.4g}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--multipliers are numbers, got {text!r}") from None


def _teller(quiet: bool) -> Callable[[str], None]:
    """Shows notes as they come."""
    return lambda note: None if quiet else show_notes([note], console(stderr=True))


def _like(records: RecordFile, path: Path | None) -> RecordFile | None:
    """Another file with the same columns."""
    return None if path is None else replace(records, path=str(path))

"""Commands of an ecologist: fit, project, evaluate, tune and report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent import _limits
from maxent.cli._console import console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, with_fields
from maxent.cli._screen import Screen, conclude, show_notes
from maxent.species.inputs import LayerFiles, RecordFile, check_there, raster_parts
from maxent.species.options import BACKGROUND, CHECKS, DATA, MODEL, OUTPUT
from maxent.species.settings import Settings

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
MakeSettings = Annotated[Callable[..., Settings], Fields(Settings)]


@one_line_errors
@with_fields
def fit(
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
    opened = make_layers(_paths(layers))
    files = opened.sources
    if not files:
        raise typer.BadParameter(
            "give the layers (or, with --swd, the background table) after the records"
        )
    if swd and len(files) != 1:
        raise typer.BadParameter("--swd takes two tables: samples.csv background.csv")
    tables = [occurrences, *([layers[0]] if swd and layers else []), test, background_records]
    check_there(*tables, rasters=[*(() if swd else files), bias, *(project or [])])
    from maxent.species import workflow

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
                str(occurrences),
                files[0],
                out,
                settings,
                categorical=opened.categorical,
                listener=screen,
                **shared,
            )
        else:
            records = make_records(str(occurrences))
            rows = workflow.fit_files(
                records,
                opened,
                out,
                settings,
                test=_like(records, test),
                bias=None if bias is None else str(bias),
                group=_like(records, background_records or (occurrences if target_group else None)),
                maps=maps,
                listener=screen,
                **shared,
            )
    conclude(rows, out, notes, quiet)


@one_line_errors
@with_fields
def project(
    model: Model,
    *,
    layers: MaybeLayers = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="A .tif file, or a folder.")],
    output: Annotated[
        list[str] | None, typer.Option(help="raw, logistic, cloglog, cumulative or log; repeat.")
    ] = None,
    make_settings: Annotated[
        Callable[..., Settings], Fields(Settings, "clamp", clamp={"group": None})
    ],
    similarity: Annotated[
        bool, typer.Option(help="Also clamping, MESS and most dissimilar variable.")
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
    given = make_layers(_paths(layers)).sources
    _check_layers(given)
    check_there(model, rasters=given)
    from maxent.species.model import load_model
    from maxent.species.outputs import check_unread, locked
    from maxent.species.projection import EXTRAS
    from maxent.species.projection import project as draw
    from maxent.species.projection.geotiff import targets

    clamp = make_settings().clamp
    fitted = load_model(model)
    density = fitted.density
    opened = make_layers(_paths(layers), categorical=density.schema.categorical)
    outputs = tuple(output or ["cloglog"])
    rule, value = ("", None) if threshold is None else fitted.rule(threshold)
    read = raster_parts(opened.sources)  # with those that the model does not need
    for target in targets(out, [*outputs, *EXTRAS, "presence"]).values():
        check_unread(target, read)
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
            clamp=clamp,
            reference=fitted.reference if similarity else None,
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
    screen.print(_encountered(written, clamp))
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
    model: Model,
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv file for the scores.")
    ] = None,
    absences: Annotated[
        Path | None,
        typer.Option(help="Records of absence, to compare with instead of the background."),
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
    given = make_layers(_paths(layers)).sources
    _check_layers(given)
    check_there(model, occurrences, absences, rasters=given)
    from maxent.species import scoring
    from maxent.species.model import load_model
    from maxent.species.outputs import check_unread

    fitted = load_model(model)
    records = make_records(str(occurrences))
    if out is not None:
        tables = [path for path in (occurrences, absences) if path is not None]
        check_unread(out, [model, *tables, *raster_parts(given)])
        if out.exists() and not overwrite:
            raise FileExistsError(f"{out} is there already; replace it with --overwrite")
    with recorded_warnings() as notes:
        scores = scoring.score_records(
            fitted,
            records,
            make_layers(_paths(layers), categorical=fitted.density.schema.categorical),
            species=tuple(species or ()),
            absences=_like(records, absences),
            background=settings.background,
            seed=settings.seed,
            verbose=0 if quiet else 1,
        )
    if out is not None:
        scoring.write_scores(scores, out)
    if not quiet:
        show_notes(notes, console(stderr=True))
        table = Table(show_header=False, box=None)
        for name, value in scores.items():
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
        console().print(table)


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
    scoring: Annotated[
        str, typer.Option(help="log_loss or auc, of the held-out block.")
    ] = "log_loss",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads.", min=1)] = 1,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(
            Settings,
            *("thin", "background", "bias", "preset", "folds", "seed"),
            folds={"help": "Spatial blocks.", "group": None},
        ),
    ],
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    quiet: Quiet = False,
) -> None:
    """Choose feature classes, multiplier and potential by spatially blocked cross-validation."""
    opened = make_layers(_paths(layers))
    _check_layers(opened.sources)
    settings = make_settings(verbose=0 if quiet else 1)
    check_there(occurrences, background_records, rasters=[*opened.sources, bias])
    from maxent.species import tuning

    records = make_records(str(occurrences))
    with recorded_warnings() as notes:
        tuned = tuning.tune_files(
            records,
            opened,
            out,
            settings,
            features=_words(features),
            multipliers=[_number(m) for m in _words(multipliers)],
            potentials=_words(potentials),
            species=species or (),
            bias=None if bias is None else str(bias),
            group=_like(records, background_records or (occurrences if target_group else None)),
            scoring=scoring,
            jobs=jobs,
            overwrite=overwrite,
        )
    if quiet:
        return
    told = dict.fromkeys([*(note for one in tuned for note in one.notes), *notes])
    show_notes(told, console(stderr=True))
    screen = console()
    for one in tuned:
        table = Table(title=f"{escape(one.species)}: best first", title_justify="left")
        shown = {"log_loss": "log density"}.get(scoring, scoring)
        for name in ("features", "potential", "multiplier", shown, "sd"):
            table.add_column(name, justify="left" if name in ("features", "potential") else "right")
        for row in one.rows[:10]:
            table.add_row(
                row["features"],
                row["potential"],
                f"{row['multiplier']:g}",
                f"{row['mean_score']:.4f}",
                f"{row['sd_score']:.4f}",
            )
        screen.print(table)
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


# -- what was typed --------------------------------------------------------------------------------


def _paths(given: Sequence[Path] | None) -> tuple[str, ...]:
    return tuple(str(path) for path in given or ())


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
    return ", ".join([*parts, f"{written.n_unseen} with an unseen category"])


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--multipliers are numbers, got {text!r}") from None


def _like(records: RecordFile, path: Path | None) -> RecordFile | None:
    """Another file with the same columns."""
    return None if path is None else replace(records, path=str(path))

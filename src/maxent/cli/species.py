"""Commands of an ecologist: fit, project, evaluate, tune and report."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from maxent._progress import Progress as LogLines
from maxent.cli._console import PARTLY, complain, console, one_line_errors

# -- arguments and options that several commands share --------------------------------------------

_DATA, _BACKGROUND, _MODEL = "Records and layers", "Background and bias", "Model"
_CHECKS, _OUTPUT = "Evaluation", "Output"

Layers = Annotated[
    list[Path] | None,
    typer.Argument(help="Raster files, or folders of them, all on one grid (see --align)."),
]
Records = Annotated[
    Path, typer.Argument(help="Records: CSV, Darwin Core, GeoPackage, GeoJSON or shapefile.")
]
SpeciesColumn = Annotated[
    str | None, typer.Option("--species-column", help="Column of names.", rich_help_panel=_DATA)
]
XColumn = Annotated[
    str | None, typer.Option("--x", help="Column of longitude or x.", rich_help_panel=_DATA)
]
YColumn = Annotated[
    str | None, typer.Option("--y", help="Column of latitude or y.", rich_help_panel=_DATA)
]
RecordsCrs = Annotated[
    str | None,
    typer.Option(
        "--crs", help="CRS of the records, whatever the file says.", rich_help_panel=_DATA
    ),
]
LayersCrs = Annotated[
    str | None,
    typer.Option(
        "--layers-crs", help="CRS of layers that do not say, such as .asc.", rich_help_panel=_DATA
    ),
]
Species = Annotated[
    list[str] | None,
    typer.Option("--species", "-s", help="Only this species; repeat.", rich_help_panel=_DATA),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", "-c", help="A layer of categories; repeat.", rich_help_panel=_DATA
    ),
]
Align = Annotated[
    str,
    typer.Option(
        help="Layers on other grids: refuse, or resample to the grid of the first, finest or "
        "coarsest layer.",
        rich_help_panel=_DATA,
    ),
]
Resampling = Annotated[
    str, typer.Option(help="How to resample; categories: nearest.", rich_help_panel=_DATA)
]
Thin = Annotated[
    float | None,
    typer.Option(help="Keep records this many km apart.", rich_help_panel=_DATA),
]
KeepDuplicates = Annotated[
    bool,
    typer.Option(
        "--keep-duplicates", help="Count every record of a cell, not one.", rich_help_panel=_DATA
    ),
]
Background = Annotated[
    str,
    typer.Option(help="Number of background cells, or all.", rich_help_panel=_BACKGROUND),
]
BackgroundRecords = Annotated[
    Path | None,
    typer.Option(
        "--background-records",
        help="Records whose cells are the background: a target group, or points of your own.",
        rich_help_panel=_BACKGROUND,
    ),
]
TargetGroup = Annotated[
    bool,
    typer.Option(
        "--target-group",
        help="The cells of all records of the file are the background.",
        rich_help_panel=_BACKGROUND,
    ),
]
Bias = Annotated[
    Path | None,
    typer.Option(help="Raster of sampling effort.", rich_help_panel=_BACKGROUND),
]
BiasAs = Annotated[
    str,
    typer.Option(
        "--bias-as",
        help="background: draw it in proportion; prior: take it out of the density.",
        rich_help_panel=_BACKGROUND,
    ),
]
Features = Annotated[
    str,
    typer.Option("--features", "-f", help="auto, or letters of lqpthc.", rich_help_panel=_MODEL),
]
Potential = Annotated[
    str,
    typer.Option(
        help="box (l1), ball, quadratic, elastic, smooth-box, laplace.", rich_help_panel=_MODEL
    ),
]
Entropy = Annotated[
    str, typer.Option(help="shannon, or tsallis:1.5 for exact zeros.", rich_help_panel=_MODEL)
]
Multiplier = Annotated[
    float,
    typer.Option("--multiplier", "-m", help="Regularization multiplier.", rich_help_panel=_MODEL),
]
Preset = Annotated[
    str | None,
    typer.Option(help="maxent or maxnet: features and tables of these.", rich_help_panel=_MODEL),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace earlier results.", rich_help_panel=_OUTPUT),
]


@one_line_errors
def fit(
    occurrences: Records,
    layers: Layers = None,
    swd: Annotated[
        bool,
        typer.Option(
            "--swd",
            help="The two arguments are tables with data: samples.csv background.csv.",
            rich_help_panel=_DATA,
        ),
    ] = False,
    species: Species = None,
    species_column: SpeciesColumn = None,
    x: XColumn = None,
    y: YColumn = None,
    crs: RecordsCrs = None,
    layers_crs: LayersCrs = None,
    categorical: Categorical = None,
    align: Align = "refuse",
    resampling: Resampling = "bilinear",
    thin: Thin = None,
    keep_duplicates: KeepDuplicates = False,
    minimum: Annotated[
        int, typer.Option(help="Least number of records.", min=1, rich_help_panel=_DATA)
    ] = 3,
    background: Background = "10000",
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    bias_as: BiasAs = "background",
    features: Features = "auto",
    potential: Potential = "box",
    entropy: Entropy = "shannon",
    multiplier: Multiplier = 1.0,
    preset: Preset = None,
    test: Annotated[
        Path | None, typer.Option(help="Records for testing.", rich_help_panel=_CHECKS)
    ] = None,
    test_share: Annotated[
        float,
        typer.Option(help="Share of records held out.", min=0, max=0.99, rich_help_panel=_CHECKS),
    ] = 0.0,
    cv: Annotated[
        str,
        typer.Option(
            help="Cross-validation: auto, blocks, checkerboard, random or none.",
            rich_help_panel=_CHECKS,
        ),
    ] = "auto",
    folds: Annotated[int, typer.Option(help="Its folds.", min=2, rich_help_panel=_CHECKS)] = 4,
    replicates: Annotated[
        int,
        typer.Option(
            help="Refits with maps of their mean and spread.", min=0, rich_help_panel=_CHECKS
        ),
    ] = 0,
    replicate_type: Annotated[
        str,
        typer.Option(help="bootstrap, subsample or crossvalidate.", rich_help_panel=_CHECKS),
    ] = "bootstrap",
    bootstrap: Annotated[
        int,
        typer.Option(
            help="Refits for the bands of response curves.", min=0, rich_help_panel=_CHECKS
        ),
    ] = 20,
    permutations: Annotated[
        int,
        typer.Option(help="Shuffles for permutation importance.", min=0, rich_help_panel=_CHECKS),
    ] = 10,
    jackknife: Annotated[
        bool, typer.Option(help="Fit with and without each variable.", rich_help_panel=_CHECKS)
    ] = True,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results.", rich_help_panel=_OUTPUT)
    ] = Path("maxent-results"),
    project: Annotated[
        list[Path] | None,
        typer.Option(
            "--project", "-p", help="Folder of other layers to map too.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            help="cloglog (always), raw, logistic, cumulative or log; repeat.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    prevalence: Annotated[
        float, typer.Option(help="Of the logistic output.", rich_help_panel=_OUTPUT)
    ] = 0.5,
    clamp: Annotated[
        bool, typer.Option(help="Hold variables in their ranges.", rich_help_panel=_OUTPUT)
    ] = True,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Map of presence: a rule of the thresholds table or a value.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    maps: Annotated[bool, typer.Option(help="Write maps.", rich_help_panel=_OUTPUT)] = True,
    lambdas: Annotated[
        bool,
        typer.Option("--lambdas", help="Also write a .lambdas file.", rich_help_panel=_OUTPUT),
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Species at a time.", min=1)] = 1,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the species that an earlier run finished.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """From occurrence records and rasters to a map and a report, for one species or many."""
    from maxent.species import fitting, workflow

    settings = _usage(
        fitting.Settings,
        features=features,
        potential=potential,
        entropy=entropy,
        multiplier=multiplier,
        preset=preset,
        background=_count(background),
        bias=bias_as,
        keep_duplicates=keep_duplicates,
        thin=thin,
        minimum=minimum,
        test_share=test_share,
        cv=cv,
        folds=folds,
        replicates=replicates,
        replicate_kind=replicate_type,
        jackknife=jackknife,
        bootstrap=bootstrap,
        permutations=permutations,
        prevalence=prevalence,
        outputs=tuple(dict.fromkeys(["cloglog", *(output or [])])),
        clamp=clamp,
        threshold=threshold,
        seed=seed,
        verbose=0,
    )
    files = [] if layers is None else [str(p) for p in layers]
    if not files:
        raise typer.BadParameter(
            "give the layers (or, with --swd, the background table) after the records"
        )
    opened = _layer_files(files, categorical, align, resampling, layers_crs)
    shared: dict[str, Any] = {
        "species": species or (),
        "projections": [
            _layer_files([str(p)], categorical, align, resampling, layers_crs)
            for p in project or []
        ],
        "lambdas": lambdas,
        "jobs": jobs,
        "overwrite": overwrite,
        "resume": resume,
        "command": shlex.join(["maxent", *sys.argv[1:]]),
    }
    with _Screen(quiet) as screen:
        if swd:
            if len(files) != 1:
                raise typer.BadParameter("--swd takes two tables: samples.csv background.csv")
            rows = workflow.fit_swd(
                str(occurrences),
                files[0],
                out,
                settings,
                categorical=categorical or (),
                listener=screen,
                **shared,
            )
        else:
            records = workflow.RecordFile(str(occurrences), species_column, x, y, crs)
            group = background_records or (occurrences if target_group else None)
            rows = workflow.fit_files(
                records,
                opened,
                out,
                settings,
                test=None if test is None else _like(records, test),
                bias=None if bias is None else str(bias),
                group=None if group is None else _like(records, group),
                maps=maps,
                listener=screen,
                **shared,
            )
    _conclude(rows, out, quiet)


@one_line_errors
def project(
    model: Annotated[Path, typer.Argument(help="model.json of a fit, or a .lambdas file.")],
    layers: Annotated[list[Path], typer.Argument(help="Raster files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="A .tif file, or a folder.")],
    output: Annotated[
        list[str] | None, typer.Option(help="raw, logistic, cloglog, cumulative or log; repeat.")
    ] = None,
    clamp: Annotated[bool, typer.Option(help="Hold variables in their ranges.")] = True,
    similarity: Annotated[
        bool, typer.Option(help="Also clamping, MESS and most dissimilar variable.")
    ] = True,
    threshold: Annotated[
        str | None, typer.Option(help="Map of presence: a threshold rule or a value.")
    ] = None,
    align: Align = "refuse",
    resampling: Resampling = "bilinear",
    layers_crs: LayersCrs = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Draw the map of a fitted model on other layers: another place, another climate."""
    from maxent.species.model import load_model
    from maxent.species.outputs import locked
    from maxent.species.projection import project as draw

    found = load_model(model)
    density = found.density
    opened = _layer_files(
        [str(p) for p in layers], density.schema_.categorical, align, resampling, layers_crs
    )
    if out.exists() and out.is_file() and not overwrite:
        raise FileExistsError(f"{out} is there already; replace it with --overwrite")
    if out.suffix.lower() not in (".tif", ".tiff"):
        out.mkdir(parents=True, exist_ok=True)
    with (
        locked(out),
        opened.open(only=density.schema_.names) as stack,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        written = draw(
            density,
            stack,
            out,
            outputs=tuple(output or ["cloglog"]),
            clamp=clamp,
            reference=found.reference if similarity else None,
            threshold=None if threshold is None else found.threshold(threshold),
            extras=("clamping", "mess", "mod") if similarity else (),
            name=str(layers[0]),
            verbose=0 if quiet else 1,
        )
        notes = [*stack.notes, *(str(w.message) for w in caught)]
    if quiet:
        return
    screen = console()
    for note in notes:
        screen.print(f"[yellow]note:[/] {escape(note)}", soft_wrap=True)
    screen.print(
        f"{written.n_cells} cells, {written.n_extrapolated} unlike any of the fit, "
        f"{written.n_clamped} clamped, {written.n_unseen} with an unseen category"
    )
    folder = out.parent if out.suffix else out
    for what, name in written.files.items():
        screen.print(f"{what:>12}  {escape(str(folder / Path(name).name))}", soft_wrap=True)


@one_line_errors
def evaluate(
    model: Annotated[Path, typer.Argument(help="model.json of a fit, or a .lambdas file.")],
    occurrences: Records,
    layers: Annotated[list[Path], typer.Argument(help="Raster files, or folders of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .csv file for the scores.")
    ] = None,
    absences: Annotated[
        Path | None,
        typer.Option(help="Records of absence, to compare with instead of the background."),
    ] = None,
    species: Species = None,
    species_column: SpeciesColumn = None,
    x: XColumn = None,
    y: YColumn = None,
    crs: RecordsCrs = None,
    layers_crs: LayersCrs = None,
    align: Align = "refuse",
    resampling: Resampling = "bilinear",
    background: Background = "10000",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Score a fitted model on records it has not seen."""
    from maxent.species import scoring, workflow
    from maxent.species.model import load_model

    found = load_model(model)
    opened = _layer_files(
        [str(p) for p in layers], found.density.schema_.categorical, align, resampling, layers_crs
    )
    records = workflow.RecordFile(str(occurrences), species_column, x, y, crs)
    scores = scoring.score_records(
        found,
        records,
        opened,
        species=tuple(species or ()),
        absences=None if absences is None else _like(records, absences),
        background=_count(background),
        seed=seed,
        verbose=0 if quiet else 1,
    )
    if out is not None:
        scoring.write_scores(scores, out)
    if not quiet:
        table = Table(show_header=False, box=None)
        for name, value in scores.items():
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
        console().print(table)


@one_line_errors
def tune(
    occurrences: Records,
    layers: Layers = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the table and the picture.")
    ] = Path("maxent-tuning"),
    species: Species = None,
    species_column: SpeciesColumn = None,
    x: XColumn = None,
    y: YColumn = None,
    crs: RecordsCrs = None,
    layers_crs: LayersCrs = None,
    categorical: Categorical = None,
    align: Align = "refuse",
    resampling: Resampling = "bilinear",
    thin: Thin = None,
    background: Background = "10000",
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    bias_as: BiasAs = "background",
    features: Annotated[
        str,
        typer.Option("--features", "-f", help="Feature classes to try.", rich_help_panel=_MODEL),
    ] = "l,lq,lqh,lqph",
    multipliers: Annotated[
        str, typer.Option("--multipliers", "-m", help="To try.", rich_help_panel=_MODEL)
    ] = "0.5,1,2,4,8",
    potentials: Annotated[
        str, typer.Option(help="Potentials to try.", rich_help_panel=_MODEL)
    ] = "box",
    preset: Preset = None,
    folds: Annotated[int, typer.Option(help="Spatial blocks.", min=2)] = 4,
    scoring: Annotated[
        str, typer.Option(help="log_loss or auc, of the held-out block.")
    ] = "log_loss",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Threads.", min=1)] = 1,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Choose feature classes, multiplier and potential by spatially blocked cross-validation."""
    from maxent.species import fitting, tuning, workflow

    if not layers:
        raise typer.BadParameter("give the layers after the records")
    records = workflow.RecordFile(str(occurrences), species_column, x, y, crs)
    group = background_records or (occurrences if target_group else None)
    settings = _usage(
        fitting.Settings,
        preset=preset,
        background=_count(background),
        bias=bias_as,
        thin=thin,
        folds=folds,
        seed=seed,
        verbose=0 if quiet else 1,
    )
    found = tuning.tune_files(
        records,
        _layer_files([str(p) for p in layers], categorical, align, resampling, layers_crs),
        out,
        settings,
        features=_words(features),
        multipliers=[_number(m) for m in _words(multipliers)],
        potentials=_words(potentials),
        species=species or (),
        bias=None if bias is None else str(bias),
        group=None if group is None else _like(records, group),
        scoring=scoring,
        jobs=jobs,
        overwrite=overwrite,
    )
    if quiet:
        return
    screen = console()
    for one in found:
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
    for path in (p for one in found for p in one.files):
        screen.print(f"wrote {escape(str(path))}", soft_wrap=True)


@one_line_errors
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a fitted species.")],
    quiet: Quiet = False,
) -> None:
    """Write the report of a fitted species again."""
    from maxent.species import workflow

    path = workflow.rewrite_report(folder)
    if not quiet:
        console().print(f"wrote {escape(str(path))}", soft_wrap=True)


def demo(out: Path, seed: int, quiet: bool) -> None:
    """The virtual species: data, fit, report, and how close the map is to the truth."""
    from maxent.species import demonstration

    with _Screen(quiet) as screen:
        summary = demonstration.run(out, seed=seed, listener=screen)
    if quiet:
        return
    shown = console()
    for line in summary["lines"]:
        shown.print(escape(line), soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (fit, project, evaluate, tune, report):
        app.command()(command)


# -- helpers -------------------------------------------------------------------------------------


class _Screen:
    """How a run goes, on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, quiet: bool) -> None:
        screen = console(stderr=True)
        self._bar = Progress(
            TextColumn("[bold]{task.fields[species]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=screen,
            transient=True,
            disable=quiet or not screen.is_terminal,
        )
        self._log = LogLines("maxent", verbose=int(not quiet and not screen.is_terminal))
        self._task: Any = None
        self._done = self._total = 0

    def __enter__(self) -> _Screen:
        self._bar.start()
        self._task = self._bar.add_task("reading layers", total=None, species="")
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def begin(self, species: Sequence[str]) -> None:
        """Know how many there are."""
        self._total = len(species)
        self._bar.update(self._task, total=self._total, description="")

    def stage(self, species: str, name: str) -> None:
        """Show the step."""
        self._bar.update(self._task, description=name, species=escape(species))
        self._log.update(f"{self._done} of {self._total} done, {species}: {name}")

    def done(self, row: dict[str, Any]) -> None:
        """Count it."""
        self._done += 1
        self._bar.update(self._task, advance=1, species=escape(row["species"]))
        self._log.update(f"{self._done} of {self._total} done")


_LOOSE = 1e-6  # a duality gap above it is worth a word


def _conclude(rows: Sequence[dict[str, Any]], out: Path, quiet: bool) -> None:
    failed = [row for row in rows if row["status"] != "ok"]
    for row in failed:
        complain(f"{row['species']}: {row['error']}")
    if not quiet:
        table = Table()
        for name in ("species", "records", "AUC", "AUC held out", "gain", "gap", "seconds"):
            table.add_column(name, justify="left" if name == "species" else "right")
        for row in rows:
            if row["status"] == "ok":
                table.add_row(*_cells(row))
                if row["gap"] > _LOOSE:
                    console(stderr=True).print(
                        f"[yellow]note:[/] {escape(row['species'])}: solved to a gap of "
                        f"{row['gap']:.0e} only; see its report",
                        soft_wrap=True,
                    )
        if table.row_count:
            console().print(table)
        page = out / ("report.html" if len(rows) == 1 else "index.html")
        console().print(f"open {escape(str(page))}", soft_wrap=True)
    if failed:
        raise typer.Exit(PARTLY)


def _cells(row: dict[str, Any]) -> list[str]:
    held = "" if row["test_auc"] is None else f"{row['test_auc']:.3f}"
    kept = " (kept)" if row.get("resumed") else ""
    return [
        escape(row["species"]),
        str(row["n_records"]),
        f"{row['auc']:.3f}",
        held,
        f"{row['gain']:.3f}",
        f"{row['gap']:.0e}",
        f"{row['seconds']:.1f}{kept}",
    ]


def _count(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"--background is a number of cells or all, got {text!r}")
    return int(text)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--multipliers are numbers, got {text!r}") from None


def _layer_files(
    sources: Sequence[str],
    categorical: Sequence[str] | None,
    align: str,
    resampling: str,
    crs: str | None,
) -> Any:
    from maxent.species import workflow

    files = tuple(sources), tuple(categorical or ())
    return _usage(workflow.LayerFiles, *files, align, resampling, crs)


_FLAGS = {"replicate_kind": "--replicate-type", "bias": "--bias-as"}  # others: --name


def _usage(make: Callable[..., Any], *values: Any, **settings: Any) -> Any:
    """Make something of options; what it refuses is wrong usage."""
    try:
        return make(*values, **settings)
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        flag = _FLAGS.get(name, "--" + name.replace("_", "-"))
        raise typer.BadParameter(f"{flag} {rest}") from None


def _like(records: Any, path: Path) -> Any:
    """Another file with the same columns."""
    from dataclasses import replace

    return replace(records, path=str(path))

"""maxent evaluate: a fitted model scored on other records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from maxent.cli._answers import answer
from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, given, with_fields
from maxent.cli.species.arguments import (
    AllowVrt,
    MakeModelLayers,
    MakeRecords,
    MaxCells,
    MaybeLayers,
    Model,
    Network,
    Overwrite,
    Quiet,
    Records,
    Species,
    check_layers,
    like,
    paths,
    tell_notes,
    teller,
)
from maxent.species.fitting.options import DATA
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import check_there, raster_parts


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
            help="Read the arguments as tables with data: samples.csv background.csv; the second "
            "may be missing where the first has absences.",
            rich_help_panel=DATA,
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the scores to this .csv file.")
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", help="Write scores and curves to this .json file."),
    ] = None,
    absences: Annotated[
        Path | None,
        typer.Option(
            help="Compare with these records of absence instead of the background; not needed "
            "where a column of the records tells presence from absence."
        ),
    ] = None,
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeModelLayers,
    make_settings: Annotated[Callable[..., Settings], Fields(Settings, "background", "seed")],
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Score a fitted model on records it has not seen."""
    settings = make_settings()
    files = make_layers(paths(layers)).sources
    for name in ("background", "seed"):
        if absences is not None and given(context, name):
            raise typer.BadParameter(f"--{name} has no effect with --absences")
    if swd:
        _check_evaluated_tables(context, len(files))
    else:
        check_layers(files)
    tables = (model, occurrences, absences, *(files if swd else ()))
    check_there(*tables, rasters=() if swd else files)
    from maxent import io
    from maxent.species.fitting.model import load_model
    from maxent.species.judging import scoring
    from maxent.species.report.tables.text import json_bytes

    fitted = load_model(model)
    records = make_records(str(occurrences))
    for path in (out, json):
        if path is not None:
            read = [path for path in (model, occurrences, absences) if path is not None]
            check_free_file(path, [*read, *(files if swd else raster_parts(files))], overwrite)
    if out is not None and json is not None and out.resolve() == json.resolve():
        raise typer.BadParameter("--out and --json name the same file")
    shared: dict[str, Any] = {"species": tuple(species or ()), "tell": teller(quiet)}
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
                make_layers(paths(layers), categorical=fitted.density.schema.categorical),
                absences=like(records, absences),
                use_absences=not given(context, "background"),
                background=settings.background,
                seed=settings.seed if given(context, "seed") else None,
                verbose=0 if quiet else 1,
                **shared,
            )
    written: list[Path] = []
    if out is not None:
        for path in scoring.score_files(scores, out)[1:]:
            check_free_file(path, [model, occurrences], overwrite)
        scoring.write_scores(scores, out, shared["tell"])
        written += scoring.score_files(scores, out)
    if json is not None:
        io.write_atomically(json, json_bytes(scores))
        written.append(json)
    answer(scores, written)
    tell_notes(notes, quiet)
    if not quiet:
        table = Table(show_header=False, box=None)
        told = scores.get("calibration")
        for name, value in scoring.numbers(scores).items():
            table.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
        console().print(table)
        if told is not None:
            console().print(_calibration_table(told))


_EVALUATED_SWD = {
    *("model", "occurrences", "layers", "swd", "species", "species_column", "x", "y"),
    *("presence_column", "absences", "out", "json", "overwrite", "max_cells"),
    *("allow_vrt", "network", "quiet"),
}


def _check_evaluated_tables(context: typer.Context, n_tables: int) -> None:
    """Refuse what does nothing for ``evaluate --swd``."""
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
    from maxent.species.judging.scoring import NoEffect

    try:
        yield
    except NoEffect as error:
        raise typer.BadParameter(f"--{error}") from None


def _calibration_table(told: Any) -> Table:
    table = Table(title="calibration: presences by predicted probability", title_justify="left")
    for name in ("predicted", "observed", "95 % interval", "points"):
        table.add_column(name, justify="right")
    for p, share, low, high, n in zip(
        told.predicted, told.observed, told.low, told.high, told.n, strict=True
    ):
        table.add_row(f"{p:.3f}", f"{share:.3f}", f"{low:.3f} to {high:.3f}", str(n))
    return table

"""maxent sites: where to survey next."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import answer, print_json
from maxent.cli._console import console, one_line_errors, recorded_warnings
from maxent.cli._options import given, with_fields
from maxent.cli.species.arguments import (
    AllowVrt,
    MakeModelLayers,
    MaxCells,
    MaybeLayers,
    Model,
    Network,
    Overwrite,
    Quiet,
    check_layers,
    paths,
    teller,
)
from maxent.species.input.files import RecordFile, check_there

if TYPE_CHECKING:
    from maxent.rows.arrays import Array
    from maxent.species.input.layers.layers import Layers
    from maxent.species.judging.sites import SurveyPlan


@one_line_errors
@with_fields
def sites(
    context: typer.Context,
    model: Model,
    *,
    layers: MaybeLayers = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write to this folder.")],
    count: Annotated[int, typer.Option("--sites", help="Choose this many sites.", min=1)] = 20,
    apart: Annotated[
        float, typer.Option(help="Keep sites this many km apart, and from --visited.", min=0)
    ] = 0.0,
    detection: Annotated[
        float,
        typer.Option(help="Chance that one visit finds the species where it lives, above 0 to 1."),
    ] = 1.0,
    visited: Annotated[
        Path | None, typer.Option(help="Keep away from the records of this file (needs --apart).")
    ] = None,
    visits: Annotated[
        Path | None,
        typer.Option(
            help="Count these visits since the fit, found or not, as made: choose others, and "
            "write effort.tif for the next fit."
        ),
    ] = None,
    bias: Annotated[
        Path | None,
        typer.Option(help="Raster of the effort that the fit allowed for (needs --visits)."),
    ] = None,
    make_layers: MakeModelLayers,
    seed: Annotated[int, typer.Option(help="Draw candidate cells from this seed.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Choose the places whose visit would make the map most certain: a table, GPX and maps."""
    files = make_layers(paths(layers)).sources
    check_layers(files)
    check_there(
        model, *(file for file in (visited, visits) if file is not None), rasters=[*files, bias]
    )
    if visited is not None and not given(context, "apart"):
        raise typer.BadParameter("--visited has no effect without --apart KM")
    if bias is not None and visits is None:
        raise typer.BadParameter("--bias has no effect without --visits FILE")
    from maxent.species.batch.outputs import locked
    from maxent.species.fitting.model import load_model
    from maxent.species.judging.sites import plan_survey
    from maxent.species.study.samples import open_effort

    fitted = load_model(model)
    schema = fitted.density.schema
    opened = make_layers(paths(layers), categorical=schema.categorical)
    tell = teller(quiet)
    with ExitStack() as stack:
        stack.enter_context(locked(out))
        notes = stack.enter_context(recorded_warnings())
        rasters = stack.enter_context(opened.open(only=schema.names))
        away = made = None
        if visited is not None:
            away = _places(RecordFile(str(visited)), rasters, tell)
        if visits is not None:  # one that found nothing is a visit too
            made = _places(RecordFile(str(visits), "none", presence="none"), rasters, tell)
        effort = open_effort(stack, None if bias is None else str(bias), opened, rasters)
        plan = plan_survey(
            fitted,
            rasters,
            out,
            count=count,
            apart=apart,
            detection=detection,
            away=away,
            visits=made,
            bias=effort,
            seed=seed,
            overwrite=overwrite,
            verbose=0 if quiet else 1,
        )
    for note in (*rasters.notes, *notes, *plan.notes):
        tell(note)
    answer(plan, [out / name for name in plan.files.values()])
    if as_json:
        print_json(plan)
    elif not quiet:
        _show(plan, out)


def _places(file: RecordFile, rasters: Layers, tell: Callable[[str], None]) -> tuple[Array, Array]:
    """x and y of the rows of a table, with a word on how it was read."""
    records, told = file.read(rasters.grid)
    for note in told:
        tell(note)
    return records.x, records.y


def _show(plan: SurveyPlan, out: Path) -> None:
    screen = console()
    table = Table()
    degrees = plan.sites[0].longitude is not None
    for name in ("", *(("longitude", "latitude") if degrees else ("x", "y"))):
        table.add_column(name, justify="right")
    for name in ("suitability", "sd", "gain %", "MESS"):
        table.add_column(name, justify="right")
    for site in plan.sites:
        where = (site.longitude, site.latitude) if degrees else (site.x, site.y)
        table.add_row(
            str(site.rank),
            *(f"{value:.5f}" if degrees else f"{value:.10g}" for value in where),
            f"{site.suitability:.3f}",
            f"{site.deviation:.3f}",
            f"{100 * site.gain:.2f}",
            "" if site.mess is None else f"{site.mess:.1f}",
        )
    screen.print(table)
    screen.print(plan.describe(), soft_wrap=True)
    for name in plan.files.values():
        screen.print(f"wrote {escape(str(out / name))}", soft_wrap=True)

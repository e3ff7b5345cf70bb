"""maxent explain: why a place is suitable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import answer, print_json
from maxent.cli._console import console, one_line_errors, recorded_warnings
from maxent.cli._options import with_fields
from maxent.cli._screen import show_notes
from maxent.cli.species.arguments import (
    AllowVrt,
    MakeModelLayers,
    MaxCells,
    MaybeLayers,
    Model,
    Network,
    check_layers,
    paths,
)
from maxent.species.input.files import check_there

if TYPE_CHECKING:
    from maxent.species.judging.explaining import PlaceExplained


@one_line_errors
@with_fields
def explain(
    model: Model,
    *,
    layers: MaybeLayers = None,
    at: Annotated[
        list[str],
        typer.Option(
            "--at",
            help="Explain the place X,Y, in the CRS of the layers or of --crs; repeat for more.",
        ),
    ],
    crs: Annotated[
        str | None, typer.Option(help="Read the places in this CRS, such as EPSG:4326.")
    ] = None,
    make_layers: MakeModelLayers,
    clamp: Annotated[bool, typer.Option(help="Hold variables in their ranges.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
) -> None:
    """Tell why a place is suitable: what each variable adds there, and whether it extrapolates."""
    files = make_layers(paths(layers)).sources
    check_layers(files)
    places = [_place(text) for text in at]
    check_there(model, rasters=files)
    import numpy as np

    from maxent.species.fitting.model import load_model
    from maxent.species.input.crs import check_crs, transformed
    from maxent.species.judging.explaining import explain_places

    fitted = load_model(model)
    schema = fitted.density.schema
    opened = make_layers(paths(layers), categorical=schema.categorical)
    with recorded_warnings() as notes, opened.open(only=schema.names) as rasters:
        x, y = np.array(places).T
        if crs is not None:
            check_crs(crs)
            if rasters.grid.crs is None:
                raise ValueError("--crs needs layers that say theirs; give it with --layers-crs")
            x, y = transformed(x, y, crs, rasters.grid.crs)
        told = explain_places(fitted, rasters, x, y, clamp=clamp)
        show_notes([*rasters.notes, *notes], console(stderr=True))
    answer(told)
    if as_json:
        print_json(told)
        return
    for one in told:
        _show(one)


def _place(text: str) -> tuple[float, float]:
    try:
        x, y = (float(word) for word in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"--at takes two numbers, as --at=-75.2,4.6, got {text!r}"
        ) from None
    return x, y


def _show(told: PlaceExplained) -> None:
    screen = console()
    title = f"({told.x:.10g}, {told.y:.10g}): {told.describe()}"
    screen.print(escape(title), soft_wrap=True)
    table = Table()
    for name in ("variable", "there", "mean place", "share", "factor", "range of the fit"):
        table.add_column(name, justify="left" if name in ("variable",) else "right")
    for part in told.shares:
        width = "" if part.low is None else f"{part.low:.4g} to {part.high:.4g}"
        table.add_row(
            escape(part.variable),
            _number(part.value),
            "" if part.usual is None else f"{part.usual:.4g}",
            f"{part.share:+.3f}",
            _factor(part.share),
            f"{width} (outside)" if part.outside else width,
        )
    screen.print(table)
    known = [("MESS", told.mess), ("ExDet", told.exdet)]
    said = ", ".join(f"{name} {value:.3g}" for name, value in known if value is not None)
    if said:
        screen.print(f"similarity to the fit: {said}")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))


def _factor(share: float) -> str:
    import math

    return f"x {math.exp(min(share, 700.0)):.3g}"

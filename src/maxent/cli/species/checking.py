"""maxent check: what a fit would make of the files, without one."""

from __future__ import annotations

import csv
import io as text
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, with_fields
from maxent.cli._screen import show_notes
from maxent.cli.species.arguments import (
    AllowVrt,
    MakeLayers,
    MakeRecords,
    MakeStudy,
    MaxCells,
    MaybeLayers,
    Network,
    Overwrite,
    Records,
    Species,
    paths,
)
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import check_there, raster_parts

if TYPE_CHECKING:
    from maxent.species.input.checking import LayerCheck, RecordFates

_CLOSE = 0.7  # correlations above it are shown


@one_line_errors
@with_fields
def check(
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeLayers,
    make_study: MakeStudy,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, "keep_duplicates", "clean", "thin", "minimum", "seed"),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the fate of every record to this .csv file."),
    ] = None,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
) -> None:
    """See which records a fit would use, and whether the layers agree, without fitting."""
    opened = make_layers(paths(layers))
    if not opened.sources:
        raise typer.BadParameter("give the layers after the records")
    check_there(occurrences, rasters=opened.sources)
    from maxent.species.input.checking import check_layers, check_records

    if out is not None:
        check_free_file(out, [occurrences, *raster_parts(opened.sources)], overwrite)
    with recorded_warnings() as notes:
        compared = check_layers(opened)
        console().print(_layer_table(compared))
        show_notes([*compared.notes, *_close(compared)], console(stderr=True))
        if not compared.fits:
            odd = next(fact for fact in compared.layers if fact.difference)
            raise ValueError(
                f"{odd.name} is not on the grid of the other layers: {odd.difference}. Let --align "
                "first, finest or coarsest resample it"
            )
        fates, told = check_records(
            make_records(str(occurrences)),
            opened,
            make_settings(verbose=0),
            study=make_study(),
            species=species or (),
        )
    console().print(_record_table(fates))
    told += [note for one in fates for note in one.notes]
    show_notes(dict.fromkeys([*told, *notes]), console(stderr=True))
    if out is not None:
        _write(fates, out)
        console().print(f"wrote {escape(str(out))}", soft_wrap=True)


def _layer_table(compared: LayerCheck) -> Table:
    table = Table(title="layers", title_justify="left")
    for name in ("layer", "from", "to", "VIF", "remark"):
        table.add_column(name, justify="right" if name in ("from", "to", "VIF") else "left")
    for fact in compared.layers:
        remarks = [fact.difference] if fact.difference else []
        remarks += [f"leave out? {fact.drop}"] if fact.drop else []
        if fact.levels:
            what = (
                "categories" if fact.categorical else f"whole numbers: categories? -c {fact.name}"
            )
            remarks.append(f"{fact.levels} {what}")
        numbers = ("" if v != v else f"{v:.4g}" for v in (fact.low, fact.high, fact.vif))
        table.add_row(escape(fact.name), *numbers, escape("; ".join(remarks)))
    return table


def _close(compared: LayerCheck) -> list[str]:
    """The pairs of layers that say much the same."""
    found = compared.collinearity
    if found is None:
        return []
    pairs = [
        (abs(found.correlation[i, j]), a, b, found.correlation[i, j])
        for i, a in enumerate(found.variables)
        for j, b in enumerate(found.variables[:i])
        if abs(found.correlation[i, j]) > _CLOSE
    ]
    return [f"{b} and {a} are correlated, r = {r:.2f}" for _, a, b, r in sorted(pairs)[::-1][:10]]


def _record_table(fates: Sequence[RecordFates]) -> Table:
    table = Table(title="records", title_justify="left")
    for name in ("species", "records", "what becomes of them"):
        table.add_column(name, justify="right" if name == "records" else "left")
    for one in fates:
        for fate, count in one.counts.items():
            table.add_row(escape(one.species), str(count), escape(fate))
    return table


def _write(fates: Sequence[RecordFates], out: Path) -> None:
    from maxent.io import write_atomically

    lines = text.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    rows.writerow(["species", "row", "x", "y", "fate", "doubt"])
    for one in fates:
        doubt = [""] * len(one.row) if one.doubt is None else one.doubt
        for row, x, y, fate, why in zip(one.row, one.x, one.y, one.fate, doubt, strict=True):
            rows.writerow([one.species, row, repr(float(x)), repr(float(y)), fate, why])
    write_atomically(out, lines.getvalue().encode())

"""Commands that put maps side by side: range change and niche overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._console import check_free_file, console, one_line_errors
from maxent.cli._screen import show_notes
from maxent.cli.species.arguments import AllowVrt, Network

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@one_line_errors
def change(
    present: Annotated[
        Path,
        typer.Argument(help="A folder of `maxent fit --project`, or a map of suitability (.tif)."),
    ],
    futures: Annotated[
        list[Path] | None,
        typer.Argument(help="Maps of other climates or times on the same grid, one or more."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            "-t",
            help="Count as presence what is above this value or, with a folder, by this rule "
            "[default: that of the fit, else 10 percentile training presence].",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write maps and table here [default: FOLDER/change]."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace earlier maps.")] = False,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """What a species gains, keeps and loses, in km2, as maps and a table; several scenarios too."""
    from maxent.species.comparing.change import compare_maps
    from maxent.species.comparing.folders import DEFAULT_RULE, maps_of, named, similarities
    from maxent.species.fitting.model import load_model
    from maxent.species.fitting.results import read_result

    notes, rule = [], ""
    if present.is_dir():
        if futures:
            raise typer.BadParameter("a folder of results has its own projections: give no maps")
        now, others = maps_of(present)
        asked = threshold or read_result(present).settings.get("threshold")
        rule, value = load_model(present).rule(asked or DEFAULT_RULE)
        notes.append(f"presence is a suitability of at least {value:.4g} ({rule})")
        out = out or present / "change"
    else:
        if not futures:
            raise typer.BadParameter("give one or more maps to compare with after the first")
        if threshold is None or out is None:
            raise typer.BadParameter("maps need --threshold VALUE and --out FOLDER")
        try:
            value = float(threshold)
        except ValueError:
            raise typer.BadParameter(
                f"--threshold is a number where maps are given, got {threshold!r}: rules are those "
                "of a folder of results"
            ) from None
        now, others = present, named(futures)
    similar = similarities(now, others)
    found = compare_maps(
        now,
        others,
        value,
        out,
        rule=rule,
        similarity=similar,
        overwrite=overwrite,
        verbose=0 if quiet else 1,
    )
    if quiet:
        return
    unknown = [name for name in others if name not in similar]
    if unknown:
        notes.append(
            f"how many cells of {', '.join(unknown)} extrapolate is not known: no map of MESS "
            "(mess.tif, or NAME_mess.tif) lies beside it"
        )
    show_notes([*notes, *found.remarks()], console(stderr=True))
    table = Table(title=found.unit(), title_justify="left")
    further = ("extrapolate", "change without") if similar else ()
    for name in ("scenario", *found.changes[0].ranges(), "change", *further):
        table.add_column(name, justify="left" if name == "scenario" else "right")
    for one in found.changes:
        ranges = (f"{value:,.0f}" for value in one.ranges().values())
        without = ("", "")
        if one.within is not None:
            without = (f"{one.share:.1%}", one.within.change_in_words())
        table.add_row(
            escape(one.scenario), *ranges, one.change_in_words(), *(without if further else ())
        )
    screen = console()
    screen.print(table)
    for name in found.files.values():
        screen.print(f"wrote {escape(str(out / name))}", soft_wrap=True)


@one_line_errors
def overlap(
    one: Annotated[Path, typer.Argument(help="A folder of `maxent fit`, or a map (.tif).")],
    other: Annotated[Path, typer.Argument(help="Compare it with this one, on the same grid.")],
    output: Annotated[
        str | None,
        typer.Option(
            help="Compare the maps of this output of two folders: cloglog, raw, logistic or "
            "cumulative [default: cloglog]."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the numbers to this .csv file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Niche overlap of two models: Schoener's D and Warren's I of their maps."""
    from maxent import io
    from maxent.species.comparing.folders import OUTPUT, map_of, output_of
    from maxent.species.comparing.overlap import niche_overlap

    if quiet and out is None:
        raise typer.BadParameter("--quiet without --out would say nothing")
    if out is not None:
        check_free_file(out, [path for path in (one, other) if path.is_file()], overwrite)
    if output not in (None, "cloglog", "raw", "logistic", "cumulative"):
        raise typer.BadParameter(
            f"--output must be cloglog, raw, logistic or cumulative, got {output!r}"
        )
    if output is not None and not (one.is_dir() or other.is_dir()):
        raise typer.BadParameter("--output is for folders of `maxent fit`; a map is what it is")
    maps = [map_of(place, output or OUTPUT) for place in (one, other)]
    found = niche_overlap(*maps)
    outputs = [output_of(path) for path in maps]
    said = _compared(outputs, maps)
    values = {
        "output": outputs[0],
        "schoener_d": found.d,
        "warren_i": found.i,
        "correlation": found.correlation,
        "cells": found.cells,
    }
    if out is not None:
        lines = [",".join(values), ",".join(str(value) for value in values.values()), ""]
        io.write_atomically(out, "\n".join(lines).encode())
    if not quiet:
        table = Table(show_header=False, box=None)
        names = ("Schoener's D", "Warren's I", "correlation of the maps", "cells in common")
        for name, value in zip(names, list(values.values())[1:], strict=True):
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) else f"{value:,}")
        console().print(table)
        show_notes([said], console(stderr=True))


def _compared(outputs: Sequence[str], maps: Sequence[Path]) -> str:
    """On which output D and I were computed; two of different outputs are refused."""
    one, other = outputs
    if one and other and one != other:
        raise ValueError(
            f"{maps[0]} is a map of {one} and {maps[1]} one of {other}: D and I compare like with "
            "like; give two maps of one output (--output)"
        )
    if not (one and other):
        return "D and I are of the values as they are: the maps do not say of which output"
    if one == "raw":
        return "D and I are of the raw output, the density that was fitted"
    return (
        f"D and I are of the {one} output; papers often use raw, and values differ: see --output "
        "raw, after `maxent fit --output raw`"
    )


def add_to(main: typer.Typer) -> None:
    """Register the commands."""
    main.command()(change)
    main.command()(overlap)

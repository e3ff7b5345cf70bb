"""Commands that put maps side by side: range change and niche overlap."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import answer, asked
from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._options import given
from maxent.cli.species.arguments import AllowVrt, Network, tell_notes, teller

_TESTING = "Tests and environmental space"
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
    time: Annotated[
        list[str] | None,
        typer.Option(
            "--time",
            help="Of a fit in time, compare the map of this time with those of the others named; "
            "repeat [default: the first and the last, where nothing was projected].",
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
    from maxent.species.comparing.drawn import changes_of_result
    from maxent.species.comparing.folders import (
        DEFAULT_RULE,
        maps_of,
        maps_of_times,
        named,
        similarities,
    )
    from maxent.species.fitting.model import load_model
    from maxent.species.fitting.results import read_result

    notes, rule, intervals, first = [], "", None, None
    if present.is_dir():
        if futures:
            raise typer.BadParameter("a folder of results has its own projections: give no maps")
        result = read_result(present)
        projected = any(not written.training for written in result.maps)
        if time or (result.over_time is not None and not projected):
            first, now, others = maps_of_times(present, time or ())
            notes.append(f"from {first} to {', '.join(others)}")
        else:
            now, others = maps_of(present)
        asked = threshold or result.settings.get("threshold")
        model = load_model(present)
        rule, value = model.rule(asked or DEFAULT_RULE)
        notes.append(f"presence is a suitability of at least {value:.4g} ({rule})")
        out = out or present / "change"
        intervals, said = changes_of_result(result, model.density, now, others, value, first)
        notes += said
    else:
        if time:
            raise typer.BadParameter("--time is for a folder of a fit in time; give the maps")
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
        intervals=intervals,
        overwrite=overwrite,
        verbose=0 if quiet else 1,
    )
    unknown = [name for name in others if name not in similar]
    if unknown:
        notes.append(
            f"how many cells of {', '.join(unknown)} extrapolate is not known: no map of MESS "
            "(mess.tif, or NAME_mess.tif) lies beside it"
        )
    tell_notes([*notes, *found.remarks()], quiet)
    rows = [one.row() for one in found.changes]
    files = {what: out / name for what, name in found.files.items()}
    answer({"rule": rule, "threshold": value, "changes": rows, "files": files}, files.values())
    if quiet:
        return
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
    for path in files.values():
        screen.print(f"wrote {escape(str(path))}", soft_wrap=True)


@one_line_errors
def overlap(
    context: typer.Context,
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
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write the numbers to this .csv file; of a test, null distribution and picture "
            "beside it.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Write everything to this .json file.")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="Test the overlap against chance: identity (are the two one niche?) or background "
            "(are they more or less alike than the regions they live in?).",
            rich_help_panel=_TESTING,
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(
            help="Compare niches in geography, on their maps, or in environment, as densities on "
            "two principal components of the layers.",
            rich_help_panel=_TESTING,
        ),
    ] = "geography",
    null: Annotated[
        int,
        typer.Option(
            help="Draw this many null models, in each direction.",
            min=1,
            rich_help_panel=_TESTING,
        ),
    ] = 100,
    level: Annotated[
        float,
        typer.Option(help="Call p small up to this value.", rich_help_panel=_TESTING),
    ] = 0.05,
    seed: Annotated[
        int,
        typer.Option(help="Seed the null models with this.", min=0, rich_help_panel=_TESTING),
    ] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", "-j", help="Use this many threads.", min=1, rich_help_panel=_TESTING
        ),
    ] = 1,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Niche overlap of two models: Schoener's D and Warren's I of their maps, and tests of it."""
    from maxent import io
    from maxent.species.comparing.folders import OUTPUT, map_of, output_of
    from maxent.species.comparing.overlap import niche_overlap
    from maxent.species.report.tables.text import json_bytes

    if quiet and out is None and json is None and not asked():
        raise typer.BadParameter("--quiet without --out or --json would say nothing")
    _check_testing(context, test, space)
    if json is not None:
        check_free_file(json, [path for path in (one, other) if path.is_file()], overwrite)
        if out is not None and json.resolve() == out.resolve():
            raise typer.BadParameter("--out and --json name the same file")
    if output not in (None, "cloglog", "raw", "logistic", "cumulative"):
        raise typer.BadParameter(
            f"--output must be cloglog, raw, logistic or cumulative, got {output!r}"
        )
    if test is not None or space != "geography":
        if output is not None and space != "geography":
            raise typer.BadParameter("--output has no effect with --space environment")
        how = {"test": test, "space": space, "n_null": null, "level": level, "seed": seed}
        how |= {"output": output or OUTPUT}
        _compare_niches(one, other, how | {"n_jobs": jobs}, out, json, overwrite, quiet)
        return
    if out is not None:
        check_free_file(out, [path for path in (one, other) if path.is_file()], overwrite)
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
    if json is not None:
        io.write_atomically(json, json_bytes(values))
    answer(values, [path for path in (out, json) if path is not None])
    if not quiet:
        table = Table(show_header=False, box=None)
        names = ("Schoener's D", "Warren's I", "correlation of the maps", "cells in common")
        for name, value in zip(names, list(values.values())[1:], strict=True):
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) else f"{value:,}")
        console().print(table)
    tell_notes([said], quiet)


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


def _check_testing(context: typer.Context, test: str | None, space: str) -> None:
    """Refuse what does not exist, and what would do nothing."""
    from maxent.species.comparing.niches.comparison import SPACES
    from maxent.species.comparing.niches.null_tests import TESTS

    if test is not None and test not in TESTS:
        raise typer.BadParameter(f"--test must be one of {', '.join(TESTS)}, got {test!r}")
    if space not in SPACES:
        raise typer.BadParameter(f"--space must be one of {', '.join(SPACES)}, got {space!r}")
    for name in ("null", "level", "seed", "jobs"):
        if test is None and given(context, name):
            raise typer.BadParameter(f"--{name} has no effect without --test")


def _compare_niches(
    one: Path,
    other: Path,
    asked: dict[str, Any],
    out: Path | None,
    json: Path | None,
    overwrite: bool,
    quiet: bool,
) -> None:
    from maxent import io
    from maxent.species.comparing.niches.comparison import compare_niches
    from maxent.species.comparing.niches.files import comparison_files, write_comparison
    from maxent.species.report.tables.text import json_bytes

    planned = [] if json is None else [json]
    if out is not None:
        beside = list(comparison_files(out, asked["test"] is not None).values())
        for path in beside:
            check_free_file(path, [], overwrite)
        if len({*beside, *planned}) < len(beside) + len(planned):
            raise typer.BadParameter(f"--out is a table: give a name that ends in .csv, got {out}")
        planned += beside
    for path in planned:  # a test takes minutes
        if not path.resolve().parent.is_dir():
            raise FileNotFoundError(f"{path}: there is no folder {path.parent}; create it first")
    with recorded_warnings() as notes:
        found = compare_niches(one, other, **asked, verbose=0 if quiet else 1)
    written = [] if out is None else write_comparison(found, out, teller(quiet))
    if json is not None:
        io.write_atomically(json, json_bytes(found.facts()))
        written.append(json)
    answer(found.facts(), written)
    tell_notes([*notes, *found.notes], quiet)
    if quiet:
        return
    screen = console()
    screen.print(_niche_table(found))
    for test in found.tests[::2]:
        screen.print(escape(test.describe()), soft_wrap=True)
    for path in written:
        screen.print(f"wrote {escape(str(path))}", soft_wrap=True)


def _niche_table(found: Any) -> Table:
    """D and I, and of a test what the null models had."""
    records = " and ".join(
        f"{name} ({n} records)" for name, n in zip(found.species, found.n_records, strict=True)
    )
    table = Table(title=escape(f"{records}, in {found.space}"), title_justify="left")
    if not found.tests:
        for name in ("Schoener's D", "Warren's I"):
            table.add_column(name, justify="right")
        table.add_row(f"{found.d:.4f}", f"{found.i:.4f}")
        return table
    maps = found.maps
    named = {"schoener_d": "Schoener's D", "warren_i": "Warren's I"}
    of_maps = {} if maps is None else {"schoener_d": maps.d, "warren_i": maps.i}
    heads = ["null model"] if found.tests[0].direction else []
    heads += ["", *(["of the maps"] if of_maps else []), "observed", "null mean", "2.5 % to 97.5 %"]
    for name in (*heads, "p less similar", "p more similar", "p"):
        left = name in ("null model", "")
        table.add_column(name, justify="left" if left else "right")
    for test in found.tests:
        row = test.row()
        cells = [escape(test.direction)] if test.direction else []
        cells.append(named[test.statistic])
        cells += [f"{of_maps[test.statistic]:.4f}"] if of_maps else []
        cells += [f"{test.observed:.4f}", f"{row['null_mean']:.4f}"]
        cells.append(f"{row['null_2.5%']:.4f} to {row['null_97.5%']:.4f}")
        cells += [f"{p:.3g}" for p in (test.p_different, test.p_similar, test.p_value)]
        table.add_row(*cells)
    return table


def add_to(main: typer.Typer) -> None:
    """Register the commands."""
    main.command()(change)
    main.command()(overlap)

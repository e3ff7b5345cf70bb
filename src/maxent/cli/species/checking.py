"""maxent check: what a fit would make of the files, without one."""

from __future__ import annotations

import csv
import io as text
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import answer
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
    with_times_of,
)
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, check_there, raster_parts
from maxent.species.input.times.settings import TimeSettings

if TYPE_CHECKING:
    from maxent.species.input.checking import LayerCheck, RecordFates, ScenarioCheck

_OF_RECORDS = ("date_column", "layer_times", "window", "undated", "outside_times")
_FATE = ("row", "x", "y", "fate", "doubt")
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
    make_times: Annotated[Callable[..., TimeSettings], Fields(TimeSettings, *_OF_RECORDS)],
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, "keep_duplicates", "clean", "thin", "minimum", "seed"),
    ],
    project: Annotated[
        list[Path] | None,
        typer.Option(
            "--project",
            "-p",
            help="Also compare the layers of this folder with those of the fit; repeat for more.",
        ),
    ] = None,
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
    times = make_times()
    opened = with_times_of(make_layers(paths(layers)), times.layer_times)
    if not opened.sources:
        raise typer.BadParameter("give the layers after the records")
    check_there(occurrences, rasters=[*opened.sources, *(project or [])])
    from maxent.species.input.checking import check_layers, check_records, check_scenarios

    if out is not None:
        check_free_file(out, [occurrences, *raster_parts(opened.sources)], overwrite)
    with recorded_warnings() as notes:
        looked_at, series = _at_last_time(opened, times)
        compared = check_layers(looked_at)
        found: dict[str, Any] = {"layers": compared, "scenarios": [], "records": []}
        answer(found)
        console().print(_layer_table(compared))
        show_notes([*series, *compared.notes, *_close(compared)], console(stderr=True))
        if not compared.fits:
            odd = next(fact for fact in compared.layers if fact.difference)
            raise ValueError(
                f"{odd.name} is not on the grid of the other layers: {odd.difference}. Let --align "
                "first, finest or coarsest resample it"
            )
        scenarios = [replace(opened, sources=(str(folder),), layer=()) for folder in project or ()]
        for scenario in check_scenarios(opened, scenarios):
            found["scenarios"].append(scenario)
            console().print(_scenario_table(scenario))
            show_notes([*scenario.notes, *_of_scenario(scenario)], console(stderr=True))
        fates, told = check_records(
            make_records(str(occurrences)),
            opened,
            make_settings(verbose=0),
            study=make_study(),
            times=times,
            species=species or (),
        )
    found["records"] += [
        {"species": one.species, "counts": one.counts, "notes": one.notes, "rows": _rows(one)}
        for one in fates
    ]
    console().print(_record_table(fates))
    told += [note for one in fates for note in one.notes]
    show_notes(dict.fromkeys([*told, *notes]), console(stderr=True))
    if out is not None:
        _write(fates, out)
        answer(found, [out])
        console().print(f"wrote {escape(str(out))}", soft_wrap=True)


def _at_last_time(files: LayerFiles, times: TimeSettings) -> tuple[LayerFiles, list[str]]:
    """Layers to look at side by side: of those with times the last ones; and what to say."""
    if times.date_column is None:
        return files, []
    from maxent.species.input.times.dated_layers import DatedLayers
    from maxent.species.input.times.series import read_times

    rows = [] if times.layer_times is None else read_times(times.layer_times)
    named = [row.file for row in rows]
    with DatedLayers.open(files, times) as layers:
        layers.check_dated()
        earlier = [one.source for slices in layers.series.values() for one in slices[:-1]]
        last = {slices[-1].source: name for name, slices in layers.series.items()}
        notes = ["layers with times are shown at their last time"]
    categorical = [source for source, name in last.items() if name in files.categorical]
    categorical += [name for name in files.categorical if name not in last.values()]
    without = tuple(dict.fromkeys([*files.without, *earlier]))
    layer = [f"{one.name}={one.path}" + (f":{one.band}" if one.band else "") for one in named]
    given = (*files.layer, *layer)
    return replace(files, categorical=tuple(categorical), without=without, layer=given), notes


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


def _scenario_table(scenario: ScenarioCheck) -> Table:
    table = Table(title=f"{escape(scenario.name)}, beside the layers", title_justify="left")
    for name in ("layer", "from", "to", "from, here", "to, here", "outside"):
        table.add_column(name, justify="left" if name == "layer" else "right")
    for name, share in scenario.outside.items():
        ends = (f"{value:.4g}" for value in (*scenario.fitted[name], *scenario.found[name]))
        table.add_row(escape(name), *ends, f"{share:.1%}")
    return table


def _of_scenario(scenario: ScenarioCheck) -> list[str]:
    """What is wrong with the layers of a scenario, or may be."""
    notes = [one.describe(scenario.name) for one in scenario.unlike]
    if scenario.lacking:
        lacking = ", ".join(scenario.lacking)
        notes.append(f"{scenario.name} has no layer {lacking}: a model that uses it needs it there")
    for name, levels in scenario.new_levels.items():
        some = ", ".join(f"{level:g}" for level in levels[:10])
        notes.append(f"{scenario.name}: {name} has categories that the layers do not have: {some}")
    return notes


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


def _rows(one: RecordFates) -> list[dict[str, Any]]:
    """What becomes of each record of a species."""
    doubt = [""] * len(one.row) if one.doubt is None else one.doubt
    rows = zip(one.row, one.x, one.y, one.fate, doubt, strict=True)
    return [
        dict(zip(_FATE, (row, float(x), float(y), fate, why), strict=True))
        for row, x, y, fate, why in rows
    ]


def _write(fates: Sequence[RecordFates], out: Path) -> None:
    from maxent.io import write_atomically

    lines = text.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    rows.writerow(["species", *_FATE])
    for one in fates:
        for row in _rows(one):
            x, y = repr(row["x"]), repr(row["y"])
            rows.writerow([one.species, row["row"], x, y, row["fate"], row["doubt"]])
    write_atomically(out, lines.getvalue().encode())

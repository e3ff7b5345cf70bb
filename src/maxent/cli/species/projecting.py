"""maxent project: the map of a fitted model on other layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent._support.progress import tell_event
from maxent.cli._answers import answer
from maxent.cli._console import check_free_file, console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, given, with_fields
from maxent.cli.species.arguments import (
    AllowVrt,
    MakeCluster,
    MakeModelLayers,
    MaxCells,
    MaybeLayers,
    Model,
    Network,
    Overwrite,
    Quiet,
    check_layers,
    paths,
    tell_notes,
    teller,
    with_times_of,
)
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, check_there, raster_parts
from maxent.species.input.times.settings import TimeSettings

if TYPE_CHECKING:
    from maxent.species.fitting.model import SpeciesModel
    from maxent.species.fitting.results import MapFiles

_OF_MAPS = ("clamp", "mask", "extent")


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
            "--swd", help="Read a table with data instead of layers; --out is then a .csv file."
        ),
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Write to this .tif file or folder.")],
    output: Annotated[
        list[str] | None,
        typer.Option(
            help="Map this output: raw, logistic, cloglog, cumulative or log, and of a model of "
            "surveys or counts intensity, probability or count; repeat for more."
        ),
    ] = None,
    area: Annotated[
        float | None,
        typer.Option(
            help="Map probability and count for this area (km2, or the unit of effort) [default: "
            "that of the fit].",
        ),
    ] = None,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, *_OF_MAPS, **{name: {"group": None} for name in _OF_MAPS}),
    ],
    similarity: Annotated[
        bool, typer.Option(help="Also map clamping, MESS, the most dissimilar variable and ExDet.")
    ] = True,
    intervals: Annotated[
        bool,
        typer.Option(help="Also map the ends of intervals, of a model that was fitted with them."),
    ] = True,
    threshold: Annotated[
        str | None, typer.Option(help="Also map presence, by this threshold rule or value.")
    ] = None,
    layer_times: Annotated[
        Path | None,
        typer.Option(
            help="Read which file is a layer at which time from this .csv table, and draw every "
            "time."
        ),
    ] = None,
    make_layers: MakeModelLayers,
    make_cluster: MakeCluster,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Draw the map of a fitted model on other layers: another place, another climate."""
    cluster = make_cluster()
    table = None if layer_times is None else str(layer_times)
    given_layers = with_times_of(make_layers(paths(layers)), table)
    files = given_layers.sources
    check_layers(files)
    check_there(model, layer_times, *(files if swd else ()), rasters=() if swd else files)
    from maxent.species.batch.cluster import check_files, spread
    from maxent.species.batch.outputs import check_unread, locked
    from maxent.species.comparing.folders import DEFAULT_RULE
    from maxent.species.fitting.model import load_model
    from maxent.species.fitting.record_kinds import ENDS
    from maxent.species.input.records.study_files import read_extent
    from maxent.species.input.times.dated_layers import DatedLayers
    from maxent.species.input.times.record_dates import AUTO
    from maxent.species.projecting import EXTRAS
    from maxent.species.projecting import project as draw
    from maxent.species.projecting.geotiff import targets
    from maxent.species.projecting.plan import check_mask

    settings = make_settings()
    fitted = load_model(model)
    density = fitted.density
    fitted.check_outputs(output or ())
    fitted = _with_area(fitted, area, output or ())
    try:
        check_mask(settings.mask, fitted.reference, fitted.extrapolation)
    except ValueError as error:
        raise typer.BadParameter(f"--{error}") from None
    if swd:
        of_rasters = ("layer_times", "align", "resampling", "layers_crs", "nodata", "layer")
        for name in (*of_rasters, "dask", "workers", "dashboard", "extent"):
            if given(context, name):
                flag = "--" + name.replace("_", "-")
                raise typer.BadParameter(f"{flag} has no effect with --swd")
        if len(files) != 1 or out.suffix.lower() != ".csv":
            raise typer.BadParameter("--swd takes one table, and -o a .csv file")
        check_free_file(out, [model, *files], overwrite)
        _project_rows(
            fitted,
            Path(files[0]),
            out,
            teller(quiet),
            outputs=tuple(output or ["cloglog"]),
            clamp=settings.clamp,
            mask=settings.mask,
            similarity=similarity,
            intervals=intervals,
            threshold=None if threshold is None else fitted.threshold(threshold),
        )
        return
    extent = settings.extent
    if extent == "region" and fitted.study is None:
        raise typer.BadParameter("--extent region: the model was fitted without a study region")
    cut = extent not in ("layers", "region")
    check_there(extent if cut else None)
    opened = replace(given_layers, categorical=density.schema.categorical)
    outputs = tuple(output or ["cloglog"])
    rule, value = ("", None) if threshold is None else fitted.rule(threshold)
    times = None
    if fitted.timing is not None or table is not None:
        window = None if fitted.timing is None else fitted.timing.window
        times = TimeSettings(AUTO, layer_times=table, window=window)
    rasters = raster_parts(opened.sources)  # with those that the model does not need
    read = [*rasters, *([extent] if cut else [])]
    ends = [f"{output}_{end}" for output in ("cloglog", *outputs) for end in ENDS]
    for target in targets(out, [*outputs, *EXTRAS, "presence", *ends]).values():
        check_unread(target, read)
    with (
        locked(out),
        recorded_warnings() as notes,
        cluster.connected(teller(quiet)) as client,
        spread(client),
        _opened(opened, times, density.schema.names) as stack,
    ):
        check_files(client, None, rasters)
        inside, told = None, fitted.check_places(stack.grid)
        if extent == "region":
            inside = fitted.study_on(stack.grid)
        elif cut:
            inside, more = read_extent(extent, stack.grid)
            told += more
        how: dict[str, Any] = {
            "outputs": outputs,
            "clamp": settings.clamp,
            "reference": fitted.reference,
            "extrapolation": fitted.extrapolation,
            "mask": settings.mask,
            "extras": EXTRAS if similarity else (),
            "extent": inside,
            "region": fitted.study,
            "kinds": fitted.kinds,
            "intervals": intervals,
            "units": fitted.layers,
            "overwrite": overwrite,
            "verbose": 0 if quiet else 1,
        }
        if isinstance(stack, DatedLayers) and stack.series:
            rule, value = fitted.rule(threshold or DEFAULT_RULE)
            _project_times(density, stack, out, rule, value, quiet, how)
            tell_notes([*stack.notes, *told, *notes], quiet)
            return
        with stack.at(None) if isinstance(stack, DatedLayers) else nullcontext(stack) as drawn:
            written = draw(
                density, drawn, out, threshold=value, rule=rule, name=opened.sources[0], **how
            )
    if similarity and fitted.reference is None:
        why = "the model file does not hold the environment of the fit"
        notes.append(f"similarity (MESS) is not known: {why}")
    tell_notes([*stack.notes, *told, *notes], quiet)
    found = [_encountered(written, settings.clamp), written.extent_in_words()]
    found += [written.presence_in_words()] if written.presence else []
    if written.expected is not None:
        found.append(f"intensity: {written.expected_in_words()} expected on all cells of the map")
    for said in found:
        tell_event("note", text=said)
    folder = out.parent if out.suffix else out
    maps = {what: str(folder / Path(name).name) for what, name in written.files.items()}
    answer({"map": replace(written, files=maps), "words": found}, maps.values())
    if quiet:
        return
    screen = console()
    for said in found:
        screen.print(escape(said), soft_wrap=True)
    for what, file in maps.items():
        screen.print(f"{what:>12}  {escape(file)}", soft_wrap=True)


def _opened(files: LayerFiles, times: TimeSettings | None, names: Sequence[str]) -> Any:
    """The layers that a model needs, with their times where it has some or a table says them."""
    if times is None:
        return files.open(only=names)
    from maxent.species.input.times.dated_layers import DatedLayers

    return DatedLayers.open(files, times, only=names)


def _project_times(
    density: Any,
    layers: Any,
    out: Path,
    rule: str,
    threshold: float,
    quiet: bool,
    how: dict[str, Any],
) -> None:
    """The maps of all times, their areas as a table and a plot, and the trend."""
    from maxent import io
    from maxent.species.projecting.in_time import project_in_time
    from maxent.species.report import figures

    if out.suffix:
        raise typer.BadParameter(
            f"the layers have {len(layers.steps())} times, and each gets a map: give a folder "
            f"(--out), got {out}"
        )
    found, _ = project_in_time(density, layers, out, threshold=threshold, rule=rule, **how)
    name = "times.svg"
    with figures.drawing():
        io.write_atomically(out / name, figures.over_time(found).data)
    tell_event("note", text=found.describe())
    written = [out / file for file in (*found.files.values(), name)]
    answer({"times": found, "words": [found.describe()]}, written)
    if quiet:
        return
    table = Table(title=f"suitable: cloglog {threshold:.4f} or more ({escape(rule)})")
    area = found.area
    for head in ("time", "cells", f"suitable {found.unit}", "mean suitability"):
        table.add_column(head, justify="left" if head == "time" else "right")
    for row in found.rows:
        mean = "" if row["mean"] is None else f"{row['mean']:.3f}"
        table.add_row(row["time"], f"{row['cells']:,}", f"{row[area]:,.0f}", mean)
    screen = console()
    screen.print(table)
    screen.print(found.describe(), soft_wrap=True)
    drawn = [file for what, file in found.files.items() if what.startswith("map:")]
    screen.print(f"wrote maps of {len(drawn)} times, {escape(str(out / drawn[0]))} ...")
    for file in (*(found.files[what] for what in ("trend", "table") if what in found.files), name):
        screen.print(f"wrote {escape(str(out / file))}", soft_wrap=True)


def _with_area(model: SpeciesModel, area: float | None, outputs: Sequence[str]) -> SpeciesModel:
    """The model with the area that was asked for, which something must need."""
    if area is None:
        return model
    if not {"probability", "count"} & set(outputs) or model.kinds is None:
        raise typer.BadParameter(
            "--area has no effect without --output probability or --output count"
        )
    if not 0 < area < float("inf"):
        raise typer.BadParameter(f"--area must be a number above 0, got {area:g}")
    return replace(model, kinds=replace(model.kinds, area=area))


def _project_rows(
    model: Any, table: Path, out: Path, tell: Callable[[str], None], **how: Any
) -> None:
    from maxent import io
    from maxent.species.input.records.swd import read_swd
    from maxent.species.projecting.rows import project_rows

    schema = model.density.schema
    rows = read_swd(table, categorical=schema.categorical, variables=schema.names)
    for note in (rows.summary(), *rows.notes):
        tell(note)
    for unlike in model.unlike(rows.X):
        tell(unlike.describe(table.name))
    frame = project_rows(model, rows, **how)
    io.write_atomically(out, frame.to_csv(index=False, lineterminator="\n").encode())
    if how["mask"] is not None:
        complete = rows.X.notna().all(axis=1)
        n = int((frame[how["outputs"][0]].isna() & complete).sum())
        tell(f"{n} of {len(frame)} rows extrapolate and are left empty (--mask {how['mask']})")
    tell(f"wrote {len(frame)} rows to {out}")
    answer({"rows": len(frame), "columns": list(frame.columns)}, [out])


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

"""Arguments and options that several commands share, and what was typed for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from maxent._support import limits
from maxent._support.progress import tell_event
from maxent.cli._answers import noted
from maxent.cli._console import console
from maxent.cli._options import Fields, given
from maxent.cli._screen import show_notes
from maxent.species.batch.cluster import ClusterSettings
from maxent.species.fitting.options import BACKGROUND, DATA, OUTPUT
from maxent.species.fitting.settings import Settings
from maxent.species.input import file_access
from maxent.species.input.files import LayerFiles, RecordFile, StudyFiles
from maxent.species.input.layers.remote import as_file
from maxent.species.input.source_settings import SourceSettings
from maxent.species.input.times.settings import TimeSettings

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
    typer.Option(
        "--species", "-s", help="Use only this species; repeat for more.", rich_help_panel=DATA
    ),
]
BackgroundRecords = Annotated[
    Path | None,
    typer.Option(
        "--background-records",
        help="Take the cells of these records as the background: a target group, or your own.",
        rich_help_panel=BACKGROUND,
    ),
]
TargetGroup = Annotated[
    bool,
    typer.Option(
        "--target-group",
        help="Take the cells of all records in the file as the background.",
        rich_help_panel=BACKGROUND,
    ),
]
Bias = Annotated[
    Path | None,
    typer.Option(help="Use this raster of sampling effort.", rich_help_panel=BACKGROUND),
]
Surveys = Annotated[
    list[Path] | None,
    typer.Option(
        "--survey",
        help="Fit this survey with absences too; repeat for more.",
        rich_help_panel=DATA,
    ),
]
Counts = Annotated[
    list[Path] | None,
    typer.Option("--counts", help="Fit these counts too; repeat for more.", rich_help_panel=DATA),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace earlier results; other files stay.", rich_help_panel=OUTPUT
    ),
]


def _allow_cells(context: typer.Context, cells: int | None) -> int | None:
    if cells is not None:
        context.with_resource(limits.allowed(cells))
    return cells


MaxCells = Annotated[
    int | None,
    typer.Option(
        "--max-cells",
        help="Refuse a grid with more cells, or a model with more numbers, as damaged "
        f"[default: {limits.ON_DISK:.0e}, {limits.IN_MEMORY}; or {limits.VARIABLE}].",
        min=1,
        callback=_allow_cells,
        rich_help_panel=DATA,
    ),
]


def _allow_vrt(context: typer.Context, allowed: bool) -> bool:
    context.with_resource(file_access.limited(vrt=allowed))
    return allowed


def _allow_network(context: typer.Context, allowed: bool) -> bool:
    context.with_resource(file_access.limited(network=allowed))
    return allowed


AllowVrt = Annotated[
    bool,
    typer.Option(
        "--allow-vrt",
        help="Also read mosaics (VRT) and other files that lead to further files.",
        callback=_allow_vrt,
        rich_help_panel=DATA,
    ),
]
Network = Annotated[
    bool,
    typer.Option(
        "--network",
        help="Let the files that are read fetch from the network.",
        callback=_allow_network,
        rich_help_panel=DATA,
    ),
]

# what makes a dataclass from the options of its fields
MakeRecords = Annotated[Callable[..., RecordFile], Fields(RecordFile)]
MakeLayers = Annotated[Callable[..., LayerFiles], Fields(LayerFiles)]
MakeModelLayers = Annotated[  # the model knows which of them hold categories
    Callable[..., LayerFiles], Fields(LayerFiles, "align", "resampling", "crs", "nodata", "layer")
]
MakeStudy = Annotated[Callable[..., StudyFiles], Fields(StudyFiles)]
MakeTimes = Annotated[Callable[..., TimeSettings], Fields(TimeSettings)]
MakeSettings = Annotated[Callable[..., Settings], Fields(Settings)]
MakeSources = Annotated[Callable[..., SourceSettings], Fields(SourceSettings)]
MakeCluster = Annotated[
    Callable[..., ClusterSettings], Fields(ClusterSettings, "dask", "workers", "dashboard")
]
MakeCrew = Annotated[Callable[..., ClusterSettings], Fields(ClusterSettings)]


def paths(typed: Sequence[Path] | None) -> tuple[str, ...]:
    """Paths as texts, and addresses with both of the slashes that a path drops one of."""
    return tuple(str(as_file(path)) for path in typed or ())


def with_times_of(layers: LayerFiles, table: str | None) -> LayerFiles:
    """With the files of a table of times, where one was given."""
    if table is None:
        return layers
    from maxent.species.input.times.series import read_times

    named = (row.file.path for row in read_times(table))
    return replace(layers, sources=tuple(dict.fromkeys([*layers.sources, *named])))


def like(records: RecordFile, path: Path | None) -> RecordFile | None:
    """Another file with the same columns; rows to leave out are those of their own file."""
    if path is None:
        return None
    same = str(path) == records.path
    return replace(records, path=str(path), leave_out=records.leave_out if same else ())


def check_layers(files: Sequence[str]) -> None:
    """Some must be given."""
    if not files:
        raise typer.BadParameter("give the layers last, or name them with --layer NAME=FILE:BAND")


def check_effort(settings: Settings, bias: Path | None, target_group: bool) -> None:
    """Refuse two answers to where people went."""
    for flag, typed in (("--bias", bias is not None), ("--target-group", target_group)):
        if settings.bias_kernel is not None and typed:
            raise typer.BadParameter(
                f"--bias-kernel and {flag} are two ways to allow for sampling effort; give one"
            )


def check_cluster(context: typer.Context, cluster: ClusterSettings) -> None:
    """Refuse two answers to who does the work."""
    if cluster.named is not None and given(context, "jobs"):
        raise typer.BadParameter(f"-j and {cluster.named} both say who does the work; give one")


def check_memory(cluster: ClusterSettings, settings: Settings, *, bias: bool, group: bool) -> None:
    """Refuse a memory that nothing would keep to."""
    if cluster.memory is None:
        return
    from maxent.species.study.all_cells import why_in_memory

    why = why_in_memory(settings, bias, group and settings.bias_kernel is None)
    if why is not None:
        raise typer.BadParameter(f"--memory is for a background of all cells in windows: {why}")


def teller(quiet: bool) -> Callable[[str], None]:
    """Shows notes as they come."""
    return lambda note: tell_notes([note], quiet)


def tell_notes(notes: Iterable[str], quiet: bool) -> None:
    """Notes for who watches the run, and on the screen."""
    told = list(notes)
    for note in told:
        tell_event("note", text=note)
    noted(told)
    if not quiet:
        show_notes(told, console(stderr=True))

"""maxent fit: from records and rasters to a map and a report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from maxent.cli._console import one_line_errors, recorded_warnings
from maxent.cli._memory import peak_memory
from maxent.cli._options import asked_of, given, with_fields
from maxent.cli._screen import Screen, conclude
from maxent.cli.species.arguments import (
    AllowVrt,
    BackgroundRecords,
    Bias,
    Counts,
    MakeCrew,
    MakeLayers,
    MakeRecords,
    MakeSettings,
    MakeSources,
    MakeStudy,
    MakeTimes,
    MaxCells,
    MaybeLayers,
    Network,
    Overwrite,
    Quiet,
    Records,
    Species,
    Surveys,
    TargetGroup,
    check_cluster,
    check_effort,
    check_memory,
    like,
    paths,
    with_times_of,
)
from maxent.species.batch.cluster import ClusterSettings
from maxent.species.fitting.options import ALWAYS, CHECKS, DATA, NEVER, OUTPUT, options_of
from maxent.species.fitting.settings import NO_REGION, Settings
from maxent.species.input.files import RecordFile, check_there
from maxent.species.input.source_settings import PRESENCES, SourceSettings


@one_line_errors
@with_fields
def fit(
    context: typer.Context,
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    swd: Annotated[
        bool,
        typer.Option(
            "--swd",
            help="Read the two arguments as tables with data: samples.csv background.csv.",
            rich_help_panel=DATA,
        ),
    ] = False,
    species: Species = None,
    survey: Surveys = None,
    counts: Counts = None,
    make_sources: MakeSources,
    make_records: MakeRecords,
    make_layers: MakeLayers,
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    make_study: MakeStudy,
    make_times: MakeTimes,
    test: Annotated[
        Path | None, typer.Option(help="Test on the records of this file.", rich_help_panel=CHECKS)
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Write the results to this folder.", rich_help_panel=OUTPUT
        ),
    ] = Path("maxent-results"),
    project: Annotated[
        list[Path] | None,
        typer.Option(
            "--project",
            "-p",
            help="Also map the layers of this folder; repeat for more.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Fit this many species at a time.", min=1)
    ] = 1,
    make_cluster: MakeCrew,
    make_settings: MakeSettings,
    maps: Annotated[bool, typer.Option(help="Write maps.", rich_help_panel=OUTPUT)] = True,
    lambdas: Annotated[
        bool,
        typer.Option("--lambdas", help="Also write a .lambdas file.", rich_help_panel=OUTPUT),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Keep the species that an earlier run finished.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """From occurrence records and rasters to a map and a report, for one species or many."""
    settings, cluster = make_settings(verbose=0), make_cluster()
    extent_given = given(context, "extent")
    sources = make_sources()
    _check_sources(context, sources, several=bool(survey or counts))
    if survey or counts or sources.kind != PRESENCES:
        _check_refits(context, settings)
    check_cluster(context, cluster)
    check_effort(settings, bias, target_group)
    study, times = make_study(), make_times()
    if not maps and not project:
        for flag, typed in (("--mask", settings.mask is not None), ("--extent", extent_given)):
            if typed:
                raise typer.BadParameter(f"{flag} has no effect without maps (--no-maps)")
    if settings.extent == "region" and study.kind is None:
        raise typer.BadParameter(f"--{NO_REGION}")
    opened = with_times_of(make_layers(paths(layers)), times.layer_times)
    files = opened.sources
    if not files:
        raise typer.BadParameter(
            "give the layers (or, with --swd, the background table) after the records"
        )
    if swd:
        if len(files) != 1:
            raise typer.BadParameter("--swd takes two tables: samples.csv background.csv")
        if cluster.memory is not None:
            raise typer.BadParameter(
                "--memory is for layers, which are read in windows; the tables of --swd are read "
                "into memory, and have as many rows as you give them"
            )
        _check_swd_options(context, projects=bool(project))
    by_records = settings.joint and bias is None and settings.bias_kernel is None
    if by_records and background_records is None:
        _check_places(context, settings, target_group)
    grouped = target_group or background_records is not None or by_records
    check_memory(cluster, settings, bias=bias is not None, group=grouped)
    tables = [occurrences, *([layers[0]] if swd and layers else []), test, background_records]
    tables += [*(survey or ()), *(counts or ())]
    tables += [] if settings.extent in ("layers", "region") else [Path(settings.extent)]
    tables += [] if times.layer_times is None else [Path(times.layer_times)]
    check_there(*tables, rasters=[*(() if swd else files), bias, *(project or [])])
    from maxent.species.batch import workflow

    records = make_records(str(occurrences))
    shared: dict[str, Any] = {
        "species": species or (),
        "projections": [
            replace(opened, sources=(str(folder),), layer=()) for folder in project or []
        ],
        "lambdas": lambdas,
        "jobs": jobs,
        "cluster": cluster,
        "overwrite": overwrite,
        "resume": resume,
        "command": shlex.join(["maxent", *sys.argv[1:]]),
    }
    with recorded_warnings() as notes, Screen(quiet) as screen:
        if swd:
            rows = workflow.fit_swd(
                records,
                files[0],
                out,
                settings,
                test=None if test is None else str(test),
                categorical=opened.categorical,
                listener=screen,
                **shared,
            )
        else:
            rows = workflow.fit_files(
                records,
                opened,
                out,
                settings,
                test=like(records, test),
                bias=None if bias is None else str(bias),
                group=like(records, background_records or (occurrences if target_group else None)),
                study=study,
                times=times,
                surveys=_files_like(records, survey),
                counts=_files_like(records, counts),
                sources=sources if sources != SourceSettings() else None,
                maps=maps,
                listener=screen,
                **shared,
            )
    conclude(rows, out, [*notes, *_over(cluster, maps)], quiet)


def _files_like(records: RecordFile, files: list[Path] | None) -> list[RecordFile]:
    """Further files with the same columns."""
    return [file for path in files or () if (file := like(records, path)) is not None]


_OF_PRESENCES = {  # which say nothing of surveys and counts
    *("background_records", "target_group", "bias", "bias_as", "bias_kernel", "background"),
    *("region", "ecoregions", "hull", "buffer", "test", "test_share", "thin", "clean", "basis"),
    *("max_uncertainty", "keep_duplicates"),
}


def _check_sources(context: typer.Context, sources: SourceSettings, several: bool) -> None:
    """Refuse what was typed for surveys or counts without any, and for presences without these."""
    if sources.kind == PRESENCES:
        for name, asked in asked_of(fit).items():
            ours = asked in options_of(SourceSettings).values()
            if ours and not several and given(context, name):
                raise typer.BadParameter(
                    f"--{name.replace('_', '-')} has no effect without surveys or counts (--survey,"
                    " --counts, --kind)"
                )
        return
    for parameter in context.command.params:
        if str(parameter.name) in _OF_PRESENCES and given(context, str(parameter.name)):
            raise typer.BadParameter(
                f"{parameter.opts[0]} is for presences, and has no effect with --kind "
                f"{sources.kind}"
            )


def _check_refits(context: typer.Context, settings: Settings) -> None:
    """Refuse refits that are of presences alone."""
    for name, asked in (("bootstrap", settings.bootstrap), ("jackknife", settings.jackknife)):
        if asked and given(context, name):
            raise typer.BadParameter(
                f"--{name} is of presences alone, and has no effect with surveys or counts"
            )


def _check_places(context: typer.Context, settings: Settings, target_group: bool) -> None:
    """Refuse what --joint does anyway, or does not look at, where its places are the records'."""
    if target_group and settings.group_column is None:
        raise typer.BadParameter(
            "--target-group has no effect with --joint, whose places are the cells of all records "
            "in the file anyway; leave it out"
        )
    if given(context, "background"):
        raise typer.BadParameter(
            "--background has no effect with --joint, whose places are the cells of all records in "
            "the file; name others with --background-records"
        )


def _over(cluster: ClusterSettings, maps: bool) -> list[str]:
    """What to say where this process took more memory than it was given."""
    if cluster.memory is None or cluster.workers is not None:
        return []
    from maxent.rows.blocks.sources import in_bytes

    peak = peak_memory()
    if peak <= in_bytes(cluster.memory):
        return []
    drawn = "; maps and their pictures take some hundred MB besides (--no-maps)" if maps else ""
    return [f"the peak was {peak / 1e6:.0f} MB, more than --memory {cluster.memory}{drawn}"]


_OF_LAYERS = {
    "background_records",
    "target_group",
    "bias",
    "maps",
    "survey",
    "counts",
}  # beside those of dataclasses


def _check_swd_options(context: typer.Context, projects: bool) -> None:
    """Refuse an option that was typed beside --swd and does nothing there."""
    asked = asked_of(fit)
    for parameter in context.command.params:
        name = str(parameter.name)
        works = asked[name].with_swd if name in asked else ALWAYS
        if name in _OF_LAYERS:
            works = NEVER
        if works == ALWAYS or not given(context, name):
            continue
        flag = " / ".join([*parameter.opts[:1], *parameter.secondary_opts[:1]])
        if works == NEVER:
            raise typer.BadParameter(f"{flag} has no effect with --swd, whose tables are complete")
        if not projects:
            raise typer.BadParameter(f"{flag} has no effect with --swd, unless with --project")

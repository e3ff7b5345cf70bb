"""maxent tune: settings chosen by cross-validation."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from maxent.cli._answers import answer
from maxent.cli._console import console, one_line_errors, recorded_warnings
from maxent.cli._options import Fields, with_fields
from maxent.cli.species.arguments import (
    AllowVrt,
    BackgroundRecords,
    Bias,
    MakeCluster,
    MakeLayers,
    MakeRecords,
    MakeStudy,
    MaxCells,
    MaybeLayers,
    Network,
    Overwrite,
    Quiet,
    Records,
    Species,
    TargetGroup,
    check_cluster,
    check_effort,
    check_layers,
    like,
    paths,
    tell_notes,
    teller,
)
from maxent.species.fitting.options import MODEL
from maxent.species.fitting.settings import Settings
from maxent.species.fitting.tuning_settings import NO_MEMORY, TAKEN, TuningSettings
from maxent.species.input.files import check_there


@one_line_errors
@with_fields
def tune(
    context: typer.Context,
    occurrences: Records,
    *,
    layers: MaybeLayers = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Write the table and the picture to this folder.")
    ] = Path("maxent-tuning"),
    species: Species = None,
    make_records: MakeRecords,
    make_layers: MakeLayers,
    background_records: BackgroundRecords = None,
    target_group: TargetGroup = False,
    bias: Bias = None,
    make_study: MakeStudy,
    features: Annotated[
        str,
        typer.Option("--features", "-f", help="Try these feature classes.", rich_help_panel=MODEL),
    ] = "l,lq,lqh,lqph",
    multipliers: Annotated[
        str,
        typer.Option("--multipliers", "-m", help="Try these multipliers.", rich_help_panel=MODEL),
    ] = "0.5,1,2,4,8",
    potentials: Annotated[
        str, typer.Option(help="Try these potentials.", rich_help_panel=MODEL)
    ] = "box",
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Use this many threads.", min=1)] = 1,
    make_cluster: MakeCluster,
    memory: Annotated[str | None, typer.Option("--memory", hidden=True)] = None,
    make_settings: Annotated[
        Callable[..., Settings],
        Fields(Settings, *TAKEN),
    ],
    make_tuning: Annotated[Callable[..., TuningSettings], Fields(TuningSettings)],
    overwrite: Overwrite = False,
    max_cells: MaxCells = None,
    allow_vrt: AllowVrt = False,
    network: Network = False,
    quiet: Quiet = False,
) -> None:
    """Choose feature classes, multiplier and potential by spatially blocked cross-validation."""
    if memory is not None:
        raise typer.BadParameter(f"--memory is an option of fit, not of tune: {NO_MEMORY}")
    cluster = make_cluster()
    check_cluster(context, cluster)
    opened = make_layers(paths(layers))
    check_layers(opened.sources)
    settings = make_settings(verbose=0 if quiet else 1)
    check_effort(settings, bias, target_group)
    check_there(occurrences, background_records, rasters=[*opened.sources, bias])
    from maxent.species.fitting import tuning

    how = make_tuning()
    records = make_records(str(occurrences))
    with recorded_warnings() as notes:
        tuned = tuning.tune_files(
            records,
            opened,
            out,
            settings,
            features=[letters.lower() for letters in _words(features)],
            multipliers=[_number(m) for m in _words(multipliers)],
            potentials=_words(potentials),
            species=species or (),
            bias=None if bias is None else str(bias),
            group=like(records, background_records or (occurrences if target_group else None)),
            study=make_study(),
            tuning=how,
            jobs=jobs,
            cluster=cluster,
            overwrite=overwrite,
            command=shlex.join(["maxent", *sys.argv[1:]]),
            tell=teller(quiet),
        )
    tell_notes(dict.fromkeys([*(note for one in tuned for note in one.notes), *notes]), quiet)
    answer(tuned, [path for one in tuned for path in one.files])
    if quiet:
        return
    screen = console()
    for one in tuned:
        screen.print(_candidates(one.species, one.rows))
        if one.null_table:
            screen.print(_null_test(one.null_table))
        screen.print(f"fit it with: {escape(one.advice)}", soft_wrap=True)
    for path in (p for one in tuned for p in one.files):
        screen.print(f"wrote {escape(str(path))}", soft_wrap=True)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--multipliers are numbers, got {text!r}") from None


def _candidates(species: str, rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"{escape(species)}: best first", title_justify="left")
    shown = {
        "features": "features",
        "potential": "potential",
        "multiplier": "multiplier",
        "test_log_density": "log density",
        "test_auc": "AUC",
        "auc_difference": "difference",
        "omission_10_percentile": "omission",
        "test_boyce": "Boyce",
        "delta_aicc": "ΔAICc",
        "n_weights": "weights",
    }
    words = ("features", "potential")
    if all(row["potential"] == "box" for row in rows):
        del shown["potential"]
    for name, title in shown.items():
        table.add_column(title, justify="left" if name in words else "right")
    for row in rows[:10]:
        table.add_row(*(_cell(row[name]) for name in shown))
    return table


def _null_test(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="beside null models", title_justify="left")
    shown = ("statistic", "value", "null_mean", "null_sd", "z", "p_value")
    for name in shown:
        table.add_column(name.replace("_", " "), justify="left" if name == "statistic" else "right")
    for row in rows:
        table.add_row(*(_cell(row[name]) for name in shown))
    return table


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if value != value else f"{value:.4g}"

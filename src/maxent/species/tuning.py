"""Settings chosen by spatially blocked cross-validation, with the whole table kept."""

from __future__ import annotations

import csv
import io as text
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent import evaluation, io
from maxent.estimators import MaxentDensityCV
from maxent.species.inputs import LayerFiles, RecordFile, chosen_species, raster_parts
from maxent.species.outputs import check_unread, locked, staged
from maxent.species.region import Prepared, prepare, survey_files
from maxent.species.settings import Settings
from maxent.species.slugs import slugs

_COLUMNS = ("features", "potential", "multiplier", "mean_score", "sd_score", "n_splits")


@dataclass(frozen=True, eq=False)
class Tuned:
    """What was tried for one species, best first, the files written, and what to type next.

    ``notes`` say what was assumed of records and layers.
    """

    species: str
    rows: list[dict[str, Any]]
    files: list[Path]
    advice: str
    notes: tuple[str, ...] = ()


def tune(
    prepared: Prepared,
    settings: Settings,
    categorical: Sequence[str],
    *,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    scoring: str = "log_loss",
    jobs: int = 1,
) -> list[dict[str, Any]]:
    """Held-out score of every combination over spatial blocks, best first.

    Along the multipliers each fit starts from the one before. The training background of a fold
    is that of its own blocks.
    """
    sample = prepared.train
    letters = [f + "c" if categorical and "c" not in f else f for f in features]
    search = MaxentDensityCV(
        letters,
        potentials,
        multipliers=multipliers,
        cv=evaluation.SpatialBlocks(sample.coordinates, n_splits=settings.folds),
        scoring=scoring,
        preset=settings.preset,
        categorical=categorical,
        n_jobs=jobs,
        verbose=settings.verbose,
    )
    search.fit(sample.X, sample.counts, prior=sample.prior)
    table = search.cv_results_
    rows = [
        {name: table[name][i] for name in _COLUMNS} | {"scores": list(table["scores"][i])}
        for i in range(len(table["features"]))
    ]
    return sorted(rows, key=lambda row: -np.nan_to_num(row["mean_score"], nan=-np.inf))


def tune_files(
    records: RecordFile,
    layers: LayerFiles,
    out: Path,
    settings: Settings,
    *,
    features: Sequence[str],
    multipliers: Sequence[float],
    potentials: Sequence[str],
    species: Sequence[str] = (),
    bias: str | None = None,
    group: RecordFile | None = None,
    scoring: str = "log_loss",
    jobs: int = 1,
    overwrite: bool = False,
) -> list[Tuned]:
    """Tune every species of a file, with a table and a picture of each in ``out``."""
    tables = [file.path for file in (records, group) if file is not None]
    rasters = raster_parts([*layers.sources, *([] if bias is None else [bias])])
    check_unread(out, [*tables, *rasters])
    with locked(out), staged(out, overwrite) as place:
        surveyed = survey_files(records, layers, settings, bias=bias, group=group)
        region = surveyed.region
        names = chosen_species(surveyed.records.names(), species, records.path)
        tuned = []
        for name, slug in slugs(names).items():
            ready = prepare(region, surveyed.records.of(name), settings)
            rows = tune(
                ready,
                settings,
                region.categorical,
                features=features,
                multipliers=multipliers,
                potentials=potentials,
                scoring=scoring,
                jobs=jobs,
            )
            files = [f"{slug}_tuning.csv", f"{slug}_tuning.png"]
            io.write_atomically(place / files[0], _csv(rows))
            io.write_atomically(place / files[1], _picture(name, rows, scoring))
            fit = out.with_name(f"{out.name}-fit")
            several = len(names) > 1
            advice = _advice(
                records, layers, name if several else None, rows[0], fit / slug if several else fit
            )
            notes = (*surveyed.notes, *ready.notes)
            tuned.append(Tuned(name, rows, [out / f for f in files], advice, notes))
        best = {one.species: {k: one.rows[0][k] for k in _COLUMNS[:3]} for one in tuned}
        io.save(best, place / "tuning.json")
    return tuned


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = text.StringIO()
    folds = [f"fold_{i + 1}" for i in range(len(rows[0]["scores"]))]
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow([*_COLUMNS, *folds])
    for row in rows:
        writer.writerow([*(row[name] for name in _COLUMNS), *row["scores"]])
    return lines.getvalue().encode()


def _picture(species: str, rows: Sequence[dict[str, Any]], scoring: str) -> bytes:
    from io import BytesIO

    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7, 4.5), dpi=120, layout="constrained")
    ax = figure.subplots()
    for features, potential in dict.fromkeys((r["features"], r["potential"]) for r in rows):
        mine = [r for r in rows if (r["features"], r["potential"]) == (features, potential)]
        mine.sort(key=lambda r: r["multiplier"])
        error = [r["sd_score"] / np.sqrt(r["n_splits"]) for r in mine]
        ax.errorbar(
            [r["multiplier"] for r in mine],
            [r["mean_score"] for r in mine],
            error,
            marker="o",
            capsize=3,
            label=features if potential == "box" else f"{features}, {potential}",
        )
    best = rows[0]
    ax.plot(best["multiplier"], best["mean_score"], "o", ms=14, mfc="none", mec="black")
    ax.set_xscale("log")
    ax.set_xticks(sorted({r["multiplier"] for r in rows}))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.minorticks_off()
    ax.set_xlabel("regularization multiplier")
    name = {"log_loss": "held-out log density", "auc": "held-out AUC"}.get(scoring, scoring)
    ax.set_ylabel(f"{name} over spatial blocks, mean and standard error")
    style = "italic" if " " in species else None
    ax.set_title(f"{species}: circled is the best", style=style, parse_math=False)
    ax.legend(title="features")
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _advice(
    records: RecordFile,
    layers: LayerFiles,
    species: str | None,
    best: dict[str, Any],
    out: Path,
) -> str:
    words = ["maxent", "fit", records.path, *layers.sources, *layers.typed()]
    words += ["-s", species] if species else []
    words += ["-f", best["features"], "-m", f"{best['multiplier']:g}"]
    words += ["--potential", best["potential"]] if best["potential"] != "box" else []
    words += ["-o", str(out)]
    return shlex.join(words)

"""The demonstration: a virtual species whose truth is known, from files to map and report."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent.datasets.landscape import (
    VirtualLandscape,
    agreement,
    virtual_landscape,
    write_landscape,
)
from maxent.datasets.visits import VirtualVisits, virtual_visits
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import MODEL, locked, staged
from maxent.species.batch.workflow import Listener, Silence, fit_files
from maxent.species.fitting.model import load_model
from maxent.species.fitting.one_call import fit
from maxent.species.fitting.results import read_result
from maxent.species.fitting.settings import Settings
from maxent.species.input.files import LayerFiles, RecordFile
from maxent.species.input.layers.geodesy import cell_areas
from maxent.species.input.layers.grid import Grid, Window
from maxent.species.input.source_settings import SourceSettings
from maxent.species.judging import fit_sample
from maxent.species.projecting import project_xarray
from maxent.species.study.samples import prepare, survey

CATEGORICAL = ("biome",)
PICTURE = "truth_and_maps.png"


def run(out: Path, seed: int = 0, listener: Listener | None = None) -> dict[str, Any]:
    """Write a landscape and biased records, fit, and compare the map with the truth.

    The records were collected where people go, so the fit takes the places of all records of the
    group as background; the same fit with a random background shows what that is worth.
    """
    out = Path(out)
    data, results = out / "data", out / "results"
    landscape = virtual_landscape(seed=seed)
    listener = listener or Silence()
    with locked(out):
        with staged(data, overwrite=True, tell=listener.note) as place:
            write_landscape(landscape, place)
            seeded = json.dumps({"maxent.datasets.virtual_landscape": {"seed": seed}})
            io.write_atomically(place / "landscape.json", f"{seeded}\n".encode())
        records = RecordFile(str(data / "occurrences.csv"))
        group = RecordFile(str(data / "target_group.csv"))
        layers = LayerFiles((str(data / "layers"),), CATEGORICAL)
        future = LayerFiles((str(data / "future"),), CATEGORICAL)
        command = shlex.join(
            [
                *("maxent", "fit", records.path, layers.sources[0], "-c", *CATEGORICAL),
                *("--background-records", group.path, "--project", future.sources[0]),
                *("--output", "raw", "-o", str(results)),
            ]
        )
        settings = Settings(outputs=("cloglog", "raw"), seed=seed, verbose=0)
        (row,) = fit_files(
            records,
            layers,
            results,
            settings,
            group=group,
            projections=[future],
            overwrite=True,
            command=command,
            listener=listener,
        )
        maps = {
            "target-group background": _raw_map(load_model(results / MODEL).density, layers),
            "random background": _raw_map(_plain_fit(records, layers, settings), layers),
        }
        corrected, plain = (agreement(drawn, landscape.truth) for drawn in maps.values())
        io.write_atomically(out / PICTURE, _picture(landscape, maps, corrected, plain))
        summary = {
            "row": {k: v for k, v in row.items() if k != "results"},
            "agreement": {"target-group background": corrected, "random background": plain},
            "command": command,
        }
        text = json.dumps(summary, indent=1)
        io.write_atomically(out / "summary.json", (text + "\n").encode())
    return summary | {"lines": _lines(row, corrected, plain, out, command)}


def run_kinds(out: Path, seed: int = 0, listener: Listener | None = None) -> dict[str, Any]:
    """The same species from presences, a survey with absences and counts, in one fit.

    Presences know where people went, and not how many there are; the survey and the counts are
    few. The map of all is compared with the truth, and with fits of presences and visits alone.
    """
    out = Path(out)
    data, results = out / "data", out / "results"
    landscape = virtual_landscape(seed=seed)
    visits = virtual_visits(landscape, seed=seed)
    listener = listener or Silence()
    with locked(out):
        with staged(data, overwrite=True, tell=listener.note) as place:
            write_landscape(landscape, place)
            visits.write(place)
            seeded = json.dumps({"maxent.datasets.virtual_landscape": {"seed": seed}})
            io.write_atomically(place / "landscape.json", f"{seeded}\n".encode())
        records, survey, counts, group = (
            RecordFile(str(data / f"{name}.csv"))
            for name in ("occurrences", "sites", "transects", "target_group")
        )
        layers = LayerFiles((str(data / "layers"),), CATEGORICAL)
        command = shlex.join(
            [
                *("maxent", "fit", records.path, layers.sources[0], "-c", *CATEGORICAL),
                *("--survey", survey.path, "--counts", counts.path),
                *("--background-records", group.path, "-o", str(results)),
            ]
        )
        settings = Settings(seed=seed, verbose=0)
        (row,) = fit_files(
            records,
            layers,
            results,
            settings,
            group=group,
            surveys=[survey],
            counts=[counts],
            overwrite=True,
            command=command,
            listener=listener,
        )
        model = load_model(results / MODEL)
        assert model.kinds is not None
        quick: dict[str, Any] = {"categorical": CATEGORICAL, "permutations": 0, "cv": "none"}
        told = {"visits alone": fit(survey.path, layers, counts=counts.path,
                                    sources=SourceSettings("survey"), **quick)}  # fmt: skip
        told["presences alone"] = fit(records.path, layers, group=group.path, jackknife=False,
                                      bootstrap=0, **quick)  # fmt: skip
        maps = {"all kinds": _raw_map(model.density, layers)}
        maps |= {name: _raw_map(result.model, layers) for name, result in told.items()}
        scores = {name: agreement(drawn, landscape.truth) for name, drawn in maps.items()}
        numbers = {"truth": _number(visits.intensity, landscape.grid)}
        numbers["all kinds"] = read_result(results).maps[0].expected or float("nan")
        io.write_atomically(out / PICTURE, _picture_of_kinds(landscape, visits, maps, scores))
        summary = {
            "row": {k: v for k, v in row.items() if k != "results"},
            "agreement": scores,
            "expected": numbers,
            "sources": model.kinds.describe(),
            "command": command,
        }
        text = json.dumps(summary, indent=1)
        io.write_atomically(out / "summary.json", (text + "\n").encode())
    return summary | {"lines": _lines_of_kinds(summary, out)}


def _number(intensity: Array, grid: Grid) -> float:
    """How many there are, of an intensity per km2."""
    areas = cell_areas(grid)
    assert areas is not None
    return float(np.nansum(intensity * areas.read(Window(0, 0, grid.height, grid.width))))


def _lines_of_kinds(summary: dict[str, Any], out: Path) -> list[str]:
    row, numbers = summary["row"], summary["expected"]
    lines = [
        f"{row['species']}: fitted to a duality gap of {row['gap']:.0e} in {row['seconds']:.1f} s "
        "with maps and report",
        summary["sources"],
        "how close the map is to the truth that the records were drawn from:",
    ]
    for name, scores in summary["agreement"].items():
        lines.append(
            f"  {name:<36} correlation {scores['pearson']:.3f}, "
            f"KL {scores['kl']:.3f}, total variation {scores['total_variation']:.3f}"
        )
    lines.append(
        f"how many there are: {numbers['all kinds']:.3g} expected, {numbers['truth']:.3g} in truth "
        "(presences alone cannot say)"
    )
    return [*lines, *_places(out, summary["command"])]


def _picture_of_kinds(
    landscape: VirtualLandscape,
    visits: VirtualVisits,
    maps: dict[str, Array],
    scores: dict[str, dict[str, float]],
) -> bytes:
    """The truth with all records, and the maps."""
    seen = visits.survey["presence"] > 0
    titles = ["Truth and records", *(f"Fitted to {name}" for name in maps)]
    notes = [
        "white: presences, orange: visits that found it, x: in vain",
        *(f"correlation with the truth {s['pearson']:.3f}" for s in scores.values()),
    ]

    def mark(ax: Any) -> None:
        x, y = visits.survey["x"], visits.survey["y"]
        ax.plot(x[~seen], y[~seen], "x", ms=2.4, mec="0.75", mew=0.5)
        ax.plot(landscape.x, landscape.y, "o", ms=2.4, mfc="white", mec="black", mew=0.4)
        ax.plot(x[seen], y[seen], "o", ms=3.2, mfc="#f28e2b", mec="black", mew=0.4)

    return _panels(landscape, [landscape.truth, *maps.values()], titles, notes, mark)


def _plain_fit(records: RecordFile, layers: LayerFiles, settings: Settings) -> Any:
    with layers.open() as opened:
        located, _ = records.read(opened.grid)
        region = survey(opened, located, settings)
        ready = prepare(region, located, settings)
    return fit_sample(settings.recipe(region.categorical), ready.train)


def _raw_map(model: Any, layers: LayerFiles) -> Array:
    with layers.open() as opened:
        drawn = project_xarray(model, opened, outputs=("raw",), extras=())
    return np.asarray(drawn["raw"])


def _picture(
    landscape: VirtualLandscape,
    maps: dict[str, Array],
    corrected: dict[str, float],
    plain: dict[str, float],
) -> bytes:
    """The truth with the records, and the two maps, in one scale."""
    titles = [
        f"Truth, and {len(landscape.x)} records from where people go",
        "Fitted, background from the group's records",
        "Fitted, random background",
    ]
    notes = [
        "known, as the species is virtual",
        *(f"correlation with the truth {s['pearson']:.3f}" for s in (corrected, plain)),
    ]

    def mark(ax: Any) -> None:
        ax.plot(landscape.x, landscape.y, "o", ms=2.6, mfc="white", mec="black", mew=0.4)

    return _panels(landscape, [landscape.truth, *maps.values()], titles, notes, mark)


def _panels(
    landscape: VirtualLandscape,
    maps: Sequence[Array],
    titles: Sequence[str],
    notes: Sequence[str],
    mark: Callable[[Any], None],
) -> bytes:
    """Densities side by side in one scale, that of the first, on which records are marked."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(4.5 * len(maps), 3.9), dpi=120, layout="constrained")
    axes = figure.subplots(1, len(maps))
    west, south, east, north = landscape.grid.bounds
    land = np.isfinite(landscape.truth)
    relative = [np.where(land, land.sum() * panel / np.nansum(panel), np.nan) for panel in maps]
    top = float(np.nanquantile(relative[0], 0.995))
    for ax, title, note, density in zip(axes, titles, notes, relative, strict=True):
        image = ax.imshow(density, vmin=0, vmax=top, extent=(west, east, south, north))
        ax.set_title(title, fontsize=11)
        ax.set_xlabel(note, fontsize=10)
        ax.set(xticks=[], yticks=[], facecolor="#dadddc")
    mark(axes[0])
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.01)
    bar.set_label("density (even = 1)")
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _app(out: Path) -> str:
    """The command that opens the result in a browser, with the folder of this very program."""
    beside = Path(sys.executable).with_name("maxent")
    here = Path(sys.prefix) != Path(sys.base_prefix) and beside.is_file()
    name = os.path.relpath(beside) if here else "maxent"
    return f"{name} app {shlex.quote(str(out))}"


def _lines(
    row: dict[str, Any],
    corrected: dict[str, float],
    plain: dict[str, float],
    out: Path,
    command: str,
) -> list[str]:
    lines = [
        f"{row['species']}: {row['n_records']} records, fitted to a duality gap of "
        f"{row['gap']:.0e} in {row['seconds']:.1f} s with maps and report",
        "how close the map is to the truth that the records were drawn from:",
    ]
    for name, scores in (
        ("background from the group's records", corrected),
        ("random background, for comparison", plain),
    ):
        lines.append(
            f"  {name:<36} correlation {scores['pearson']:.3f}, "
            f"KL {scores['kl']:.3f}, total variation {scores['total_variation']:.3f}"
        )
    return [*lines, *_places(out, command)]


def _places(out: Path, command: str) -> list[str]:
    """Where everything is."""
    results = out / "results"
    return [
        f"picture    {out / PICTURE}",
        f"report     {results / 'report.html'}",
        f"map        {results / 'maps' / 'cloglog.tif'} and {results / 'map.png'}",
        f"tables     {results / 'tables'}",
        f"data       {out / 'data'}",
        f"the fit    {command}",
        f"to explore {_app(out)}",
    ]

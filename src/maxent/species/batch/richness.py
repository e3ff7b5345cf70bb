"""Richness of many species: the sum of their suitabilities, and how many are present where.

A cell that any of the species has no value for has no sum either: a sum without it would be lower
and would not show why.
"""

from __future__ import annotations

import csv
import io as text
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxent import io
from maxent._support.threads import num_threads
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import MODEL
from maxent.species.comparing.folders import DEFAULT_RULE, OUTPUT
from maxent.species.comparing.map_files import MapStack, on_one_grid
from maxent.species.fitting.model import load_model
from maxent.species.input.layers.grid import Window
from maxent.species.projecting import geotiff
from maxent.species.projecting.plan import Map

TABLE = "richness.csv"
SUITABILITY, PRESENCES = "richness_suitability", "richness_presences"
COLUMNS = ("species", "folder", "summed", "rule", "threshold", "said")
_UNKNOWN = 65535
_OPEN = 100  # files open at a time
_HERE = "maps"  # the folder of the maps of the training layers
_ELSEWHERE = "projections"


@dataclass(frozen=True)
class Richness:
    """Maps that were written, by the name of the layers ("" for those of the fit), and of whom."""

    files: dict[str, dict[str, Path]]
    rows: list[dict[str, Any]]

    @property
    def n_species(self) -> int:
        """Species in the sums."""
        return sum(row["summed"] for row in self.rows)


def write_richness(
    rows: Sequence[Mapping[str, Any]], out: Path, threshold: str | None = None
) -> Richness | None:
    """Write the maps of richness and ``richness.csv`` to the folder of a run of many species.

    Parameters
    ----------
    rows : sequence of dict
        One per species: ``species``, ``status`` and, of those that were fitted, ``folder``.
    out : path
        The folder that holds theirs. Maps of an earlier run that are not written again are removed.
    threshold : str, default None
        From which suitability on a species counts as present: a rule, at its own value for each
        species, or a number; None is the rule of range change.

    Returns
    -------
    richness : Richness or None
        None where fewer than two species have maps on one grid.
    """
    told = [_row(row, out, threshold) for row in rows]
    fitted = [row for row in told if row["summed"]]
    before = [*out.glob(f"{SUITABILITY}*.tif"), *out.glob(f"{PRESENCES}*.tif")]
    places = _places(out, fitted) if len(fitted) > 1 else {}
    files = {}
    for name, paths in places.items():
        cuts = {row["species"]: row["threshold"] for row in fitted}
        files[name] = _write_sums(paths, cuts, out, f"_{name}" if name else "")
    new = {path for made in files.values() for path in made.values()}
    for stale in (path for path in before if path not in new):
        stale.unlink()
    if not files:
        (out / TABLE).unlink(missing_ok=True)
        return None
    io.write_atomically(out / TABLE, _csv(told))
    return Richness(files, told)


def _row(row: Mapping[str, Any], out: Path, threshold: str | None) -> dict[str, Any]:
    """What richness.csv says of a species."""
    made = dict.fromkeys(COLUMNS, "") | {"species": row["species"], "summed": False}
    if row["status"] != "ok":
        return made | {"said": f"failed: {row.get('error') or 'no reason given'}"}
    folder = out / row["folder"]
    made["folder"] = folder.name
    if not (folder / _HERE / f"{OUTPUT}.tif").is_file():
        return made | {"said": f"no map of {OUTPUT}"}
    rule, value = load_model(folder / MODEL).rule(threshold or DEFAULT_RULE)
    return made | {"summed": True, "rule": rule, "threshold": float(value)}


def _places(out: Path, fitted: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Path]]:
    """The maps of all species by the layers they are of, where all are on one grid."""
    folders = {row["species"]: out / row["folder"] for row in fitted}
    first, *others = folders.values()
    found = {}
    projected = sorted(path.parent.name for path in first.glob(f"{_ELSEWHERE}/*/{OUTPUT}.tif"))
    for name in ("", *projected):
        within = Path(_ELSEWHERE, name) if name else Path(_HERE)
        paths = {who: folder / within / f"{OUTPUT}.tif" for who, folder in folders.items()}
        there = all(path.is_file() for path in paths.values())
        if there and all(
            on_one_grid(first / within / f"{OUTPUT}.tif", other / within / f"{OUTPUT}.tif")
            for other in others
        ):
            found[name] = paths
    return found


def _write_sums(
    paths: Mapping[str, Path], cuts: Mapping[str, float], out: Path, end: str
) -> dict[str, Path]:
    tags = {"SPECIES": str(len(paths))}
    suitability, presences = SUITABILITY + end, PRESENCES + end
    maps = {
        suitability: Map(suitability, tags=tags),
        presences: Map(presences, "uint16", _UNKNOWN, tags),
    }
    targets = {what: out / f"{what}.tif" for what in maps}
    with MapStack.open(dict(list(paths.items())[:1])) as one:
        grid, windows = one.grid, one.windows()
    known = 0
    with geotiff.workspace(out, grid, maps) as work:
        stage = geotiff.Stage(grid, maps, targets, work, windows[0])
        with stage.open({}):
            for window in windows:
                total, count = _sums(paths, cuts, window)
                missing = np.isnan(total)
                known += int((~missing).sum())
                drawn: dict[str, Array] = {
                    suitability: total.astype(np.float32),
                    presences: np.where(missing, _UNKNOWN, count).astype(np.uint16),
                }
                stage.write(window, drawn)
        for what in maps:
            stage.finish(what, known, True, num_threads())
        stage.publish()
    return {SUITABILITY: targets[suitability], PRESENCES: targets[presences]}


def _sums(
    paths: Mapping[str, Path], cuts: Mapping[str, float], window: Window
) -> tuple[Array, Array]:
    """Sums of suitability (NaN where one is not known) and of presences."""
    total = np.zeros((window.height, window.width))
    count = np.zeros(total.shape, dtype=np.int64)
    for some in _some(paths):
        with MapStack.open(some) as stack:
            for name in some:
                values = stack.read(name, window)
                total += values
                # in the precision of the map: a cell that sets the threshold is not below it
                count += values >= values.dtype.type(cuts[name])
    return total, count


def _some(paths: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
    names = list(paths)
    for at in range(0, len(names), _OPEN):
        yield {name: paths[name] for name in names[at : at + _OPEN]}


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    file = text.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "summed": "yes" if row["summed"] else "no"} for row in rows)
    return file.getvalue().encode()

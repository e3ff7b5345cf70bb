"""Why a place is suitable, quickly: models and layers stay open between questions."""

from __future__ import annotations

import shlex
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from maxent.app.folders import Folders, OutsideError
from maxent.app.jobs import Jobs
from maxent.app.runs import plain, result_of
from maxent.species.batch.outputs import MODEL
from maxent.species.fitting.model import SpeciesModel, load_model
from maxent.species.fitting.results import SpeciesResult
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.layers import Layers
from maxent.species.input.layers.naming import named_layers
from maxent.species.judging.explaining import NoDataError, PlaceExplained, explain_place

_OPEN = 3  # sets of layers kept open


class UnreachableError(ValueError):
    """The layers of a result lie outside the opened folders."""


@dataclass(frozen=True, eq=False)
class _Opened:
    model: SpeciesModel
    layers: Layers
    result: SpeciesResult

    @property
    def clamp(self) -> bool:
        """As the maps of the fit were drawn, so that a click tells what they show."""
        return bool(self.result.settings.get("clamp", True))


class Answers:
    """Explanations of places on the layers of a fit or of a projection."""

    def __init__(self, folders: Folders, jobs: Jobs) -> None:
        self.folders, self.jobs = folders, jobs
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, str, float], _Opened] = OrderedDict()

    def why(self, run: str, of: str, x: float, y: float) -> dict[str, Any]:
        """What each variable adds at a point of the map ``of``, and its place on the curves."""
        with self._lock:
            opened = self._opened(run, of)
            try:
                told = explain_place(opened.model, opened.layers, x, y, clamp=opened.clamp)
            except NoDataError as error:
                return {"known": False, "said": self.folders.without_paths(str(error))}
        return {
            "known": True,
            "said": told.describe(),
            **plain(told),
            "curves": _on_curves(opened.result, told),
        }

    def warm(self, run: str, of: str) -> None:
        """Open what an answer needs, so that the first click does not wait."""
        with self._lock:
            opened = self._opened(run, of)
            grid, records = opened.layers.grid, opened.result.records
            if len(records["x"]):
                x, y = float(records["x"][0]), float(records["y"][0])
            else:
                x, y = (float(v[0]) for v in grid.centres([grid.size // 2]))
            with suppress(NoDataError):
                explain_place(opened.model, opened.layers, x, y)

    def layer(self, run: str, of: str, variable: str) -> tuple[Path, int]:
        """The raster and band of a variable, for its map."""
        files = self._files(result_of(self.folders, run), of)
        if variable not in files:
            raise FileNotFoundError(f"no layer {variable!r} in this result")
        return files[variable]

    def layer_files(self, run: str) -> LayerFiles:
        """The layers of a fit as they were read, by their real paths."""
        return self._reading(result_of(self.folders, run), "")

    def _opened(self, run: str, of: str) -> _Opened:
        folder = self.folders.find(run)
        path = self.folders.find(str(folder / MODEL))
        key = (run, of, path.stat().st_mtime)
        if key not in self._open:
            result, model = result_of(self.folders, run), load_model(path)
            schema = model.density.schema
            layers = self._reading(result, of).open(only=schema.names)
            self._open[key] = _Opened(model, layers, result)
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)[1].layers.close()
        self._open.move_to_end(key)
        return self._open[key]

    def _reading(self, result: SpeciesResult, of: str) -> LayerFiles:
        """How the layers of a map were read, by their real paths."""
        if result.reading is None:
            raise UnreachableError("this result does not say how its layers were read; fit again")
        files = replace(LayerFiles.stored(result.reading), categorical=result.categorical)
        written = next((m for m in result.maps if m.name == of), None)
        named = [
            f"{one.name}={self._inside(one.path)}" + (f":{one.band}" if one.band else "")
            for one in named_layers(files.layer)
        ]
        files = replace(files, layer=tuple(named))
        sources = LayerFiles.stored(result.reading).sources
        if of and (written is None or not written.training):
            sources, files = (self._projected(result, of),), replace(files, layer=(), without=())
        return replace(files, sources=tuple(str(self._inside(path)) for path in sources))

    def _files(self, result: SpeciesResult, of: str) -> dict[str, tuple[Path, int]]:
        """Raster and band of every layer that a map was drawn from."""
        bands = self._reading(result, of).bands()
        try:
            return {band.name: (Path(band.file.path), band.band) for band in bands}
        finally:
            for band in bands:
                band.close()

    def _projected(self, result: SpeciesResult, of: str) -> str:
        """The folder of a projection, which the command of the run or of a later job names."""
        words = shlex.split(result.command)
        folders = [b for a, b in pairwise(words) if a in ("-p", "--project")]
        fits = [f for f in folders if f == of or Path(f).name == of]
        for job in self.jobs.all():
            words = job.facts.argv
            if words[0] == "project" and len(words) > 2 and Path(job.facts.out).name == of:
                fits.append(words[2])
        if not fits:
            raise UnreachableError(
                f"the layers of {of} are not known: the command does not name them"
            )
        return fits[0]

    def _inside(self, path: str) -> Path:
        try:
            return self.folders.locate(path)
        except OutsideError:
            raise UnreachableError(
                "the layers of this result lie outside the opened folders; open them too: "
                "maxent app RESULTS LAYERS"
            ) from None


def _on_curves(result: SpeciesResult, told: PlaceExplained) -> list[dict[str, Any]]:
    """Where the place lies on every response curve."""
    values = {share.variable: share.value for share in told.shares}
    found = []
    for curve in result.responses:
        value = values.get(curve.variable)
        if value is None or curve.kind != "marginal":
            continue
        if curve.categorical:
            at = [y for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True) if x == value]
            y = at[0] if at else None
        else:
            y = float(np.interp(float(value), curve.x, curve.y))
        found.append({"variable": curve.variable, "x": value, "y": y})
    return [dict(plain(one)) for one in found]

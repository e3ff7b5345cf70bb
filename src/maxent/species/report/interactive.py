"""The interactive map of the report: all numbers that a click needs, inside the page.

Values of layers and suitability are stored as they are (float32); shares of variables as 65,535
steps of their range, which is finer than they are shown. Where a grid has more numbers than a page
should carry, the report has its pictures alone.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maxent._support.terminal import in_words
from maxent.density import FittedDensity
from maxent.rows.arrays import Array
from maxent.species.batch.outputs import MODEL
from maxent.species.fitting.model import SpeciesModel, load_model
from maxent.species.fitting.results import SpeciesResult
from maxent.species.input.files import LayerFiles
from maxent.species.input.layers.grid import Window
from maxent.species.input.layers.grid_facts import grid_facts
from maxent.species.input.layers.layers import Layers
from maxent.species.report import maps
from maxent.species.report.markup import Html, element, joined, paragraph, resource
from maxent.species.report.world import world

NUMBERS = 1_500_000  # cells x variables that a page carries at most
_STEPS = 65_534  # of stored shares; one more means "not known"
_SCALE = "cloglog"
_AROUND = 0.3  # of the map's sides: what lies under it goes on beyond them


def interactive_map(result: SpeciesResult, folder: Path) -> Html | None:
    """The section's map, or why there is none; None for results that could have no such map."""
    if result.grid is None or result.reading is None:
        return None
    if not _small(result):
        return paragraph(
            f"A map to be clicked is left out: cells times variables are more than {NUMBERS:,}. "
            "`maxent app` has one for any grid."
        )
    written = maps.training_map(result)
    if written is None or _SCALE not in written.files or not (folder / MODEL).is_file():
        return None
    model = load_model(folder / MODEL)
    if model.density.mean_place is None:
        return None
    files = replace(LayerFiles.stored(result.reading), categorical=result.categorical)
    try:
        with files.open(only=model.density.schema.names) as layers:
            if layers.grid != result.grid:
                raise ValueError("the layers are on another grid than at the fit")
            data = embedded(result, model, layers)
    except (OSError, ValueError) as error:  # moved or changed since the fit
        return paragraph(f"A map to be clicked is left out: {in_words(error)}.")
    # a name may hold "</script>": no "<" is left in the text
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return joined(
        [
            paragraph(
                "Click a place to be told why it is suitable or not; drag across a response curve "
                "to see where its variable is in that range. Everything is inside this page.",
                class_="screen",
            ),
            element("div", id="interactive-map", hidden=""),
            element("style", resource("bundle/map.css")),
            Html(f'<script type="application/json" id="map-data">{text}</script>'),
            Html(f"<script>{resource('bundle/map.js')}</script>"),
        ]
    )


def _small(result: SpeciesResult) -> bool:
    assert result.grid is not None
    return result.grid.size * len(result.model.schema.names) <= NUMBERS


def embedded(result: SpeciesResult, model: SpeciesModel, layers: Layers) -> dict[str, Any]:
    """What the page computes with: see ``web/src/report.tsx``."""
    density, schema = model.density, model.density.schema
    grid = layers.grid
    block = layers.select(schema.names).read(Window(0, 0, grid.height, grid.width))
    table, known = block.frame(), block.valid.ravel()

    def spread(values: Array) -> Array:
        whole = np.full(known.size, np.nan, dtype=np.float32)
        whole[known] = values
        return whole

    clamp = bool(result.settings.get("clamp", True))  # as the map beside it
    told = density.explain(table, clamp=clamp)
    study = [] if result.study is None else [r for p in result.study.polygons for r in p]
    return {
        "species": result.species,
        "grid": grid_facts(grid),
        "world": None if (under := world(grid, _AROUND)) is None else under.told(),
        "base": told.base,
        "maps": [
            {
                "kind": _SCALE,
                "label": maps.LABELS[_SCALE],
                "values": _packed(spread(density.predict(table, _SCALE, clamp=clamp))),
            }
        ],
        "variables": [
            _variable(density, name)
            | {
                "values": _packed(spread(np.asarray(table[name], dtype=np.float32))),
                "shares": _packed_in_steps(spread(told.shares[:, v])),
            }
            for v, name in enumerate(schema.names)
        ],
        "ends": _ends(density, table, clamp, spread),
        **_novelty(model, table, spread),
        "records": {
            "x": [float(x) for x in result.records["x"]],
            "y": [float(y) for y in result.records["y"]],
            "test": [bool(t) for t in result.records["test"]],
        },
        "study": [np.asarray(ring).tolist() for ring in study],
        "thresholds": [
            {"name": row["name"], "value": float(row["value"])}
            for row in result.evaluation.thresholds
        ],
        "rule": _rule(result, model),
        "responses": [_curve(one) for one in result.responses if one.kind == "marginal"],
    }


def _ends(
    density: FittedDensity, table: Any, clamp: bool, spread: Callable[[Array], Array]
) -> list[dict[str, Any]] | None:
    """The ends of the intervals of suitability at each cell, None where they are not known."""
    if density.uncertainty is None:
        return None
    ends = density.intervals(table, output=_SCALE, clamp=clamp)
    return [_packed(spread(end)) for end in ends]


def _variable(density: FittedDensity, name: str) -> dict[str, Any]:
    """The range or the levels of a variable, and where it usually lies."""
    schema, place = density.schema, density.mean_place
    assert place is not None
    categorical = name in schema.categorical
    at = (schema.categorical if categorical else schema.continuous).index(name)
    return {
        "name": name,
        "categorical": categorical,
        "usual": None if categorical else float(place.values[at]),
        "low": None if categorical else float(density.low[at]),
        "high": None if categorical else float(density.high[at]),
        "levels": [float(x) for x in schema.levels[at]] if categorical else None,
    }


def _novelty(model: SpeciesModel, table: Any, spread: Callable[[Array], Array]) -> dict[str, Any]:
    """Maps of how far the cells lie from what the model has seen, where that is known."""
    mess = which = exdet = None
    columns = {name: np.asarray(table[name]) for name in table.columns}
    if model.reference is not None and len(table):
        known = model.reference.only(model.density.schema.names)
        similarity, index = known.similarity(columns)
        mess, which = _packed(spread(similarity)), _packed(spread(index))
    if model.extrapolation is not None and len(table):
        exdet = _packed(spread(model.extrapolation.novelty(columns)))
    return {"mess": mess, "most_dissimilar": which, "exdet": exdet}


def _rule(result: SpeciesResult, model: SpeciesModel) -> str:
    from maxent.species.comparing.folders import DEFAULT_RULE

    return model.rule(result.settings.get("threshold") or DEFAULT_RULE)[0]


def _curve(response: Any) -> dict[str, Any]:
    def column(values: Any) -> Any:
        return None if values is None else [round(float(v), 6) for v in np.asarray(values)]

    x = response.x.tolist() if response.categorical else [float(v) for v in response.x]
    made = {"variable": response.variable, "kind": response.kind}
    made |= {"categorical": response.categorical, "x": x, "y": column(response.y)}
    return made | {"low": column(response.low), "high": column(response.high)}


def _packed(values: Array) -> dict[str, Any]:
    content = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return {"values": base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()}


def _packed_in_steps(values: Array) -> dict[str, Any]:
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0, 0)
    steps = np.full(values.size, _STEPS + 1, dtype="<u2")
    if known.any():
        width = high - low or 1.0
        steps[known] = np.rint((values[known] - low) / width * _STEPS)
    content = base64.b64encode(gzip.compress(steps.tobytes(), 6, mtime=0)).decode()
    return {"values": content, "low": low, "high": high if high > low else low + 1.0}

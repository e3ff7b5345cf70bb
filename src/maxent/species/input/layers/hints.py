"""What looks like a slip in a set of layers, though it can be meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.species.input.layers.grid import Grid

_FEW = range(3, 51)  # distinct whole numbers that look like categories; two are a yes and no


def looks_categorical(values: Any) -> bool:
    """Whether numbers are a few whole ones, as categories are."""
    distinct = np.unique(values)
    return bool((distinct == np.rint(distinct)).all()) and distinct.size in _FEW


def hints(X: Any, categorical: Sequence[str], grid: Grid) -> list[str]:
    """Notes on cells read from layers: likely categories, layers twice, and an unknown CRS."""
    said = []
    columns = {name: np.asarray(X[name]) for name in X.columns}
    for name, values in columns.items():
        if name not in categorical and looks_categorical(values):
            said.append(
                f"{name}: whole numbers, {np.unique(values).size} different ones; if they stand "
                f"for categories, say so with -c {name}"
            )
    first: dict[bytes, str] = {}
    for name, values in columns.items():
        content = values.astype(np.float64).tobytes()
        if content in first:
            said.append(
                f"{first[content]} and {name} are the same in all {values.size} cells read; leave "
                "one of them out"
            )
        first.setdefault(content, name)
    if grid.crs is None:
        said.append(
            "the layers do not say their coordinate reference system (.asc files cannot); records "
            "are taken to be in the same one. Name it with --layers-crs, EPSG:4326 for degrees"
        )
    return said

"""The outputs of a model for the rows of a table with data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.species.extras import geo
from maxent.species.model import SpeciesModel
from maxent.species.records.columns import listed
from maxent.species.records.swd import SWD


def project_rows(
    model: SpeciesModel,
    rows: SWD,
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    similarity: bool = True,
    threshold: float | None = None,
) -> Any:
    """A table of species, x, y (where known) and one column per output.

    With ``similarity``, where the model knows its environment, also ``mess`` and ``mod``, the most
    dissimilar variable; with a ``threshold`` (of the cloglog output) also ``presence``.
    """
    schema = model.density.schema
    lacking = [name for name in schema.names if name not in rows.X.columns]
    if lacking:
        raise ValueError(f"{rows.source} has no column {listed(lacking)}, which the model needs")
    X = rows.X[list(schema.names)]
    columns: dict[str, Any] = {"species": rows.species}
    if rows.coordinates is not None:
        columns |= {"x": rows.coordinates[:, 0], "y": rows.coordinates[:, 1]}
    for output in outputs:
        columns[output] = model.density.predict(X, output, clamp=clamp)
    if threshold is not None:
        columns["presence"] = model.density.predict(X, "cloglog", clamp=clamp) >= threshold
        columns["presence"] = columns["presence"].astype(np.int64)
    if similarity and model.reference is not None:
        mess, mod = model.reference.similarity({name: np.asarray(X[name]) for name in X.columns})
        columns |= {"mess": mess, "mod": np.array(model.reference.variables, dtype=object)[mod]}
    return geo("pandas").DataFrame(columns)

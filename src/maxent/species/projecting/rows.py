"""The outputs of a model for the rows of a table with data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxent.species.fitting.model import SpeciesModel
from maxent.species.input.records.columns import listed
from maxent.species.input.records.swd import SWD
from maxent.species.libraries import geo
from maxent.species.projecting.plan import check_mask


def project_rows(
    model: SpeciesModel,
    rows: SWD,
    *,
    outputs: Sequence[str] = ("cloglog",),
    clamp: bool = True,
    similarity: bool = True,
    threshold: float | None = None,
    mask: str | None = None,
) -> Any:
    """A table of species, x, y (where known) and one column per output.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    rows : SWD
        The table.
    outputs : sequence of str, default ("cloglog",)
        Outputs of ``MaxentDensity.predict``: "raw", "log", "logistic", "cloglog", "cumulative".
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.
    similarity : bool, default True
        Whether to add ``mess``, ``mod``, the most dissimilar variable, and ``exdet``, where the
        model knows its environment.
    threshold : float, default None
        A cloglog value: also the column ``presence``.
    mask : "mess" or "exdet", default None
        Leave outputs and presence of rows that extrapolate empty, as in :func:`project`.
    """
    check_mask(mask, model.reference, model.extrapolation)
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
    novelty = _novelty(model, {name: np.asarray(X[name]) for name in X.columns})
    table = geo("pandas").DataFrame(columns | (novelty if similarity else {}))
    if mask is not None:
        outside = novelty["mess"] < 0 if mask == "mess" else _outside(novelty)
        drawn = [*outputs, *([] if threshold is None else ["presence"])]
        table = table.astype({"presence": "Int64"} if threshold is not None else {})  # with gaps
        for name in drawn:
            table[name] = table[name].mask(outside)
    return table


def _novelty(model: SpeciesModel, values: dict[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if model.reference is not None:
        mess, mod = model.reference.similarity(values)
        columns |= {"mess": mess, "mod": np.array(model.reference.variables, dtype=object)[mod]}
    if model.extrapolation is not None:
        columns["exdet"] = model.extrapolation.novelty(values)
    return columns


def _outside(novelty: dict[str, Any]) -> Any:
    exdet = novelty["exdet"].astype(np.float32)
    categories = novelty.get("mess", exdet) < 0  # MESS knows of new ones
    return (exdet < 0) | (exdet > 1) | categories

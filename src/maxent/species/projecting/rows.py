"""The outputs of a model for the rows of a table with data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxent.species.fitting.model import SpeciesModel
from maxent.species.fitting.record_kinds import ENDS
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
    intervals: bool = True,
) -> Any:
    """A table of row, species, x, y (where known), other columns, and one column per output.

    Every row of ``rows`` has one here, in its order: ``row`` is its line in the file, and outputs
    are NaN where a variable is missing. A column of the table that has the name of an output, as
    in a table that was written here before, becomes ``given_NAME``.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    rows : SWD
        The table.
    outputs : sequence of str, default ("cloglog",)
        Outputs of ``MaxentDensity.predict``: "raw", "log", "logistic", "cloglog", "cumulative";
        of a model of surveys or counts also "intensity", "probability" and "count".
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.
    similarity : bool, default True
        Whether to add ``mess``, ``mod``, the most dissimilar variable, and ``exdet``, where the
        model knows its environment.
    threshold : float, default None
        A cloglog value: also the column ``presence``.
    mask : "mess" or "exdet", default None
        Leave outputs and presence of rows that extrapolate empty, as in :func:`project`.
    intervals : bool, default True
        Whether to add the ends of each output as ``OUTPUT_lower`` and ``OUTPUT_upper``, where the
        model was fitted with intervals and they are known.
    """
    check_mask(mask, model.reference, model.extrapolation)
    schema = model.density.schema
    lacking = [name for name in schema.names if name not in rows.X.columns]
    if lacking:
        raise ValueError(f"{rows.source} has no column {listed(lacking)}, which the model needs")
    known = rows.X[list(schema.names)].notna().all(axis=1).to_numpy()
    X = rows.X.loc[known, list(schema.names)]
    made = {output: model.predict(X, output, clamp=clamp) for output in outputs}
    for output in filter(model.has_intervals, outputs if intervals else ()):
        ends = model.intervals(X, output, clamp=clamp)
        made |= {f"{output}_{end}": values for end, values in zip(ENDS, ends, strict=True)}
    if threshold is not None:
        made["presence"] = model.density.predict(X, "cloglog", clamp=clamp) >= threshold
    novelty = _novelty(model, {name: np.asarray(X[name]) for name in X.columns})
    if mask is not None:
        outside = novelty["mess"] < 0 if mask == "mess" else _outside(novelty)
        made = {name: np.where(outside, np.nan, values) for name, values in made.items()}
    made |= novelty if similarity else {}
    columns: dict[str, Any] = {} if rows.row is None else {"row": rows.row}
    columns |= {} if rows.pooled else {"species": rows.species}
    if rows.coordinates is not None:
        columns |= {"x": rows.coordinates[:, 0], "y": rows.coordinates[:, 1]}
    if rows.others is not None:
        given = _renamed(rows.others.columns, {*columns, *made})
        columns |= {new: rows.others[old] for old, new in given.items()}
    for name, values in made.items():
        columns[name] = np.full(len(known), None if name == "mod" else np.nan)
        columns[name][known] = values
    table = geo("pandas").DataFrame(columns)
    if threshold is not None:
        gaps = table["presence"].isna().any()
        table = table.astype({"presence": "Int64" if gaps else "int64"})
    return table


def _renamed(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Columns of a table, each with a name that no output has."""
    given = list(names)
    new: dict[str, str] = {}
    for name in given:
        free = name
        while free in taken or (free != name and free in given):
            free = f"given_{free}"
        new[name] = free
    return new


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

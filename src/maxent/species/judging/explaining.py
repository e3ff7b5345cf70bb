"""Why a place is suitable: each variable's share of the exponent there, and whether it is known.

Shares are those of ``FittedDensity.explain``: exact Shapley values, also of products, that add up
to the difference between the exponent of the place and that of the mean place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxent.density.intervals import LEVEL
from maxent.rows.arrays import Array
from maxent.species.fitting.model import SpeciesModel
from maxent.species.fitting.record_kinds import INTENSITIES
from maxent.species.input.layers.grid import OUTSIDE
from maxent.species.input.layers.layers import Layers


@dataclass(frozen=True)
class Share:
    """What one variable does at a place.

    Attributes
    ----------
    variable : str
        Name of the variable.
    value : object
        Its value there.
    usual : float or None
        Its mean over the fit's cells, None for categories.
    share : float
        Share of the exponent, in nats: exp(share) is the factor by which the value there raises the
        density over that of the mean place.
    low : float or None
        Smallest value at the fit, None for categories.
    high : float or None
        Largest value at the fit, None for categories.
    outside : bool
        Whether the value is beyond, or a category that the fit has not seen.
    """

    variable: str
    value: Any
    usual: float | None
    share: float
    low: float | None
    high: float | None
    outside: bool


@dataclass(frozen=True)
class PlaceExplained:
    """One place: its predictions and what they are made of.

    Attributes
    ----------
    x : float
        x of the point asked for, in the CRS of the layers.
    y : float
        y of the point.
    cell : int
        Its number in their grid.
    outputs : dict of float
        cloglog, logistic, raw and cumulative there; of an intensity whose scale is known also
        intensity, probability and count.
    exponent : float
        `sum_j w_j f_j` at the place; base + all shares = exponent.
    base : float
        The same at the mean place.
    shares : tuple of Share
        One per variable, the largest first.
    mess : float or None
        Similarity to the fit, negative beyond it; None where the model does not know.
    most_dissimilar : str or None
        The variable it is of.
    exdet : float or None
        Above 1 for a new combination of variables, negative for a variable beyond its range.
    intervals : dict of tuple of float
        Lower and upper end, of 90 %, of the cloglog output, and of intensity, probability and
        count; empty where the model does not know.
    """

    x: float
    y: float
    cell: int
    outputs: dict[str, float]
    exponent: float
    base: float
    shares: tuple[Share, ...]
    mess: float | None
    most_dissimilar: str | None
    exdet: float | None
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def describe(self) -> str:
        """The answer in one sentence."""
        value = f"suitability {self.outputs['cloglog']:.3f}"
        if "cloglog" in self.intervals:
            low, high = self.intervals["cloglog"]
            value += f" ({LEVEL:.0%} interval {low:.3f} to {high:.3f})"
        if "intensity" in self.outputs:
            value += f", intensity {self.outputs['intensity']:.3g}"
            if "intensity" in self.intervals:
                low, high = self.intervals["intensity"]
                value += f" ({low:.3g} to {high:.3g})"
        made = [s for s in self.shares if abs(s.share) >= 0.01]
        up = [s.variable for s in made if s.share > 0][:3]
        down = [s.variable for s in made if s.share < 0][:3]
        parts = [f"raised by {', '.join(up)}"] if up else []
        parts += [f"lowered by {', '.join(down)}"] if down else []
        beyond = [s.variable for s in self.shares if s.outside]
        far = f"; it extrapolates in {', '.join(beyond)}" if beyond else ""
        return f"{value}: {'; '.join(parts) if parts else 'as at the mean place'}{far}"


class NoDataError(ValueError):
    """There is nothing to explain at a place: it lies outside the layers, or one is not known."""


def explain_place(
    model: SpeciesModel, layers: Layers, x: float, y: float, *, clamp: bool = True
) -> PlaceExplained:
    """Why the model predicts what it does at a point, given in the CRS of the layers.

    The share of variable v is its Shapley value in `v(S) = theta(x_S, z_rest)`, theta being the
    exponent, x the point and z the mean place: `theta(x) = theta(z)` + sum of all shares.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    layers : Layers
        The layers.
    x : float
        x of the point.
    y : float
        y of the point.
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.

    Examples
    --------
    >>> import xarray as xr
    >>> from maxent.species import fit
    >>> values = np.random.default_rng(0).normal(size=(20, 20))
    >>> heat = xr.DataArray(values, {"y": np.arange(20), "x": np.arange(20)})
    >>> heat = heat.to_dataset(name="heat")
    >>> y, x = np.nonzero(values > 1)
    >>> records = {"species": ["Aa bb"] * len(x), "x": x, "y": y}
    >>> hot = fit(records, heat, features="l", bootstrap=0, cv="none")
    >>> model, layers = SpeciesModel("Aa bb", hot.model), Layers.from_xarray(heat)
    >>> told = explain_place(model, layers, x[0], y[0])
    >>> told.shares[0].variable, told.shares[0].share > 0
    ('heat', True)
    >>> bool(abs(told.base + told.shares[0].share - told.exponent) < 1e-9)
    True
    """
    return explain_places(model, layers, [x], [y], clamp=clamp)[0]


def explain_places(
    model: SpeciesModel, layers: Layers, x: ArrayLike, y: ArrayLike, *, clamp: bool = True
) -> list[PlaceExplained]:
    """The same of several points; see :func:`explain_place`.

    Parameters
    ----------
    model : SpeciesModel
        The fitted model.
    layers : Layers
        The layers.
    x : array (n_points,)
        x of the points.
    y : array (n_points,)
        y of the points.
    clamp : bool, default True
        Whether to hold variables and features within their ranges at the fit.
    """
    density = model.density
    xs, ys = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float))
    cells = layers.grid.cells_at(xs, ys)
    for i in np.flatnonzero(cells == OUTSIDE)[:1]:
        raise NoDataError(
            f"({xs[i]:.10g}, {ys[i]:.10g}) lies outside the layers, {layers.grid.describe()}"
        )
    chosen = layers.select(density.schema.names)
    table, known = chosen.read_cells(cells)
    for i in np.flatnonzero(~known)[:1]:
        lacking = ", ".join(_unknown(chosen, cells[i]))
        raise NoDataError(f"({xs[i]:.10g}, {ys[i]:.10g}): no data there in {lacking}")
    told = density.explain(table, clamp=clamp)
    kinds = ("cloglog", "logistic", "raw", "cumulative")
    outputs = {kind: density.predict(table, kind, clamp=clamp) for kind in kinds}
    mess, dissimilar = _similarity(model, table)
    exdet = None if model.extrapolation is None else model.extrapolation.novelty(table)
    if model.kinds is not None and model.kinds.log_scale is not None:
        outputs |= {kind: model.predict(table, kind, clamp=clamp) for kind in INTENSITIES}
    ends = {
        kind: model.intervals(table, kind, clamp=clamp)
        for kind in ("cloglog", *INTENSITIES)
        if model.has_intervals(kind)
    }
    return [
        PlaceExplained(
            float(xs[i]),
            float(ys[i]),
            int(cells[i]),
            {kind: float(values[i]) for kind, values in outputs.items()},
            float(told.exponent[i]),
            told.base,
            _shares(model, table.iloc[i], told.shares[i]),
            None if mess is None else float(mess[i]),
            None if dissimilar is None else dissimilar[i],
            None if exdet is None else float(exdet[i]),
            {kind: (float(low[i]), float(high[i])) for kind, (low, high) in ends.items()},
        )
        for i in range(len(xs))
    ]


def _unknown(layers: Layers, cell: Any) -> list[str]:
    """The layers without a value in a cell."""
    return [
        name
        for name in layers.names
        if not layers.select([name]).read_cells(np.array([cell]))[1][0]
    ]


def _similarity(model: SpeciesModel, table: Any) -> tuple[Array | None, list[str] | None]:
    if model.reference is None:
        return None, None
    mess, which = model.reference.similarity({n: np.asarray(table[n]) for n in table.columns})
    return mess, [model.reference.variables[index] for index in which]


def _shares(model: SpeciesModel, row: Any, shares: Array) -> tuple[Share, ...]:
    density = model.density
    schema, place = density.schema, density.mean_place
    made = []
    for name, share in zip(schema.names, shares.tolist(), strict=True):
        value = row[name]
        value = value.item() if hasattr(value, "item") else value
        if name in schema.categorical:
            levels = schema.levels[schema.categorical.index(name)]
            made.append(Share(name, value, None, share, None, None, value not in levels))
            continue
        v = schema.continuous.index(name)
        low, high = float(density.low[v]), float(density.high[v])
        usual = None if place is None else float(place.values[v])
        made.append(Share(name, value, usual, share, low, high, not low <= value <= high))
    return tuple(sorted(made, key=lambda part: -abs(part.share)))

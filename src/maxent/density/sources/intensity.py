"""FittedIntensity: what a fit of several sources says, as a value that predicts and is saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxent import io
from maxent.core.entropies import Shannon
from maxent.density.intervals import LEVEL, Interval, quantile
from maxent.density.link import DensityLink
from maxent.density.model import FittedDensity
from maxent.density.points import Points
from maxent.density.sources.source import Entries, Source
from maxent.density.sums import DensitySums
from maxent.features import Operator
from maxent.features.scoring import Scorer
from maxent.rows.arrays import Array

OUTPUTS = ("intensity", "probability", "count")


@io.register
@dataclass(frozen=True, eq=False)
class SourceFit:
    """What a fit says of one of its sources.

    Attributes
    ----------
    name : str
        Its name.
    kind : str
        "presences", "survey" or "counts".
    n_rows : int
        Its rows.
    n_records : float
        Presences, visits that found the species, rows with a count above 0.
    weight : float
        What multiplied its log likelihood.
    own_scale : bool
        Whether it had a scale of its own.
    deviance : float
        Twice its log likelihood less that of a perfect fit, negated, its weight left out.
    effort : dict
        Weight g of each effort column, per unit of the column.
    operators : tuple of Operator
        The features of what the source adds to the intensity, where it has a deviation.
    weights : array
        Their weights.
    offset : float
        What is added to `<w, f> + <g, e>` (and to the common scale, where it has no own).
    """

    name: str
    kind: str
    n_rows: int
    n_records: float
    weight: float
    own_scale: bool
    deviance: float
    effort: dict[str, float] = field(default_factory=dict)
    offset: float = 0.0
    operators: tuple[Operator, ...] = ()
    weights: Array = field(default_factory=lambda: np.empty(0))


@io.register
@dataclass(frozen=True, eq=False)
class FittedIntensity:
    """An intensity `lambda(x) = exp(b + <w, f(x)>)` per unit of area, fitted to several sources.

    Attributes
    ----------
    density : FittedDensity
        Its shape: the density over the rows of the presences (without any, over all rows), which
        maps, responses and explanations are made of.
    log_scale : float or None
        b; None where no source tells it, and only ratios of intensities are known.
    sources : tuple of SourceFit
        What there is to say of each source.

    Examples
    --------
    >>> from maxent.density import Recipe
    >>> from maxent.density.sources import Source, SourcesTask
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> task = SourcesTask.of([Source("counts", X, np.arange(50) // 10, area=2.0)], Recipe("l"))
    >>> fit = task.fit()
    >>> bool(abs(fit.predict(X, "count", area=2.0).sum() - 100) < 0.01)  # as many as were counted
    True
    """

    density: FittedDensity
    log_scale: float | None
    sources: tuple[SourceFit, ...]

    @property
    def is_absolute(self) -> bool:
        """Whether the scale is known, so that probabilities and counts are."""
        return self.log_scale is not None

    def predict(
        self,
        X: Any,
        output: str = "intensity",
        *,
        area: Any = 1.0,
        clamp: bool = True,
        missing: str = "error",
    ) -> Array:
        """An output at the rows of X.

        ``output``: "intensity" is lambda, per unit of area, or where only ratios are known lambda
        over its sum at the rows of the fit; "probability" is `1 - exp(-area lambda)`, that a visit
        finds the species; "count" is `area lambda`. Those of ``FittedDensity.predict`` ("raw",
        "logistic", "cloglog", "cumulative", "log") are of the shape alone.
        """
        if output not in OUTPUTS:
            return self.density.predict(X, output, clamp=clamp, missing=missing)
        theta = self.density.scores(X, clamp=clamp, missing=missing)
        if self.log_scale is None:
            if output != "intensity":
                raise ValueError(
                    f'output="{output}" needs the absolute scale of the intensity, which '
                    f"{', '.join(source.name for source in self.sources)} do not tell: give a "
                    'survey or counts with areas, or use "intensity", whose ratios are known'
                )
            return self.density.output(theta, "raw")
        area = np.asarray(area, dtype=np.float64)
        if area.shape not in ((), theta.shape) or not (np.isfinite(area) & (area > 0)).all():
            raise ValueError(
                f"area must be a number > 0, or one per row of X ({theta.size}), got shape "
                f"{area.shape}"
            )
        with np.errstate(over="ignore"):
            intensity = np.exp(theta + self.log_scale)
        if output == "intensity":
            return intensity
        return area * intensity if output == "count" else -np.expm1(-area * intensity)

    def intervals(
        self,
        X: Any,
        level: float = LEVEL,
        output: str = "intensity",
        *,
        area: Any = 1.0,
        clamp: bool = True,
        missing: str = "error",
    ) -> Interval:
        """Between which values an output lies at each row of X, by itself, at a level.

        Of an intensity fitted with ``intervals``; see ``FittedDensity.intervals`` for how, and
        ``predict`` for the outputs. "intensity", "probability" and "count" have those of the log
        intensity, whose scale is not known exactly either.
        """
        density, known = self.density, self.density.known_uncertainty()
        if output not in OUTPUTS:
            return density.intervals(X, level, output, clamp=clamp, missing=missing)
        middle = self.predict(X, output, area=area, clamp=clamp, missing=missing)
        if self.log_scale is None:
            return density.intervals(X, level, "raw", clamp=clamp, missing=missing)
        cells = density.schema.read(X, missing=missing == "drop")
        reach = quantile(level) * known.scaled_deviation(density, cells, clamp)
        if output == "probability":
            with np.errstate(divide="ignore", over="ignore"):
                rate = -np.log1p(-middle)
                return Interval(*(-np.expm1(-rate * np.exp(s * reach)) for s in (-1, 1)))
        return Interval(*(middle * np.exp(s * reach) for s in (-1, 1)))

    def deviation(self, X: Any, name: str, *, clamp: bool = True) -> Array:
        """The log of what a source adds to the intensity at the rows of X: where it disagrees.

        0 of a source without a ``Source.deviation``.
        """
        known = {fitted.name: fitted for fitted in self.sources}
        if name not in known:
            raise ValueError(f"no source is called {name!r}: there are {', '.join(known)}")
        density, fitted = self.density, known[name]
        scorer = Scorer.from_operators(fitted.operators, fitted.weights, density.low, density.high)
        return scorer.scores(density.schema.read(X), clamp)

    def deviance(self, source: Source) -> float:
        """That of new records; effort and scale are those of the fitted source of that name."""
        entries = source.entries()
        theta = self.density.scores(source.X)[entries.row]
        known = {fitted.name: fitted for fitted in self.sources}.get(source.name)
        if known is None:
            shift = further_score(source, entries, {}, 0.0, self.log_scale)
        else:
            shift = further_score(source, entries, known.effort, known.offset, self.log_scale)
            theta = theta + self.deviation(source.X, source.name)[entries.row]
        theta = theta + shift
        return source.deviance(entries, theta)

    def summary(self) -> str:
        """The sources, the scale and the certificate in a few lines."""
        lines = [
            f"{s.name}: {s.kind}, {s.n_rows} rows, {s.n_records:g} records, weight {s.weight:g}, "
            f"deviance {s.deviance:.6g}"
            + ("; a scale of its own" if s.own_scale else "")
            + "".join(f"; effort {name} {g:+.3g}" for name, g in s.effort.items())
            for s in self.sources
        ]
        lines.append(
            f"absolute: log scale {self.log_scale:.4g}"
            if self.log_scale is not None
            else "relative: no source tells the scale"
        )
        return "\n".join([*lines, self.density.certificate.describe()])


def further_score(
    source: Source,
    entries: Entries,
    effort: Mapping[str, float],
    offset: float,
    log_scale: float | None,
) -> Array:
    """What is added to `<w, f>` for the entries of a source: effort and scale."""
    lost = [name for name in effort if name not in source.effort]
    if lost:
        raise ValueError(f"source {source.name!r} lacks the effort columns {', '.join(lost)}")
    total = np.full(entries.row.size, offset)
    for name, weight in effort.items():
        total += weight * source.effort[name][entries.row]
    if source.knows_scale:
        if log_scale is None:
            raise ValueError(
                f"source {source.name!r} needs the absolute scale, which the fit does not know"
            )
        total += log_scale
    return total


def density_over(
    points: Points, theta: Array, link: DensityLink, known: dict[str, Any]
) -> FittedDensity:
    """The density with scores theta over points in memory."""
    sums = DensitySums.from_points(theta, link, points.mass, size=max(theta.size, 2))
    told = known | {"n_presences": points.n_presences, "biased": points.biased}
    return density_of_sums(sums, points, link, told)


def density_of_sums(
    sums: DensitySums, place: Any, link: DensityLink, known: dict[str, Any]
) -> FittedDensity:
    """The density with these sums over a place; no evidence, which a bound on its loss needs."""
    return FittedDensity.from_sums(
        sums, place, link, entropy=Shannon(), merged=False, evidence=None, **known
    )

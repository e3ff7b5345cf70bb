"""Coverage of all that models and ``mx.bounds`` promise, with many candidates and few records.

The truth is uniform, so whatever a fit finds is chance, and a strong penalty lets in only the
features that chance favours most: a bound that forgot the features it did not choose fails here.
Occurrences are drawn again and again. Kinds of promise are kept apart by ``kind``:

- "loss": ``bound()`` of every density estimator against the true log loss of the fit;
- "assumption": the same where what the bound says that it assumes is not so: records that are
  copies of others, that come in blocks, that were thinned, or whose weights depend on where they
  are. Nothing is promised there;
- "radius": a beta of ``maxent.core.bounds`` against the largest deviation among all features;
- "certificate": ``guarantees_`` of a fit that stopped early against KL(p* || p), p* the solution;
  no chance is involved, and it must hold always.

``bound`` and ``actual`` are means over the draws of what was promised and of what happened.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import maxent as mx
from maxent.core import bounds
from maxent.density import FittedDensity
from maxent.families import Family
from maxent.features import Schema

DELTA = 0.05
REPEATS = {"loss": 60, "assumption": 60, "radius": 1000, "certificate": 20}
Measure = Callable[[Any], Iterator[tuple[float, float]]]
Draw = Callable[[np.random.Generator], Any]
Fit = Callable[[np.ndarray, np.ndarray], list[FittedDensity]]


class Design(NamedTuple):
    """How many occurrences are drawn among how many cells, and what is promised and true of them.

    ``measure`` takes the counts in the cells, or what ``draw`` gives, and yields pairs of a bound
    and what it bounds; in a draw all of them must hold together, with probability ``promised``.
    """

    kind: str
    name: str
    cells: int
    m: int
    measure: Measure
    promised: float | None = 1 - DELTA
    draw: Draw | None = None

    def sample(self, rng: np.random.Generator) -> Any:
        """One draw."""
        return self.draw(rng) if self.draw else _counts(rng, self.cells, self.m)


def _counts(rng: np.random.Generator, cells: int, m: int) -> np.ndarray:
    return np.bincount(rng.integers(cells, size=m), minlength=cells)


# -- bounds on the loss ----------------------------------------------------------------------------


def _loss(name: str, X: np.ndarray, m: int, fit: Fit) -> Design:
    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        for density in fit(X, y):
            yield density.bound(DELTA).bound, -float(np.mean(density.predict(X, "log")))

    return Design("loss", name, len(X), m, measure)


def _first_of_path(**settings: Any) -> Callable[..., list[FittedDensity]]:
    """The first model of the path that uses any feature."""

    def fit(X: np.ndarray, y: np.ndarray, weight: Any = None) -> list[FittedDensity]:
        path = mx.MaxentDensity(**settings).task(X, y, weight).path()
        return [next(density for _, density in path if density.coef)]

    return fit


def _path(model: Any, X: np.ndarray, y: np.ndarray) -> list[FittedDensity]:
    """All models of a path: each may be the one that is printed."""
    return [each.density_ for each in model.path(X, y, n_multipliers=5)]


def _path_of_search(model: Any, X: np.ndarray, y: np.ndarray) -> list[FittedDensity]:
    return _path(model.fit(X, y), X, y)


def _fitted(model: Any) -> Fit:
    return lambda X, y: [model.fit(X, y).density_]


def _losses(X: dict[str, np.ndarray]) -> list[Design]:
    """Every estimator that prints a bound, on designs that tempt it."""
    few = X["real"][:, :12]
    search = mx.MaxentDensityCV(features=["l", "lq", "lqp"], multipliers=[1.0, 4.0], cv=3)
    grow = partial(mx.StructMaxent, lam=0.0)
    trees, splines = grow([mx.Trees(2)], beta=0.12, rounds=3), mx.Splines(2, knots=8)
    validated = mx.StructMaxentCV([mx.Trees(2), mx.Monomials(2)], lams=[0.0], betas=[0.08, 0.16])
    steps = grow([mx.Trees(2)], beta=0.12, rule="structmaxent2", rounds=10)
    levels = grow([mx.Trees(2)], beta=0.1, rounds=2, categorical=[0])
    many = grow([mx.Trees(1)], beta=0.02, rounds=1, categorical=[0])
    monomials = grow([mx.Monomials(2)], beta=0.08, rounds=3)
    elastic = mx.MaxentDensity("lqp", "elastic", multiplier=4.0)
    hinges = mx.MaxentDensity("lth", multiplier=4.0)
    return [
        _loss("200 binary columns, path", X["binary"], 50, _first_of_path(features="l")),
        _loss("150 balanced columns, path", X["balanced"], 40, _first_of_path(features="l")),
        _loss("150 balanced columns, default", X["balanced"], 40, _fitted(mx.MaxentDensity())),
        _loss("squares of 40 columns, path", X["real"], 40, _first_of_path(features="q")),
        _loss("products of 40 columns, path", X["real"], 40, _first_of_path(features="lp")),
        _loss("thresholds and hinges of 40 columns", X["real"], 40, _fitted(hinges)),
        _loss("elastic net on 12 columns", few, 40, _fitted(elastic)),
        _loss("five models of a path", X["balanced"], 40, partial(_path, mx.MaxentDensity("l"))),
        _loss("300 levels, path", X["level"], 40, _first_of_path(features="c", categorical=[0])),
        _loss("search over feature sets", few, 30, _fitted(search)),
        _loss("five models after a search", few, 30, partial(_path_of_search, search)),
        _loss("trees on 40 columns", X["real"], 60, _fitted(trees)),
        _loss("trees on 40 columns, steps of the paper", X["real"], 60, _fitted(steps)),
        _loss("trees on 300 levels", X["level"], 60, _fitted(levels)),
        _loss("trees on 3,000 levels", X["many"], 2000, _fitted(many)),
        _loss("monomials of 40 columns", (X["real"] + 1) / 2, 60, _fitted(monomials)),
        _loss("splines on 12 columns", few, 60, _fitted(grow([splines], beta=0.05, rounds=3))),
        _loss("validated trees and monomials", few, 60, _fitted(validated)),
    ]


# -- records with weights, and records that are not what is assumed --------------------------------


class Records(NamedTuple):
    """The cells of drawn records, and the weight of each."""

    cells: np.ndarray
    weight: np.ndarray


def _pareto(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
    """Of mean 1 and no variance, wherever the records lie: P(s > t) = (3 t)^(-3/2)."""
    return (1 + rng.pareto(1.5, cells.size)) / 3


def _weighted_loss(
    name: str, X: np.ndarray, m: int, fit: Any, law: Any = _pareto, promised: float | None = 0.95
) -> Design:
    """Each record is a row of its own, with a weight of its own."""

    def measure(drawn: Records) -> Iterator[tuple[float, float]]:
        rows = np.concatenate([X, X[drawn.cells]])
        y = np.repeat([0, 1], [len(X), m])
        weight = np.concatenate([np.ones(len(X)), drawn.weight])
        for density in fit(rows, y, weight):
            yield _stated(density, X)

    def draw(rng: np.random.Generator) -> Records:
        cells = rng.integers(len(X), size=m)
        return Records(cells, law(rng, cells))

    kind = "loss" if promised else "assumption"
    return Design(kind, name, len(X), m, measure, promised, draw)


def _stated(density: FittedDensity, X: np.ndarray) -> tuple[float, float]:
    """The bound, and the loss under the uniform truth, both relative to the default density."""
    told = density.bound(DELTA)
    loss = -float(np.mean(density.predict(X, "log")))
    return told.bound, loss if told.n_cells else loss - np.log(density.n_points)


def _weighted(X: dict[str, np.ndarray]) -> list[Design]:
    """Weights of records, of all rows alike, and many records in a few cells."""

    def by(model: Any) -> Any:
        return lambda rows, y, weight: [model.fit(rows, y, weight).density_]

    def some(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
        return np.where(rng.random(cells.size) < 0.2, 9.0, 1.0)

    def scaled(rows: np.ndarray, y: np.ndarray) -> list[FittedDensity]:
        return first(rows, y, np.full(len(y), 100.0))

    balanced, real, first = X["balanced"], X["real"], _first_of_path(features="l")
    tied = np.round(2 * real[:, :12]) / 2
    hinges = mx.MaxentDensity("lth", multiplier=4.0)
    trees = mx.StructMaxent([mx.Trees(2)], lam=0.0, beta=0.12, rounds=3)
    return [
        _weighted_loss("weights of a Pareto law, 150 balanced columns, path", balanced, 40, first),
        _weighted_loss("a fifth weighs 9, 150 balanced columns, path", balanced, 40, first, some),
        _weighted_loss("weights of a Pareto law, thresholds and hinges", real, 40, by(hinges)),
        _weighted_loss("weights of a Pareto law, trees on 40 columns", real, 60, by(trees)),
        _loss("weight 100 on every row, 150 balanced columns, path", balanced, 40, scaled),
        _loss("thresholds and hinges of 12 columns with five values", tied, 40, _fitted(hinges)),
        _loss("60 cells, 400 records", balanced[:60], 400, first),
    ]


def _assumed(X: dict[str, np.ndarray]) -> list[Design]:
    """What the bound says that it assumes is not so; the truth is uniform in each of them."""
    balanced, m, block = X["balanced"], 40, 12
    blocks = np.repeat(balanced[: 600 // block], block, axis=0)  # neighbours look alike
    first = _first_of_path(features="l")

    def dependent(name: str, rows: np.ndarray, draw: Draw) -> Design:
        def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
            yield _stated(first(rows, y)[0], rows)

        return Design("assumption", name, len(rows), m, measure, None, draw)

    def copies(rng: np.random.Generator) -> np.ndarray:
        return 4 * _counts(rng, 600, m // 4)

    def clusters(rng: np.random.Generator) -> np.ndarray:
        first = block * rng.integers(600 // block, size=m // 5)
        cells = np.repeat(first, 5) + rng.integers(block, size=m)
        return np.bincount(cells, minlength=600)

    def thinned(rng: np.random.Generator) -> np.ndarray:
        return np.minimum(_counts(rng, 600, m), 1)

    def by_place(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
        return np.where(balanced[cells, 0] > 0, 4.0, 1.0)

    def fitted(rows: np.ndarray, y: np.ndarray, weight: np.ndarray) -> list[FittedDensity]:
        return [mx.MaxentDensity("l").fit(rows, y, weight).density_]

    one = balanced[:, :1]
    return [
        dependent("every record four times in y", balanced, copies),
        dependent("blocks of five records", blocks, clusters),
        dependent("thinned to one record per cell", balanced, thinned),
        _weighted_loss("weights by the values of a column", one, 400, fitted, by_place, None),
    ]


# -- radii -----------------------------------------------------------------------------------------


def _radius(name: str, F: np.ndarray, m: int, beta: Callable[[np.ndarray], Any]) -> Design:
    """``beta`` of the counts, one or one per column of F, against the deviations of its means."""
    mean = F.mean(axis=0)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        deviation, radius = np.abs(y @ F / m - mean), np.broadcast_to(beta(y), mean.shape)
        worst = int(np.argmax(deviation - radius))
        yield float(radius[worst]), float(deviation[worst])

    return Design("radius", name, len(F), m, measure)


def _every_threshold(X: np.ndarray, m: int) -> Design:
    order = np.argsort(X, axis=0)
    share = np.arange(1, len(X) + 1)[:, None] / len(X)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        deviation = np.cumsum(y[order], axis=0) / m - share
        yield bounds.dkw_beta(X.shape[1], m, DELTA), float(np.abs(deviation).max())

    return Design("radius", f"dkw_beta, all thresholds of {X.shape[1]} columns", len(X), m, measure)


def _every_interval(x: np.ndarray, m: int) -> Design:
    """Indicators of a < x <= b, of VC dimension 2."""
    order, share = np.argsort(x), np.arange(len(x) + 1) / len(x)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        deviation = np.concatenate([[0.0], np.cumsum(y[order])]) / m - share
        yield bounds.vc_beta(2, m, DELTA), float(np.ptp(deviation))

    return Design("radius", "vc_beta, all intervals of a column", len(x), m, measure)


def _of_weights(name: str, cells: int, m: int, measure: Measure) -> Design:
    """A radius for records with weights of a Pareto law."""

    def draw(rng: np.random.Generator) -> Records:
        drawn = rng.integers(cells, size=m)
        return Records(drawn, _pareto(rng, drawn))

    return Design("radius", f"{name}, weights of a Pareto law", cells, m, measure, draw=draw)


def _share(drawn: Records, cells: int) -> np.ndarray:
    """Of the weight, at each cell."""
    return np.bincount(drawn.cells, drawn.weight, minlength=cells) / drawn.weight.sum()


def _radii_of_weights(X: dict[str, np.ndarray]) -> list[Design]:
    real, binary, m = X["real"], X["binary"], 100
    order, cells = np.argsort(real, axis=0), len(real)
    below = np.arange(1, cells + 1)[:, None] / cells
    schema, family = Schema.from_table(real), mx.Trees(3)
    search = family.search(schema.read(real), schema)
    diameter = bounds.l2_diameter_bound(binary)

    def columns(drawn: Records) -> Iterator[tuple[float, float]]:
        effective = bounds.effective_number(drawn.weight)
        deviation = _share(drawn, len(binary)) @ binary - binary.mean(axis=0)
        radius = bounds.hoeffding_beta(binary.shape[1], effective, DELTA)
        yield radius, float(np.abs(deviation).max())

    def ball(drawn: Records) -> Iterator[tuple[float, float]]:
        effective = bounds.effective_number(drawn.weight)
        deviation = _share(drawn, len(binary)) @ binary - binary.mean(axis=0)
        yield bounds.ball_beta(diameter, effective, DELTA), float(np.linalg.norm(deviation))

    def thresholds(drawn: Records) -> Iterator[tuple[float, float]]:
        deviation = np.cumsum(_share(drawn, cells)[order], axis=0) - below
        number = bounds.half_line_number(drawn.weight)
        radius = bounds.weighted_dkw_beta(real.shape[1], number, DELTA)
        yield radius, float(np.abs(deviation).max())

    def trees(drawn: Records) -> Iterator[tuple[float, float]]:
        effective = bounds.effective_number(drawn.weight)
        for found in search.propose(_share(drawn, cells) - 1 / cells):
            of_records = partial(family.complexity_of, found.level, schema)
            complexity = bounds.weighted_complexity(of_records, drawn.weight)
            radius = bounds.structural_beta(complexity, family.max_level, effective, DELTA)
            yield float(radius), abs(found.value)

    # weights of the cells: the mean is that of the distribution with density in proportion to them
    place = np.where(binary[:, 0] > 0, 4.0, 1.0)
    target = place @ binary / place.sum()

    def by_place(y: np.ndarray) -> Iterator[tuple[float, float]]:
        weight = y * place
        number = max(weight.sum() ** 2 / (m * place.max() ** 2), 1.0)
        deviation = weight @ binary / weight.sum() - target
        radius = bounds.hoeffding_beta(binary.shape[1], number, DELTA)
        yield radius, float(np.abs(deviation).max())

    return [
        _of_weights("hoeffding_beta, 200 columns", len(binary), m, columns),
        _of_weights("ball_beta, 200 columns", len(binary), m, ball),
        _of_weights("weighted_dkw_beta, all thresholds of 40 columns", cells, m, thresholds),
        _of_weights("structural_beta, trees on 40 columns", cells, m, trees),
        Design("radius", "hoeffding_beta, weights of the cells", len(binary), m, by_place),
    ]


def _ball(F: np.ndarray, m: int) -> Design:
    radius, mean = bounds.ball_beta(bounds.l2_diameter_bound(F), m, DELTA), F.mean(axis=0)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        yield radius, float(np.linalg.norm(y @ F / m - mean))

    return Design("radius", f"ball_beta, {F.shape[1]} columns", len(F), m, measure)


def _sets(name: str, X: np.ndarray, m: int, family: Family, categorical: Any = ()) -> Design:
    """The features of a family that deviate most, as its own search finds them."""
    schema = Schema.from_table(X, categorical)
    search = family.search(schema.read(X), schema)
    levels = range(1, family.max_level + 1)
    complexity = [family.complexity_of(level, schema, m) for level in levels]
    radius = bounds.structural_beta(complexity, family.max_level, m, DELTA)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        for found in search.propose(y / m - 1 / len(X)):
            yield float(radius[found.level - 1]), abs(found.value)

    return Design("radius", f"structural_beta, {name}", len(X), m, measure)


def _radii(X: dict[str, np.ndarray]) -> list[Design]:
    """The event of every beta, with all features in it."""
    real, binary, m = (X["real"] + 1) / 2, X["binary"], 100
    n, sign = binary.shape[1], 2 * binary - 1
    mixed = np.column_stack([real, real**2])
    monotone = np.arange(mixed.shape[1]) < real.shape[1]

    def sd(y: np.ndarray) -> np.ndarray:
        return np.std(np.repeat(mixed, y, axis=0), axis=0, ddof=1)

    return [
        _radius(
            "hoeffding_beta, 200 columns",
            binary,
            m,
            lambda _: bounds.hoeffding_beta(n, m, DELTA),
        ),
        _radius(
            "bernstein_beta, 80 columns",
            mixed,
            m,
            lambda y: bounds.bernstein_beta(sd(y), len(monotone), m, DELTA),
        ),
        _radius(
            "mixed_beta, 80 columns", mixed, m, lambda _: bounds.mixed_beta(monotone, 40, m, DELTA)
        ),
        _radius(
            "mixed_beta with sd, 80 columns",
            mixed,
            m,
            lambda y: bounds.mixed_beta(monotone, 40, m, DELTA, sd=sd(y)),
        ),
        _every_threshold(X["real"], m),
        _ball(binary, m),
        _every_interval(X["real"][:, 0], m),
        _sets("trees on 40 columns", X["real"], m, mx.Trees(3)),
        _sets("trees on 3,000 levels", X["many"], 2000, mx.Trees(1), [0]),
        _sets("monomials of 40 columns", X["real"], m, mx.Monomials(3)),
        _radius(
            "structural_beta, one column of -1 and 1",
            sign[:, :1],
            m,
            lambda _: bounds.structural_beta(0.0, 1, m, DELTA, diameter=2.0),
        ),
        *_radii_of_weights(X),
    ]


# -- certificates ----------------------------------------------------------------------------------


def _certificate(name: str, X: np.ndarray, m: int, loose: Any, exact: Any) -> Design:
    """What a fit that stopped early says of its distance to one that did not."""

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        fitted, best = loose.fit(X, y), exact.fit(X, y)
        p, log_p = best.predict(X), best.predict(X, "log")
        log_q = fitted.predict(X, "log")
        yield fitted.guarantees_["kl"] + 1e-9, float(p @ (log_p - log_q))
        yield fitted.guarantees_["l1"] + 1e-9, float(np.abs(p - np.exp(log_q)).sum())

    return Design("certificate", name, len(X), m, measure, promised=1.0)


def _certificates(X: dict[str, np.ndarray]) -> list[Design]:
    real, m, few = X["real"], 60, X["real"][:, :12]
    beta = 0.1

    def constant(kinds: np.ndarray, mean: np.ndarray, sd: np.ndarray, m: float) -> np.ndarray:
        return np.full(len(kinds), beta)

    thresholds = mx.MaxentDensity([mx.Threshold()], regularization=constant, tol=1e-10)
    kinds = [
        ("box", {}),
        ("elastic net", {"potential": "elastic"}),
        ("quadratic", {"potential": "quadratic"}),
    ]
    return [
        *(
            _certificate(
                f"{name}, tol 0.01",
                few,
                m,
                mx.MaxentDensity("lqp", tol=1e-2, **settings),
                mx.MaxentDensity("lqp", tol=1e-10, **settings),
            )
            for name, settings in kinds
        ),
        _certificate(
            "trees of one node, 3 rounds, beside all thresholds",
            real,
            m,
            mx.StructMaxent([mx.Trees(1)], lam=0.0, beta=beta, rounds=3),
            thresholds,
        ),
        _certificate(
            "trees of one node, steps of the paper, beside all thresholds",
            real,
            m,
            mx.StructMaxent([mx.Trees(1)], lam=0.0, beta=beta, rule="structmaxent2", rounds=50),
            thresholds,
        ),
    ]


# -- all of them -----------------------------------------------------------------------------------


def designs() -> list[Design]:
    """Binary, balanced and continuous columns, and categories of many levels."""
    rng = np.random.default_rng(0)
    X = {
        "binary": (rng.random((1000, 200)) < 0.5).astype(float),
        "balanced": np.array([rng.permutation(np.arange(600) % 2) for _ in range(150)]).T * 1.0,
        "real": rng.uniform(-1, 1, size=(600, 40)),
        "level": np.repeat(np.arange(300), 3)[:, None].astype(float),
        "many": np.repeat(np.arange(3000), 2)[:, None].astype(float),
    }
    return [*_losses(X), *_weighted(X), *_assumed(X), *_radii(X), *_certificates(X)]


def measure(design: Design, repeats: int | None = None) -> dict[str, float | str | int]:
    """How often what was promised held."""
    repeats = REPEATS[design.kind] if repeats is None else repeats
    rng = np.random.default_rng(1)
    held, promises, happened = [], [], []
    for _ in range(repeats):
        bound, actual = np.array(list(design.measure(design.sample(rng)))).T
        held.append(bool((actual <= bound + 1e-9).all()))
        promises.append(bound.mean())
        happened.append(actual.mean())
    return {
        "kind": design.kind,
        "design": design.name,
        "m": design.m,
        "repeats": repeats,
        "promised": "" if design.promised is None else design.promised,
        "held": round(float(np.mean(held)), 4),
        "bound": round(float(np.mean(promises)), 4),
        "actual": round(float(np.mean(happened)), 4),
    }


def run(out: Path) -> list[Path]:
    """Write the table."""
    table = out / "printed_bounds.csv"
    records = [measure(design) for design in designs()]
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    return [table]

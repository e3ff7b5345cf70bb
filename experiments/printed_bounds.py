"""Coverage of all that models and ``maxent.bounds`` promise, with many candidates and few records.

The truth is uniform, so whatever a fit finds is chance, and a strong penalty lets in only the
features that chance favours most: a bound that forgot the features it did not choose fails here.
Occurrences are drawn again and again. Three kinds of promise are kept apart by ``kind``:

- "loss": ``bound()`` of every density estimator against the true log loss of the fit;
- "radius": a beta of ``maxent.bounds`` against the largest deviation among all features;
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
from maxent import bounds
from maxent.density import FittedDensity
from maxent.families import Family
from maxent.features import Schema

DELTA = 0.05
REPEATS = {"loss": 60, "radius": 1000, "certificate": 20}
Measure = Callable[[np.ndarray], Iterator[tuple[float, float]]]
Fit = Callable[[np.ndarray, np.ndarray], list[FittedDensity]]


class Design(NamedTuple):
    """How many occurrences are drawn among how many cells, and what is promised and true of them.

    ``measure`` takes the counts in the cells and yields pairs of a bound and what it bounds; in a
    draw all of them must hold together, with probability ``promised``.
    """

    kind: str
    name: str
    cells: int
    m: int
    measure: Measure
    promised: float = 1 - DELTA


# -- bounds on the loss ----------------------------------------------------------------------------


def _loss(name: str, X: np.ndarray, m: int, fit: Fit) -> Design:
    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        for density in fit(X, y):
            yield density.bound(DELTA).bound, -float(np.mean(density.predict(X, "log")))

    return Design("loss", name, len(X), m, measure)


def _first_of_path(**settings: Any) -> Fit:
    """The first model of the path that uses any feature."""

    def fit(X: np.ndarray, y: np.ndarray) -> list[FittedDensity]:
        path = mx.MaxentDensity(**settings).task(X, y).path()
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


def _ball(F: np.ndarray, m: int) -> Design:
    radius, mean = bounds.ball_beta(bounds.l2_diameter_bound(F), m, DELTA), F.mean(axis=0)

    def measure(y: np.ndarray) -> Iterator[tuple[float, float]]:
        yield radius, float(np.linalg.norm(y @ F / m - mean))

    return Design("radius", f"ball_beta, {F.shape[1]} columns", len(F), m, measure)


def _sets(name: str, X: np.ndarray, m: int, family: Family, categorical: Any = ()) -> Design:
    """The features of a family that deviate most, as its own search finds them."""
    schema = Schema.of(X, categorical)
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
    return [*_losses(X), *_radii(X), *_certificates(X)]


def measure(design: Design, repeats: int | None = None) -> dict[str, float | str | int]:
    """How often what was promised held."""
    repeats = REPEATS[design.kind] if repeats is None else repeats
    rng = np.random.default_rng(1)
    held, promises, happened = [], [], []
    for _ in range(repeats):
        y = np.bincount(rng.integers(design.cells, size=design.m), minlength=design.cells)
        bound, actual = np.array(list(design.measure(y))).T
        held.append(bool((actual <= bound + 1e-9).all()))
        promises.append(bound.mean())
        happened.append(actual.mean())
    return {
        "kind": design.kind,
        "design": design.name,
        "m": design.m,
        "repeats": repeats,
        "promised": design.promised,
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

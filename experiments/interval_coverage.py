"""How often intervals of a density hold the truth, where it is known: designs, methods, levels.

A landscape of 3,000 cells and four smooth variables. Truths:

- ``inside``: a Gibbs density of linear and quadratic features, which the fits have;
- ``outside``: a bump, a step and a slope, which no fit has exactly.

Records are drawn from the truth, ``independent`` of one another, or in ``clusters``: of ``CLUSTER``
records each in a square of 5 by 5 cells, as records of one trip are, so that they are not
independent. Of ``kinds`` n records are beside a survey with absences and counts of n visits each,
and the intervals are those of the log intensity, scale included. Of ``joint`` four species with n
records each are fitted with eight of 100 records, in three groups that respond alike, by
``MultiDensity``; the intervals of the four are what ``--joint`` gives them, by the curvature given
the weights of the other species. Each sample is fitted, and at every cell it is asked whether the
interval of the log density, and of the cloglog output, holds the truth's. ``coverage`` is the mean
over cells and samples for the log density;
``coverage_records`` weighs cells by the truth, that is where records are; ``coverage_cloglog`` is
of suitability; ``width`` is the mean width in the log density. ``se`` is the standard error of
``coverage`` over the samples. Methods:

- ``laplace``: what ``intervals="laplace"`` is;
- ``debiased``: the same curvature around the fit after one Newton step without the penalty, in the
  features in use (of l1 alone): what is gained by that is to be seen here;
- ``bootstrap``: what ``DensityTask.with_refits`` is, the spread of refits to single records drawn
  with replacement around the fit;
- ``percentiles``: those of the same refits, a usual way to make intervals of them;
- ``blocks``: as ``bootstrap``, whole blocks of 10 by 10 cells being drawn, as the command does (of
  the features "auto" alone).

Refits are made of the first ``FEW`` samples.

python -m experiments.interval_coverage [--repeats 100] [--records joint]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from experiments.guarantees import landscape
from experiments.run import RESULTS, write_rows
from maxent import MultiDensity
from maxent.density import DensityTask, Fit, FittedDensity, Recipe, Source, SourcesTask
from maxent.density.intervals import fitted_exponents, quantile, tails
from maxent.features import bind

SHAPE = (50, 60)
LEVELS = (0.5, 0.8, 0.9, 0.95)
SIZES = (30, 100, 400)
CLUSTER = 5
FOCAL, OTHERS = 4, 8  # species with n records, and with 100
REPEATS, REFITS = 30, 30
FEW = 6  # samples whose refits are made
METHODS = ("laplace", "debiased", "bootstrap", "percentiles", "blocks")
FEATURES = {
    "lq": Recipe("lq", tol=1e-6),
    "auto": Recipe("auto", tol=1e-6),
    "kernel": Recipe("k", "quadratic", tol=1e-6),
}


@dataclass(frozen=True)
class Design:
    """How records come about and what is fitted to them."""

    truth: str
    records: str
    features: str
    n: int


def designs() -> list[Design]:
    """All of them."""
    independent = [
        Design(truth, "independent", features, n)
        for truth in ("inside", "outside")
        for features in FEATURES
        for n in SIZES
    ]
    clusters = [Design("inside", "clusters", "auto", n) for n in SIZES]
    kinds = [Design(truth, "kinds", "lq", n) for truth in ("inside", "outside") for n in SIZES]
    joint = [Design(truth, "joint", "kernel", SIZES[0]) for truth in ("inside", "outside")]
    return [*independent, *clusters, *kinds, *joint]


def variables() -> np.ndarray:
    """The four variables of each cell, from 0 to 1."""
    return landscape(*SHAPE).X[:, :4]


def log_truth(kind: str, V: np.ndarray) -> np.ndarray:
    """The log of the true density."""
    a, b, c = V[:, 0], V[:, 1], V[:, 2]
    if kind == "inside":
        exponent = 4 * a + 4 * b * (1 - b) - 2 * c
    else:
        exponent = 3 * np.exp(-(((a - 0.6) / 0.2) ** 2)) + 2 * (b > 0.5) - 2 * c
    return exponent - np.logaddexp.reduce(exponent)


def drawn(log_pi: np.ndarray, n: int, clusters: bool, rng: np.random.Generator) -> np.ndarray:
    """Counts of n records, single ones or in clusters."""
    pi = np.exp(log_pi)
    if not clusters:
        return rng.multinomial(n, pi / pi.sum()).astype(float)
    rows, columns = SHAPE
    counts = np.zeros(pi.size)
    for centre in rng.choice(pi.size, n // CLUSTER, p=pi / pi.sum()):
        row, column = divmod(int(centre), columns)
        near = np.add.outer(
            np.clip(np.arange(row - 2, row + 3), 0, rows - 1) * columns,
            np.clip(np.arange(column - 2, column + 3), 0, columns - 1),
        ).ravel()
        counts += np.bincount(rng.choice(near, CLUSTER), minlength=pi.size)
    return counts


def blocks() -> np.ndarray:
    """The block of each cell."""
    row, column = np.divmod(np.arange(SHAPE[0] * SHAPE[1]), SHAPE[1])
    return (row // 10) * SHAPE[1] + column // 10


def _exponents(log_q: np.ndarray) -> np.ndarray:
    """Of the cloglog output: log q + H(q)."""
    return log_q - np.exp(log_q) @ log_q


def _debiased(task: DensityTask, density: FittedDensity, V: np.ndarray) -> np.ndarray:
    """What one Newton step without the penalty adds to the log density."""
    features = bind(density.operators, density.schema.read(V))
    q = density.predict(V)
    q = q / q.sum()
    gradient = task.points.observed - q
    covariance = features.gram(q, q)
    covariance += 1e-8 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    step = np.linalg.solve(covariance, features.moments(gradient))
    return (features.columns() - features.moments(q)) @ step


def reaches(
    task: DensityTask, fit: Fit, V: np.ndarray, method: str, known: FittedDensity
) -> Iterator[tuple[float, list[list[np.ndarray]]]]:
    """By level, ends of the log density, and of the exponent of the cloglog output."""
    if method == "percentiles":
        cells = known.schema.read(V)
        logs = [known.uncertainty.logs(known, cells, output, True) for output in ("log", "cloglog")]
        for level in LEVELS:
            yield level, [list(np.quantile(found, tails(level), 1)) for found in logs]
        return
    cells, spreads = known.schema.read(V), []
    middles = [known.predict(V, "log"), fitted_exponents(known, cells)]
    for output in ("log", "cloglog"):
        spreads.append(known.known_uncertainty().deviation(known, cells, output))
    if method == "debiased":
        middles = [middles[0] + _debiased(task, fit.density, V), np.full(len(V), np.nan)]
    for level in LEVELS:
        z = quantile(level)
        yield level, [[m - z * s, m + z * s] for m, s in zip(middles, spreads, strict=True)]


def sample_rows(design: Design, V: np.ndarray, seed: int, refits: int) -> Iterator[dict[str, Any]]:
    """What the intervals of one sample hold, by method and level."""
    log_pi = log_truth(design.truth, V)
    pi, eta = np.exp(log_pi), _exponents(log_pi)
    rng = np.random.default_rng([seed, design.n])
    if design.records == "joint":
        yield from joint_rows(design, V, rng)
        return
    if design.records == "kinds":
        yield from kinds_rows(design, V, log_pi, rng, seed, refits)
        return
    y = drawn(log_pi, design.n, design.records == "clusters", rng)
    task = FEATURES[design.features].task(V, y)
    fit = task.fit()
    fitted = {"laplace": task.with_laplace(fit.density)}
    fitted["debiased"] = fitted["laplace"]
    if refits:
        fitted["bootstrap"] = task.with_refits(fit.density, fit.w, n=refits, seed=seed)
        fitted["percentiles"] = fitted["bootstrap"]
        if design.features == "auto":
            drawn_whole = {"n": refits, "seed": seed, "blocks": blocks()}
            fitted["blocks"] = task.with_refits(fit.density, fit.w, **drawn_whole)
    for method in METHODS:
        if method not in fitted or (method == "debiased" and design.features == "kernel"):
            continue
        for level, (log, cloglog) in reaches(task, fit, V, method, fitted[method]):
            held = (log[0] <= log_pi) & (log_pi <= log[1])
            shown = (cloglog[0] <= eta) & (eta <= cloglog[1])
            yield {
                "method": method,
                "level": level,
                "coverage": held.mean(),
                "coverage_records": held @ pi,
                "coverage_cloglog": np.nan if method == "debiased" else shown.mean(),
                "width": np.mean(log[1] - log[0]),
            }


def kinds_rows(
    design: Design,
    V: np.ndarray,
    log_pi: np.ndarray,
    rng: np.random.Generator,
    seed: int,
    refits: int,
) -> Iterator[dict[str, Any]]:
    """What the intervals of an intensity of presences, a survey and counts hold."""
    log_rate = log_pi + np.log(len(V))  # 1 in the mean
    survey, counted = (rng.choice(len(V), design.n) for _ in range(2))
    found = rng.random(design.n) < -np.expm1(-np.exp(log_rate[survey]))
    sources = [
        Source("presences", V, drawn(log_pi, design.n, False, rng)),
        Source("survey", V[survey], found),
        Source("counts", V[counted], rng.poisson(np.exp(log_rate[counted]))),
    ]
    task = SourcesTask.of(sources, FEATURES[design.features])
    solution = task.solve()
    intensity = task.intensity(solution)
    fitted = {"laplace": task.with_laplace(intensity, solution.w)}
    if refits:
        fitted["bootstrap"] = task.with_refits(intensity, solution.w, n=refits, seed=seed)
    for method, known in fitted.items():
        for level in LEVELS:
            low, high = np.log(known.intervals(V, level))
            held = (low <= log_rate) & (log_rate <= high)
            yield {
                "method": method,
                "level": level,
                "coverage": held.mean(),
                "coverage_records": held @ np.exp(log_pi),
                "coverage_cloglog": np.nan,
                "width": np.mean(high - low),
            }


def log_truths(kind: str, V: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The log densities of focal and other species, a column each, in groups that are alike."""
    a, b, c = V[:, 0], V[:, 1], V[:, 2]
    columns = []
    for s in range(FOCAL + OTHERS):
        group, apart = s % 3, rng.normal(size=3)
        if kind == "inside":
            w = np.array([(4, 4, -2), (-4, 4, 2), (2, -4, 4)][group]) + apart
            exponent = w[0] * a + w[1] * b * (1 - b) + w[2] * c
        else:
            centre = (0.6, 0.3, 0.8)[group] + 0.05 * apart[0]
            exponent = 3 * np.exp(-(((a - centre) / 0.2) ** 2)) + (2 + 0.5 * apart[1]) * (b > 0.5)
            exponent -= (2 + 0.5 * apart[2]) * c
        columns.append(exponent - np.logaddexp.reduce(exponent))
    return np.column_stack(columns)


def joint_rows(design: Design, V: np.ndarray, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """What the intervals of species with n records hold that are fitted with others."""
    log_pi = log_truths(design.truth, V, rng)
    sizes = [design.n] * FOCAL + [100] * OTHERS
    Y = np.column_stack([drawn(x, n, False, rng) for x, n in zip(log_pi.T, sizes, strict=True)])
    joint = MultiDensity().fit(V, Y).joint_
    recipe, found = FEATURES[design.features], {}
    for s in range(FOCAL):
        known = recipe.task(V, Y[:, s]).with_laplace(joint.density(s))
        eta = _exponents(log_pi[:, s])
        for level in LEVELS:
            log = np.log(known.intervals(V, level, "raw"))
            shown = known.intervals(V, level, "cloglog")
            held = (log[0] <= log_pi[:, s]) & (log_pi[:, s] <= log[1])
            truth = -np.expm1(-np.exp(eta))
            found.setdefault(level, []).append(
                (
                    held.mean(),
                    held @ np.exp(log_pi[:, s]),
                    ((shown[0] <= truth) & (truth <= shown[1])).mean(),
                    np.mean(log[1] - log[0]),
                )
            )
    names = ("coverage", "coverage_records", "coverage_cloglog", "width")
    for level, species in found.items():
        means = dict(zip(names, np.mean(species, axis=0), strict=True))
        yield {"method": "laplace", "level": level, **means}


def rows(
    repeats: int = REPEATS, few: int = FEW, refits: int = REFITS, records: str = ""
) -> Iterator[dict[str, Any]]:
    """A row for each design, method and level; of all designs or those with some records."""
    V = variables()
    for design in designs():
        if records not in ("", design.records):
            continue
        made = [
            sample_rows(design, V, seed, refits if seed < few else 0) for seed in range(repeats)
        ]
        found: dict[tuple[str, float], list[dict[str, Any]]] = {}
        for sample in made:
            for row in sample:
                found.setdefault((row["method"], row["level"]), []).append(row)
        for (method, level), held in found.items():
            coverage = np.array([row["coverage"] for row in held])
            yield {
                "truth": design.truth,
                "records": design.records,
                "features": design.features,
                "n": design.n,
                "method": method,
                "level": level,
                "samples": len(held),
                "coverage": round(float(coverage.mean()), 3),
                "se": round(float(coverage.std(ddof=1) / np.sqrt(len(held))), 3),
                **{
                    name: round(float(np.mean([row[name] for row in held])), 3)
                    for name in ("coverage_records", "coverage_cloglog", "width")
                },
            }
            if level == 0.9:
                print(
                    f"{design.truth} {design.records} {design.features} n={design.n} {method}: "
                    f"{coverage.mean():.3f} at {level:g}",
                    flush=True,
                )


def run(out: Path, repeats: int = REPEATS, records: str = "") -> list[Path]:
    """Write the table; with ``records`` the rows of other designs stay as they are."""
    file = out / "interval_coverage.csv"
    kept: list[dict[str, Any]] = []
    if records:
        with file.open(newline="") as table:
            kept = [row for row in csv.DictReader(table) if row["records"] != records]
    return [write_rows(file, chain(kept, rows(repeats, records=records)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--records", default="", choices=sorted({d.records for d in designs()}))
    given = parser.parse_args()
    run(RESULTS, given.repeats, given.records)


if __name__ == "__main__":
    main()

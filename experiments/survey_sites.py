"""Where to survey next: maps after visits that were chosen in four ways, beside the truth.

Virtual landscapes whose true density is known. 20 records are drawn, from the truth or from the
truth times an effort that is known, and fitted. Then come rounds of 10 visits: to the sites of
``maxent sites``, to cells at random, to the most suitable cells, or evenly spread (each the
farthest from the visits before). A visit finds the species with its true probability, 1 - exp(-e^H
pi), which the cloglog output estimates; the luck of a cell is the same for all ways to choose it.

A visit gives the fit one of two things: "records" alone, a record where the species was found and
nothing elsewhere, as in a table of presences; or "effort" too (``visit_effort``), the fit knowing
where the visits were, also those that found nothing.

``auc`` ranks cells by the map, those drawn from the truth against all; ``error`` is the mean
squared error of the cloglog output over the cells; ``kl`` is KL(truth || map) in nats. Columns
``NAME_gain`` are means of paired differences to visits at random, better being positive, and
``NAME_gain_se`` their standard errors over the runs.

python -m experiments.survey_sites [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import rel_entr
from scipy.stats import rankdata, spearmanr

import maxent as mx
from experiments.run import RESULTS, write_rows
from maxent.datasets.landscape import virtual_landscape
from maxent.density import FittedDensity, Posterior
from maxent.species.judging.sites import choose_sites
from maxent.species.judging.visits import visit_effort

SHAPE, QUICK = (40, 52), (20, 26)
RECORDS, VISITS, ROUNDS = 20, 10, 3
LANDSCAPES, DRAWS = 6, 10
FIRST = 100  # seed; how visits become effort was settled on landscapes 0 to 5, which are not used
WAYS = ("sites", "random", "suitable", "even")
SCORES = {"auc": 1, "spearman": 1, "error": -1, "kl": -1}  # -1: less is better


class Island(NamedTuple):
    """Cells of a landscape: variables, true density, true probability, effort, row and column."""

    X: Any
    truth: np.ndarray
    there: np.ndarray
    effort: np.ndarray
    place: np.ndarray

    @classmethod
    def make(cls, seed: int, shape: tuple[int, int] = SHAPE) -> Island:
        """The island of a seed."""
        import pandas as pd

        made = virtual_landscape(*shape, seed=seed)
        land = made.land
        X = pd.DataFrame({name: layer[land] for name, layer in made.layers.items()})
        truth, effort = made.truth[land], made.effort[land]
        entropy = -float(np.sum(truth * np.log(np.maximum(truth, 1e-300))))
        there = -np.expm1(-np.exp(entropy) * truth)
        return cls(X, truth, there, effort / effort.mean(), np.argwhere(land).astype(float))

    def scores(self, density: FittedDensity) -> dict[str, float]:
        """How close the map of a fit is to the truth."""
        q, p = density.predict(self.X, "raw"), density.predict(self.X, "cloglog")
        below = (rankdata(p) - 0.5) / len(p)
        return {
            "auc": float(self.truth @ below),
            "spearman": float(spearmanr(p, self.there).statistic),
            "error": float(np.mean((p - self.there) ** 2)),
            "kl": float(rel_entr(self.truth, q / q.sum()).sum()),
        }


def fitted(island: Island, y: np.ndarray, effort: np.ndarray) -> FittedDensity:
    """The default fit, with effort taken out of the density."""
    prior = None if (effort == 1).all() else effort
    return mx.MaxentDensity(categorical=["biome"]).fit(island.X, y, prior=prior).density_


def chosen(
    way: str, island: Island, density: FittedDensity, visits: np.ndarray, rng: np.random.Generator
) -> list[int]:
    """Cells to visit next."""
    free = visits == 0
    if way == "random" or (way != "even" and not len(density.weights)):
        return list(rng.choice(np.flatnonzero(free), VISITS, replace=False))
    if way == "suitable":
        order = np.where(free, density.predict(island.X), -1.0)
        return list(np.argsort(-order, kind="stable")[:VISITS])
    if way == "sites":
        posterior = Posterior.from_density(density, island.X)
        return choose_sites(posterior, posterior.at(island.X), VISITS, free=free)[0]
    before = list(np.flatnonzero(~free)) or [int(rng.integers(len(free)))]
    rows = [] if visits.any() else before[:]
    while len(rows) < VISITS:
        away = [np.hypot(*(island.place - island.place[i]).T) for i in {*before, *rows}]
        rows.append(int(np.argmax(np.min(away, axis=0))))
    return rows


def survey(
    island: Island, start: str, use: str, way: str, draw: tuple[int, ...], rounds: int
) -> Iterator[dict[str, float]]:
    """Scores after each round, the first being before any visit."""
    rng = np.random.default_rng(draw)
    known = start == "effort known"
    density = island.truth * (island.effort if known else 1.0)
    y = np.bincount(
        rng.choice(len(density), RECORDS, p=density / density.sum()), minlength=len(density)
    )
    present = rng.random(len(density)) < island.there
    effort = island.effort if known else np.ones(len(density))
    last = fitted(island, y, effort)
    visits = np.zeros(len(density))
    for turn in range(rounds + 1):
        if turn:
            rows = chosen(way, island, last, visits, rng)
            visits[rows] += 1
            if use == "effort":
                more = visit_effort(last, island.X.iloc[rows], island.X, effort=effort)
                effort = effort + np.bincount(rows, more, minlength=len(effort))
            y = y + np.bincount(rows, present[rows], minlength=len(y)).astype(int)
            last = fitted(island, y, effort)
        yield {"found": float(y.sum() - RECORDS), **island.scores(last)}


def table(quick: bool = False) -> Iterator[dict[str, object]]:
    """One row for each start, use, way and round."""
    landscapes, draws, rounds = (1, 2, 1) if quick else (LANDSCAPES, DRAWS, ROUNDS)
    seeds = range(FIRST, FIRST + landscapes)
    islands = {seed: Island.make(seed, QUICK if quick else SHAPE) for seed in seeds}
    runs = [(k, draw) for k in seeds for draw in range(draws)]
    for start in ("no bias", "effort known"):
        for use in ("records", "effort"):
            found = {
                way: [list(survey(islands[k], start, use, way, (k, d), rounds)) for k, d in runs]
                for way in WAYS
            }
            for way in WAYS:
                for turn in range(rounds + 1):
                    yield {
                        "start": start,
                        "use": use,
                        "way": way,
                        "visits": turn * VISITS,
                        "runs": len(runs),
                        **_means(
                            [run[turn] for run in found[way]],
                            [run[turn] for run in found["random"]],
                        ),
                    }


def _means(rows: list[dict[str, float]], others: list[dict[str, float]]) -> dict[str, float]:
    """Means, and means of paired differences with their standard errors."""
    told = {"found": float(np.mean([row["found"] for row in rows]))}
    for name, sign in SCORES.items():
        value, other = (np.array([row[name] for row in part]) for part in (rows, others))
        gain = sign * (value - other)
        told[name] = float(value.mean())
        told[f"{name}_gain"] = float(gain.mean())
        told[f"{name}_gain_se"] = float(gain.std(ddof=1) / np.sqrt(len(gain)))
    return told


def run(results: Path, quick: bool = False) -> list[Path]:
    """Write the table; a quick one beside it, for it means nothing."""
    suffix = "_quick" if quick else ""
    return [write_rows(results / f"survey_sites{suffix}.csv", table(quick))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="one small landscape, two draws, one round"
    )
    for path in run(RESULTS, parser.parse_args().quick):
        print(f"written: {path.relative_to(RESULTS.parent.parent)}")


if __name__ == "__main__":
    main()

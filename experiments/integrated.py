"""Presences and a share of a survey in one fit, scored on the sites that are left (NCEAS).

Of each region's survey a random share of the sites is given to the fits, the rest is scored. Every
species has four fits with the same kernel features, chosen without a look at any record:

- ``presences``: its records at the places with a record of any species of its group;
- ``survey``: the sites that were handed out, found or not;
- ``both``: both, each with its likelihood;
- ``weighted``: both, the weight of the presences being the one of `GRID` whose fits predict
  held-out sites of the share best (five folds, deviances summed over the species of the group; 0
  is the survey alone); ``weighted_own`` the same with a weight for each species.

A species that the share did not find has no survey to fit: ``survey`` is then the same everywhere,
AUC 0.5, and the others are ``presences``. The scored sites are looked at once, by the score.

python -m experiments.integrated [--regions AWT CAN NZ SWI] [--share 0.1] [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

import experiments._nceas_data as data
import maxent as mx
from experiments.run import RESULTS, write_rows
from maxent.density import Recipe
from maxent.density.sources import Source, SourcesTask, WeightChoice, held_out_weights

GRID = (0.0, 0.03, 0.1, 0.3, 1.0)
METHODS = ("presences", "survey", "both", "weighted", "weighted_own")
RECIPE = Recipe([mx.Kernel()], "quadratic", tol=1e-6)


def group_rows(group: data.Group, share: float, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each species and method."""
    region, species = group.region, group.species
    rows, found = region.visited(species, share, seed)
    visited = region.sites.iloc[rows].reset_index(drop=True)

    def sources(name: str, y: Any) -> list[Source]:
        return [
            Source("presences", group.X_places, group.counts(name)),
            Source("survey", visited, y),
        ]

    seen = dict(zip(species, found.T, strict=True))
    telling = [n for n in species if 0 < seen[n].sum() < len(rows)]
    task = SourcesTask.of(sources(telling[0], seen[telling[0]]), RECIPE)
    tasks = {name: task.with_sources(sources(name, seen[name])) for name in species}
    begin = perf_counter()
    choices: dict[str, WeightChoice] = {}
    for name in telling:
        if min(seen[name].sum(), len(rows) - seen[name].sum()) > 1:
            choices[name] = held_out_weights(tasks[name], "survey", grid=GRID, seed=seed)
    pooled = {c: sum(choice.deviances[c] for choice in choices.values()) for c in GRID}
    weight = min(pooled, key=lambda c: pooled[c])
    spent = perf_counter() - begin
    print(
        f"{region.name} {group.name}: weight {weight}, {len(choices)} chosen, {spent:.0f} s",
        flush=True,
    )
    for name in species:
        own = choices[name].weight if name in choices else weight
        weights = {
            "presences": None,
            "survey": 0.0,
            "both": 1.0,
            "weighted": weight,
            "weighted_own": own,
        }
        known: dict[float | None, tuple[float, float, float]] = {}
        for method in METHODS:
            c = weights[method]
            if name not in telling:
                c = -1.0 if method == "survey" else None
            if c not in known:
                known[c] = fitted(tasks[name], c, region, name, rows)
            auc, seconds, gap = known[c]
            yield {
                "region": region.name, "group": group.name, "species": name, "share": share,
                "seed": seed, "sites": len(rows), "found": int(seen[name].sum()), "method": method,
                "weight": {None: "", -1.0: ""}.get(c, c), "auc": auc, "gap": gap,
                "seconds": seconds,
            }  # fmt: skip


def fitted(
    task: SourcesTask, weight: float | None, region: data.Region, species: str, rows: np.ndarray
) -> tuple[float, float, float]:
    """AUC at the sites that are left, seconds and gap; weight None: presences alone, 0: survey."""
    if weight == -1.0:
        return 0.5, 0.0, float("nan")
    begin = perf_counter()
    presences, survey = task.sources
    kept = [np.ones(presences.n_rows, bool), np.ones(survey.n_rows, bool)]
    if weight is None:
        part = task.among([kept[0], None])
    elif weight == 0:
        part = task.among([None, kept[1]])
    else:
        part = task.with_sources([replace(presences, weight=weight), survey])
    fit = part.fit()
    seconds = perf_counter() - begin
    score = fit.density.scores(region.sites)
    auc, _ = region.score(species, score, score, without=rows)
    return auc, seconds, fit.density.certificate.gap


def table(regions: list[str], share: float, seed: int) -> Iterator[dict[str, Any]]:
    """All rows of some regions."""
    for name in regions:
        region = data.region(name, data.default_folder())
        for group in region.groups:
            yield from group_rows(region.group(group), share, seed)


def summary(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Mean AUC by region and over all species, and paired differences to presences alone."""
    parts = [*((name, part) for name, part in rows.groupby("region")), ("all", rows)]
    for region, part in parts:
        wide = part.pivot(index="species", columns="method", values="auc")
        told = {"region": region, "species": len(wide)}
        for method in METHODS:
            told[method] = float(wide[method].mean())
        for method in METHODS[1:]:
            gain = wide[method] - wide["presences"]
            told[f"{method}_gain"] = float(gain.mean())
            told[f"{method}_gain_se"] = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        yield told


def run(results: Path, regions: list[str], share: float, seed: int) -> list[Path]:
    """Write the rows and their summary."""
    path = write_rows(results / "integrated_species.csv", table(regions, share, seed))
    return [path, write_rows(results / "integrated.csv", summary(pd.read_csv(path)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", nargs="+", default=["AWT", "CAN", "NZ", "SWI"])
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    for path in run(given.results, given.regions, given.share, given.seed):
        print(f"written: {path}")


if __name__ == "__main__":
    main()

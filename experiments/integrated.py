"""Presences and a share of a survey in one fit, scored on the sites that are left (NCEAS).

Of each region's survey a random share of the sites is given to the fits, the rest is scored. Every
species has these fits with the same kernel features, made without a look at any record:

- ``presences``: its records at the places with a record of any species of its group;
- ``survey``: the sites that were handed out, found or not;
- ``both``: both, each with its likelihood;
- ``weighted``: both, the weight of the presences being the one of `WEIGHTS` whose fits predict
  held-out sites of the share best (five folds, deviances summed over the species of the group; 0
  is the survey alone); ``weighted_own`` the same with a weight for each species;
- ``chosen``: as ``weighted``, the presences having in some candidates a weight of 1 and a function
  of their own (`DEVIATIONS`), which takes up what they say against the survey.

A species that the share did not find has no survey to fit: ``survey`` is then the same everywhere,
AUC 0.5, and the others are ``presences``. The scored sites are looked at by the score alone.

python -m experiments.integrated [--regions AWT CAN NZ SWI] [--share 0.1] [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
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

WEIGHTS = [(weight, 0.0) for weight in (0.0, 0.03, 0.1, 0.3, 1.0)]
DEVIATIONS = [(1.0, deviation) for deviation in (0.1, 0.3, 1.0)]
GRID = [*WEIGHTS, *DEVIATIONS]
SURVEY, BOTH = WEIGHTS[0], WEIGHTS[-1]
METHODS = ("presences", "survey", "both", "weighted", "weighted_own", "chosen")
REGIONS = ("AWT", "CAN", "NZ", "SWI")  # those whose surveys are at hand
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
    pooled = {pair: sum(choice.deviances[pair] for choice in choices.values()) for pair in GRID}
    best = {"weighted": _least(pooled, WEIGHTS), "chosen": _least(pooled, GRID)}
    spent = perf_counter() - begin
    print(f"{region.name} {group.name}: {best}, {len(choices)} chosen, {spent:.0f} s", flush=True)
    for name in species:
        own = _least(choices[name].deviances, WEIGHTS) if name in choices else best["weighted"]
        pairs = {"survey": SURVEY, "both": BOTH, "weighted_own": own, **best}
        known: dict[Any, tuple[float, float, float]] = {}
        for method in METHODS:
            pair = pairs.get(method) if name in telling else None
            if pair not in known:
                known[pair] = fitted(tasks[name], pair, region, name, rows)
            auc, gap, seconds = known[pair]
            if method == "survey" and pair is None:
                auc, gap, seconds = 0.5, float("nan"), 0.0
            yield {
                "region": region.name,
                "group": group.name,
                "species": name,
                "share": share,
                "seed": seed,
                "sites": len(rows),
                "found": int(seen[name].sum()),
                "method": method,
                "weight": "" if pair is None else pair[0],
                "deviation": "" if pair is None else pair[1],
                "auc": auc,
                "gap": gap,
                "seconds": seconds,
            }


def _least(deviances: dict[Any, float], among: list[Any]) -> Any:
    return min(among, key=lambda pair: deviances[pair])


def fitted(
    task: SourcesTask,
    pair: tuple[float, float] | None,
    region: data.Region,
    species: str,
    rows: np.ndarray,
) -> tuple[float, float, float]:
    """AUC at the sites that are left, gap and seconds; without a pair, of presences alone."""
    begin = perf_counter()
    presences, survey = task.sources
    every = [np.ones(presences.n_rows, bool), np.ones(survey.n_rows, bool)]
    if pair is None:
        part = task.among([every[0], None])
    elif pair == SURVEY:
        part = task.among([None, every[1]])
    else:
        weight, deviation = pair
        part = task.with_sources([replace(presences, weight=weight, deviation=deviation), survey])
    fit = part.fit()
    seconds = perf_counter() - begin
    score = fit.density.scores(region.sites)
    auc, _ = region.score(species, score, score, without=rows)
    return auc, fit.density.certificate.gap, seconds


def table(regions: Sequence[str], share: float, seed: int) -> Iterator[dict[str, Any]]:
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


def run(
    results: Path, regions: Sequence[str] = REGIONS, share: float = 0.1, seed: int = 0
) -> list[Path]:
    """Write the rows and their summary."""
    path = write_rows(results / "integrated_species.csv", table(regions, share, seed))
    return [path, write_rows(results / "integrated.csv", summary(pd.read_csv(path)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", nargs="+", default=REGIONS)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    for path in run(given.results, given.regions, given.share, given.seed):
        print(f"written: {path}")


if __name__ == "__main__":
    main()

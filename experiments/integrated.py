"""Presences and a share of a survey in one fit, scored on the sites that are left (NCEAS).

Of each region's survey a share of the sites is given to the fits, the rest is scored: sites at
random, or whole blocks of a grid (``--blocked``), so that the rest lies elsewhere. Every species
has these fits with the same kernel features, made without a look at any record:

- ``presences``: its records at the places with a record of any species of its group;
- ``joint``: those of all species of the group, as one density (``JointRecipe``);
- ``survey``: the sites that were handed out, found or not;
- ``both``: presences and survey, each with its likelihood;
- ``weighted``: both, the weight of the presences being one of `WEIGHTS` (0 is the survey alone);
- ``chosen``: as ``weighted``, the presences having in some candidates a weight of 1 and a function
  of their own (`DEVIATIONS`), which takes up what they say against the survey;
- ``joint_prior``: the survey, the log intensity being a share of the joint log density (`PRIORS`)
  plus what the features add to it: the presences of all species are the mean of its prior;
- ``any``: the best of all these candidates.

What is chosen is chosen for a group of species, by how well held-out sites of the share are
predicted: `FOLDS` folds of single sites, or of blocks where blocks were handed out, deviances
summed over some of the species (``--choosers``) that the share found twice and missed twice. Where
there is none, ``weighted`` and ``chosen`` are ``both``, ``joint_prior`` has the whole joint
density, and ``any`` is ``joint_prior``.

A species that the share did not find has no survey to fit: ``survey`` is then the same everywhere,
AUC 0.5, and the others are their presences. The scored sites are looked at by the score alone.

python -m experiments.integrated [--regions AWT CAN NZ SWI] [--shares 0.01 0.03 0.1 0.3]
    [--seeds 0] [--random | --blocked] [--most 20] [--choosers 4] [--keep]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import experiments._nceas_data as data
import maxent as mx
from experiments.nceas_joint import VARIANTS, Fits, Sites
from experiments.run import RESULTS, write_rows
from maxent.density import Recipe
from maxent.density.joint import design as design_of
from maxent.density.sources import Source, SourcesTask, held_out_weights
from maxent.features import Cells

SHARES = (0.01, 0.03, 0.1, 0.3)
REPEATED = 0.1  # the share that has a second seed
REGIONS = ("AWT", "CAN", "NZ", "SWI")  # those whose surveys are at hand
RECIPE = Recipe([mx.Kernel()], "quadratic", tol=1e-5)
FOLDS = 3
LEAST = np.log(1e-12)  # of a prior density, relative to its largest


class Way(NamedTuple):
    """How presences count: their weight (0: not), their deviation, the share of the joint prior."""

    weight: float = 0.0
    deviation: float = 0.0
    prior: float = 0.0

    def __str__(self) -> str:
        if self.prior:
            return f"prior {self.prior:g}"
        return f"weight {self.weight:g}" + (f", {self.deviation:g}" if self.deviation else "")


SURVEY, BOTH, JOINT = Way(), Way(1.0), Way(prior=1.0)
WEIGHTS = [SURVEY, *(Way(weight) for weight in (0.03, 0.1, 0.3)), BOTH]
DEVIATIONS = [Way(1.0, deviation) for deviation in (0.3, 1.0)]
PRIORS = [*(Way(prior=share) for share in (0.25, 0.5)), JOINT]
# candidates, and what is taken where no site can be held out
CHOICES = {
    "weighted": (WEIGHTS, BOTH),
    "chosen": ([*WEIGHTS, *DEVIATIONS], BOTH),
    "joint_prior": ([SURVEY, *PRIORS], JOINT),
    "any": ([*WEIGHTS, *DEVIATIONS, *PRIORS], JOINT),
}
METHODS = ("presences", "joint", "survey", "both", *CHOICES)


@dataclass(frozen=True)
class Design:
    """Which sites are handed out."""

    share: float
    blocked: bool = False
    seed: int = 0

    most: int = 1000  # species of a group that are fitted
    choosers: int = 6  # those of them, drawn at random, whose held-out sites choose

    def row(self) -> dict[str, Any]:
        sites = "blocked" if self.blocked else "random"
        return {"design": sites, "share": self.share, "seed": self.seed}


DESIGNS = [
    Design(share, blocked, seed)
    for blocked, share, seed in product((False, True), SHARES, (0, 1))
    if not seed or share == REPEATED
]


class Case(NamedTuple):
    """A species: its sources, its joint log density at all sites, and the rows handed out."""

    task: SourcesTask
    log: np.ndarray
    rows: np.ndarray

    def posed(self, way: Way) -> SourcesTask:
        """The task of the sources that a way looks at."""
        presences, survey = self.task.sources
        if way.prior:
            log = way.prior * self.log[self.rows]
            area = np.exp(np.maximum(log - log.max(), LEAST))
            return self.task.with_sources([presences, replace(survey, area=area)])
        if not way.weight:
            return self.task
        told = replace(presences, weight=way.weight, deviation=way.deviation)
        return self.task.with_sources([told, survey])

    def deviances(self, seed: int, fold: np.ndarray | None) -> dict[Way, float]:
        """Those of held-out sites by way; empty where none can be held out."""
        y = self.task.sources[1].y
        if min(y.sum(), (1 - y).sum()) < 2:
            return {}
        settings: dict[str, Any] = {"folds": FOLDS, "seed": seed, "fold": fold}
        told: dict[Way, float] = {}
        try:
            grid = [way[:2] for way in CHOICES["chosen"][0]]
            chosen = held_out_weights(self.task, "survey", grid=grid, **settings)
            told = {Way(*pair): value for pair, value in chosen.deviances.items()}
            for way in PRIORS:
                part = held_out_weights(self.posed(way), "survey", grid=[0.0], **settings)
                told[way] = part.deviances[0.0, 0.0]
        except ValueError:  # all finds lie in one block
            return {}
        return told

    def fitted(self, way: Way | None, features: np.ndarray) -> tuple[np.ndarray, float]:
        """Scores of all sites by their features, and the gap; None is presences alone."""
        presences, survey = (np.ones(source.n_rows, bool) for source in self.task.sources)
        if way is None:
            part = self.task.among([presences, None])
        else:
            part = self.posed(way).among([presences if way.weight else None, survey])
        solution = part.solve()
        scores = features[:, part.posed.chosen] @ part.parts_of(solution.w).features
        if way is not None and way.prior:
            scores = scores + way.prior * self.log
        return scores, solution.gap


def _features(task: SourcesTask, sites: pd.DataFrame) -> np.ndarray:
    """Those of all sites, whose variables are held within their ranges in the task."""
    cells = task.points.schema.read(sites)
    low, high = (end[:, None] for end in task.points.ranges)
    return design_of(task.operators, Cells(np.clip(cells.values, low, high), cells.codes))


def group_rows(
    group: data.Group, logs: dict[str, np.ndarray], design: Design
) -> Iterator[dict[str, Any]]:
    """A row for each species; ``logs`` are the joint log densities at all sites."""
    region, start = group.region, process_time()
    rows, found = region.visited(group.species, design.share, design.seed, design.blocked)
    visited = region.sites.iloc[rows].reset_index(drop=True)
    seen = dict(zip(group.species, found.T, strict=True))
    spaced = np.linspace(0, len(seen) - 1, min(len(seen), design.most)).round().astype(int)
    species = [group.species[k] for k in spaced]
    telling = [n for n in species if 0 < seen[n].sum() < len(rows)]

    def sources(name: str, y: np.ndarray) -> list[Source]:
        presences = Source("presences", group.X_places, group.counts(name))
        return [presences, Source("survey", visited, y)]

    task = SourcesTask.of(sources(species[0], np.arange(len(rows)) % 2), RECIPE)
    features = _features(task, region.sites)
    cases = {n: Case(task.with_sources(sources(n, seen[n])), logs[n], rows) for n in species}
    fold = _folds(region.site_blocks[rows]) if design.blocked else None
    order = np.random.default_rng(design.seed).permutation(telling)
    held = (cases[name].deviances(design.seed, fold) for name in order)
    told = list(islice(filter(None, held), design.choosers))
    best = {
        method: min(ways, key=lambda way: sum(one[way] for one in told)) if told else otherwise
        for method, (ways, otherwise) in CHOICES.items()
    }
    spent = process_time() - start
    words = ", ".join(f"{method} {way}" for method, way in best.items())
    print(
        f"{design} {region.name} {group.name}: {words} ({len(told)} told, {spent:.0f} s)",
        flush=True,
    )
    for name in species:
        known: dict[Way | None, tuple[float, float]] = {}  # AUC and gap

        def auc(way: Way | None, name: str = name, known: dict[Any, Any] = known) -> float:
            if way not in known:
                score, gap = cases[name].fitted(way, features)
                known[way] = region.score(name, score, score, without=rows)[0], gap
            return known[way][0]

        joint = region.score(name, logs[name], logs[name], without=rows)[0]
        values = {"presences": auc(None), "joint": joint}
        for method, way in {"survey": SURVEY, "both": BOTH, **best}.items():
            if name in telling:
                values[method] = auc(way)
            elif method == "survey":
                values[method] = 0.5
            else:
                values[method] = joint if way.prior or method == "joint_prior" else auc(None)
        yield {
            **design.row(),
            "region": region.name,
            "group": group.name,
            "species": name,
            "sites": len(rows),
            "found": int(seen[name].sum()),
            **{method: values[method] for method in METHODS},
            **{f"{method}_is": str(way) for method, way in best.items()},
            "worst_gap": max(gap for _, gap in known.values()),
        }


def _folds(block: np.ndarray) -> np.ndarray | None:
    """Blocks dealt to the folds, the largest first; None where there is one block."""
    names, inverse, sizes = np.unique(block, return_inverse=True, return_counts=True)
    if names.size < 2:
        return None
    fold = np.empty(names.size, np.intp)
    fold[np.argsort(-sizes, kind="stable")] = np.arange(names.size) % FOLDS
    return fold[inverse]


def table(regions: Sequence[str], designs: Iterable[Design]) -> Iterator[dict[str, Any]]:
    """All rows of some regions."""
    whole = [data.region(name, data.default_folder()) for name in regions]
    groups = [region.group(name) for region in whole for name in region.groups]
    joint = []
    for group in groups:
        sites = Sites(group.region.sites, group.region.site_places)
        logs, gap, _ = Fits(group).log(VARIANTS["joint"], sites)
        print(f"{group.region.name} {group.name}: joint density, gap {gap:.1g}", flush=True)
        joint.append(dict(zip(group.species, logs.T, strict=True)))
    for design in designs:
        for group, logs in zip(groups, joint, strict=True):
            yield from group_rows(group, logs, design)


def summary(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Mean AUC by design, by region and over all species, with paired differences.

    To presences alone, and to the better single source: of the presences of the species and the
    survey the one with the higher mean.
    """
    for (design, share, seed), mine in rows.groupby(["design", "share", "seed"], sort=False):
        parts = [*((name, part) for name, part in mine.groupby("region")), ("all", mine)]
        for region, part in parts:
            told: dict[str, Any] = {"design": design, "share": share, "seed": seed}
            told |= {"region": region, "species": len(part)}
            told |= {method: float(part[method].mean()) for method in METHODS}
            better = max("presences", "survey", key=lambda method: told[method])
            for name, base in (("gain", "presences"), ("over_better", better)):
                for method in METHODS[1:]:
                    difference = part[method] - part[base]
                    told[f"{method}_{name}"] = float(difference.mean())
                    error = difference.std(ddof=1) / np.sqrt(len(difference))
                    told[f"{method}_{name}_se"] = float(error)
            yield told


def run(
    results: Path,
    regions: Sequence[str] = REGIONS,
    designs: Iterable[Design] = DESIGNS,
    keep: bool = False,
) -> list[Path]:
    """Write the rows and their summary; ``keep``: add to the designs that are there."""
    path = results / "integrated_species.csv"
    before = pd.read_csv(path) if keep and path.exists() else None
    write_rows(path, table(regions, designs))
    if before is not None:
        both = pd.concat([before, pd.read_csv(path)])
        key = ["design", "share", "seed", "species"]
        both = both.drop_duplicates(key, keep="last").sort_values(key[:3], kind="stable")
        both.to_csv(path, index=False, float_format="%.6g")
    return [path, write_rows(results / "integrated.csv", summary(pd.read_csv(path)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regions", nargs="+", default=REGIONS)
    parser.add_argument("--shares", nargs="+", type=float, default=SHARES)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1))
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--random", action="store_true", help="sites at random alone")
    kind.add_argument("--blocked", action="store_true", help="whole blocks of sites alone")
    parser.add_argument("--most", type=int, default=1000, help="species of a group, at most")
    parser.add_argument("--choosers", type=int, default=6, help="species that choose for a group")
    parser.add_argument("--keep", action="store_true", help="keep other designs of the csv")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    designs = [
        replace(design, most=given.most, choosers=given.choosers)
        for design in DESIGNS
        if design.share in given.shares
        and design.seed in given.seeds
        and not (given.blocked and not design.blocked)
        and not (given.random and design.blocked)
    ]
    for path in run(given.results, given.regions, designs, given.keep):
        print(f"written: {path}")


if __name__ == "__main__":
    main()

"""All species of a group as one density, beside each by itself: ``experiments.nceas --joint``.

Every variant is a function of a group's training data to the log densities of all its species at
given sites. It is scored by the surveys, and with --cv by the records: those of a block of space
against the other sites of the group in it, by fits that have not seen the block. The surveys choose
nothing.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import _nceas_data as data
from experiments import nceas
from maxent import JointDensity, JointNewton, JointRecipe, Problem, Spectral, Spiked, evaluation
from maxent.features import Kernel

Array = data.Array
BY_RECORDS = (0, 10, 30, 100, 300, np.inf)  # species up to so many records are told together
_SPACE = ["x", "y"]


@dataclass(frozen=True)
class Variant:
    """A recipe of all species, and how its log densities become a score.

    own : share of the species' own l1 log density; common : share of the mean over the species of
    the joint log density that is taken away; reduced : the less correlated predictors alone.
    """

    recipe: Mapping[str, Any]
    space: bool = False
    own: float = 0.0
    common: float = 0.0
    reduced: bool = True


def _kernel(**settings: Any) -> dict[str, Any]:
    return {"features": [Kernel(**settings)]}


_IN_SPACE = _kernel(spatial=0.3)
VARIANTS: dict[str, Variant] = {
    "joint": Variant({}),
    "joint + own": Variant({}, own=0.25),
    "joint + own - common": Variant({}, own=0.25, common=0.5),
    "space": Variant(_IN_SPACE, space=True),
    "space + own": Variant(_IN_SPACE, space=True, own=0.25),
    "space + own - common": Variant(_IN_SPACE, space=True, own=0.25, common=0.5),
    "all predictors": Variant({}, reduced=False),
    "all predictors + own": Variant({}, own=0.25, reduced=False),
    "all predictors + own - common": Variant({}, own=0.25, common=0.5, reduced=False),
    "all predictors, space": Variant(_IN_SPACE, space=True, reduced=False),
    "all predictors, space + own": Variant(_IN_SPACE, space=True, own=0.25, reduced=False),
    "all predictors, space + own - common": Variant(
        _IN_SPACE, space=True, own=0.25, common=0.5, reduced=False
    ),
    "A = I": Variant({"relation": "none"}),
    "1 round": Variant({"rounds": 1}),
    "6 rounds": Variant({"rounds": 6}),
    "mix 0.25": Variant({"mix": 0.25}),
    "mix 0.75": Variant({"mix": 0.75}),
    "mix 0.9": Variant({"mix": 0.9}),
}
VARIANTS |= {
    f"{name} {value:g}": Variant(make(value))
    for name, make, values in (
        ("strength", lambda x: {"strength": x}, (0.5, 2.0)),
        ("scale", lambda x: _kernel(scale=x), (0.5, 2.0)),
        ("joint scale", lambda x: _kernel(joint_scale=x), (0.8, 3.2)),
        ("landmarks", lambda x: _kernel(landmarks=int(x)), (600.0,)),
        ("spectral", lambda x: {"spectral": x}, (2.0, 4.0, 8.0)),
    )
    for value in values
}
SINGLE = ("own", "share")
RARE = ("own", "A = I", "joint", "joint + own", "space + own", "all predictors + own")
_REWEIGHTINGS = 12  # of the nuclear norm


@dataclass(frozen=True, eq=False)
class Sites:
    """Predictors of some sites, and where they are."""

    X: pd.DataFrame
    xy: Array

    def table(self, space: bool) -> pd.DataFrame:
        """The predictors, with the coordinates where a kernel looks at them."""
        if not space:
            return self.X
        return self.X.assign(
            **dict(zip(_SPACE, np.asarray(self.xy, dtype=np.float64).T, strict=True))
        )


@dataclass(eq=False)
class Fits:
    """The fits of one group that several variants share."""

    group: data.Group
    joint: dict[str, tuple[JointDensity, float]] = field(default_factory=dict)
    logs: dict[Any, Array] = field(default_factory=dict)

    @property
    def places(self) -> Sites:
        return Sites(self.group.X_places, self.group.places[_SPACE].to_numpy())

    def density(self, variant: Variant) -> tuple[JointDensity, float]:
        """The joint density and its CPU seconds."""
        key = repr(sorted((k, repr(v)) for k, v in variant.recipe.items()))
        if key not in self.joint:
            group = self.group
            Y = np.column_stack([group.counts(s) for s in group.species])
            settings = dict(variant.recipe)
            radius = settings.pop("spectral", None)
            recipe = JointRecipe(categorical=group.region.categorical, **settings)
            X = self.places.table(variant.space)
            start = time.process_time()
            if radius is not None:
                made = spectral(recipe, X, Y, group.species, radius)
            else:
                made = recipe.fit(X, Y, group.species)
            self.joint[key] = made, time.process_time() - start
        return self.joint[key]

    def own(self, sites: Sites) -> tuple[Array, float]:
        """Each species' own log density at sites, and the CPU seconds of the fits."""
        key = "own", id(sites)
        start = time.process_time()
        members = [nceas.fitted(self.group, s, "target") for s in self.group.species]
        spent = time.process_time() - start
        self.logs.setdefault("seconds", spent)
        if key not in self.logs:
            self.logs[key] = np.column_stack([member.log(sites.X) for member in members])
        return self.logs[key], self.logs["seconds"]

    def log(self, variant: Variant, sites: Sites) -> tuple[Array, float, float]:
        """Scores of all species at sites, the gap and the CPU seconds."""
        density, seconds = self.density(variant)
        key = id(density), id(sites)
        if key not in self.logs:
            raw = density.predict(sites.table(variant.space), "log")
            self.logs[key] = raw + density.raw_entropy
        logs = self.logs[key]
        if variant.common:
            logs = logs - variant.common * logs.mean(axis=1, keepdims=True)
        if variant.own:
            own, more = self.own(sites)
            logs, seconds = (1 - variant.own) * logs + variant.own * own, seconds + more
        return logs, density.certificate.gap, seconds


def spectral(
    recipe: JointRecipe, X: pd.DataFrame, Y: Array, species: Sequence[str], radius: float
) -> JointDensity:
    """The penalty `radius/n ||W||_*`, by reweighting: A = (W'W)^(1/2) / radius, again and again.

    The gap is that of the nuclear norm itself, not of the last A.
    """
    task = recipe.pose(recipe.read(X, Y, species))
    relation, w = Spiked.identity(len(species)), None
    for _ in range(_REWEIGHTINGS):
        w = JointNewton(1e-5, verbose=0).run(task.problem(task.coupled(relation)), w).w
        W = w.reshape(-1, len(species))
        square, basis = np.linalg.eigh(W.T @ W)
        floor = 1e-4 * square[-1]
        relation = Spiked(1.0, basis, np.sqrt(np.maximum(square, 0.0) + floor) / radius)
    made = replace(recipe, relation=relation).fit(X, Y, species)
    plain = task.problem(Spectral(len(species), radius / task.n))
    whole = Problem(
        plain.entropy,
        plain.features,
        plain.potential,
        weights=plain.weights,
        observed=(Y / Y.sum(axis=0)).T,
    )
    w = (made.weights * task.units[:, None]).ravel()
    return replace(made, certificate=replace(made.certificate, gap=whole.state(w).gap))


def _scores(
    group: data.Group, where: Callable[[data.Region], Sites], names: Sequence[str]
) -> dict[str, tuple[Array, float, float]]:
    """Scores at the sites ``where`` of a region by variant, with gap and CPU seconds."""
    fits = {True: Fits(group)}
    sites = {True: where(group.region)}
    if any(name in VARIANTS and not VARIANTS[name].reduced for name in names):
        full = data.region(group.region.name, group.region.folder, reduced=False)
        fits[False], sites[False] = Fits(replace(group, region=full, made={})), where(full)
    found: dict[str, tuple[Array, float, float]] = {}
    for name in names:
        if name == "own":
            logs, seconds = fits[True].own(sites[True])
            found[name] = logs, np.nan, seconds
        elif name == "share":
            start = time.process_time()
            made = [nceas.shared_by_cv(group, s, "target") for s in group.species]
            seconds = time.process_time() - start
            logs = np.column_stack([one.score(sites[True].X) for one in made])
            found[name] = logs, np.nan, seconds + fits[True].own(sites[True])[1]
        else:
            variant = VARIANTS[name]
            found[name] = fits[variant.reduced].log(variant, sites[variant.reduced])
    return found


def work(job: tuple[Path, str, str, tuple[str, ...], bool]) -> list[dict[str, Any]]:
    """One row a species and variant."""
    folder, region_name, group_name, names, cv = job
    warnings.filterwarnings("ignore", message=".*levels .* were not there at the fit")
    region = data.region(region_name, folder)
    group = region.group(group_name)
    found = _scores(group, lambda region: Sites(region.sites, region.site_places), names)
    held = _held_out(group, [n for n in names if n != "share"]) if cv else {}
    rows = []
    for name, (logs, gap, seconds) in found.items():
        for column, species in enumerate(group.species):
            score = logs[:, column]
            auc, cor = region.score(species, score, -np.expm1(-np.exp(np.clip(score, -700, 700))))
            rows.append(
                {
                    "region": region_name,
                    "group": group_name,
                    "species": species,
                    "n_presences": int((group.records["spid"] == species).sum()),
                    "variant": name,
                    "auc": auc,
                    "cor": cor,
                    "cv_auc": held.get(name, {}).get(species, np.nan),
                    "gap": gap,
                    "cpu_seconds": seconds / len(group.species),
                }
            )
    return rows


def _held_out(group: data.Group, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """AUC of held-out records against the group's other held-out sites, mean over the folds."""
    fold = group.places["fold"].to_numpy()
    totals: dict[tuple[str, str], list[tuple[float, float]]] = {}
    counts = {s: group.counts(s) for s in group.species}
    for k in range(data.FOLDS):
        inside = fold == k
        part = group.without(k)
        if not inside.any() or not len(part.records):
            continue
        held = group.places[inside].reset_index(drop=True)
        xy = held[_SPACE].to_numpy()
        found = _scores(part, lambda region, t=held, xy=xy: Sites(region.variables(t), xy), names)
        for name, (logs, _, _) in found.items():
            for column, species in enumerate(part.species):
                at = counts[species][inside]
                if not at.any() or at.all():
                    continue
                score = logs[:, column]
                auc = evaluation.auc(score[at > 0], score[at == 0], presence_weights=at[at > 0])
                totals.setdefault((name, species), []).append((auc, at.sum()))
    made: dict[str, dict[str, float]] = {}
    for (name, species), parts in totals.items():
        aucs, sizes = np.array(parts).T
        made.setdefault(name, {})[species] = float(np.average(aucs, weights=sizes))
    return made


def fit_all(
    folder: Path, regions: Sequence[str], names: Sequence[str], processes: int, cv: bool
) -> pd.DataFrame:
    """The rows of all groups; progress on standard error."""
    whole = sorted((data.region(r, folder) for r in regions), key=lambda r: -len(r.records))
    todo = [(folder, r.name, g, tuple(names), cv) for r in whole for g in r.groups]
    place = {name: i for i, name in enumerate(names)}
    table = pd.DataFrame(_gathered(work, todo, processes))
    table["rank"] = table["variant"].map(place)
    return table.sort_values(["rank", "region", "species"]).drop(columns="rank")


# -- tables ----------------------------------------------------------------------------------------


def summary(rows: pd.DataFrame, column: str = "auc") -> pd.DataFrame:
    """Variants by region, paired with own and with share; standard errors of the differences."""
    bases = {
        base: rows[rows["variant"] == base].set_index("species")[column]
        for base in (*SINGLE, "joint")
        if rows.loc[rows["variant"] == base, column].notna().any()
    }
    found = []
    for variant, mine in rows.groupby("variant", sort=False):
        for region in [*sorted(mine["region"].unique()), "all"]:
            part = mine if region == "all" else mine[mine["region"] == region]
            values = part.set_index("species")[column]
            row: dict[str, Any] = {
                "variant": variant,
                "region": region,
                "measure": column,
                "species": int(values.notna().sum()),
                "mean": values.mean(),
                "cpu_seconds": part["cpu_seconds"].sum(),
                "worst_gap": part["gap"].max(),
            }
            for base, theirs in bases.items():
                row |= _paired(f"minus_{base}", values, theirs)
            found.append(row)
    return pd.DataFrame(found)


def by_records(rows: pd.DataFrame) -> pd.DataFrame:
    """Variants by the number of records of a species."""
    own = rows[rows["variant"] == "own"].set_index("species")["auc"]
    cut = pd.cut(rows["n_presences"], list(BY_RECORDS))
    found = []
    for (variant, size), part in rows.groupby(["variant", cut], sort=False, observed=True):
        values = part.set_index("species")["auc"]
        high = "" if np.isinf(size.right) else f"{int(size.right)}"
        row = {
            "variant": variant,
            "records": f"{int(size.left) + 1}-{high}",
            "species": int(values.notna().sum()),
            "mean": values.mean(),
        }
        found.append(row | _paired("minus_own", values, own))
    return pd.DataFrame(found)


def _paired(name: str, mine: pd.Series, theirs: pd.Series) -> dict[str, float]:
    difference = (mine - theirs.reindex(mine.index)).dropna()
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
    return {name: difference.mean(), f"{name}_se": float(error)}


# -- rare species ----------------------------------------------------------------------------------


def thinned(group: data.Group, few: int, half: int, seed: int) -> tuple[data.Group, list[str]]:
    """The group with ``few`` records at most of one half of its species; and which they are."""
    rng = np.random.default_rng((seed, few))
    rare = sorted(rng.permutation(group.species)[half::2].tolist())
    place = rng.random(len(group.records))
    order = group.records.assign(order=place).groupby("spid")["order"].rank()
    kept = ~group.records["spid"].isin(rare) | (order <= few)
    return replace(group, records=group.records[kept], made={}), rare


def work_rare(job: tuple[Path, str, str, int, int, int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """One row for each thinned species and variant."""
    folder, region_name, group_name, few, half, seed, names = job
    warnings.filterwarnings("ignore", message=".*levels .* were not there at the fit")
    region = data.region(region_name, folder)
    group, rare = thinned(region.group(group_name), few, half, seed)
    found = _scores(group, lambda region: Sites(region.sites, region.site_places), names)
    column = {species: s for s, species in enumerate(group.species)}
    return [
        {
            "region": region_name,
            "group": group_name,
            "species": species,
            "records": few,
            "draw": seed,
            "variant": name,
            "auc": region.score(species, logs[:, column[species]], np.zeros(len(logs)))[0],
        }
        for name, (logs, _, _) in found.items()
        for species in rare
    ]


def run_rare(
    out: Path,
    folder: Path,
    regions: Sequence[str],
    records: Sequence[int],
    draws: int = 2,
    names: Sequence[str] = RARE,
    processes: int = 2,
) -> list[Path]:
    """AUC at the surveys by the number of records left: means, paired with own and A = I."""
    regions = nceas.present(folder, regions)
    if not regions:
        raise FileNotFoundError(f"no region can be run from {folder}: see the messages above")
    todo = [
        (folder, name, group, few, half, seed, tuple(names))
        for name in regions
        for group in data.region(name, folder).groups
        for few in records
        for half in (0, 1)
        for seed in range(draws)
    ]
    table = pd.DataFrame(_gathered(work_rare, todo, processes))
    per_species = table.groupby(["records", "variant", "species"])["auc"].mean()
    found = []
    for few in records:
        bases = {base: per_species[few, base] for base in ("own", "A = I") if base in names}
        for name in names:
            mine = per_species[few, name]
            row: dict[str, Any] = {"records": few, "variant": name, "species": len(mine)}
            row |= {"mean": mine.mean(), "lowest_tenth": mine.quantile(0.1)}
            for base, theirs in bases.items():
                row |= _paired(f"minus_{base}", mine, theirs)
            found.append(row)
    print(f"\n{(told := pd.DataFrame(found)).to_string(index=False, float_format='%.4f')}")
    paths = [out / "nceas_joint_rare.csv", out / "nceas_joint_rare_summary.csv"]
    for path, one in zip(paths, (table, told), strict=True):
        one.to_csv(path, index=False, float_format="%.6g")
    return paths


def _gathered(
    work: Callable[[Any], list[dict[str, Any]]], todo: Sequence[Any], processes: int
) -> list[dict[str, Any]]:
    """The rows of all jobs, in their order; progress on standard error."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = [pool.submit(work, job) for job in todo]
        for done, _ in enumerate(as_completed(futures), 1):
            print(f"\r{done} of {len(todo)} fits", end="", file=sys.stderr)
    print(file=sys.stderr)
    return [row for future in futures for row in future.result()]


def run(
    out: Path,
    folder: Path | None = None,
    regions: Sequence[str] = data.REGIONS,
    names: Sequence[str] = (*SINGLE, *VARIANTS),
    processes: int = 2,
    cv: bool = False,
) -> list[Path]:
    """Fit, print the tables and write them."""
    folder = data.default_folder() if folder is None else folder
    regions = nceas.present(folder, regions)
    if not regions:
        raise FileNotFoundError(f"no region can be run from {folder}: see the messages above")
    rows = fit_all(folder, regions, names, processes, cv)
    tables = {
        "nceas_joint.csv": rows,
        "nceas_joint_summary.csv": pd.concat(
            [summary(rows), *([summary(rows, "cv_auc")] if cv else [])]
        ),
        "nceas_joint_records.csv": by_records(rows),
    }
    show: Callable[..., None] = print
    for column in ("auc", "cv_auc") if cv else ("auc",):
        wide = rows.pivot_table(
            index="variant", columns="region", values=column, margins=True, sort=False
        )
        show(f"\nmean {column}\n{wide.to_string(float_format='%.4f')}")
    show(f"\n{tables['nceas_joint_records.csv'].to_string(index=False, float_format='%.4f')}")
    paths = []
    for name, table in tables.items():
        table.to_csv(out / name, index=False, float_format="%.6g")
        paths.append(out / name)
    return paths

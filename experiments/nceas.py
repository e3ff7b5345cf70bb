"""Species distributions from presences alone: the NCEAS benchmark (Elith et al. 2006, 2020).

    python -m experiments.nceas --regions AWT CAN NZ SWI -j 2

One density per species, fitted to its records and a background: 10,000 random sites of the region
("random"), or all sites with a record of its biological group ("target"). Predictions at the sites
of an independent survey are scored against its presences and absences (AUC, correlation).

The surveys score and do nothing else. What a variant chooses is chosen by cross-validation of the
records over spatial blocks; with --cv variants have such a score themselves, the AUC of held-out
records against other held-out sites of the group: variants are compared without the surveys.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("MAXENT_NUM_THREADS", "1")  # before the import; workers are processes
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pandas as pd
from scipy import stats

import maxent as mx
from experiments import _nceas_data as data
from maxent import evaluation
from maxent.density import FittedDensity
from maxent.features import Linear
from maxent.species.fitting.results import Sample
from maxent.species.fitting.sharing import share

RESULTS = Path(__file__).parent / "results"
CHUNK = 10  # species a job
FEW = 8  # presences at fewer places are too few to choose anything by
Array = data.Array


# -- models ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Member:
    """A fitted density over the predictors and, for some, columns made from them."""

    density: FittedDensity
    seconds: float
    columns: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    known: dict[int, tuple[pd.DataFrame, Array]] = field(default_factory=dict)

    def log(self, X: pd.DataFrame) -> Array:
        """Log of the density relative to that of a typical presence."""
        X = X if self.columns is None else self.columns(X)
        value = self.density.predict(X, output="log") + self.density.raw_entropy
        return np.clip(value, -700, 700)  # Tsallis has exact zeros

    def remembered(self, X: pd.DataFrame) -> Array:
        """``log``, computed once for a table that many species share."""
        if id(X) not in self.known:
            self.known[id(X)] = X, self.log(X)
        return self.known[id(X)][1]


@dataclass(frozen=True, eq=False)
class Fit:
    """One density, or the mean of several: of their logs or of their ranks."""

    members: Sequence[Member]
    ranks: bool = False

    def score(self, X: pd.DataFrame) -> Array:
        logs = [member.log(X) for member in self.members]
        if self.ranks:
            return np.mean([stats.rankdata(value) / len(value) for value in logs], axis=0)
        return np.mean(logs, axis=0)

    def prediction(self, score: Array) -> Array:
        """The cloglog output, for the correlation; a mean of ranks as it is."""
        return score if self.ranks else -np.expm1(-np.exp(score))

    @property
    def gap(self) -> float:
        return max(member.density.certificate.gap for member in self.members)

    @property
    def seconds(self) -> float:
        return sum({id(member): member.seconds for member in self.members}.values())


Fitter = Callable[[data.Group, str], Fit]


def table_of(group: data.Group, species: str, background: str) -> data.Table:
    return group.random(species) if background == "random" else group.target(species)


def fitted(
    group: data.Group, species: str, background: str, *, prior: str | None = None, **settings: Any
) -> Member:
    """A MaxentDensity with these settings, made once for all variants that use it."""
    key = (species, background, prior, *sorted((k, repr(v)) for k, v in settings.items()))
    if key not in group.made:
        table = table_of(group, species, background)
        model = mx.MaxentDensity(categorical=group.region.categorical, verbose=0, **settings)
        default = None if prior is None else np.exp(pooled(group).log(table.X))
        start = time.perf_counter()
        model.fit(table.X, table.y, prior=default)
        group.made[key] = Member(model.density_, time.perf_counter() - start)
    return group.made[key]


def pooled(group: data.Group) -> Member:
    """The density of all records of the group against the random background: where people look."""
    if "pooled" not in group.made:
        table = group.pooled()
        start = time.perf_counter()
        model = mx.MaxentDensity(categorical=group.region.categorical, verbose=0)
        model.fit(table.X, table.y)
        group.made["pooled"] = Member(model.density_, time.perf_counter() - start)
    return group.made["pooled"]


def single(group: data.Group, species: str, **settings: Any) -> Fit:
    return Fit([fitted(group, species, **settings)])


def averaged(group: data.Group, species: str, ranks: bool = False, **settings: Any) -> Fit:
    """The mean over the feature classes that the number of records allows."""
    m = int((group.records["spid"] == species).sum())
    poorer = [classes for least, classes in CLASSES.items() if m >= least][:-1]  # last: auto
    made = [fitted(group, species, features=classes, **settings) for classes in poorer]
    return Fit([*made, fitted(group, species, **settings)], ranks)


def chosen(group: data.Group, species: str, background: str, **grids: Any) -> Fit:
    """Settings chosen by cross-validation over four spatial blocks of the species' records."""
    table = table_of(group, species, background)
    present = table.y > 0
    if len(np.unique(table.xy[present], axis=0)) < FEW:
        return single(group, species, background=background)
    model = mx.MaxentDensityCV(
        cv=evaluation.SpatialBlocks(table.xy, data.FOLDS),
        categorical=group.region.categorical,
        verbose=0,
        **grids,
    )
    start = time.perf_counter()
    model.fit(table.X, table.y)
    return Fit([Member(model.density_, time.perf_counter() - start)])


# -- sharing between species -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Response curves learned on other species, as columns: their log densities, rotated.

    Columns are principal components of the log densities over the rows of the fit, not scaled: a
    ridge penalty on their weights says that a species responds as the others of its group do.
    """

    members: Sequence[Member]
    mean: Array
    rotation: Array

    @classmethod
    def of(cls, members: Sequence[Member], logs: Array) -> Dictionary:
        """From the members' log densities (members, rows)."""
        mean = logs.mean(axis=1)
        rotation, size, _ = np.linalg.svd(logs - mean[:, None], full_matrices=False)
        return cls(members, mean, rotation[:, size > 1e-6 * size[0]])

    def __call__(self, X: pd.DataFrame) -> pd.DataFrame:
        return self.columns(log_densities(self.members, X))

    def columns(self, logs: Array) -> pd.DataFrame:
        return pd.DataFrame((logs - self.mean[:, None]).T @ self.rotation).add_prefix("z")


def log_densities(members: Sequence[Member], X: pd.DataFrame) -> Array:
    """(members, rows); the far tail of one species says nothing of another."""
    return np.clip([member.remembered(X) for member in members], -15, 8)


def from_others(group: data.Group, species: str, background: str, strength: float) -> Member:
    """A ridge density over what was learned on the other species of the group."""
    made = [fitted(group, s, background) for s in group.species if s != species]
    if background == "random":
        own = (group.records["spid"] == species).to_numpy()
        parts = [log_densities(made, group.X_records)[:, own], log_densities(made, group.X_random)]
        logs, y = np.concatenate(parts, axis=1), group.random(species).y
    else:
        logs, y = log_densities(made, group.X_places), group.counts(species)
    start = time.perf_counter()
    columns = Dictionary.of(made, logs)
    Z = columns.columns(logs)
    # strength * species / (2 records) * ||a||^2 for columns as they are, where the loadings of
    # the known species have mean square 1 / species; features are scaled to [0, 1]
    spread = np.ptp(Z.to_numpy(), axis=0)
    ridge = mx.Quadratic(strength * len(made) / y.sum() / spread**2)
    model = mx.MaxentDensity([Linear()], ridge, verbose=0).fit(Z, y)
    stage_one = float(np.mean([member.seconds for member in made]))  # its share
    return Member(model.density_, stage_one + time.perf_counter() - start, columns)


def shared(
    group: data.Group, species: str, background: str, own: str = "default", strength: float = 3.0
) -> Fit:
    """The mean of a species' own model (or models) and one over what was learned on others.

    ``strength`` was chosen among 1, 3 and 10 by --cv with the target-group background.
    """
    others = from_others(group, species, background, strength)
    if own == "none":
        return Fit([others])
    if own == "default":
        return Fit([fitted(group, species, background), others])
    mine = averaged(group, species, background=background).members
    return Fit([*mine, *[others] * len(mine)])  # as much weight as all of its own


def shared_by_cv(group: data.Group, species: str, background: str) -> Fit:
    """As `species.share`: shared where blocks of the species' own records say so."""
    made = {s: fitted(group, s, background) for s in group.species}
    own = made.pop(species)
    table = table_of(group, species, background)
    outside = background == "random"  # records are no background sites
    sample = Sample(table.X, table.y, table.xy, background=table.y == 0 if outside else None)
    few = len(np.unique(table.xy[table.y > 0], axis=0)) < FEW
    start = time.perf_counter()
    given = share(
        mx.MaxentDensity(categorical=group.region.categorical, verbose=0),
        sample,
        own.density,
        {name: member.density for name, member in made.items()},
        kind="random" if few else "blocks",
        n=data.FOLDS,
        n_jobs=1,
        verbose=0,
    )
    stage_one = float(np.mean([member.seconds for member in made.values()]))
    return Fit([Member(given.density, stage_one + time.perf_counter() - start)])


# -- variants ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A way to fit every species."""

    background: str
    fit: Fitter
    reduced: bool = True
    cv: bool = True  # whether --cv scores it: not those that cross-validate themselves
    shares: bool = False  # whether it fits all species of the group


CLASSES = {0: "lc", 10: "lqc", 15: "lqhc", 80: "lqphc"}  # from how many records on
MULTIPLIERS = (0.5, 1.0, 2.0, 4.0)
DEFAULT = ["random/default", "target/default"]


def _variants() -> dict[str, Variant]:
    found: dict[str, Variant] = {}
    for background in ("random", "target"):
        one = partial(single, background=background)
        many = partial(averaged, background=background)
        best = partial(chosen, background=background)
        multi = partial(shared, background=background)
        rows = {
            "default": Variant(background, one),
            "preset maxnet": Variant(background, partial(one, preset="maxnet")),
            "preset maxent": Variant(background, partial(one, preset="maxent")),
            "Tsallis 1.5": Variant(background, partial(one, entropy=mx.Tsallis(1.5))),
            "all predictors": Variant(background, one, reduced=False),
            "mean of logs over classes": Variant(background, many),
            "mean of ranks over classes": Variant(background, partial(many, ranks=True)),
            "multiplier by CV": Variant(
                background, partial(best, features=["auto"], multipliers=MULTIPLIERS), cv=False
            ),
            "classes and multiplier by CV": Variant(
                background,
                partial(best, features=list(CLASSES.values()), multipliers=MULTIPLIERS[1:]),
                cv=False,
            ),
            "lqp, potential by CV": Variant(
                background,
                # few enough features for a potential that uses all of them
                partial(
                    best,
                    features=["lqpc"],
                    potentials=["box", "quadratic", "elastic"],
                    multipliers=(0.5, 2.0),
                ),
                cv=False,
            ),
            "entropy by CV": Variant(
                background,
                partial(
                    best,
                    features=["auto"],
                    entropies=["shannon", mx.Tsallis(1.5)],
                    multipliers=(1.0,),
                    scoring="auc",
                ),
                cv=False,
            ),
            "from other species": Variant(background, partial(multi, own="none"), shares=True),
            "own and other species": Variant(background, multi, shares=True),
            "classes and other species": Variant(
                background, partial(multi, own="classes"), shares=True
            ),
            "own or shared by CV": Variant(
                background, partial(shared_by_cv, background=background), cv=False, shares=True
            ),
        }
        if background == "random":
            rows["bias prior"] = Variant(background, partial(one, prior="pooled"))
        found |= {f"{background}/{name}": variant for name, variant in rows.items()}
    return found


VARIANTS = _variants()


# -- running -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Some species of a group, and the variants to fit them with."""

    folder: Path
    region: str
    group: str
    species: tuple[str, ...]
    variants: tuple[str, ...]
    cv: bool


@lru_cache(maxsize=64)
def _group(folder: Path, region: str, reduced: bool, group: str, fold: int | None) -> data.Group:
    whole = data.region(region, folder, reduced).group(group)
    return whole if fold is None else whole.without(fold)


@lru_cache(maxsize=64)
def _held_out_places(
    folder: Path, region: str, reduced: bool, group: str, fold: int
) -> pd.DataFrame:
    whole = _group(folder, region, reduced, group, None)
    return whole.X_places[(whole.places["fold"] == fold).to_numpy()].reset_index(drop=True)


def work(job: Job) -> list[dict[str, Any]]:
    """One row a species and variant."""
    # a survey may hold a level that no background site has; it would be said at every prediction
    warnings.filterwarnings("ignore", message=".*levels .* were not there at the fit")
    rows = []
    for species in job.species:
        for name in job.variants:
            variant = VARIANTS[name]
            group = _group(job.folder, job.region, variant.reduced, job.group, None)
            start, fit = time.perf_counter(), variant.fit(group, species)
            spent = time.perf_counter() - start
            start, score = time.perf_counter(), fit.score(group.region.sites)
            spent = max(spent, fit.seconds) + time.perf_counter() - start
            auc, cor = group.region.score(species, score, fit.prediction(score))
            rows.append(
                {
                    "region": job.region,
                    "group": job.group,
                    "species": species,
                    "n_presences": int((group.records["spid"] == species).sum()),
                    "background": variant.background,
                    "variant": name.split("/")[1],
                    "auc": auc,
                    "cor": cor,
                    "gap": fit.gap,
                    "seconds": spent,
                    "cv_auc": held_out(job, name, species) if job.cv and variant.cv else np.nan,
                }
            )
    return rows


def held_out(job: Job, name: str, species: str) -> float:
    """AUC of held-out records against the group's other held-out sites, mean over the folds."""
    variant = VARIANTS[name]
    whole = _group(job.folder, job.region, variant.reduced, job.group, None)
    y, fold = whole.counts(species), whole.places["fold"].to_numpy()
    aucs, sizes = [], []
    for k in range(data.FOLDS):
        inside, present = fold == k, y > 0
        if not (inside & present).any() or not (~inside & present).any():
            continue
        group = _group(job.folder, job.region, variant.reduced, job.group, k)
        X = _held_out_places(job.folder, job.region, variant.reduced, job.group, k)
        score = variant.fit(group, species).score(X)
        at = y[inside]
        aucs.append(evaluation.auc(score[at > 0], score[at == 0], presence_weights=at[at > 0]))
        sizes.append(at.sum())
    return float(np.average(aucs, weights=sizes)) if aucs else float("nan")


def jobs(folder: Path, regions: Sequence[str], variants: Sequence[str], cv: bool) -> Iterator[Job]:
    """Chunks of species, those of the regions with most records first."""
    whole = [data.region(name, folder) for name in regions]
    for region in sorted(whole, key=lambda r: -len(r.records)):
        for name in region.groups:
            species = region.group(name).species
            size = len(species) if any(VARIANTS[v].shares for v in variants) else CHUNK
            for start in range(0, len(species), size):
                part = tuple(species[start : start + size])
                yield Job(folder, region.name, name, part, tuple(variants), cv)


def fit_all(todo: Sequence[Job], processes: int) -> pd.DataFrame:
    """The rows of all jobs; progress on standard error."""
    rows: list[dict[str, Any]] = []
    total, start = sum(len(job.species) for job in todo), time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        done = 0
        for future in as_completed({pool.submit(work, job): job for job in todo}):
            rows += future.result()
            done = len({row["species"] for row in rows})
            spent = time.perf_counter() - start
            print(f"\r{done} of {total} species, {spent:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    return ordered(pd.DataFrame(rows))


# -- reporting ---------------------------------------------------------------------------------


def paired(first: Array, second: Array, seed: int = 0) -> dict[str, float]:
    """Mean of first - second over species, its bootstrap interval, and two paired tests."""
    difference = np.round(first - second, 6)  # as many digits as the csv keeps
    difference = difference[~np.isnan(difference)]
    if len(difference) < 2 or not difference.any():
        return {"difference": float(difference.mean()) if len(difference) else float("nan")}
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(difference), size=(10_000, len(difference)))
    low, high = np.percentile(difference[drawn].mean(axis=1), [2.5, 97.5])
    return {
        "difference": float(difference.mean()),
        "low": float(low),
        "high": float(high),
        "p_t": float(stats.ttest_1samp(difference, 0).pvalue),
        "p_wilcoxon": float(stats.wilcoxon(difference).pvalue),
    }


def summary(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Every variant by region and over all species, compared with published maxnet and defaults."""
    found = []
    defaults = rows[rows["variant"] == "default"].set_index(["background", "species"])["auc"]
    for (background, variant), mine in rows.groupby(["background", "variant"], sort=False):
        for region in [*sorted(mine["region"].unique()), "all"]:
            part = mine if region == "all" else mine[mine["region"] == region]
            scored, auc = part["auc"].notna(), part["auc"].to_numpy()
            base = defaults.reindex([(background, s) for s in part["species"]]).to_numpy()
            row = {
                "background": background,
                "variant": variant,
                "region": region,
                "fitted": len(part),
                "scored": int(scored.sum()),
                "auc": part["auc"].mean(),
                "cor": part["cor"].mean(),
                "cv_auc": part["cv_auc"].mean(),
                "worst_gap": part["gap"].max(),
                "seconds": part["seconds"].sum(),
            }
            theirs = data.published(folder, list(part["species"]))
            for name, other in (("maxnet", theirs), ("default", base)):
                row |= {f"{name}_{k}": v for k, v in paired(auc, other).items()}
            found.append(row)
    return pd.DataFrame(found)


def show(table: pd.DataFrame) -> None:
    """The summary as text: AUC by region, then over all species."""
    wide = table.pivot_table(
        index=["background", "variant"], columns="region", values="auc", sort=False
    )
    print("\nmean AUC")
    print(wide.to_string(float_format="%.4f"))
    for name, title in (("maxnet", "published maxnet"), ("default", "default, same background")):
        print(f"\nover all scored species, and paired difference from {title}")
        every = table[table["region"] == "all"]
        columns = [f"{name}_{k}" for k in ("difference", "low", "high", "p_t", "p_wilcoxon")]
        columns = ["background", "variant", "scored", "auc", "cor", "cv_auc", "seconds", *columns]
        shown = every.reindex(columns=columns)
        shown.columns = [c.removeprefix(f"{name}_") for c in columns]
        print(shown.to_string(index=False, float_format="%.4f"))


def table_by_region(table: pd.DataFrame, variant: str) -> None:
    """One variant, region by region, against published maxnet."""
    background, name = variant.split("/")
    mine = table[(table["background"] == background) & (table["variant"] == name)]
    columns = ["region", "fitted", "scored", "auc", "cor", "worst_gap", "seconds"]
    columns += [f"maxnet_{k}" for k in ("difference", "low", "high", "p_t", "p_wilcoxon")]
    shown = mine.reindex(columns=columns).rename(columns=lambda c: c.removeprefix("maxnet_"))
    print(f"\n{name}, {background} background; difference from published maxnet")
    print(shown.to_string(index=False, float_format="%.4g"))


def draw(rows: pd.DataFrame, folder: Path, path: Path) -> None:
    """Default against published maxnet by species; mean differences of the variants."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = rows[rows["auc"].notna()]
    table = summary(rows, folder)
    every = table[table["region"] == "all"].iloc[::-1]
    height = max(4.5, 0.28 * len(every) + 1.2)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, height), constrained_layout=True, width_ratios=(1, 1.25)
    )
    mine = rows[(rows["background"] == "random") & (rows["variant"] == "default")]
    for region, part in mine.groupby("region"):
        theirs = data.published(folder, list(part["species"]))
        gain = np.nanmean(part["auc"].to_numpy() - theirs)
        left.scatter(theirs, part["auc"], s=16, alpha=0.7, label=f"{region} ({gain:+.3f})")
    left.plot([0.3, 1], [0.3, 1], color="0.5", linewidth=0.8)
    left.set(xlabel="AUC of published maxnet", ylabel="AUC of MaxentDensity()")
    left.set_title("random background, one dot a species")
    if len(mine):
        left.legend(title="region (mean difference)", fontsize=8)
    places = np.arange(len(every))
    colours = np.where(every["background"] == "random", "tab:blue", "tab:orange")
    width = np.abs(
        every[["maxnet_low", "maxnet_high"]].to_numpy().T - every["maxnet_difference"].to_numpy()
    )
    right.errorbar(
        every["maxnet_difference"], places, xerr=width, fmt="none", ecolor=colours, elinewidth=1.5
    )
    right.scatter(every["maxnet_difference"], places, c=colours, s=24, zorder=3)
    right.set_yticks(places, every["background"] + ": " + every["variant"], fontsize=8)
    right.axvline(0, color="0.5", linewidth=0.8)
    right.set_xlabel("mean AUC less that of published maxnet, 95 % interval")
    right.set_title(f"{mine['species'].nunique()} species")
    right.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def present(folder: Path, wanted: Sequence[str]) -> list[str]:
    """The regions whose files are here; says which are not."""
    found = []
    for name in wanted:
        lacking = data.missing_files(name, folder)
        if lacking:
            print(f"{name}: skipped, {folder} has no {', '.join(lacking)}")
            continue
        if not data.region(name, folder).scored:
            print(f"{name}: fitted but not scored, there is no {name}_pa.parquet")
        found.append(name)
    return found


def run(
    out: Path,
    folder: Path | None = None,
    regions: Sequence[str] = data.REGIONS,
    variants: Sequence[str] = ("random/default", "target/default"),
    processes: int = 2,
    cv: bool = False,
    keep: bool = False,
) -> list[Path]:
    """Fit, print the tables, write them and the figure."""
    folder = data.default_folder() if folder is None else folder
    start = time.perf_counter()
    regions = present(folder, regions)
    if not regions:
        raise FileNotFoundError(f"no region can be run from {folder}: see the messages above")
    rows = fit_all(list(jobs(folder, regions, variants, cv)), processes)
    spent = time.perf_counter() - start
    paths = [out / "nceas.csv", out / "nceas_summary.csv", out / "nceas.png"]
    if keep and paths[0].exists():
        rows = merged(pd.read_csv(paths[0]), rows)
    table = summary(rows, folder)
    if rows["auc"].notna().any():
        show(table)
        draw(rows, folder, paths[2])
    else:
        print("no survey is here, so nothing is scored and there is no figure")
        paths.pop()
    if "random/default" in variants:
        table_by_region(table, "random/default")
    scored = rows.loc[rows["auc"].notna(), "species"].nunique()
    print(
        f"\n{rows['species'].nunique()} species fitted, {scored} scored, {len(variants)} variants "
        f"in {spent:.0f} s with {processes} processes"
    )
    rows.to_csv(paths[0], index=False, float_format="%.6g")
    table.to_csv(paths[1], index=False, float_format="%.6g")
    return paths


def merged(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """The new rows, and the old ones of other variants, in the order of VARIANTS."""
    both = pd.concat([old, new], ignore_index=True)
    both = both.drop_duplicates(["region", "species", "background", "variant"], keep="last")
    return ordered(both)


def ordered(rows: pd.DataFrame) -> pd.DataFrame:
    place = {name: i for i, name in enumerate(VARIANTS)}
    rank = (rows["background"] + "/" + rows["variant"]).map(place)
    rows = rows.assign(rank=rank).dropna(subset="rank")
    return rows.sort_values(["rank", "region", "species"]).drop(columns="rank")


def _joint(given: argparse.Namespace) -> int:
    from experiments import nceas_joint

    given.out.mkdir(exist_ok=True, parents=True)
    chosen = {} if given.variants == DEFAULT else {"names": given.variants}
    how = {"processes": given.j} | chosen
    try:
        if given.rare:
            paths = nceas_joint.run_rare(given.out, given.data, given.regions, given.rare, **how)
        else:
            paths = nceas_joint.run(given.out, given.data, given.regions, cv=given.cv, **how)
    except FileNotFoundError as error:
        print(error)
        return 1
    for path in paths:
        print(f"written: {path}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--regions", nargs="+", default=data.REGIONS, choices=data.REGIONS)
    parser.add_argument("--data", type=Path, default=data.default_folder(), help="folder nceas")
    parser.add_argument(
        "--variants",
        nargs="+",
        default=DEFAULT,
        metavar="VARIANT",
        help=f"all, or some of {', '.join(VARIANTS)}",
    )
    parser.add_argument("-j", type=int, default=2, help="processes")
    parser.add_argument("--cv", action="store_true", help="score variants on the records as well")
    parser.add_argument("--keep", action="store_true", help="keep other variants of nceas.csv")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--joint", action="store_true", help="all species of a group as one density; its own tables"
    )
    parser.add_argument(
        "--rare", nargs="+", type=int, default=(), metavar="N", help="with --joint: of N records"
    )
    given = parser.parse_args()
    if given.rare and not given.joint:
        parser.error("--rare is for --joint")
    if given.joint:
        return _joint(given)
    variants = list(VARIANTS) if "all" in given.variants else given.variants
    unknown = [name for name in variants if name not in VARIANTS]
    if unknown:
        parser.error(f"no variant {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    given.out.mkdir(exist_ok=True, parents=True)
    try:
        paths = run(given.out, given.data, given.regions, variants, given.j, given.cv, given.keep)
    except FileNotFoundError as error:
        print(error)
        return 1
    for path in paths:
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

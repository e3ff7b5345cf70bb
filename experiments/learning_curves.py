"""Learning curves, Figure 6 of the density paper: test log loss against the number of presences.

l1-maxent with linear (L), quadratic (LQ), product (LQP) and all threshold (T) features and
beta_j = beta0 sd_j / sqrt(m), beta0 = 0.1 (1 for T), over ten random 50/50 partitions. The paper's
birds are not public in that form; here are two trees of Switzerland (NCEAS benchmark; the cells
are the background and the sites of all species) and the two species of South America (20,000 of
the cells). Continuous variables alone, as in the paper.

python -m experiments.learning_curves [--data DIR] [--quick]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

import maxent as mx
from experiments import south_america
from experiments.south_america import DATA, main
from maxent import features
from maxent.core import bounds
from maxent.core.path import solution_path
from maxent.core.potentials import ScaledPotential

FEATURES: dict[str, list[features.FeatureClass]] = {
    "L": [features.Linear()],
    "LQ": [features.Linear(), features.Square()],
    "LQP": [features.Linear(), features.Square(), features.Interaction()],
    "T": [features.Threshold()],
}
BETA0 = {"L": 0.1, "LQ": 0.1, "LQP": 0.1, "T": 1.0}
TREES = ("swi09", "swi08")  # 937 and 1452 records
PARTITIONS = 10
SMALLEST = 10
SAMPLE = 20_000  # cells of South America
TOL = 1e-3  # of the duality gap: the divergence from the optimum is at most that


@dataclass(frozen=True, eq=False)
class Species:
    """The cells of a region by continuous variables, and the cell of each record."""

    name: str
    X: pd.DataFrame
    records: np.ndarray

    def split(self, partition: int) -> tuple[np.ndarray, np.ndarray]:
        """Training and test records: a random half each, in random order."""
        mixed = np.random.default_rng(partition).permutation(self.records)
        return mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]

    @property
    def sizes(self) -> list[int]:
        """10, 20, 40, ... training records, and half of all."""
        half = len(self.records) // 2
        doubled = SMALLEST * 2 ** np.arange(20)
        return [*(int(m) for m in doubled if m < 0.8 * half), half]


def load(data: Path) -> list[Species]:
    """The species whose data are at hand."""
    return [*_switzerland(data / "nceas"), *_south_america(data)]


def _switzerland(folder: Path) -> Iterator[Species]:
    if not (folder / "SWI_po.parquet").exists():
        return
    presences, background = (pd.read_parquet(folder / f"SWI_{k}.parquet") for k in ("po", "bg"))
    about = json.loads((folder / "metadata.json").read_text())["SWI"]
    variables = [v for v in about["predictors"] if v not in about["categorical"]]
    sites = presences.drop_duplicates("siteid")
    X = pd.concat([background, sites], ignore_index=True)[variables].astype(float)
    place = pd.Series(np.arange(len(background), len(X)), index=sites["siteid"].to_numpy())
    for name in TREES:
        mine = presences.loc[presences["spid"] == name, "siteid"]
        yield Species(name, X, place[mine].to_numpy())


def _south_america(data: Path) -> Iterator[Species]:
    land = south_america.load(data)
    if land is None:
        return
    every = {name: land.records("train", name) for name in south_america.SPECIES}
    drawn = np.random.default_rng(0).choice(len(land.X), SAMPLE, replace=False)
    rows = np.unique(np.concatenate([drawn, *every.values()]))
    X = land.X.iloc[rows].drop(columns=south_america.CATEGORICAL).reset_index(drop=True)
    for name, cells in every.items():
        yield Species(south_america.SPECIES[name], X, np.searchsorted(rows, cells))


@cache
def _feature_map(species: Species, kind: str) -> features.OperatorMap:
    operators = features.fit_operators(FEATURES[kind], species.X)
    return features.bind(operators, features.Schema.from_table(species.X).read(species.X))


def problem(species: Species, kind: str, training: np.ndarray) -> mx.Problem:
    """l1-maxent with beta_j = sd_j / sqrt(m): beta0 is the multiplier of its path.

    A feature with one value at every record would get beta_j = 0 and rule out all other values
    (appendix G): it gets the sd of a threshold with one record beyond it.
    """
    m, map_ = len(training), _feature_map(species, kind)
    observed = np.bincount(training, minlength=len(species.X)) / m
    mean = map_.moments(observed)
    sd = np.sqrt(np.maximum(map_.squares(observed) - mean**2, 0) * m / (m - 1))
    sd = np.where(sd > 1e-6, sd, m**-0.5)
    return mx.Problem(mx.Shannon(), map_, mx.Box(bounds.practical_beta(sd, m)), observed=observed)


def log_loss(fitted: mx.Problem, w: np.ndarray, *records: np.ndarray) -> list[float]:
    """Mean of -log p over each set of records, from the scores: p itself may underflow."""
    log_density = special.log_softmax(fitted.features.scores(w))
    return [float(-log_density[cells].mean()) for cells in records]


def measure(all_species: list[Species], partitions: int) -> pd.DataFrame:
    """One row a species, partition, size and feature set."""
    rows = []
    for species in all_species:
        for partition in range(partitions):
            train, test = species.split(partition)
            for m in species.sizes:
                for kind, beta0 in BETA0.items():
                    fitted = problem(species, kind, train[:m])
                    ((_, _, found),) = solution_path(fitted, [beta0], tol=TOL, verbose=0)
                    row = {"species": species.name, "partition": partition, "m": m}
                    row |= {"features": kind, "beta0": beta0, "gap": found.gap}
                    losses = log_loss(fitted, found.w, test, train[:m])
                    row |= zip(("log_loss", "training_log_loss"), losses, strict=True)
                    rows.append(row)
        print(f"  {species.name}: {len(species.records)} records", flush=True)
    return pd.DataFrame(rows)


def by_summet(species: Species, kind: str = "L") -> pd.DataFrame:
    """The curve of one feature set on the first partition once more, by the paper's algorithm."""
    train, test = species.split(0)
    rows = []
    for m in species.sizes:
        base = problem(species, kind, train[:m])
        box = ScaledPotential(base.potential, BETA0[kind])
        one = mx.Problem(base.entropy, base.features, box, observed=base.observed)
        row = {"species": species.name, "m": m, "features": kind}
        for name, solver in (("summet", mx.SUMMET(tol=TOL, max_iter=100_000)), ("default", "auto")):
            found = one.solve(solver, tol=TOL, verbose=0)
            row |= {f"{name}_steps": found.n_iter, f"{name}_gap": found.gap}
            row[f"{name}_log_loss"] = log_loss(one, found.w, test)[0]
        rows.append(row)
        print(f"  SUMMET, m = {m}: {row['summet_steps']} steps", flush=True)
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame, all_species: list[Species], path: Path) -> None:
    """One panel a species, one curve a feature set, bars of one standard error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 8.5), constrained_layout=True)
    for axis, species in zip(axes.flat, all_species, strict=False):
        uniform = np.log(len(species.X))
        mine = table[table["species"] == species.name]
        for kind, part in mine.groupby("features", sort=False):
            loss = part.groupby("m")["log_loss"].agg(["mean", "sem"])
            axis.errorbar(
                loss.index, loss["mean"], loss["sem"].fillna(0), label=f"{kind}, beta0 = "
                f"{BETA0[str(kind)]:g}", marker="o", markersize=4, linewidth=1.5, capsize=2,
            )  # fmt: skip
        axis.axhline(uniform, color="grey", linestyle=":", label="uniform")
        means = mine.groupby(["m", "features"])["log_loss"].mean()
        axis.set_ylim(means.min() - 0.15, min(means.max() + 0.15, uniform + 0.6))
        axis.set(title=f"{species.name} ({len(species.records)} records)", xscale="log")
        axis.set(xticks=species.sizes, xticklabels=species.sizes)
        axis.set(xlabel="training presences", ylabel="test log loss (nats)")
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes.flat[0].legend(fontsize=9)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the table and the figure; nothing where the data are absent."""
    all_species = load(data)
    if not all_species:
        print(f"no species data in {data}: set MAXENT_DATA or give --data")
        return []
    table = measure(all_species, 2 if quick else PARTITIONS)
    means = table.pivot_table("log_loss", ["species", "m"], "features", sort=False)
    print(means.round(3).to_string())
    paths = [out / "learning_curves.csv", out / "learning_curves.png"]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    draw(table, all_species, paths[1])
    paths.append(out / "learning_curves_summet.csv")
    by_summet(all_species[0]).to_csv(paths[-1], index=False, float_format="%.6g")
    return paths


if __name__ == "__main__":
    main(run, __doc__)

"""Sensitivity curves, Figure 7 of the density paper: test log loss against beta0.

LQP and T features with beta_j = beta0 sd_j / sqrt(m) for several numbers m of training presences,
averaged over ten random 50/50 partitions: the species and the protocol of learning_curves.py. Each
training set is one warm-started path from the largest beta0 down.

python -m experiments.sensitivity_curves [--data DIR] [--quick]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.learning_curves import PARTITIONS, TOL, Species, load, log_loss, problem
from experiments.south_america import DATA, main
from maxent.core.path import solution_path

KINDS = ("LQP", "T")
GRID = np.geomspace(1e-3, 1e2, 11).tolist()
SIZES = (10, 40, 150, 450)
# A path ends once it uses more features: far below the best beta0, each point ever more expensive
MOST_FEATURES = 250


def measure(all_species: list[Species], partitions: int) -> pd.DataFrame:
    """One row a species, partition, size, feature set and beta0."""
    rows = []
    for species in all_species:
        for partition in range(partitions):
            train, test = species.split(partition)
            for m in SIZES:
                if m > len(train):
                    continue
                for kind in KINDS:
                    path = solution_path(
                        problem(species, kind, train[:m]), GRID, tol=TOL, verbose=0
                    )
                    for beta0, fitted, found in path:
                        (loss,) = log_loss(fitted, found.w, test)
                        used = np.count_nonzero(found.w)
                        row = {"species": species.name, "partition": partition, "m": m}
                        row |= {"features": kind, "beta0": beta0, "features_used": used}
                        row |= {"log_loss": loss, "gap": found.gap}
                        rows.append(row)
                        if used > MOST_FEATURES:
                            break
        print(f"  {species.name}: {len(species.records)} records", flush=True)
    return pd.DataFrame(rows)


def averaged(table: pd.DataFrame) -> pd.DataFrame:
    """Means over the partitions, where every path arrived."""
    keys = ["species", "features", "m", "beta0"]
    loss = table.groupby(keys, sort=False)["log_loss"].agg(["mean", "sem", "size"]).reset_index()
    return loss[loss["size"] == table["partition"].nunique()]


def best(means: pd.DataFrame) -> pd.DataFrame:
    """The beta0 of each curve's minimum, and what the paper's choice loses against it."""
    rows = []
    for (species, kind, m), part in means.groupby(["species", "features", "m"], sort=False):
        lowest = part.loc[part["mean"].idxmin()]
        usual = part.loc[(np.log(part["beta0"] / (1.0 if kind == "T" else 0.1))).abs().idxmin()]
        row = {"species": species, "features": kind, "m": m, "best_beta0": lowest["beta0"]}
        row |= {"log_loss": lowest["mean"], "paper_beta0": usual["beta0"]}
        rows.append(row | {"excess": usual["mean"] - lowest["mean"]})
    return pd.DataFrame(rows)


def draw(means: pd.DataFrame, all_species: list[Species], path: Path) -> None:
    """A row of panels a feature set, a column a species, a curve a number of presences."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    count = len(all_species)
    figure, axes = plt.subplots(
        2, count, figsize=(3.7 * count, 7.5), constrained_layout=True, squeeze=False, sharex=True
    )
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(SIZES)))
    for row, kind in enumerate(KINDS):
        for axis, species in zip(axes[row], all_species, strict=True):
            mine = means[(means["species"] == species.name) & (means["features"] == kind)]
            for m, colour in zip(SIZES, colours, strict=True):
                part = mine[mine["m"] == m]
                if len(part):
                    axis.plot(part["beta0"], part["mean"], color=colour, label=f"{m} presences")
                    lowest = part.loc[part["mean"].idxmin()]
                    axis.plot(lowest["beta0"], lowest["mean"], "o", color=colour)
            uniform = np.log(len(species.X))
            axis.axhline(uniform, color="grey", linestyle=":", label="uniform")
            both = means[means["species"] == species.name]
            axis.set_ylim(both["mean"].min() - 0.2, uniform + 2)
            axis.set(xscale="log", xlim=(GRID[0], GRID[-1]), title=f"{species.name}, {kind}")
            axis.grid(alpha=0.3)
            if row == 1:
                axis.set_xlabel("beta0")
                axis.legend(fontsize=8, loc="lower left")
        axes[row, 0].set_ylabel("test log loss (nats)")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the table, the minima and the figure; nothing where the data are absent."""
    all_species = load(data)
    if not all_species:
        print(f"no species data in {data}: set MAXENT_DATA or give --data")
        return []
    table = measure(all_species, 2 if quick else PARTITIONS)
    means = averaged(table)
    print(means.pivot_table("mean", ["species", "features", "m"], "beta0").round(2).to_string())
    minima = best(means)
    print(minima.round(3).to_string(index=False))
    paths = [out / f"sensitivity_curves{end}" for end in (".csv", "_best.csv", ".png")]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    minima.to_csv(paths[1], index=False, float_format="%.6g")
    draw(means, all_species, paths[2])
    return paths


if __name__ == "__main__":
    main(run, __doc__)

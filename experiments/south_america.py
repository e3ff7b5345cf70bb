"""Two species over South America: test log loss and AUC with every cell of the grid as the domain.

Bradypus variegatus and Microryzomys minutus (Phillips, Anderson and Schapire 2006), 648,658 cells,
13 continuous layers and potential vegetation, the authors' ten 70/30 partitions: Tables 1 and 2 of
the structural maxent paper. The settings of the last variant are chosen by cross-validation within
the training records; every other variant is fixed beforehand.

A second picture is Figure 1 of the density paper with one of these species in place of its bird.

python -m experiments.south_america [--data DIR] [--quick]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

import maxent as mx

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("MAXENT_DATA", Path(__file__).parents[2] / "shared" / "data"))
SPECIES = {"bradypus_variegatus": "b. variegatus", "microryzomys_minutus": "m. minutus"}
CATEGORICAL = ["ecoreg"]
PARTITIONS = 10
CHOICE_CELLS = 20_000  # cells that cross-validation looks at; the fit has them all
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "preset maxent": {"preset": "maxent"},
    "preset maxnet": {"preset": "maxnet"},
    "l": {"features": "lc"},
    "lq": {"features": "lqc"},
    "lqp": {"features": "lqpc"},
    "t": {"features": "tc"},
    "h": {"features": "hc"},
}
CHOSEN = "chosen by CV"
CHOICES: dict[str, Any] = {
    "features": ("lc", "lqc", "lqpc", "lqphc", "tc"),
    "multipliers": (0.5, 1.0, 2.0, 4.0, 8.0),
}
PUBLISHED = {  # log loss (Table 1) and AUC (Table 2) of the structural paper, for each species
    "paper: StructMaxent": ((13.36, 0.873), (10.25, 0.984)),
    "paper: L1-Maxent": ((15.67, 0.817), (12.20, 0.972)),
    "paper: Maxent": ((19.95, 0.810), (17.41, 0.879)),
}


@dataclass(frozen=True, eq=False)
class Landscape:
    """The cells where every layer is known, and the records of the species as cells."""

    X: pd.DataFrame
    place: np.ndarray  # (rows, columns) of the grid: the cell there, -1 for none
    corner: tuple[float, float]  # longitude and latitude of the lower left
    size: float  # of a cell, degrees
    train: pd.DataFrame
    test: pd.DataFrame

    def records(self, part: str, name: str) -> np.ndarray:
        """The cell of each training or test record of a species."""
        column, row = self.position(part, name).astype(int)
        return self.place[row, column]

    def position(self, part: str, name: str) -> np.ndarray:
        """Column and row of each record in the grid, row 0 in the north."""
        table = getattr(self, part)
        table = table[table["species"] == name]
        column = (table["dd long"] - self.corner[0]) / self.size
        row = (table["dd lat"] - self.corner[1]) / self.size
        return np.array([np.floor(column), len(self.place) - 1 - np.floor(row)])

    def counts(self, part: str, name: str) -> np.ndarray:
        """Number of records in each cell."""
        return np.bincount(self.records(part, name), minlength=len(self.X))


def load(data: Path) -> Landscape | None:
    """The grid and the records; None where they are not at hand."""
    folder = data / "south_america"
    if not (folder / "coverages.npz").exists():
        return None
    stored = np.load(folder / "coverages.npz")
    layers = stored["layers"]
    known = (layers != int(stored["nodata"])).all(axis=0)
    place = np.full(known.shape, -1)
    place[known] = np.arange(known.sum())
    values = layers[:, known].astype(np.float32)  # exact for 16-bit integers
    return Landscape(
        pd.DataFrame(values.T, columns=stored["names"].astype(str)),
        place,
        (float(stored["x_left_lower_corner"]), float(stored["y_left_lower_corner"])),
        float(stored["grid_size"]),
        pd.read_csv(folder / "alltrain.csv"),
        pd.read_csv(folder / "alltest.csv"),
    )


def chosen(land: Landscape, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Features and multiplier by 5-fold cross-validation within the training records."""
    drawn = np.random.default_rng(seed).choice(len(y), CHOICE_CELLS, replace=False)
    rows = np.union1d(drawn, np.flatnonzero(y))
    model = mx.MaxentDensityCV(**CHOICES, categorical=CATEGORICAL, cv=5, verbose=0)
    return model.fit(land.X.iloc[rows], y[rows]).best_params_


def fits(
    land: Landscape, partitions: int
) -> Iterator[tuple[str, int, str, mx.MaxentDensity, float]]:
    """Species, partition, variant, the fitted model and the seconds it took."""
    for species in SPECIES:
        for partition in range(partitions):
            y = land.counts("train", f"{species}_{partition}")
            for variant in (*VARIANTS, CHOSEN):
                start = perf_counter()
                choice = VARIANTS.get(variant) or {}
                if variant == CHOSEN:
                    choice = chosen(land, y, partition)
                model = mx.MaxentDensity(**choice, categorical=CATEGORICAL, verbose=0)
                model.fit(land.X, y)
                yield species, partition, variant, model, perf_counter() - start


def scores(model: mx.MaxentDensity, land: Landscape, test: np.ndarray) -> dict[str, Any]:
    """Test log loss, the density normalised over every cell, and AUC against every cell."""
    log_density = model.score_samples(land.X)
    # the presets count equal cells with a presence once, so their density sums to just over 1
    log_density -= np.log(np.exp(log_density).sum())
    return {
        "log_loss": -log_density[test].mean(),
        "auc": mx.evaluation.auc(log_density[test], log_density),
        "gap": model.gap_,
        "status": model.status_.value,
        "features_used": len(model.coef_),
        "features": str(model.features),
        "multiplier": model.multiplier,
    }


def measure(land: Landscape, partitions: int) -> tuple[pd.DataFrame, dict[str, mx.MaxentDensity]]:
    """One row a species, partition and variant; the default models of the first partition."""
    rows, shown = [], {}
    for species, partition, variant, model, seconds in fits(land, partitions):
        test = land.records("test", f"{species}_{partition}")
        row = {"species": SPECIES[species], "partition": partition, "variant": variant}
        rows.append(row | scores(model, land, test) | {"seconds": seconds})
        if variant == "defaults" and partition == 0:
            shown[species] = model
        print(
            f"  {row['species']} {partition} {variant:14s} log loss {rows[-1]['log_loss']:.3f}  "
            f"AUC {rows[-1]['auc']:.3f}  {seconds:.1f} s",
            flush=True,
        )
    return pd.DataFrame(rows), shown


def summary(table: pd.DataFrame, n_cells: int) -> pd.DataFrame:
    """Means and deviations over the partitions, beside the published figures."""
    grouped = table.groupby(["species", "variant"], sort=False)
    found = grouped.agg(
        log_loss=("log_loss", "mean"),
        log_loss_sd=("log_loss", "std"),
        auc=("auc", "mean"),
        auc_sd=("auc", "std"),
        seconds=("seconds", "mean"),
        largest_gap=("gap", "max"),
        partitions=("partition", "size"),
    ).reset_index()
    others = [
        {"species": species, "variant": variant, "log_loss": loss, "auc": auc}
        for variant, values in PUBLISHED.items()
        for species, (loss, auc) in zip(SPECIES.values(), values, strict=True)
    ]
    uniform = [
        {"species": species, "variant": "uniform", "log_loss": np.log(n_cells), "auc": 0.5}
        for species in SPECIES.values()
    ]
    joined = pd.concat([found, pd.DataFrame(uniform), pd.DataFrame(others)], ignore_index=True)
    return joined.sort_values("species", kind="stable", ignore_index=True)


def coarse(land: Landscape, values: np.ndarray) -> np.ndarray:
    """A value of each cell as a map, on a grid four times as coarse."""
    full: np.ndarray = np.full(land.place.shape, np.nan)
    full[land.place >= 0] = values
    height, width = 4 * (full.shape[0] // 4), 4 * (full.shape[1] // 4)
    blocks = full[:height, :width].reshape(height // 4, 4, width // 4, 4)
    known = np.isfinite(blocks).sum(axis=(1, 3))
    total = np.nansum(blocks, axis=(1, 3))
    return np.where(known > 0, total / np.maximum(known, 1), np.nan)


def picture(land: Landscape, models: dict[str, mx.MaxentDensity]) -> dict[str, np.ndarray]:
    """The suitability of each species as a map."""
    return {
        species: coarse(land, model.predict(land.X, output="cloglog"))
        for species, model in models.items()
    }


def panels(land: Landscape, path: Path, species: str = "bradypus_variegatus") -> None:
    """Density paper, Figure 1: records of the first partition, a layer, the prediction with LQP."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    name = f"{species}_0"
    model = mx.MaxentDensity(**VARIANTS["lqp"], categorical=CATEGORICAL, verbose=0)
    model.fit(land.X, land.counts("train", name))
    layer = "tmp6190_ann"
    ground = coarse(land, np.ones(len(land.X)))
    height, width = (4 * n for n in ground.shape)
    x, y = land.position("train", name) + 0.5
    figure, axes = plt.subplots(1, 3, figsize=(13, 5.6), constrained_layout=True)
    shown = (
        (ground, "Greys", (0.0, 4.0), f"{len(x)} training records"),
        (
            coarse(land, land.X[layer].to_numpy()),
            "coolwarm",
            (None, None),
            f"annual temperature, as stored ({layer})",
        ),
        (
            coarse(land, model.predict(land.X, output="cloglog")),
            "Reds",
            (0.0, 1.0),
            "suitability, LQP",
        ),
    )
    for axis, (values, colours, (least, most), title) in zip(axes, shown, strict=True):
        image = axis.imshow(
            values, cmap=colours, vmin=least, vmax=most, extent=(0, width, height, 0)
        )
        axis.set(title=title, xticks=[], yticks=[])
        if axis is axes[0]:
            axis.scatter(x, y, s=14, c="tab:red", edgecolors="black", linewidths=0.4)
        else:
            figure.colorbar(image, ax=axis, shrink=0.6)
    figure.suptitle(f"{SPECIES[species]}, partition 0")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw(
    land: Landscape, table: pd.DataFrame, models: dict[str, mx.MaxentDensity], path: Path
) -> None:
    """Suitability with the records of the first partition; the log loss of every variant."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(13, 11), constrained_layout=True)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.25))
    names = [*VARIANTS, CHOSEN]
    for k, (species, suitability) in enumerate(picture(land, models).items()):
        left, right = figure.add_subplot(grid[k, 0]), figure.add_subplot(grid[k, 1])
        height, width = (4 * n for n in suitability.shape)
        image = left.imshow(
            suitability, cmap="viridis", vmin=0, vmax=1, extent=(0, width, height, 0)
        )
        figure.colorbar(image, ax=left, label="suitability (cloglog)", shrink=0.7)
        for part, kind, marker, colour in (
            ("train", "training", "o", "white"),
            ("test", "test", "^", "tab:red"),
        ):
            x, y = land.position(part, f"{species}_0") + 0.5
            left.scatter(
                x, y, s=14, c=colour, marker=marker, edgecolors="black", linewidths=0.5,
                label=f"{len(x)} {kind} records",
            )  # fmt: skip
        left.legend(loc="lower left", fontsize=9)
        left.set(title=f"{SPECIES[species]}: defaults, partition 0", xticks=[], yticks=[])
        mine = table[table["species"] == SPECIES[species]]
        for row, name in enumerate(names):
            loss = mine.loc[mine["variant"] == name, "log_loss"].to_numpy()
            spread = np.linspace(-0.2, 0.2, len(loss)) if len(loss) > 1 else np.zeros(1)
            right.scatter(loss, row + spread, s=18, c="tab:blue", alpha=0.6, linewidths=0)
            right.plot([loss.mean()] * 2, [row - 0.35, row + 0.35], "k", linewidth=2)
        lines = {"uniform": (np.log(len(land.X)), ":")}
        for name, style in zip(PUBLISHED, ("-", "--"), strict=False):  # the third is far off
            lines[name] = (PUBLISHED[name][k][0], style)
        for name, (value, style) in lines.items():
            label = f"{name}: {value:.2f}"
            right.axvline(value, color="tab:red", linestyle=style, linewidth=1.3, label=label)
        right.set(yticks=range(len(names)), yticklabels=names, xlabel="test log loss (nats)")
        n = table["partition"].nunique()
        right.set_title(f"{SPECIES[species]}: {n} partitions (dots), mean (bar)")
        right.invert_yaxis()
        right.legend(fontsize=9, loc="upper right" if k == 0 else "lower right", framealpha=1)
        right.grid(alpha=0.3, axis="x")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the table, its summary and the figure; nothing where the data are absent."""
    land = load(data)
    if land is None:
        print(f"no South America data in {data}: set MAXENT_DATA or give --data")
        return []
    table, models = measure(land, 2 if quick else PARTITIONS)
    means = summary(table, len(land.X))
    print(means.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    paths = [out / f"south_america{end}" for end in (".csv", "_summary.csv", ".png")]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    means.to_csv(paths[1], index=False, float_format="%.6g")
    draw(land, table, models, paths[2])
    panels(land, out / "south_america_panels.png")
    return [*paths, out / "south_america_panels.png"]


def main(run: Callable[[Path, Path, bool], list[Path]], about: str) -> None:
    """The command line of the experiments on species."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="fewer partitions")
    arguments = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    for path in run(RESULTS, arguments.data, arguments.quick):
        print(f"written: {path.relative_to(RESULTS.parents[1])}")


if __name__ == "__main__":
    main(run, __doc__)

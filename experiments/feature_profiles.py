"""Feature profiles, Figure 8 of the density paper: each variable's part of the exponent.

An LQ run (beta0 = 0.1) and two T runs (beta0 = 0.01 and 1) on the first partition of one species,
with the protocol of learning_curves.py. Too little regularization gives a peak at every training
presence; beta0 = 1 leaves steps that agree with the parabolas of LQ. Profiles are shifted so that
their mean over the training presences is 0.

python -m experiments.feature_profiles [--data DIR] [--quick]
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.learning_curves import FEATURES, Species, load, log_loss, problem
from experiments.south_america import DATA, main
from maxent import features
from maxent.core.path import solution_path

RUNS = {"LQ, beta0 = 0.1": ("LQ", 0.1), "T, beta0 = 0.01": ("T", 0.01), "T, beta0 = 1": ("T", 1.0)}
SPECIES = "swi09"
PRESENCES = 100  # with more, the run without regularization needs thousands of thresholds
POINTS = 400


Curve = tuple[np.ndarray, np.ndarray]


def profiles(species: Species, kind: str, w: np.ndarray) -> dict[str, Curve]:
    """Values of each variable over its range, and the exponent's part there."""
    (operator,) = features.fit_operators(FEATURES[kind], species.X)
    assert isinstance(operator, features.Additive)  # the curves of all variables in one
    found: dict[str, Curve] = {}
    for v, name in enumerate(species.X):
        x = np.linspace(species.X[name].min(), species.X[name].max(), POINTS)
        cells = features.Cells(
            np.tile(species.X.min().to_numpy()[:, None], (1, POINTS)),
            np.empty((0, POINTS), dtype=np.int32),
        )
        cells.values[v] = x
        mine = np.flatnonzero(operator.variable == v)
        y = np.zeros(POINTS)
        operator.restrict(mine).bind(cells).add_scores(w[mine], y)
        found[name] = (x, y)
    return found


def measure(species: Species) -> tuple[pd.DataFrame, dict[str, dict[str, Curve]], np.ndarray]:
    """A row a run with its losses; the profiles; the training presences."""
    train, test = species.split(0)
    train = train[:PRESENCES]
    rows, curves = [], {}
    for name, (kind, beta0) in RUNS.items():
        fitted = problem(species, kind, train)
        down = np.geomspace(
            10.0, beta0, 7
        ).tolist()  # warm starts: the smallest beta0 is hard from 0
        *_, (_, _, found) = solution_path(fitted, down, tol=1e-4, verbose=0)
        row = {"run": name, "presences": len(train), "features_used": np.count_nonzero(found.w)}
        losses = log_loss(fitted, found.w, test, train)
        row |= zip(("log_loss", "training_log_loss"), losses, strict=True)
        rows.append(row | {"gap": found.gap})
        curves[name] = profiles(species, kind, found.w)
    return pd.DataFrame(rows), curves, train


def shifted(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The profile less its mean over the training presences."""
    return y - np.interp(at, x, y).mean()


def draw(
    species: Species, curves: dict[str, dict[str, Curve]], train: np.ndarray, path: Path
) -> None:
    """One panel a variable, ticks at the training presences."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = 4
    rows = -(-species.X.shape[1] // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(14, 3 * rows), constrained_layout=True)
    styles = {"LQ, beta0 = 0.1": ("tab:blue", 2, 3), "T, beta0 = 0.01": ("tab:orange", 0.8, 1)}
    for axis, name in zip(axes.flat, species.X, strict=False):
        at = species.X[name].to_numpy()[train]
        low, high = -0.5, 0.5  # of the steps: a parabola may fall far where no presence is
        for run_name, profile in curves.items():
            x, y = profile[name][0], shifted(*profile[name], at)
            colour, width, order = styles.get(run_name, ("black", 1.8, 2))
            axis.plot(x, y, color=colour, linewidth=width, zorder=order)
            if run_name.startswith("T"):
                low, high = min(low, y.min()), max(high, y.max())
        margin = 0.15 * (high - low)
        axis.set_ylim(low - margin, high + margin)
        axis.set_title(name, fontsize=10)
        axis.plot(at, np.full(len(at), 0.02), "|", color="grey", alpha=0.6, markersize=6,
                  transform=axis.get_xaxis_transform())  # fmt: skip
        axis.grid(alpha=0.3)
    for axis in axes.flat[species.X.shape[1] :]:
        axis.axis("off")
    handles = [
        plt.Line2D([], [], color=styles.get(n, ("black",))[0], linewidth=2, label=n) for n in curves
    ]
    handles.append(plt.Line2D([], [], color="grey", marker="|", linestyle="", label="presences"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    figure.supylabel("additive contribution to the exponent")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path, data: Path = DATA, quick: bool = False) -> list[Path]:
    """Write the losses, the profiles and the figure; nothing where the data are absent."""
    chosen = [s for s in load(data) if s.name == SPECIES]
    if not chosen:
        print(f"no NCEAS data in {data}: set MAXENT_DATA or give --data")
        return []
    table, curves, train = measure(chosen[0])
    print(table.round(4).to_string(index=False))
    paths = [out / f"feature_profiles{end}" for end in ("_runs.csv", ".csv", ".png")]
    table.to_csv(paths[0], index=False, float_format="%.6g")
    wide = [
        pd.DataFrame({"variable": v, "x": next(iter(curves.values()))[v][0]}).assign(
            **{run_name: profile[v][1] for run_name, profile in curves.items()}
        )
        for v in chosen[0].X
    ]
    pd.concat(wide).to_csv(paths[1], index=False, float_format="%.5g")
    draw(chosen[0], curves, train, paths[2])
    return paths


if __name__ == "__main__":
    main(run, __doc__)

"""Figures 2, 4, 6 and 11 of the Fenchel-Young paper: entropies, their maps, losses and polytopes.

Figure 4, two classes: p = [t, 1 - t], theta = [s, 0]; the margins of Prop. 5 to 7 are measured
where the loss reaches 0. The others, on the triangle of three classes: predictions of one row of
scores, permutahedra of four vectors w, and contours of the Gini index and of the hinge entropies of
Prop. 10.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx

ENTROPIES = {
    "Shannon": mx.Shannon(),
    "Tsallis 1.5": mx.Tsallis(1.5),
    "Tsallis 2 (sparsemax)": mx.Tsallis(2.0),
    "norm, q = 2": mx.NormEntropy(2.0),
    "norm, q = inf": mx.NormEntropy(float("inf")),
    "squared norm, q = 1.5": mx.SquaredNorm(1.5),
    "squared norm, q = 4": mx.SquaredNorm(4.0),
    "Renyi 0.5": mx.Renyi(0.5),
    "Renyi 2": mx.Renyi(2.0),
    "Renyi inf": mx.Renyi(float("inf")),
}
SCORES = np.array([0.9, 0.6, -0.3])  # of Figure 2
PREDICTIONS = {
    "argmax": mx.Zero(),
    "softmax": mx.Shannon(),
    "1.5-entmax": mx.Tsallis(1.5),
    "sparsemax": mx.Tsallis(2.0),
    "sigmoid (cube)": mx.FermiDirac(),
}
WEIGHTS = {  # of Figure 6
    "w = [1, 0, 0]": [1.0, 0.0, 0.0],
    "w = [1/2, 1/2, 0]": [0.5, 0.5, 0.0],
    "w = [2/3, 1/3, 0]": [2 / 3, 1 / 3, 0.0],
    "w = [1/2, 1/3, 1/6]": [1 / 2, 1 / 3, 1 / 6],
}
CONTOURS = {  # of Figure 11
    "Gini": mx.Tsallis(2.0),
    "hinge": mx.PairwiseHinge("hinge", 3),
    "smoothed hinge": mx.PairwiseHinge("smooth", 3),
    "squared hinge": mx.PairwiseHinge("squared", 3),
}
_BELOW = (0.5, 0.02)  # where legends are
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])  # of the triangle, in the plane


def curves() -> dict[str, dict[str, np.ndarray]]:
    """H(t), p(s) and L(s; class 1) of every entropy; H is shifted to 0 at the vertices."""
    t, s = np.linspace(0, 1, 201), np.linspace(-4, 4, 201)
    points = np.stack([t, 1 - t], axis=1)
    scores = np.stack([s, np.zeros_like(s)], axis=1)
    found = {}
    for name, entropy in ENTROPIES.items():
        loss = mx.FenchelYoungLoss(entropy)
        found[name] = {
            "t": t,
            "entropy": entropy.value([1.0, 0.0]) - entropy.value(points),
            "s": s,
            "p": np.asarray(loss.predict(scores))[:, 0],
            "loss": loss.value(scores, np.zeros(len(s), dtype=int)),
        }
    return found


def run(out: Path) -> list[Path]:
    """Write the curves (csv), the margins measured from them and the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = curves()
    table = out / "binary_entropies.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        columns = ("margin_stated", "margin_by_22", "margin_measured", "max_entropy")
        writer.writerow(["entropy", *columns])
        for name, curve in found.items():
            zero = curve["s"][curve["loss"] < 1e-12]
            measured = f"{zero.min():.2f}" if zero.size else "none up to 4"
            stated = ENTROPIES[name].margin
            formula = mx.FenchelYoungLoss(ENTROPIES[name]).margin(2)
            writer.writerow(
                [
                    name,
                    "none" if stated is None else stated,
                    f"{formula:.3f}" if np.isfinite(formula) else "none",
                    measured,
                    f"{curve['entropy'].max():.4f}",
                ]
            )
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), constrained_layout=True)
    titles = ("generalized entropy H([t, 1-t])", "prediction p_1([s, 0])", "loss L([s, 0]; e_1)")
    keys = (("t", "entropy"), ("s", "p"), ("s", "loss"))
    for axis, title, (x, y) in zip(axes, titles, keys, strict=True):
        for i, (name, curve) in enumerate(found.items()):
            axis.plot(curve[x], curve[y], "-" if i < 7 else "--", label=name, linewidth=1.6)
        axis.set_title(title)
        axis.set_xlabel(x)
        axis.grid(alpha=0.3)
    axes[2].legend(fontsize=8, loc="upper right")
    picture = out / "binary_entropies.png"
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return [table, picture, *triangles(out)]


def triangles(out: Path) -> list[Path]:
    """Figures 2, 6 and 11: their points (csv) and the picture."""
    import matplotlib.pyplot as plt

    rows: list[dict[str, Any]] = []
    figure = plt.figure(figsize=(13, 6.6), constrained_layout=True)
    axes = figure.subplots(2, 4)
    for axis in axes.flat:
        axis.set_axis_off()
    _draw_predictions(figure, axes[0], rows)
    _draw_permutahedra(axes[0, 3], rows)
    for axis, (name, entropy) in zip(axes[1], CONTOURS.items(), strict=True):
        _draw_contours(axis, name, entropy, rows)
    table, picture = out / "simplex_pictures.csv", out / "simplex_pictures.png"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["figure", "name", "x1", "x2", "x3", "value"])
        writer.writeheader()
        writer.writerows(rows)
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return [table, picture]


def _row(number: int, name: str, point: Any, value: float | None = None) -> dict[str, Any]:
    x = {f"x{i + 1}": f"{entry:.4f}" for i, entry in enumerate(point)}
    return {"figure": number, "name": name, **x, "value": "" if value is None else f"{value:.4f}"}


def _triangle(axis: Any, title: str) -> None:
    axis.plot(*CORNERS[[0, 1, 2, 0]].T, color="0.6", linewidth=1)
    for corner, name, side in zip(CORNERS, "123", ("right", "left", "center"), strict=True):
        place = "bottom" if name == "3" else "top"
        axis.annotate(f"class {name}", corner, ha=side, va=place, fontsize=8, color="0.4")
    axis.set_aspect("equal")
    axis.set_title(title, fontsize=10, pad=14)
    axis.margins(0.12)


def _draw_predictions(figure: Any, axes: Any, rows: list[dict[str, Any]]) -> None:
    """The triangle in axes[0] and [1]: predictions, and where temperatures take them; a cube."""
    found = {name: np.asarray(e.conjugate(SCORES)[1]) for name, e in PREDICTIONS.items()}
    rows += [_row(2, name, point, float(point.sum())) for name, point in found.items()]
    _triangle(axes[0], "Fig. 2: predictions of one row of scores")
    _triangle(axes[1], "the same as the temperature falls")
    temperature = np.geomspace(20, 0.05, 200)[:, None]
    for i, (name, entropy) in enumerate(PREDICTIONS.items()):
        if isinstance(entropy.domain, mx.Simplex):
            at = found[name] @ CORNERS
            axes[0].plot(*at, "osD^"[i], color=f"C{i}", label=name, clip_on=False)
            if i:
                path = np.asarray(entropy.conjugate(SCORES / temperature)[1]) @ CORNERS
                axes[1].plot(*path.T, color=f"C{i}", linewidth=2)
    axes[0].legend(fontsize=8, loc="upper center", bbox_to_anchor=_BELOW, ncols=2, frameon=False)
    cube = figure.add_subplot(axes[2].get_subplotspec(), projection="3d")
    for a, b in itertools.combinations(itertools.product((0, 1), repeat=3), 2):
        if np.abs(np.subtract(a, b)).sum() == 1:
            cube.plot(*zip(a, b, strict=True), color="0.7", linewidth=1)
    cube.plot(*np.eye(3)[[0, 1, 2, 0]].T, color="0.4", linewidth=1)
    for i, (name, point) in enumerate(found.items()):
        cube.plot(*point[:, None], "osD^v"[i], color=f"C{i}", label=name)
    cube.set_title("Fig. 2: the sigmoid lies in the cube", fontsize=10)
    cube.set(xticks=[0, 1], yticks=[0, 1], zticks=[0, 1])
    cube.view_init(25, 25)


def _draw_permutahedra(axis: Any, rows: list[dict[str, Any]]) -> None:
    _triangle(axis, "Fig. 6: permutahedra")
    for i, (name, w) in enumerate(WEIGHTS.items()):
        vertices = mx.Permutahedron(w).vertices(3)
        rows += [_row(6, name, vertex) for vertex in vertices]
        flat = vertices @ CORNERS
        around = np.argsort(np.arctan2(*(flat - flat.mean(axis=0)).T[::-1]))
        outline = flat[np.append(around, around[0])]
        axis.plot(*outline.T, "o-", color=f"C{i}", markersize=5, label=name, clip_on=False)
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=_BELOW, ncols=2, frameon=False)


def _draw_contours(
    axis: Any, name: str, entropy: mx.Entropy, rows: list[dict[str, Any]], steps: int = 100
) -> None:
    """H over the triangle, as a share of its largest value, which is at the centre."""
    grid = [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    p = np.array(grid) / steps
    own = float(entropy.value([1.0, 0.0, 0.0]))
    H = own - entropy.value(p)
    centre = own - float(entropy.value(np.full(3, 1 / 3)))
    for what, point in (
        ("centre", [1 / 3] * 3),
        ("edge", [0.5, 0.5, 0.0]),
        ("0.8", [0.8, 0.1, 0.1]),
    ):
        share = (own - float(entropy.value(point))) / centre
        rows.append(_row(11, f"{name}: {what}", point, share))
    _triangle(axis, f"Fig. 11: {name}")
    axis.tricontourf(*(p @ CORNERS).T, H / centre, levels=np.linspace(0, 1, 11), cmap="viridis")

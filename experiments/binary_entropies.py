"""Figure 4 of the Fenchel-Young paper: entropies, their maps and losses for two classes.

p = [t, 1 - t], theta = [s, 0]. The margins of Prop. 5 to 7 are marked where the loss reaches 0.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

import maxent as mx

ENTROPIES = {
    "Shannon": mx.Shannon(),
    "Tsallis 1.5": mx.Tsallis(1.5),
    "Tsallis 2 (sparsemax)": mx.Tsallis(2.0),
    "norm, q = 2": mx.NormEntropy(2.0),
    "norm, q = inf": mx.NormEntropy(float("inf")),
    "squared norm, q = 1.5": mx.SquaredNorm(1.5),
    "Renyi 0.5": mx.Renyi(0.5),
}


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
        writer.writerow(["entropy", "margin_stated", "margin_measured", "max_entropy"])
        for name, curve in found.items():
            zero = curve["s"][curve["loss"] < 1e-12]
            measured = f"{zero.min():.2f}" if zero.size else "none up to 4"
            stated = ENTROPIES[name].margin
            writer.writerow(
                [
                    name,
                    "none" if stated is None else stated,
                    measured,
                    f"{curve['entropy'].max():.4f}",
                ]
            )
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), constrained_layout=True)
    titles = ("generalized entropy H([t, 1-t])", "prediction p_1([s, 0])", "loss L([s, 0]; e_1)")
    keys = (("t", "entropy"), ("s", "p"), ("s", "loss"))
    for axis, title, (x, y) in zip(axes, titles, keys, strict=True):
        for name, curve in found.items():
            axis.plot(curve[x], curve[y], label=name, linewidth=1.6)
        axis.set_title(title)
        axis.set_xlabel(x)
        axis.grid(alpha=0.3)
    axes[2].legend(fontsize=8, loc="upper right")
    picture = out / "binary_entropies.png"
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return [table, picture]

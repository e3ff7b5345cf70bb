"""The picture of docs/structured/transport.md: python docs/pictures/transport.py [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

SIZE = 40


def bump(centre: float, width: float) -> np.ndarray:
    """A histogram with one bump."""
    mass = np.exp(-0.5 * np.square((np.linspace(0, 1, SIZE) - centre) / width)) + 0.02
    return mass / mass.sum()


def main(folder: Path) -> None:
    """Plans between two histograms: exact, Euclidean and Kullback-Leibler."""
    a, b = bump(0.3, 0.1), 0.5 * bump(0.35, 0.05) + 0.5 * bump(0.8, 0.08)
    place = np.linspace(0, 1, SIZE)
    domain = mx.Transport(a, b)
    theta = -np.square(place[:, None] - place).ravel()
    plans = {
        "argmax: exact": domain.argmax(theta),
        "project: sparse": domain.project(theta / 2),
        "project_kl: Sinkhorn": domain.project_kl(theta / 0.01),
    }
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), constrained_layout=True)
    for axis, (name, plan) in zip(axes, plans.items(), strict=True):
        shown = np.where(plan > 0, plan, np.nan).reshape(SIZE, SIZE)
        axis.imshow(np.sqrt(shown), cmap="viridis_r", origin="lower")
        axis.plot(-1 - 40 * a, np.arange(SIZE), color="#4a6fa5", clip_on=False)
        axis.plot(np.arange(SIZE), -1 - 40 * b, color="#b5452c", clip_on=False)
        axis.set_title(f"{name}, {np.count_nonzero(plan)} entries", fontsize=10)
        axis.set_xlim(-6, SIZE - 0.5)
        axis.set_ylim(-6, SIZE - 0.5)
        axis.axis("off")
    figure.savefig(folder / "transport.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "_static")

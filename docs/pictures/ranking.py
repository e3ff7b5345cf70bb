"""The picture of docs/structured/ranking.md: python docs/pictures/ranking.py [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

PLANE = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2.0], [6.0]])  # where entries sum to 0
STRENGTHS = np.geomspace(0.02, 50, 300)


def hexagon(axis: plt.Axes) -> None:
    """The permutahedron of [3, 2, 1] and where scores are projected as the strength falls."""
    domain = mx.Permutahedron([3, 2, 1])
    corners = domain.vertices(3)
    places = corners @ PLANE.T
    order = np.argsort(np.arctan2(*places.T))
    axis.fill(*places[order].T, facecolor="#e8eef7", edgecolor="#4a6fa5")
    for corner, place in zip(corners, places, strict=True):
        text = "".join(f"{int(x)}" for x in corner)
        axis.annotate(text, place, 1.13 * place, ha="center", va="center", fontsize=9)
    theta = np.array([0.55, 0.1, -0.15])
    steps = theta / STRENGTHS[:, None]
    for name, project, style in (("l2", domain.project, "-"), ("kl", domain.project_kl, "--")):
        axis.plot(*(project(steps) @ PLANE.T).T, style, color="#b5452c", label=name)
    axis.plot(*(np.full(3, 2.0) @ PLANE.T), "k.", label="large strength")
    axis.set_aspect("equal")
    axis.axis("off")
    axis.legend(loc="upper left", bbox_to_anchor=(-0.12, 0.2), fontsize=8, frameon=False)
    axis.set_title("projections onto the permutahedron of [3, 2, 1]", fontsize=10, pad=14)


def ranks(axis: plt.Axes) -> None:
    """Soft ranks of five scores against the strength."""
    theta = np.array([0.0, 0.4, 0.5, 1.3, 3.0])
    for regularization, style in (("l2", "-"), ("kl", "--")):
        soft = np.array([mx.soft_rank(theta, s, regularization) for s in STRENGTHS])
        for j, score in enumerate(theta):
            label = f"score {score:g}" if style == "-" else None
            axis.plot(STRENGTHS, soft[:, j], style, color=f"C{j}", label=label)
    axis.set_xscale("log")
    axis.set_xlabel("strength")
    axis.set_ylabel("soft rank (dashed: kl)")
    axis.legend(fontsize=8, frameon=False)
    axis.set_title("hard ranks on the left, all alike on the right", fontsize=10)


def main(folder: Path) -> None:
    """Write ranking.png."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), constrained_layout=True)
    hexagon(axes[0])
    ranks(axes[1])
    figure.savefig(folder / "ranking.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "_static")

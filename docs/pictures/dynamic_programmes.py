"""Draw a chain's, an alignment's and a tree's best structure, SparseMAP and marginals."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from maxent import Alignment, Chain, Tree
from maxent.domains import SumProductDomain

FOLDER = Path(__file__).parent.parent / "_static"
TITLES = ("best", "SparseMAP", "marginals")


def maps(domain: SumProductDomain, theta: np.ndarray) -> list[np.ndarray]:
    """The points of the three titles."""
    return [domain.argmax(theta), domain.project(theta), domain.softmax(theta)[1]]


def draw(name: str, tables: list[np.ndarray], x: str, y: str) -> None:
    """Three tables of probabilities beside one another."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained", sharey=True)
    for axis, title, table in zip(axes, TITLES, tables, strict=True):
        image = axis.imshow(table, vmin=0, vmax=1, cmap="Blues", aspect="auto")
        axis.set(title=title, xlabel=x)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel(y)
    figure.colorbar(image, ax=axes)
    figure.savefig(FOLDER / f"{name}.png", dpi=100)
    plt.close(figure)


def main() -> None:
    """One picture per domain."""
    rng = np.random.default_rng(3)
    chain, length = Chain(4), 12
    theta = rng.normal(size=chain.size(length))
    theta[length * 4 :] += np.tile(np.eye(4).ravel(), length - 1)
    draw(
        "chains",
        [p[: length * 4].reshape(-1, 4).T for p in maps(chain, theta)],
        "position",
        "state",
    )
    t = np.linspace(0, 1, 24)
    x, y = np.sin(2 * np.pi * t**1.5), np.sin(2 * np.pi * np.linspace(0, 1, 30))
    scores = -4.0 * (x[:, None] - y) ** 2
    aligned = maps(Alignment(24, 30), scores.ravel())
    draw("alignments", [p.reshape(24, 30) for p in aligned], "element of y", "element of x")
    tree = Tree([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)], 4)
    theta = rng.normal(size=tree.size)
    draw("trees", [p[:24].reshape(6, 4).T for p in maps(tree, theta)], "node", "state")


if __name__ == "__main__":
    main()

"""The picture of docs/structured/arborescence.md: three answers about one sentence."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from maxent.structured import Arborescence

WORDS = ["(root)", "I", "saw", "her", "with", "a", "telescope"]
# scores [head, dependent]: "with" may hang on "saw" or on "her"
SCORES = np.full((7, 7), -2.0)
for head, dependent, score in [
    (0, 2, 3.0),
    (0, 3, 0.5),
    (2, 1, 2.5),
    (2, 3, 2.0),
    (3, 2, 0.5),
    (2, 6, 1.2),
    (3, 6, 0.9),
    (6, 4, 2.0),
    (6, 5, 2.5),
    (4, 6, 0.3),
    (2, 4, 0.8),
]:
    SCORES[head, dependent] = score


def draw(axis, p, title: str) -> None:
    """Arcs above the words, as dark as they are probable."""
    for head, dependent in zip(*np.nonzero(p > 0.01), strict=True):
        weight = p[head, dependent]
        axis.annotate(
            "",
            xy=(dependent, 0.05),
            xytext=(head, 0.05),
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={-0.45 if dependent > head else 0.45}",
                "color": "#1f4e79",
                "alpha": float(0.15 + 0.85 * weight),
                "linewidth": 0.5 + 2 * float(weight),
            },
        )
    for node, word in enumerate(WORDS):
        axis.text(node, -0.12, word, ha="center", va="top", fontsize=9)
    axis.set(xlim=(-0.5, 6.5), ylim=(-0.35, 1.05), title=title)
    axis.axis("off")


if __name__ == "__main__":
    trees = Arborescence()
    theta = SCORES.ravel()
    answers = {
        "argmax: the best tree": trees.argmax(theta),
        "project: a mean of few trees (SparseMAP)": trees.project(theta),
        "softmax: the marginals of all trees": trees.softmax(theta)[1],
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 2.2), layout="constrained")
    for axis, (title, p) in zip(axes, answers.items(), strict=True):
        draw(axis, p.reshape(7, 7), title)
    figure.savefig(Path(__file__).parent.parent / "_static" / "arborescence.png", dpi=110)

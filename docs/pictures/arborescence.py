"""The picture of docs/structured/arborescence.md: three answers about one sentence."""

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

WORDS = ["(root)", "I", "saw", "her", "with", "a", "telescope"]
ARCS = [  # head, dependent, score: "telescope" may hang on "saw" or on "her"
    *((0, 2, 3.0), (0, 3, 0.5), (2, 1, 2.5), (2, 3, 2.0), (3, 2, 0.5), (2, 6, 1.2)),
    *((3, 6, 0.9), (6, 4, 2.0), (6, 5, 2.5), (4, 6, 0.3), (2, 4, 0.8)),
]


def arcs(axis: plt.Axes, p: np.ndarray, title: str) -> None:
    """Arcs above the words, as dark as they are probable."""
    for head, dependent in zip(*np.nonzero(p > 0.01), strict=True):
        weight = float(p[head, dependent])
        axis.annotate(
            "",
            xy=(dependent, 0.05),
            xytext=(head, 0.05),
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={-0.4 if dependent > head else 0.4}",
                "color": "#1f4e79",
                "alpha": 0.15 + 0.85 * weight,
                "linewidth": 0.5 + 2 * weight,
            },
        )
    for node, word in enumerate(WORDS):
        axis.text(node, -0.05, word, ha="center", va="top")
    axis.set(xlim=(-0.5, 6.5), ylim=(-0.35, 1.4))
    axis.set_title(title, loc="left", fontsize=11)
    axis.axis("off")


def draw() -> None:
    """The best tree, a mean of few trees, and the marginals of all."""
    scores = np.full((7, 7), -2.0)
    for head, dependent, score in ARCS:
        scores[head, dependent] = score
    trees, theta = mx.Arborescence(), scores.ravel()
    answers = {
        "argmax: the best tree": trees.argmax(theta),
        "project: a mean of few trees (SparseMAP)": trees.project(theta),
        "softmax: marginals of all trees": trees.softmax(theta)[1],
    }
    _, axes = plt.subplots(3, 1, figsize=(7, 4.9), layout="constrained")
    for axis, (title, p) in zip(axes, answers.items(), strict=True):
        arcs(axis, p.reshape(7, 7), title)

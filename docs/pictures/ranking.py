"""The picture of docs/structured/ranking.md: a permutahedron and soft ranks."""

import matplotlib.pyplot as plt
import numpy as np

import maxent as mx

PLANE = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2.0], [6.0]])  # where entries sum to 0
STRENGTHS = np.geomspace(0.02, 50, 120)


def hexagon(axis: plt.Axes) -> None:
    """The permutahedron of [3, 2, 1] and where scores are projected as the strength falls."""
    domain = mx.Permutahedron([3, 2, 1])
    corners = domain.vertices(3)
    places = corners @ PLANE.T
    order = np.argsort(np.arctan2(*places.T))
    axis.fill(*places[order].T, facecolor="#e8eef7", edgecolor="#4a6fa5")
    for corner, place in zip(corners, places, strict=True):
        text = "".join(f"{int(x)}" for x in corner)
        axis.annotate(text, place, 1.17 * place, ha="center", va="center")
    theta = np.array([0.55, 0.1, -0.15])
    steps = theta / STRENGTHS[:, None]
    for name, project, style in (("l2", domain.project, "-"), ("kl", domain.project_kl, "--")):
        axis.plot(*(project(steps) @ PLANE.T).T, style, color="#b5452c", lw=2, label=name)
    axis.plot(*(np.full(3, 2.0) @ PLANE.T), "ko", ms=5)
    axis.set(aspect="equal", xlim=(-1.85, 1.85), ylim=(-2.3, 1.75))
    axis.axis("off")
    axis.legend(loc="lower center", ncols=2, frameon=False)
    axis.set_title("projections onto\nthe permutahedron of [3, 2, 1]", fontsize=11)


def ranks(axis: plt.Axes) -> None:
    """Soft ranks of five scores against the strength."""
    theta = np.array([0.0, 0.4, 0.5, 1.3, 3.0])
    for regularization, style in (("l2", "-"), ("kl", "--")):
        soft = np.array([mx.soft_rank(theta, s, regularization) for s in STRENGTHS])
        for j, score in enumerate(theta):
            axis.plot(STRENGTHS, soft[:, j], style, color=f"C{j}")
            if style == "-":
                axis.text(0.017, soft[0, j], f"{score:g}", color=f"C{j}", ha="right", va="center")
    axis.set(xscale="log", xlim=(0.006, 60), xticks=[0.1, 1, 10])
    axis.set(xlabel="strength", ylabel="soft rank")
    axis.set_title("soft ranks of five scores", fontsize=11)


def draw() -> None:
    """Both, side by side."""
    _, axes = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    hexagon(axes[0])
    ranks(axes[1])

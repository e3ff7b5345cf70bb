"""Theorem 14 of the density paper: l2 and squared l2 regularization have the same solutions.

For a grid of alpha: solve with Quadratic(alpha), set beta = alpha ||w||_2, solve with Ball(beta).
The optimality conditions are then the same equation, so the weights must agree.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from scipy.special import kl_div

import maxent as mx
from experiments.guarantees import landscape

ALPHAS = np.logspace(-3, 1.5, 19)
M = 200


def compare() -> list[dict[str, float]]:
    """One record an alpha."""
    land = landscape()
    observed = np.random.default_rng(2).multinomial(M, land.pi) / M
    records = []
    for alpha in ALPHAS:
        ridge = land.problem(mx.Quadratic(alpha), observed).solve(tol=1e-13)
        norm = float(np.linalg.norm(ridge.w))
        ball = land.problem(mx.Ball(alpha * norm), observed).solve(tol=1e-13)
        records.append(
            {
                "alpha": alpha,
                "beta": alpha * norm,
                "norm_l2_squared": norm,
                "norm_l2": float(np.linalg.norm(ball.w)),
                "max_difference": float(np.abs(ridge.w - ball.w).max()),
                "kl": float(np.sum(kl_div(ridge.p, ball.p))),
                "gap_l2_squared": ridge.gap,
                "gap_l2": ball.gap,
                "excess": land.loss(ridge.w) - land.loss(land.w),
            }
        )
    return records


def run(out: Path) -> list[Path]:
    """Write the table and the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    records = compare()
    table = out / "l2_equivalence.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(records[0])
        writer.writerows([f"{value:.6g}" for value in record.values()] for record in records)

    column = {key: np.array([r[key] for r in records]) for key in records[0]}
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), constrained_layout=True)
    axes[0].plot(column["alpha"], column["norm_l2_squared"], "o", label="l2 squared, alpha")
    axes[0].plot(column["alpha"], column["norm_l2"], "k-", label="l2, beta = alpha ||w||")
    axes[0].set(title="||w||_2 of the two fits", yscale="log")
    axes[0].legend(fontsize=9)
    axes[1].plot(column["alpha"], column["beta"], "o-", color="tab:green")
    axes[1].set(title="the beta that belongs to alpha", yscale="log")
    floor = 1e-17  # shows an exact agreement
    axes[2].plot(
        column["alpha"], np.maximum(column["max_difference"], floor), "o-", label="max |w - w'|"
    )
    axes[2].plot(column["alpha"], np.maximum(column["kl"], floor), "s-", label="KL(p || p')")
    axes[2].set(title="difference between the two fits", yscale="log", ylim=(floor / 2, 1))
    axes[2].legend(fontsize=9)
    for axis in axes:
        axis.set(xscale="log", xlabel="alpha")
        axis.grid(alpha=0.3)
    picture = out / "l2_equivalence.png"
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return [table, picture]

"""The geometry of the relaxation path (relaxation paper, Figs 2, 3 and 5).

mu(nu) among the lines u_j mu - q_j nu = 1 and -1 for three and for four symbols, and G(mu) at
nu = 17 for the four: the solution is where G crosses 0. The paper does not print its numbers; these
are examples of the same kind.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

import maxent as mx

RESULTS = Path(__file__).parent / "results"
THREE = ([0.71, 0.21, 0.08], [0.24, 0.42, 0.34])
FOUR = ([0.54, 0.25, 0.11, 0.1], [0.1, 0.43, 0.13, 0.34])
NU = 17.0


def excess(mu: np.ndarray, nu: float, u: list[float], q: list[float]) -> np.ndarray:
    """G(nu, mu) of (8) at each mu."""
    return np.clip(mu[:, None] * np.array(u) - nu * np.array(q), -1, 1).sum(axis=1)


def corners(nu: float, u: list[float], q: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Where the slope of G changes, (14): rows leave I_- and enter I_+."""
    return (nu * np.array(q) - 1) / np.array(u), (nu * np.array(q) + 1) / np.array(u)


def _draw_excess(ax: Any, path: mx.RelaxationPath) -> None:
    u, q = FOUR
    below, above = corners(NU, u, q)
    ends = np.sort(np.concatenate([below, above]))
    mu = np.concatenate([[ends[0] - 4], ends, [ends[-1] + 4]])
    ax.plot(mu, excess(mu, NU, u, q), color="tab:green", lw=2)
    for x, colour, text in (
        (below, "tab:blue", r"leaves $I_-$"),
        (above, "tab:red", "enters $I_+$"),
    ):
        ax.plot(x, excess(x, NU, u, q), "o", color=colour, ms=6, label=f"a row {text}")
    ax.axhline(0, color="k", lw=0.8)
    solution = float(np.interp(NU, path.nu, path.mu))  # linear between knots
    ax.plot([solution], [0], "k*", ms=13, label=rf"$\mu$ = {solution:.2f}")
    ax.set(xlabel=r"$\mu$", ylabel=r"$G(\mu)$")
    ax.set_title(rf"$G(\mu)$ of the four symbols at $\nu$ = {NU:g}", fontsize=10)
    ax.legend(loc="upper left", frameon=False)
    ax.grid(alpha=0.3)


def run(results: Path) -> list[Path]:
    """Write the knots and the three panels."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(15, 4.6), dpi=110, layout="constrained")
    axes = figure.subplots(1, 3)
    paths = [mx.RelaxationPath(*example).fit() for example in (THREE, FOUR)]
    for ax, path in zip(axes, paths, strict=False):
        path.plot(ax)
        ax.plot([], [], color="tab:blue", lw=0.8, label=r"$u_j \mu - q_j \nu = -1$")
        ax.plot([], [], color="tab:red", lw=0.8, label=r"$u_j \mu - q_j \nu = 1$")
        ax.legend(loc="upper left", framealpha=0.9)
        ax.set_title(f"{len(path.observed)} symbols, {path.segments} segments", fontsize=10)
    axes[1].axvline(NU, color="0.5", ls=":", lw=1.2)
    _draw_excess(axes[2], paths[1])
    table, picture = results / "relaxation_geometry.csv", results / "relaxation_geometry.png"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["symbols", "nu", "mu", "rows_of_minus", "rows_of_plus"])
        for path in paths:
            for nu, mu in zip(path.nu[1:], path.mu[1:], strict=True):
                active = path.active(float(nu))
                rows = [" ".join(map(str, part)) for part in (active.minus, active.plus)]
                writer.writerow([len(path.observed), f"{nu:.6g}", f"{mu:.6g}", *rows])
                print(f"{len(path.observed)} symbols: nu {nu:.4f}, mu {mu:.4f}, I_- I_+ {rows}")
    figure.savefig(picture)
    return [table, picture]


if __name__ == "__main__":
    for written in run(RESULTS):
        print(f"written: {written.relative_to(RESULTS.parents[1])}")

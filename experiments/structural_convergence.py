"""Convergence of coordinate descent (structural paper, §4.4): the duality gap round by round.

5,000 cells, 60 correlated features in [0, 1], 200 records. The steps of StructMaxent1, of
StructMaxent2 and of an exact line search, beside SUMMET, which takes the steps of StructMaxent1
along the feature with the best bound. The paper bounds features by Lambda = 1; features in [0, 1]
need 1/2 only, because the width of the range counts: both closed forms are shown with both. The
gap is the smallest so far, its rate is fitted over the second half of the rounds.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

import maxent as mx
from maxent.core import bounds

CELLS, FEATURES, M = 5000, 60, 200
ROUNDS, TOL = 20_000, 1e-8
FIRST = 1500  # rounds of the second panel
EVERY = 100  # of the rounds in the table


class PaperRange(mx.MatrixMap):
    """Features in [0, 1] that are only known to lie in [-1, 1]."""

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        return -np.ones(self.n_features), np.ones(self.n_features)


def problem(features: type[mx.MatrixMap]) -> mx.Problem:
    """Features that share a few factors, and records of a density of six of them."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(CELLS, 8)) @ rng.normal(size=(8, FEATURES))
    X = factors + 0.7 * rng.normal(size=(CELLS, FEATURES))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    pi = mx.Shannon().conjugate(X[:, :6] @ rng.normal(scale=4, size=6))[1]
    observed = rng.multinomial(M, np.asarray(pi)) / M
    sd = np.sqrt(observed @ X**2 - (observed @ X) ** 2)
    box = mx.Box(bounds.practical_beta(sd, M))
    return mx.Problem(mx.Shannon(), features(X), box, observed=observed)


def runs() -> dict[str, tuple[mx.Solver, type[mx.MatrixMap]]]:
    """What is compared, one step a round."""

    def descent(rule: str) -> mx.Solver:
        return mx.CoordinateDescent(tol=TOL, max_iter=ROUNDS, rule=rule, sweep=1)

    return {
        "StructMaxent2, Lambda = 1": (descent("structmaxent2"), PaperRange),
        "StructMaxent1, Lambda = 1": (descent("structmaxent1"), PaperRange),
        "StructMaxent2": (descent("structmaxent2"), mx.MatrixMap),
        "StructMaxent1": (descent("structmaxent1"), mx.MatrixMap),
        "SUMMET": (mx.SUMMET(tol=TOL, max_iter=ROUNDS, sweep=1), mx.MatrixMap),
        "line search": (descent("line-search"), mx.MatrixMap),
    }


def gaps(solver: mx.Solver, features: type[mx.MatrixMap]) -> np.ndarray:
    """The smallest gap up to each round, the start included."""
    history = solver.run(problem(features)).history  # a run may end at ROUNDS
    return np.minimum.accumulate([record["gap"] for record in history])


def rate(gap: np.ndarray) -> float:
    """The c of gap ~ e^{-c round}."""
    late = np.arange(gap.size // 2, gap.size)
    return -float(np.polyfit(late, np.log(gap[late]), 1)[0])


def run(out: Path) -> list[Path]:
    """Write the table and the figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {name: gaps(*settings) for name, settings in runs().items()}
    table = out / "structural_convergence.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["rule", "rate", "round", "gap"])
        for name, gap in found.items():
            print(f"{name}: {gap.size - 1} rounds to a gap of {gap[-1]:.1e}, rate {rate(gap):.2e}")
            for k in sorted({*range(0, gap.size, EVERY), gap.size - 1}):
                writer.writerow([name, f"{rate(gap):.3e}", k, f"{gap[k]:.4e}"])

    figure, axes = plt.subplots(1, 2, figsize=(13, 4.8), constrained_layout=True, sharey=True)
    colors = {"StructMaxent2": "tab:orange", "StructMaxent1": "tab:blue"}
    colors |= {"SUMMET": "tab:green", "line search": "tab:red"}
    for name, gap in found.items():
        style = {"color": colors[name.split(",")[0]], "linestyle": ":" if "," in name else "-"}
        label = f"{name}: e^(-{rate(gap):.1e} round)"
        for axis in axes:
            axis.semilogy(gap, label=label, linewidth=1.5, **style)
    axes[0].set(
        title="all rounds: a straight line is exponential convergence", ylabel="smallest gap so far"
    )
    axes[0].legend(fontsize=9)
    axes[1].set(title=f"the first {FIRST:,} rounds", xlim=(0, FIRST))
    for axis in axes:
        axis.set(xlabel="round", ylim=(TOL / 2, None))
        axis.grid(alpha=0.3)
    picture = out / "structural_convergence.png"
    figure.savefig(picture, dpi=110)
    plt.close(figure)
    return [table, picture]

"""Figures 1 and 2 of the discrimination paper: what a Laplace prior does to the weights.

Figure 1: the posterior mean against eta, the multiplier of a weight, under a standard normal prior
(no shrinkage: the mean is eta) and Laplace priors of lam = 4 and 6 (Corollary 7). Figure 2: the
l2 and l1 balls, and sets {||w||_KL <= b} whose border passes (0, 1), with the logarithm
log((sqrt(lam w^2 + 1) + 1) / 2) of Corollary 6. The l1 ball is the limit, but a slow one: borders
meet w_1 = w_2 at 0.71 (l2), 0.67 (lam = 4), 0.61 (36), 0.54 (1000), 0.503 (1e6) and 0.5 (l1).

python -m experiments.shrinkage
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize

import maxent as mx

SHRUNK = (4.0, 6.0)
BALLS = (1.0, 4.0, 36.0, 1e3, 1e6)


def kl_norm(w: np.ndarray, lam: float) -> np.ndarray:
    """A weight's share of ||w||_KL (Corollary 6), less its value 1 / sqrt(lam) at 0."""
    prior = mx.LaplacePrior(lam)
    return np.array([prior.conjugate(np.array([x])) for x in np.ravel(w)]) / np.sqrt(lam)


def means() -> pd.DataFrame:
    """Posterior means where they exist: eta^2 < lam."""
    parts = [
        pd.DataFrame({"prior": "normal", "eta": (eta := np.linspace(-3, 3, 121)), "mean": eta})
    ]
    for lam in SHRUNK:
        eta = np.linspace(-1, 1, 121) * 0.97 * np.sqrt(lam)
        mean = mx.LaplaceMEDN(lam=lam).shrinkage(eta)
        parts.append(pd.DataFrame({"prior": f"Laplace, lam = {lam:g}", "eta": eta, "mean": mean}))
    return pd.concat(parts, ignore_index=True)


def borders(points: int = 61) -> pd.DataFrame:
    """w_2 against w_1 in [0, 1] on the border of each ball through (0, 1) and (1, 0)."""
    first = np.linspace(0, 1, points)
    balls = {"l2": np.sqrt(1 - first**2), "l1": 1 - first}
    for lam in BALLS:
        level = kl_norm(np.ones(1), lam)[0]

        def outside(second: float, used: float, lam: float = lam, level: float = level) -> float:
            return float(kl_norm(np.array([second]), lam)[0] + used - level)

        used = kl_norm(first, lam)
        found = [optimize.brentq(outside, 0, 1 + 1e-12, args=(u,), xtol=1e-14) for u in used]
        balls[f"KL, lam = {lam:g}"] = np.array(found)
    parts = [pd.DataFrame({"ball": k, "w1": first, "w2": v}) for k, v in balls.items()]
    return pd.concat(parts, ignore_index=True)


def diagonal(table: pd.DataFrame) -> pd.Series:
    """Where each border meets w_1 = w_2."""
    return table.groupby("ball", sort=False).apply(
        lambda part: np.interp(0, part["w1"] - part["w2"], part["w1"]), include_groups=False
    )


def draw(curves: pd.DataFrame, balls: pd.DataFrame, path: Path) -> None:
    """Both figures side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.8), constrained_layout=True)
    for prior, part in curves.groupby("prior", sort=False):
        left.plot(part["eta"], part["mean"], label=prior)
    left.set(xlabel="eta", ylabel="posterior mean", ylim=(-3, 3), title="Posterior mean (Fig. 1)")
    for ball, part in balls.groupby("ball", sort=False):
        x, y = part["w1"].to_numpy(), part["w2"].to_numpy()
        x, y = np.append(x, x[::-1]), np.append(y, -y[::-1])  # round by the other quadrants
        x, y = np.append(x, -x), np.append(y, -y)
        plain = str(ball).startswith("l")
        axis = middle if plain else right
        axis.plot(x, y, label=ball)
        if plain:
            right.plot(x, y, color="grey", linewidth=0.8, linestyle=":")
    middle.set(title="l2 and l1 (Fig. 2a)")
    right.set(title="KL-norm (Fig. 2b); dotted: l2, l1")
    for axis in (middle, right):
        axis.set(xlabel="w_1", ylabel="w_2", aspect="equal")
    for axis in (left, middle, right):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="best" if axis is left else "center")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def run(out: Path) -> list[Path]:
    """Two tables and one figure."""
    curves, balls = means(), borders()
    print(diagonal(balls).round(4).to_string())
    paths = [out / f"shrinkage{name}" for name in (".csv", "_balls.csv", ".png")]
    curves.to_csv(paths[0], index=False, float_format="%.6g")
    balls.to_csv(paths[1], index=False, float_format="%.6g")
    draw(curves, balls, paths[2])
    return paths


if __name__ == "__main__":
    from experiments.run import RESULTS

    for written in run(RESULTS):
        print(f"written: {written}")

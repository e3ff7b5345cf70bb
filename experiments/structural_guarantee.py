"""Theorem 2 of the structural paper where the truth is known: does it hold, and what is it worth?

2,000 cells with three variables; H_1, H_2, H_3 are all monomials of degree 1, 2 and 3, and the
truth is a Gibbs distribution of four of them. For each sample size, repeated samples are fitted as
the theorem says, with beta_k = 2 R_m(H_k) + sqrt(log(2 p / delta) / (2 m)). R_m is (15), or what it
is, by simulation of records and signs. "one set" has a single price for the union of all three.
The guarantee is taken at its best, inf_w L(w) + 2 sum_k beta_k ||w_k||_1, by a fit to the truth. It
says something where that is below the loss of the uniform distribution, which is the one at w = 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

import maxent as mx
from experiments.run import write_rows
from maxent.core import bounds

CELLS, VARIABLES, DEGREE = 2000, 3, 3
DELTA = 0.05
SIZES = (100, 1000, 10_000, 100_000)
REPEATS, SIGNS = 100, 2000
KINDS = ("(15)", "simulated", "one set, simulated")


class Landscape:
    """The features, the set of each, and the truth."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        v = rng.uniform(size=(CELLS, VARIABLES))
        terms = [
            chosen
            for k in range(1, DEGREE + 1)
            for chosen in combinations_with_replacement(range(VARIABLES), k)
        ]
        self.X = np.column_stack([np.prod(v[:, list(chosen)], axis=1) for chosen in terms])
        self.level = np.array([len(chosen) for chosen in terms])
        self.w = np.zeros(len(terms))
        self.w[[terms.index(c) for c in ((0,), (2,), (0, 1), (1, 1, 2))]] = [4.0, -3.0, 3.0, 2.0]
        self.pi = np.asarray(mx.Shannon().conjugate(self.X @ self.w)[1])

    def loss(self, w: np.ndarray) -> float:
        """L(w) = -sum pi log p_w."""
        value, _ = mx.Shannon().conjugate(self.X @ w)
        return float(value) - float(self.pi @ self.X @ w)

    def solved(self, beta: np.ndarray, observed: np.ndarray) -> np.ndarray:
        problem = mx.Problem(mx.Shannon(), self.X, mx.Box(beta), observed=observed)
        return problem.solve(tol=1e-8).w


def complexities(land: Landscape, m: int, kind: str, rng: np.random.Generator) -> np.ndarray:
    """R_m of the set of each feature."""
    if kind == "(15)":
        levels = [mx.Monomials(DEGREE).complexity(k, VARIABLES, m) for k in land.level]
        return np.array(levels)
    counts = rng.multinomial(m, land.pi, size=SIGNS)
    means = (2 * rng.binomial(counts, 0.5) - counts) / m @ land.X
    if kind.startswith("one set"):
        return np.full(land.level.size, means.max(axis=1).mean())
    of_set = {k: means[:, land.level == k].max(axis=1).mean() for k in range(1, DEGREE + 1)}
    return np.array([of_set[k] for k in land.level])


def measured(land: Landscape) -> Iterator[dict[str, float | str]]:
    """One record a kind of price and sample size."""
    rng = np.random.default_rng(1)
    smallest, uniform = land.loss(land.w), float(np.log(CELLS))
    for m in SIZES:
        draws = rng.multinomial(m, land.pi, size=REPEATS) / m
        for kind in KINDS:
            sets = 1 if kind.startswith("one set") else DEGREE
            beta = bounds.structural_beta(complexities(land, m, kind, rng), sets, m, DELTA)
            rival = land.solved(2 * beta, land.pi)
            allowed = land.loss(rival) + 2 * float(beta @ np.abs(rival)) - smallest
            excess = np.array([land.loss(land.solved(beta, p)) for p in draws]) - smallest
            share = np.max(np.abs((draws - land.pi) @ land.X) / beta, axis=1)
            yield {
                "complexity": kind,
                "m": m,
                "repeats": REPEATS,
                "means_within_beta": float(np.mean(share <= 1)),
                "deviation_quantile": float(np.quantile(share, 1 - DELTA)),
                "held": float(np.mean(excess <= allowed)),
                "guaranteed_excess": allowed,
                "excess": float(excess.mean()),
                "largest_excess": float(excess.max()),
                "uniform_excess": uniform - smallest,
                "worth": 1 - allowed / (uniform - smallest),
            }


def run(out: Path) -> list[Path]:
    """Write the table."""
    return [write_rows(out / "structural_guarantee.csv", measured(Landscape()))]


if __name__ == "__main__":
    run(Path(__file__).parent / "results")

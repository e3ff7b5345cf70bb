"""Theorem 2 of the structural paper: what the stored simulation says, and one number again."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

import maxent as mx

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from experiments import structural_guarantee  # noqa: E402
from experiments.run import RESULTS  # noqa: E402


def rows():
    with (RESULTS / "structural_guarantee.csv").open() as file:
        return {(row.pop("complexity"), int(row["m"])): row for row in csv.DictReader(file)}


def test_theorem_2_held_and_says_something():
    stored = rows()
    assert {m for _, m in stored} == set(structural_guarantee.SIZES)
    for row in stored.values():
        number = {name: float(value) for name, value in row.items()}
        assert number["held"] >= 1 - structural_guarantee.DELTA
        assert number["means_within_beta"] >= 1 - structural_guarantee.DELTA
        assert number["largest_excess"] <= number["guaranteed_excess"] + 1e-9
        assert number["guaranteed_excess"] <= number["uniform_excess"] + 1e-9
    assert float(stored["(15)", 100]["worth"]) == 0  # no more than the uniform distribution
    for m, worth in ((1000, 0.3), (10_000, 0.7), (100_000, 0.9)):
        assert float(stored["simulated", m]["worth"]) > worth


def test_the_guarantee_is_the_infimum_of_the_theorem():
    land, m = structural_guarantee.Landscape(), 10_000
    chance = np.sqrt(np.log(2 * 3 / 0.05) / (2 * m))
    beta = 2 * np.sqrt(2 * land.level * np.log(3) / m) + chance
    mean, price = land.pi @ land.X, np.r_[beta, beta] * 2

    def objective(parts):  # w = u - v, u and v >= 0
        w = parts[:19] - parts[19:]
        theta = land.X @ w
        p = np.exp(theta - theta.max())
        value = theta.max() + np.log(p.sum()) - w @ mean + price @ parts
        slope = land.X.T @ (p / p.sum()) - mean
        return value, np.r_[slope, -slope] + price

    found = optimize.minimize(
        objective, np.zeros(38), jac=True, bounds=[(0, None)] * 38, options={"maxiter": 5000}
    )
    allowed = found.fun - land.loss(land.w)
    assert allowed == pytest.approx(float(rows()["(15)", m]["guaranteed_excess"]), abs=1e-4)
    entropy = -np.sum(land.pi * np.log(land.pi))
    assert land.loss(land.w) == pytest.approx(entropy, abs=1e-12)
    assert mx.Monomials(3).complexity(2, 3, m) == pytest.approx(np.sqrt(4 * np.log(3) / m))

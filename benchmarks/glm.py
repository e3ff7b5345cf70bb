"""l1 logistic regression, 100,000 x 200: time to suboptimality 1e-8, judged by our Problem."""

from __future__ import annotations

from functools import partial

import numpy as np

import maxent as mx
from benchmarks.peers import celer, skglm
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

GOAL = 1e-8
TARGET = ("at most a third of the peer's time", 3.0)


def data(n: int, features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.standard_normal((n, features)))
    w = np.zeros(features)
    w[: features // 5] = 0.5 * rng.standard_normal(features // 5)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ w)), 1.0, -1.0)
    return X, y


class Ours:
    NAME = "maxent"
    TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

    @staticmethod
    def fit(X: np.ndarray, y: np.ndarray, beta: float, tol: float) -> np.ndarray:
        return problem(X, y, beta).solve(mx.ProxNewton(tol=tol)).w


def problem(X: np.ndarray, y: np.ndarray, beta: float) -> mx.Problem:
    observed = (y > 0).astype(float)[:, None]
    return mx.Problem(mx.FermiDirac(), mx.SampleMap(X), mx.Box(beta), observed=observed)


def run(quick: bool = False) -> list[Row]:
    """Each competitor with the loosest of its own tolerances that reaches the goal."""
    X, y = data(*((5_000, 50) if quick else (100_000, 200)))
    largest = np.abs(X.T @ y).max() / (2 * len(y))
    rows: list[Row] = []
    for share in (0.1, 0.01):
        beta = share * largest
        judge = problem(X, y, beta)
        best = judge.solve(mx.ProxNewton(tol=1e-13)).objective
        name = f"l1 logistic {X.shape[0]} x {X.shape[1]}, beta = {share:g} beta_max"
        competitors, errors = {}, {}
        for peer in (Ours, celer, skglm):
            try:
                small = slice(0, 500)
                peer.fit(np.asfortranarray(X[small]), y[small], beta, 1e-3)  # compile
            except ImportError as error:
                rows.append(missing("glm", name, peer.NAME, str(error)))
                continue
            for tol in peer.TOLERANCES:
                error = judge.dual(peer.fit(X, y, beta, tol)) - best
                if error <= GOAL:
                    errors[peer.NAME] = error
                    competitors[peer.NAME] = partial(peer.fit, X, y, beta, tol)
                    break
            else:
                rows.append(Row("glm", name, peer.NAME, status="NC", accuracy=error))
        times = in_turns(competitors, repeats=5, warm_up=False)
        targets = dict.fromkeys((celer.NAME, skglm.NAME), TARGET)
        rows += compared("glm", name, times, Ours.NAME, errors, targets)
    return rows

"""Classifiers with a ridge: time to suboptimality 1e-6, judged by our Problem.

Logistic regression beside scikit-learn's solvers, sparsemax and 1.5-entmax beside L-BFGS around
the entmax package (what fenchel-young-losses does). Peers get one thread or two, whichever is
faster at the time: with busy neighbours two that wait for one another are much slower.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import maxent as mx
from benchmarks.peers import entmax_training, sklearn_logistic
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns, once

GOAL = 1e-6
OURS = "maxent"  # newton-cg
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
PATIENCE = 120.0  # seconds after which a peer's run is not repeated with a finer tolerance
TARGETS = {1.0: ("at least as fast", 1.0), 1.5: ("at least 10 x faster", 10.0)}
TARGETS[2.0] = TARGETS[1.5]

Fit = Callable[[float], np.ndarray]


def digits() -> tuple[np.ndarray, np.ndarray, float]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    X, _, y, _ = train_test_split(X / 16, y, test_size=0.3, random_state=0)
    return X, y, 1e-3


def synthetic(samples: int = 20_000) -> tuple[np.ndarray, np.ndarray, float]:
    from sklearn.model_selection import train_test_split

    rng = np.random.RandomState(0)  # the data set of the recorded baselines
    W, X = 0.35 * rng.randn(50, 200), rng.randn(samples, 200)
    y = np.argmax(X @ W.T + rng.gumbel(size=(samples, 50)), axis=1)
    X, _, y, _ = train_test_split(X, y, test_size=0.2, random_state=0)
    return X, y, 1e-4


def problem(X: np.ndarray, y: np.ndarray, alpha: float, strength: float) -> mx.Problem:
    features = mx.SampleMap(X, int(y.max()) + 1)
    return mx.Problem(mx.Tsallis(alpha), features, mx.Quadratic(strength), observed=y)


def ours(X: np.ndarray, y: np.ndarray, alpha: float, strength: float, tol: float) -> np.ndarray:
    return problem(X, y, alpha, strength).solve(mx.NewtonCG(tol=tol, verbose=0)).w


def peers(
    X: np.ndarray, y: np.ndarray, alpha: float, strength: float
) -> dict[str, tuple[Fit, tuple[float, ...]]]:
    """Name -> a fit at a tolerance, and the tolerances to try."""
    if alpha != 1:
        fit = partial(entmax_training.fit, X, y, alpha, strength)
        fits = {entmax_training.NAME: (fit, entmax_training.TOLERANCES)}
    else:
        many = X.shape[1] * (int(y.max()) + 1) > 2000  # a Hessian of 800 MB
        fits = {
            f"{sklearn_logistic.NAME} {solver}": (
                partial(sklearn_logistic.fit, X, y, solver, strength),
                sklearn_logistic.TOLERANCES,
            )
            for solver in sklearn_logistic.SOLVERS
            if not (many and solver == "newton-cholesky")
        }
    return {
        f"{name} ({threads} threads)": (partial(_with_threads, fit, threads), tolerances)
        for name, (fit, tolerances) in fits.items()
        for threads in [_faster(fit, tolerances[0])]
    }


def _faster(fit: Callable[..., np.ndarray], tol: float) -> int:
    """One thread or two, by the best of three runs of each; the first run of all imports."""
    once(partial(fit, tol, 1))
    return min((1, 2), key=lambda threads: min(once(partial(fit, tol, threads)) for _ in range(3)))


def _with_threads(fit: Callable[..., np.ndarray], threads: int, tol: float) -> np.ndarray:
    return fit(tol, threads)


def run(quick: bool = False) -> list[Row]:
    """Each competitor with the loosest of its own tolerances that reaches the goal."""
    rows: list[Row] = []
    sets = {"digits": digits()}
    if not quick:
        sets["synthetic"] = synthetic()
    for label, (X, y, strength) in sets.items():
        for alpha in (1.0, 1.5, 2.0):
            name = f"{label} {X.shape[0]} x {X.shape[1]} x {int(y.max()) + 1}, alpha={alpha:g}"
            judge = problem(X, y, alpha, strength)
            best = judge.solve(mx.NewtonCG(tol=1e-10)).objective
            fits = {OURS: (partial(ours, X, y, alpha, strength), TOLERANCES)}
            fits |= peers(X, y, alpha, strength)
            competitors, errors = {}, {}
            for method, (fit, tolerances) in fits.items():
                try:
                    found = _loosest(fit, tolerances, judge, best)
                except ImportError as error:
                    rows.append(missing("training", name, method, str(error)))
                    continue
                if found[0] is None:
                    rows.append(Row("training", name, method, status="NC", accuracy=found[1]))
                    continue
                competitors[method], errors[method] = partial(fit, found[0]), found[1]
            times = in_turns(competitors, repeats=7, warm_up=False)
            targets = {method: TARGETS[alpha] for method in times if method != OURS}
            rows += compared("training", name, times, OURS, errors, targets)
    return rows


def _loosest(
    fit: Fit, tolerances: tuple[float, ...], judge: mx.Problem, best: float
) -> tuple[float | None, float]:
    """The loosest tolerance that reaches the goal (None if none does), and the error there."""
    error = np.inf
    for tol in tolerances:
        answer: list[np.ndarray] = []
        seconds = once(lambda tol=tol, answer=answer: answer.append(fit(tol)))
        error = judge.dual(answer[0]) - best
        if error <= GOAL:
            return tol, error
        if seconds > PATIENCE:
            break
    return None, error

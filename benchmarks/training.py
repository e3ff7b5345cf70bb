"""Classifiers with a ridge: time to suboptimality 1e-6, judged by our Problem.

Many classes, and two, which are solved as one output, dense and sparse.

Logistic regression beside scikit-learn's solvers, sparsemax and 1.5-entmax beside L-BFGS around
the entmax package (what fenchel-young-losses does). Peers get one thread or two, whichever is
faster at the time: with busy neighbours two that wait for one another are much slower. Problems on
which every fit is brief are timed by the processor's seconds, of all threads together: otherwise a
neighbour's share of a core would count. The others are timed by the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from scipy import sparse

import maxent as mx
from benchmarks.limits import products_counted, rates, with_limit
from benchmarks.peers import entmax_training, sklearn_logistic
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns, once
from maxent.core.solvers import hessian
from maxent.learn.linear.two_classes import one_output

GOAL = 1e-6
ALPHAS = (1.0, 1.5, 2.0)
OURS = "maxent"  # newton-cg
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
PATIENCE = 120.0  # seconds after which a peer's run is not repeated with a finer tolerance
BRIEF = 3.0  # seconds below which fits are timed by the processor's seconds
TRIED = {"digits": (0.1, 0.4)}  # shares of the gradient that a step may leave, beside 1/4
AS_FAST = ("at least as fast", 1.0)
# on the synthetic set one evaluation of the loss costs so much that L-BFGS does 25 in all: 10 x
# faster would leave us fewer than the Newton steps need
SPARSE_TARGETS = {
    "digits": ("at least 10 x faster", 10.0),
    "synthetic": ("at least 5 x faster", 5.0),
}

Alphas = tuple[float, ...]
Table = np.ndarray | sparse.csr_array
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


def two_classes(samples: int = 20_000) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.RandomState(0)
    X, w = rng.randn(samples, 200), rng.randn(200)
    return X, (X @ w + 5 * rng.randn(samples) > 0).astype(int), 1e-4


def two_classes_sparse(samples: int = 20_000) -> tuple[sparse.csr_array, np.ndarray, float]:
    rng = np.random.RandomState(0)
    each, columns = 100, 50_000
    place = np.repeat(np.arange(samples), each), rng.randint(columns, size=samples * each)
    X = sparse.csr_array((rng.rand(samples * each), place), shape=(samples, columns))
    score = X @ rng.randn(columns)
    return X, (score + score.std() * rng.randn(samples) > 0).astype(int), 1e-4


def n_classes(y: np.ndarray) -> int:
    return int(y.max()) + 1


def problem(X: Table, y: np.ndarray, alpha: float, strength: float) -> mx.Problem:
    """Mean loss + strength/2 ||W||^2; two classes have one output, the second's."""
    entropy, classes = mx.Tsallis(alpha), n_classes(y)
    observed = np.eye(classes)[y]
    if classes == 2:
        entropy, observed = one_output(entropy), observed[:, 1:]
    features = mx.SampleMap(X, observed.shape[1])
    return mx.Problem(entropy, features, mx.Quadratic(strength), observed=observed)


def ours(
    X: Table, y: np.ndarray, alpha: float, strength: float, tol: float, accuracy: float = 0.25
) -> np.ndarray:
    solver = mx.NewtonCG(tol=tol, verbose=0, accuracy=accuracy)
    return problem(X, y, alpha, strength).solve(solver).w


def decomposed_first(
    X: Table, y: np.ndarray, alpha: float, strength: float, tol: float
) -> np.ndarray:
    """Ours with X'X decomposed before the first step, whatever it costs."""
    with patch.object(hessian, "_CHEAP", np.inf):
        return ours(X, y, alpha, strength, tol)


def peers(
    X: Table, y: np.ndarray, alpha: float, strength: float
) -> dict[str, tuple[Fit, tuple[float, ...]]]:
    """Name -> a fit at a tolerance, and the tolerances to try."""
    if alpha != 1:
        fit = partial(entmax_training.fit, X, y, alpha, strength)
        fits = {entmax_training.NAME: (fit, entmax_training.TOLERANCES)}
    else:
        many = X.shape[1] * n_classes(y) > 2000  # a Hessian of 800 MB
        left_out = {"newton-cholesky"} if many else set()
        left_out |= {"saga"} if n_classes(y) == 2 else set()  # minutes
        fits = {
            f"{sklearn_logistic.NAME} {solver}": (
                partial(sklearn_logistic.fit, X, y, solver, strength),
                sklearn_logistic.TOLERANCES,
            )
            for solver in sklearn_logistic.SOLVERS
            if solver not in left_out
        }
    return {
        f"{name} ({threads} threads)": (partial(_with_threads, fit, threads), tolerances)
        for name, (fit, tolerances) in fits.items()
        for threads in [_faster(fit, tolerances[0])]
    }


def _faster(fit: Callable[..., np.ndarray], tol: float) -> int:
    """One thread or two, by the best of three runs of each; the first run of all imports."""
    try:
        once(partial(fit, tol, 1))
    except ImportError:
        return 1  # the race says that it is missing
    clock = process_time if once(partial(fit, tol, 1)) < BRIEF else perf_counter

    def best(threads: int) -> float:
        return min(once(partial(fit, tol, threads), clock) for _ in range(3))

    return min((1, 2), key=best)


def _with_threads(fit: Callable[..., np.ndarray], threads: int, tol: float) -> np.ndarray:
    return fit(tol, threads)


class Entry(NamedTuple):
    """A competitor: its fit, the tolerances to try, and the problem that judges its answer."""

    fit: Fit
    tolerances: tuple[float, ...]
    judge: mx.Problem
    best: float


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Each competitor with the loosest of its own tolerances that reaches the goal.

    only : how the names of the data sets begin that are used.
    """
    sets: dict[str, Callable[[], list[Row]]] = {"digits": lambda: many_classes("digits", *digits())}
    if not quick:
        sets |= {
            "synthetic": lambda: many_classes("synthetic", *synthetic()),
            "two classes": lambda: of_two_classes("two classes", *two_classes()),
            "two classes, sparse": lambda: of_two_classes(
                "two classes, sparse", *two_classes_sparse()
            ),
        }
    return [row for name, rows in sets.items() if name.startswith(only) for row in rows()]


def many_classes(
    label: str, X: np.ndarray, y: np.ndarray, strength: float, alphas: Alphas = ALPHAS
) -> list[Row]:
    """A race for each alpha."""
    rows: list[Row] = []
    for alpha in alphas:
        name = f"{label} {X.shape[0]} x {X.shape[1]} x {n_classes(y)}, alpha={alpha:g}"
        mine = entry(X, y, alpha, strength)
        entries = {OURS: mine}
        if label in TRIED and alpha != 1:  # ways that were tried
            for accuracy in TRIED[label]:
                fit = partial(ours, X, y, alpha, strength, accuracy=accuracy)
                entries[f"{OURS} (accuracy={accuracy:g})"] = mine._replace(fit=fit)
        for method, (fit, tolerances) in peers(X, y, alpha, strength).items():
            entries[method] = Entry(fit, tolerances, mine.judge, mine.best)
        rows += race(name, entries, AS_FAST if alpha == 1 else SPARSE_TARGETS[label])
    return rows


def of_two_classes(label: str, X: Table, y: np.ndarray, strength: float) -> list[Row]:
    """Ours at every alpha in one race with logistic regression, which is alpha = 1."""
    name = f"{label} {X.shape[0]} x {X.shape[1]} x 2"
    first = entry(X, y, 1.0, strength)
    others = {f"{OURS} (alpha={a:g})": entry(X, y, a, strength) for a in ALPHAS if a != 1}
    entries = {OURS: first} | others
    if not sparse.issparse(X):
        fit = partial(decomposed_first, X, y, 1.0, strength)
        entries[f"{OURS} (X'X decomposed first)"] = first._replace(fit=fit)
    for method, (fit, tolerances) in peers(X, y, 1.0, strength).items():
        entries[method] = Entry(fit, tolerances, first.judge, first.best)
    return race(name, entries, AS_FAST)


def entry(X: Table, y: np.ndarray, alpha: float, strength: float) -> Entry:
    """Ours."""
    judge = problem(X, y, alpha, strength)
    best = judge.solve(mx.NewtonCG(tol=1e-10)).objective
    return Entry(partial(ours, X, y, alpha, strength), TOLERANCES, judge, best)


def race(name: str, entries: dict[str, Entry], target: tuple[str, float]) -> list[Row]:
    """A row for each competitor, timed in turns."""
    rows: list[Row] = []
    competitors, errors, seconds = {}, {}, {}
    for method, (fit, tolerances, judge, best) in entries.items():
        try:
            found = _loosest(fit, tolerances, judge, best)
        except ImportError as error:
            rows.append(missing("training", name, method, str(error)))
            continue
        if found[0] is None:
            rows.append(Row("training", name, method, status="NC", accuracy=found[1]))
            continue
        competitors[method], errors[method] = partial(fit, found[0]), found[1]
        seconds[method] = once(competitors[method], process_time)
    brief = max(seconds.values(), default=0.0) < BRIEF
    clock, said = (process_time, "processor") if brief else (perf_counter, "clock")
    times = in_turns(competitors, repeats=7, warm_up=False, clock=clock)
    targets = {method: target for method in times if not method.startswith(OURS)}
    measured = compared("training", name, times, OURS, errors, targets)
    measured = [replace(row, note=f"seconds of the {said}") for row in measured]
    judge = entries[OURS].judge
    if sparse.issparse(judge.features.X) or OURS not in competitors or not brief:
        return rows + measured
    return rows + limited(measured, competitors[OURS])


def limited(rows: list[Row], fit: Callable[[], np.ndarray]) -> list[Row]:
    """With what the products of our fit with the samples take at best, on all cores together."""
    with products_counted() as work:
        fit()
    rate = rates()
    counts = f"{work.bytes / 1e6:.3g} MB, {work.multiplications / 1e6:.3g} million multiplications"
    by_bytes, by_products = work.bytes * rate.byte, work.multiplications * rate.multiplication
    kind = "bytes at measured bandwidth" if by_bytes > by_products else "products of matrices"
    note = f"{counts}; {1e-9 / rate.byte:.3g} GB/s, {1e-9 / rate.multiplication:.3g} G/s a core"
    return with_limit(rows, kind, max(by_bytes, by_products), note)


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

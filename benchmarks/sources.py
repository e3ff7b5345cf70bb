"""Surveys and counts: Poisson regression beside scikit-learn, large surveys, joint fits.

Seconds are of the processor, all threads together (``time.process_time``), so that busy neighbours
do not lengthen them. ``python -m benchmarks.run sources``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import maxent as mx
from benchmarks.peers import glmnet, sklearn_poisson
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns, median
from maxent.core.entropies import Detection, DirectSum, UnnormalisedRelativeEntropy

SUITE = "sources"
GOAL = 1e-8  # suboptimality of the mean loss
STRENGTH = 1e-4
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
ROWS, FEATURES = 200_000, 50
MANY = 1_000_000
LIMIT = "450MB"
SAME = 1e-6  # difference of the log scale of two fits
NAME = "maxent"


def run(quick: bool = False, only: str = "") -> list[Row]:
    """All parts, or the one called "regressions", "surveys", "joint" or "files"."""
    parts = {
        "regressions": _regressions,
        "surveys": _surveys,
        "joint": _joint,
        "files": _files,
    }
    chosen = [parts[only]] if only else parts.values()
    return [row for part in chosen for row in part(quick)]


# -- regressions of given features -----------------------------------------------------------------


def data(n: int, features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, areas and counts, whose mean is `a e^(<w, x> - 1)`."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(0.3 * rng.standard_normal((n, features)))
    w, area = 0.3 * rng.standard_normal(features), rng.uniform(0.5, 2, n)
    return X, area, rng.poisson(area * np.exp(X @ w - 1)).astype(float)


def problem(X: np.ndarray, y: np.ndarray, area: np.ndarray, kind: str) -> mx.Problem:
    """Mean loss of counts, or of finds, + strength/2 ||w||^2, the intercept free."""
    n, features = X.shape
    found = np.minimum(y, 1.0)
    entropy, observed = (
        (UnnormalisedRelativeEntropy(area), y)
        if kind == "counts"
        else (Detection(found, area), found)
    )
    return mx.Problem(
        DirectSum((entropy,), [n], (1 / n,)),
        np.asfortranarray(np.column_stack([X, np.ones(n)])),
        mx.Quadratic(np.append(np.full(features, STRENGTH), 1e-12)),
        observed=observed / n,
    )


def _ours(X: np.ndarray, y: np.ndarray, area: np.ndarray, kind: str, tol: float) -> np.ndarray:
    return problem(X, y, area, kind).solve(tol=tol, verbose=0).w


def _regressions(quick: bool) -> list[Row]:
    X, area, y = data(*((5_000, 10) if quick else (ROWS, FEATURES)))
    rows: list[Row] = []
    for kind, link in (("counts", "Poisson"), ("survey", "cloglog")):
        name = f"{kind}, {link} regression {X.shape[0]:,} x {X.shape[1]}"
        judge = problem(X, y, area, kind)
        best = judge.solve(tol=1e-12, verbose=0).objective
        fits: dict[str, tuple[Callable[[float], np.ndarray], tuple[float, ...]]] = {
            NAME: (partial(_ours, X, y, area, kind), TOLERANCES)
        }
        if kind == "counts":
            for solver in sklearn_poisson.SOLVERS:
                peer = partial(sklearn_poisson.fit, X, y, area, solver, STRENGTH)
                fits[f"{sklearn_poisson.NAME} {solver}"] = (peer, sklearn_poisson.TOLERANCES)
        competitors: dict[str, Callable[[], object]] = {}
        errors: dict[str, float] = {}
        for method, (fit, tolerances) in fits.items():
            for tol in tolerances:  # the loosest of its own that reaches the goal
                errors[method] = judge.dual(fit(tol)) - best
                if errors[method] <= GOAL:
                    competitors[method] = partial(fit, tol)
                    break
            else:
                rows.append(Row(SUITE, name, method, status="NC", accuracy=errors[method]))
        times = in_turns(competitors, repeats=5, warm_up=False, clock=time.process_time)
        goal = ("faster", 1.0)
        targets = dict.fromkeys((m for m in competitors if m != NAME), goal)
        if glmnet.available():
            seconds, error = _by_glmnet(judge, best, X, y, area, kind)
            if seconds:
                times[glmnet.NAME], errors[glmnet.NAME] = seconds, error
                targets[glmnet.NAME] = goal
            else:
                rows.append(Row(SUITE, name, glmnet.NAME, status="NC", accuracy=error))
        else:
            rows.append(missing(SUITE, name, glmnet.NAME, glmnet.reason()))
        rows += [
            replace(row, note=glmnet.describe()) if row.method == glmnet.NAME else row
            for row in compared(SUITE, name, times, NAME, errors, targets)
        ]
        if kind == "survey":
            reason = "LogisticRegression has the logit link alone"
            rows.append(missing(SUITE, name, sklearn_poisson.NAME, reason))
    return rows


def _by_glmnet(
    judge: mx.Problem, best: float, X: np.ndarray, y: np.ndarray, area: np.ndarray, kind: str
) -> tuple[list[float], float]:
    """CPU seconds of its fits at the loosest threshold that reaches the goal, and the error."""
    error = np.inf
    for tol in glmnet.TOLERANCES:
        w, seconds = glmnet.fit(X, y, area, kind, STRENGTH, tol)
        error = judge.dual(w) - best if np.isfinite(w).all() else np.inf
        if error <= GOAL:
            again = (glmnet.fit(X, y, area, kind, STRENGTH, tol)[1] for _ in range(2))
            return [seconds, *again], error
    return [], error


# -- whole fits ------------------------------------------------------------------------------------


def _records(n: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Five variables, and what presences, a survey and counts record of one intensity."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 5))
    rate = np.exp(X[:, 0] - 2 * X[:, 1] ** 2 + np.sin(3 * X[:, 2]))
    return X, {
        "presences": rng.poisson(0.02 * rate),
        "survey": (rng.random(n) < -np.expm1(-0.1 * rate)).astype(float),
        "counts": rng.poisson(0.2 * rate).astype(float),
    }


def measured(kind: str, n: int, features: str) -> dict[str, Any]:
    """Seconds and peak memory of one fit: of n rows of a kind, or half and half ("joint")."""
    from maxent.cli._memory import peak_memory

    small, given = _records(2_000)
    _fit(kind, small, given, features)  # compiles
    X, given = _records(n)
    before, start = peak_memory(), time.process_time()
    model = _fit(kind, X, given, features)
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "gap": model.density_.certificate.gap,
        "note": f"{len(model.density_.weights)} features in use; peak {peak_memory() / 1e9:.2f} "
        f"GB, {before / 1e9:.2f} before the fit",
    }


def _fit(kind: str, X: np.ndarray, given: dict[str, np.ndarray], features: str) -> Any:
    if kind == "presences":
        return mx.MaxentDensity(features).fit(X, given["presences"])
    if kind == "joint":
        half = len(X) // 2
        sources = [
            mx.Source("presences", X[:half], given["presences"][:half]),
            mx.Source("survey", X[half:], given["survey"][half:], area=0.1),
        ]
    else:
        sources = [mx.Source(kind, X, given[kind], area=0.1 if kind == "survey" else 0.2)]
    return mx.IntegratedDensity(features).fit(sources)


def _write(folder: str, n: int) -> dict[str, Any]:
    """Files of presences in half of n rows and of a survey in the others."""
    X, given = _records(n)
    half = n // 2
    for name, rows in (("presences", slice(half)), ("survey", slice(half, n))):
        np.save(f"{folder}/{name}.npy", X[rows])
        np.save(f"{folder}/{name}_y.npy", given[name][rows])
    return {}


def from_files(how: str, folder: str, features: str) -> dict[str, Any]:
    """Seconds and peak memory of a fit of these files, "in memory" or in blocks of a limit."""
    from maxent.cli._memory import peak_memory
    from maxent.rows.blocks import open_table

    small, given = _records(2_000)
    _fit("joint", small, given, features)  # compiles

    def table(name: str) -> Any:
        path = f"{folder}/{name}.npy"
        return np.load(path) if how == "in memory" else open_table(path, memory=how)

    before, start = peak_memory(), time.process_time()
    records, found = (np.load(f"{folder}/{name}_y.npy") for name in ("presences", "survey"))
    sources = [
        mx.Source("presences", table("presences"), records),
        mx.Source("survey", table("survey"), found, area=0.1),
    ]
    model = mx.IntegratedDensity(features).fit(sources)
    seconds = time.process_time() - start
    return {
        "seconds": seconds,
        "gap": model.gap_,
        "scale": model.log_scale_,
        "note": f"peak {peak_memory() / 1e9:.2f} GB, {before / 1e9:.2f} before the rows are read",
    }


def _in_process(*arguments: Any) -> dict[str, Any]:
    """Measured in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.sources", *map(str, arguments)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def _files(quick: bool) -> list[Row]:
    """One fit of files, in memory and in blocks."""
    n = 10_000 if quick else MANY
    with tempfile.TemporaryDirectory() as folder:
        _in_process("write", folder, n)
        told = {how: _in_process("files", how, folder, "lq") for how in ("in memory", LIMIT)}
    whole, cut = told.values()
    same = abs(whole["scale"] - cut["scale"]) < SAME
    return [
        Row(
            SUITE,
            f"presences and a survey in files, {n:,} rows in all, lq",
            f"{NAME}, {how}" if how == "in memory" else f"{NAME}, blocks on disk, memory={how}",
            seconds=one["seconds"],
            ratio=one["seconds"] / whole["seconds"],
            accuracy=one["gap"],
            repeats=1,
            target="" if how == "in memory" else "the same fit",
            met="" if how == "in memory" else "yes" if same else "no",
            note=one["note"],
        )
        for how, one in told.items()
    ]


def _surveys(quick: bool) -> list[Row]:
    n = 10_000 if quick else MANY
    rows = []
    for kind in ("survey", "counts"):
        told = _in_process(kind, n, "lq")
        rows.append(
            Row(
                SUITE,
                f"{kind} of {n:,} rows, 5 variables, lq",
                NAME,
                seconds=told["seconds"],
                ratio=1.0,
                accuracy=told["gap"],
                repeats=1,
                target="in memory",
                met="yes",
                note=told["note"],
            )
        )
    return rows


def _joint(quick: bool) -> list[Row]:
    rows = []
    for n, features in ((10_000, "lq"),) if quick else ((20_000, "auto"), (200_000, "lq")):
        found = {
            kind: [_in_process(kind, n, features) for _ in range(1 if quick else 3)]
            for kind in ("joint", "presences")
        }
        seconds = {kind: median([t["seconds"] for t in told]) for kind, told in found.items()}
        for kind, told in found.items():
            ratio = seconds[kind] / seconds["joint"]
            joint = kind == "joint"
            rows.append(
                Row(
                    SUITE,
                    f"presences and a survey, {n:,} rows in all, {features}",
                    f"{NAME}, {'both' if joint else 'presences alone in all rows'}",
                    seconds=seconds[kind],
                    ratio=ratio,
                    accuracy=told[0]["gap"],
                    repeats=len(told),
                    target="" if joint else "both at most twice",
                    met="" if joint else "yes" if ratio >= 0.5 else "no",
                    note=told[0]["note"],
                )
            )
    return rows


if __name__ == "__main__":
    task, *given = sys.argv[1:]
    if task == "write":
        answer = _write(given[0], int(given[1]))
    elif task == "files":
        answer = from_files(*given)
    else:
        answer = measured(task, int(given[0]), given[1])
    print(json.dumps(answer))

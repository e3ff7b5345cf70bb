"""Species density, linear + quadratic + product + hinge features of 10 covariates.

Both answers are judged by one definition, in plain numpy: the regularized gain over the background
and the presences added to it. maxnet solves that problem with weights of 100 for infinity; elapid
solves another one and is held against us on test data only.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import maxent as mx
from benchmarks import species_data
from benchmarks.peers import elapid, maxnet
from benchmarks.report import Row, missing
from benchmarks.species_data import Species
from benchmarks.timing import BUDGET, median
from maxent.cli._memory import peak_memory

SUITE = "density"
OURS = "maxent"
CLASSES = "lqph"
SETTINGS = {"preset": "maxnet", "features": CLASSES}
LANDSCAPE = {"preset": "maxent", "features": "lth"}  # every value a knot
GAP = 1e-6
PROBLEMS = ((1000, 10_000), (1000, 100_000), (100, 10_000))
SPEED = {(1000, 10_000): 50.0, (1000, 100_000): 60.0}  # at least so many times maxnet's
ROOT = Path(__file__).parent.parent
MB = 2**20
MEMORY, CELLS, CELL_SECONDS = 100, (5_000_000, 20), 300.0  # MB beside the data; rows and columns
CELL_MEMORY = 4096  # MB in all
PATIENCE = 1800.0  # seconds after which a process is given up

# maxent.jar is in no registry; measured once on tables of this kind: CPU s, test gain, test AUC
JAR = {
    (1000, 10_000): (16.8, 0.530, 0.8496),
    (1000, 100_000): (85.0, 0.461, 0.8568),
    (100, 10_000): (25.0, 0.308, 0.8197),
}


@dataclass(frozen=True)
class Fit:
    """One competitor's answer; nan where it has none."""

    seconds: float
    cpu_seconds: float
    repeats: int = 1
    gain: float = np.nan
    gap: float = np.nan
    test_gain: float = np.nan
    auc: float = np.nan
    remark: str = ""
    model: object = None  # ours
    penalties: Mapping[str, float] | None = None  # maxnet's, under our names


def problem_name(n_presence: int, n_background: int, n_variables: int = 10) -> str:
    return f"density {CLASSES}, {n_presence} x {n_background}, {n_variables} covariates"


def table(n_presence: int, n_background: int) -> Species:
    """The stored table of this size, which the recorded figures are of, else a made one."""
    stored = species_data.swd(f"p{n_presence}_b{n_background}")
    return stored or species_data.synthetic(n_presence, n_background, seed=0)


def points(species: Species) -> tuple[np.ndarray, np.ndarray]:
    """Background and then the presences it lacks, and how many presences are at each point."""
    added = maxnet.added_presences(species.presence, species.background)
    X = np.vstack([species.background, added])
    where = {key: i for i, key in reversed(list(enumerate(maxnet.keys(X))))}
    y = np.zeros(len(X))
    np.add.at(y, [where[key] for key in maxnet.keys(species.presence)], 1.0)
    return X, y


# ---- the judge ----


def feature(name: str, column: Mapping[str, np.ndarray]) -> np.ndarray:
    """The values of one feature, from its name as maxnet writes it."""
    if found := re.fullmatch(r"hinge\((.+)\):([^:]+):([^:]+)", name):
        low, high = float(found[2]), float(found[3])
        return np.clip((column[found[1]] - low) / (high - low), 0, 1)
    if found := re.fullmatch(r"thresholds\((.+)\):([^:]+)", name):
        return (column[found[1]] >= float(found[2])).astype(float)
    if found := re.fullmatch(r"categorical\((.+)\):([^:]+)", name):
        return (column[found[1]] == float(found[2])).astype(float)
    if found := re.fullmatch(r"I\((.+)\^2\)", name):
        return column[found[1]] ** 2
    first, _, second = name.partition(":")
    return column[first] * column[second] if second else column[first]


def scores(
    X: np.ndarray, variables: Sequence[str], names: Sequence[str], w: np.ndarray
) -> np.ndarray:
    """w.f at every row, feature by feature: no matrix of features.

    maxnet has the hinge from end to end twice under one name, so names are no keys.
    """
    column = dict(zip(variables, X.T, strict=True))
    total = np.zeros(len(X))
    for j in np.flatnonzero(w):
        total += w[j] * feature(names[j], column)
    return total


def regularized_gain(
    species: Species, names: Sequence[str], w: np.ndarray, penalties: np.ndarray
) -> float:
    """ln N - loss - sum_j penalty_j |w_j|, over background and added presences."""
    X, y = points(species)
    s = scores(X, species.names, names, w)
    top = s.max()
    loss = top + np.log(np.exp(s - top).sum()) - y @ s / y.sum()
    return float(np.log(len(X)) - loss - penalties @ np.abs(w))


def translated(species: Species, answer: Mapping) -> dict[str, float]:
    """maxnet's penalties under our names, of features scaled to [0, 1] as ours are."""
    X = points(species)[0]
    column = dict(zip(species.names, X.T, strict=True))
    ours = {name: f"x{j}" for j, name in enumerate(species.names)}
    found: dict[str, float] = {}
    for name, penalty in zip(answer["names"], answer["penalties"], strict=True):
        if match := re.fullmatch(r"hinge\((.+)\):([^:]+):([^:]+)", name):
            x = column[match[1]]
            low, high = (f"{float(match[i]):.10g}" for i in (2, 3))
            if high == f"{x.max():.10g}":
                found[f"hinge({ours[match[1]]}>{low})"] = penalty
            if low == f"{x.min():.10g}":  # 1 minus our reverse hinge: the weight changes sign
                found[f"hinge({ours[match[1]]}<{high})"] = penalty
        elif match := re.fullmatch(r"categorical\((.+)\):([^:]+)", name):
            found[f"{ours[match[1]]}={float(match[2])}"] = penalty
        else:
            square = re.fullmatch(r"I\((.+)\^2\)", name)
            first, _, second = name.partition(":")
            key = f"{ours[square[1]]}^2" if square else ours[first]
            found[f"{key}*{ours[second]}" if second else key] = penalty / np.ptp(
                feature(name, column)
            )
    return found


def gain_of_ours(species: Species, model: object, penalties: Mapping[str, float]) -> float:
    """Our answer by the same definition and by maxnet's penalties, not by what the model says."""
    X, y = points(species)
    log_raw = np.log(model.predict(X, output="raw"))
    log_raw -= np.log(np.exp(log_raw).sum())
    penalty = sum(penalties[name] * abs(w) for name, w in model.coef_.items())
    return float(np.log(len(X)) + y @ log_raw / y.sum() - penalty)


def on_test(species: Species, log_raw: np.ndarray) -> dict[str, float]:
    """Test gain and AUC of scores at the background rows and then the test rows."""
    if not len(species.test):
        return {}
    from sklearn.metrics import roc_auc_score

    n = len(species.background)
    top = log_raw[:n].max()
    normalizer = top + np.log(np.mean(np.exp(log_raw[:n] - top)))
    test = log_raw[n:]
    return {
        "test_gain": float(np.mean(test[species.label == 1]) - normalizer),
        "auc": float(roc_auc_score(species.label, test)),
    }


def judged_rows(species: Species) -> np.ndarray:
    return np.vstack([species.background, species.test])


# ---- the competitors ----


def fit_ours(species: Species, repeats: int = 9) -> Fit:
    """Medians after a warm-up on the same table."""
    settings = dict(SETTINGS)
    if species.categorical:
        settings["categorical"] = [species.names.index(name) for name in species.categorical]
    X, y = points(species)
    model = mx.MaxentDensity(**settings).fit(X, y)
    wall, cpu = [], []
    while len(wall) < repeats and sum(wall) < BUDGET:
        model = mx.MaxentDensity(**settings)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
    tested = {}
    if len(species.test):
        raw = np.asarray(model.predict(judged_rows(species), output="raw"), dtype=float)
        tested = on_test(species, np.log(np.maximum(raw, np.finfo(float).tiny)))
    return Fit(
        median(wall),
        median(cpu),
        len(wall),
        gain=float(model.gain_),
        gap=float(model.gap_),
        remark=f"{model.n_iter_} iterations",
        model=model,
        **tested,
    )


def fit_maxnet(species: Species, repeats: int = 2) -> Fit:
    runs = [
        maxnet.fit(
            species.presence, species.background, species.names, CLASSES, species.categorical
        )
        for _ in range(repeats)
    ]
    answer = runs[-1]
    names, w = answer["names"], answer["coefficients"]
    tested = {}
    if len(species.test):
        X = points(species)[0]
        clamped = np.clip(judged_rows(species), X.min(axis=0), X.max(axis=0))
        tested = on_test(species, scores(clamped, species.names, names, w))
    remark = f"{np.count_nonzero(w)} of {len(w)} features"
    if not answer["complete"]:
        remark += ", glmnet stopped before the end of its path"
    return Fit(
        median([run["seconds"] for run in runs]),
        median([run["cpu_seconds"] for run in runs]),
        len(runs),
        gain=regularized_gain(species, names, w, answer["penalties"]),
        remark=f"{remark}; {maxnet.describe()}",
        penalties=translated(species, answer),
        **tested,
    )


def fit_elapid(species: Species, n_hinge_features: int) -> Fit:
    answer = elapid.fit(
        species.presence, species.background, judged_rows(species), n_hinge_features
    )
    tested = on_test(species, np.log(np.maximum(answer["raw"], np.finfo(float).tiny)))
    remark = f"{answer['nonzero']} features; {elapid.describe()}; another objective"
    return Fit(answer["seconds"], answer["cpu_seconds"], remark=remark, **tested)


# ---- the rows ----


def note(fit: Fit, ours: Fit, source: str) -> str:
    parts = [f"CPU {fit.cpu_seconds:.3g} s"]
    if fit is not ours:
        parts.append(f"CPU ratio {fit.cpu_seconds / ours.cpu_seconds:.3g}")
    for label, value in (("gain", fit.gain), ("test gain", fit.test_gain), ("AUC", fit.auc)):
        if not np.isnan(value):
            parts.append(f"{label} {value:.6f}" if label == "gain" else f"{label} {value:.4f}")
    return "; ".join([*parts, fit.remark, source])


def compare(name: str, species: Species, size: tuple[int, int] | None, quick: bool) -> list[Row]:
    """Ours, maxnet, elapid and the recorded jar on one table."""
    rows: list[Row] = []
    theirs = None
    if maxnet.available():
        large = len(species.background) > 50_000
        theirs = fit_maxnet(species, 1 if quick or large else 2)
    ours = fit_ours(species, 3 if quick else 9)
    if theirs:
        ours = replace(ours, gain=gain_of_ours(species, ours.model, theirs.penalties))
    rows.append(
        Row(
            SUITE,
            name,
            OURS,
            seconds=ours.seconds,
            ratio=1.0,
            accuracy=ours.gap,
            repeats=ours.repeats,
            target=f"gap at most {GAP:g}",
            met="yes" if ours.gap <= GAP else "no",
            note=note(ours, ours, species.source),
        )
    )

    def row(method: str, fit: Fit) -> Row:
        return Row(
            SUITE,
            name,
            method,
            seconds=fit.seconds,
            ratio=fit.seconds / ours.seconds,
            accuracy=ours.gain - fit.gain,
            repeats=fit.repeats,
            note=note(fit, ours, species.source),
        )

    if theirs:
        found = row(maxnet.NAME, theirs)
        if size in SPEED:
            # fast counts only with an answer at least as good
            met = found.ratio >= SPEED[size] and ours.gap <= GAP and found.accuracy >= -GAP
            target = f"at least {SPEED[size]:g} x faster"
            found = replace(found, target=target, met="yes" if met else "no")
        rows.append(found)
    else:
        rows.append(missing(SUITE, name, maxnet.NAME, maxnet.reason()))

    if len(species.test):
        # 50 knots, as maxnet has, take minutes on the largest table
        for knots in (10,) if len(species.background) > 50_000 else (10, 50):
            method = f"{elapid.NAME} ({knots} knots)"
            if elapid.available():
                rows.append(row(method, fit_elapid(species, knots)))
            else:
                rows.append(missing(SUITE, name, method, elapid.reason()))
    if size in JAR:
        cpu, gain, auc = JAR[size]
        text = f"CPU s of another run and machine; test gain {gain}; AUC {auc}; 500 steps"
        rows.append(
            Row(
                SUITE,
                name,
                "maxent.jar 3.4.4 (recorded)",
                status="recorded",
                seconds=cpu,
                note=text,
            )
        )
    return rows


def peak() -> float:
    """The most memory this process has held, in MB."""
    return peak_memory() / MB


def forget_peak() -> None:
    """Count from what is held now, where the system can: else compiling hides the fit."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def in_process(*arguments: str) -> dict:
    """What a fresh process of this module measures."""
    command = [sys.executable, "-m", "benchmarks.density", *arguments]
    out = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=PATIENCE
    )
    if out.returncode != 0:
        raise RuntimeError((out.stderr.strip() or f"ended with {out.returncode}").splitlines()[-1])
    return json.loads(out.stdout.splitlines()[-1])


def measure(X: np.ndarray, y: np.ndarray, settings: Mapping[str, object]) -> dict:
    """Seconds and memory of one fit, after a small one of the same kind."""
    small = np.concatenate([np.flatnonzero(y)[:50], np.flatnonzero(y == 0)[:500]])
    mx.MaxentDensity(**settings).fit(np.ascontiguousarray(X[small]), y[small])
    highest = peak()
    forget_peak()
    before, begin = peak(), time.perf_counter()
    model = mx.MaxentDensity(**settings).fit(X, y)
    seconds = time.perf_counter() - begin
    extra = peak() - before
    whole = max(highest, peak())
    return {"extra": extra, "whole": whole, "seconds": seconds, "gap": float(model.gap_)}


def resources(quick: bool) -> list[Row]:
    """Memory of a fit beside its data, and a whole landscape with every hinge and threshold."""
    rows: list[Row] = []

    def add(name: str, arguments: list[str], whole: bool) -> None:
        try:
            found = in_process(*arguments)
        except RuntimeError as error:
            rows.append(missing(SUITE, name, OURS, f"{type(error).__name__}: {error}"))
            return
        except subprocess.TimeoutExpired:
            reason = f"not done in {PATIENCE:g} s"
            rows.append(Row(SUITE, name, OURS, status="NC", met="no", note=reason))
            return
        used = found["whole" if whole else "extra"]
        goal = CELL_MEMORY if whole else MEMORY
        good = used < goal and (not whole or found["seconds"] < CELL_SECONDS)
        limits = f"under {goal:g} MB, used {used:.0f} MB"
        if whole:
            limits = f"under {CELL_SECONDS:g} s; {limits}"
        rows.append(
            Row(
                SUITE,
                name,
                OURS,
                seconds=found["seconds"],
                accuracy=found["gap"],
                repeats=1,
                target=limits,
                met="yes" if good else "no",
                note=f"peak {found['whole']:.0f} MB in all, the fit {found['extra']:.0f} MB",
            )
        )

    size = (100, 10_000) if quick else (1000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        X, y = points(table(*size))
        np.save(Path(folder) / "X.npy", X)
        np.save(Path(folder) / "y.npy", y)
        add(f"memory beside the data, {size[1]} x {X.shape[1]}", ["memory", folder], whole=False)
    if not quick:
        n, d = CELLS
        name = f"density l + every hinge and threshold, {n} cells x {d} covariates"
        add(name, ["cells", str(n), str(d)], whole=True)
    return rows


def run(quick: bool = False) -> list[Row]:
    """Every table and competitor; what is not installed gets a row that says so."""
    rows: list[Row] = []
    for size in ((100, 2_000),) if quick else PROBLEMS:
        rows += compare(problem_name(*size), table(*size), size, quick)
    bradypus = species_data.swd("bradypus")
    name = problem_name(116, 1_000, 14) + " (Bradypus, one categorical)"
    if bradypus is None:
        rows.append(missing(SUITE, name, OURS, "bradypus.csv not found: set MAXENT_DATA"))
    else:
        rows += compare(name, bradypus, None, quick)
    return rows + resources(quick)


def _child(kind: str, *arguments: str) -> None:
    if kind == "memory":
        folder = Path(arguments[0])
        X, y = np.load(folder / "X.npy"), np.load(folder / "y.npy")
        found = measure(X, y, SETTINGS)
    else:
        n, d = map(int, arguments)
        found = measure(*species_data.cells(n, d, 1000), LANDSCAPE)
    print(json.dumps(found))


if __name__ == "__main__":
    _child(*sys.argv[1:])

"""Many virtual species at once: time, memory, and the truth beside each species by itself.

Species respond to six variables, three of them correlated with the others, in guilds: 85 % of a
response is the guild's. Records are 3 to 300 a species, drawn from the true densities. Each fit is
a process of its own, so that its peak memory is its own. Times of Hmsc are those that its users
recorded, of other data of the same size and of another model, whose posterior is sampled: they have
no ratio. ``python -m benchmarks.run many_species``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.report import Row

SUITE = "many_species"
SIZES = ((1_000, 4_000), (10_000, 20_000))
GUILDS = 40
HOUR = 3600.0
_MINUTES = 1_200.0  # what still counts as minutes
RECORDED = {  # species, places: seconds of Hmsc, and where they are told
    (69, 2_100): (7 * 24 * HOUR, "more than 7 days, not ended; hmsc-r/HMSC, issue 128"),
    (123, 200): (17 * HOUR, "17 to 20 hours, 250 samples, thinning 100; hmsc-r/HMSC, issue 106"),
    (101, 15_000): (74 * HOUR, "the first of 4 chains, 90,000 visits; hmsc-r/HMSC, issue 69"),
}
JUDGED = 200  # species whose densities are compared with the truth
ALONE = 40  # of them, which are also fitted each by itself
METHODS = ("joint", "joint, A = I")
BOUNDS = (3, 10, 30, 100, 300)


def run(quick: bool = False, only: str = "") -> list[Row]:
    """Every size by every method, each in a process of its own; ``only`` those with these words."""
    rows = []
    for species, places in ((200, 1_000),) if quick else (*RECORDED, *SIZES):
        problem = f"{species:,} species x {places:,} places"
        if only not in problem:
            continue
        recorded = RECORDED.get((species, places))
        methods = ("joint",) if recorded else (*METHODS, "own l1")
        found = {method: _measured(method, species, places) for method in methods}
        for method, told in found.items():
            one = found["joint"]["seconds"]
            rows.append(
                Row(
                    SUITE,
                    problem,
                    method,
                    seconds=told["seconds"],
                    ratio=told["seconds"] / one,
                    accuracy=told["correlation"],
                    repeats=1,
                    **(_goal(one) if method == "joint" and not recorded else {}),
                    note=told["note"],
                )
            )
        if recorded:
            seconds, said = recorded
            rows.append(Row(SUITE, problem, "Hmsc", "recorded", seconds=seconds, note=said))
    return rows


def _goal(seconds: float) -> dict[str, str]:
    return {"target": "minutes", "met": "yes" if seconds < _MINUTES else "no"}


def _measured(method: str, species: int, places: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.many_species", method, str(species), str(places)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(answer.stdout.splitlines()[-1]))


def landscape(species: int, places: int) -> tuple[Any, Any, Any, Any]:
    """Variables of the places, counts, true log densities of the judged, and which they are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((places, 6)).astype(np.float32)
    X[:, 3:] = 0.7 * (X[:, 3:] + X[:, :3])
    shapes = np.column_stack([X, X**2 - 1, X[:, :1] * X[:, 1:2], np.sin(2 * X)]).astype(np.float64)
    guilds = 0.34 * rng.standard_normal((shapes.shape[1], GUILDS))
    W = guilds[:, rng.integers(GUILDS, size=species)]
    W = W + 0.2 * rng.standard_normal(W.shape)
    number = np.round(np.exp(rng.uniform(np.log(3), np.log(300), size=species))).astype(int)
    at = []
    for s in range(species):
        theta = shapes @ W[:, s]
        p = np.exp(theta - theta.max())
        at.append(rng.choice(places, number[s], p=p / p.sum()))
    place, column = np.concatenate(at), np.repeat(np.arange(species), number)
    Y = sparse.csr_array((np.ones(place.size), (place, column)), shape=(places, species))
    judged = np.random.default_rng(1).choice(species, min(JUDGED, species), replace=False)
    return X, Y, shapes @ W[:, judged], judged


def fit(method: str, species: int, places: int) -> dict[str, Any]:
    """Seconds, peak memory and correlation with the truth of one method."""
    from maxent import JointRecipe, MaxentDensity
    from maxent.cli._memory import peak_memory

    X, Y, truth, judged = landscape(species, places)
    number = np.asarray(Y.sum(axis=0)).ravel()[judged]
    before, busy = peak_memory(), time.process_time()  # others may use the machine meanwhile
    if method == "own l1":
        judged, number, truth = judged[:ALONE], number[:ALONE], truth[:, :ALONE]
        columns = Y[:, judged].toarray()
        MaxentDensity(verbose=0).fit(X, columns[:, 0])  # compiles
        start = time.perf_counter()
        models = [MaxentDensity(verbose=0).fit(X, y) for y in columns.T]
        seconds = (time.perf_counter() - start) * species / len(judged)
        logs = np.column_stack([model.predict(X, "log") for model in models])
        told = f"estimated from {len(judged)} species"
    else:
        recipe = JointRecipe(relation="none" if method.endswith("I") else "learned", memory=1 << 27)
        start = time.perf_counter()
        joint = recipe.fit(X, Y)
        seconds = time.perf_counter() - start
        logs = joint.predict(X, "log", species=judged.tolist())
        busy = time.process_time() - busy
        told = f"gap {joint.certificate.gap:.0e} per record, {busy:.0f} CPU s"
    r = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(logs.T, truth.T, strict=True)])
    parts = ", ".join(
        f"{low}-{high} records {r[(number >= low) & (number <= high)].mean():.3f}"
        for low, high in pairwise(BOUNDS)
    )
    memory = f"{peak_memory() / 1e9:.2f} GB, {before / 1e9:.2f} before the fit"
    note = f"{told}; {memory}; correlation of log densities with the truth: {parts}"
    return {"seconds": seconds, "correlation": float(r.mean()), "note": note}


if __name__ == "__main__":
    print(json.dumps(fit(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))

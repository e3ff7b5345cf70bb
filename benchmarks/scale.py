"""Densities on a dask cluster: cost of an evaluation, scaling, a cost model and a large fit.

Processes of this machine with one thread each, TLS on the loopback. Cells are made in blocks on
the workers: 10 variables in float32, hinges with 50 knots each way. ``python -m benchmarks.run
scale``; the large fit alone: ``python -m benchmarks.scale``.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.report import Row, compared, missing
from maxent import MaxentDensity
from maxent.cli._memory import peak_memory
from maxent.features import Hinge, Linear, Square

SUITE = "scale"
OURS, MEMORY = "2 workers", "in memory, 2 threads"
VARIABLES, KNOTS, RECORDS = 10, 50, 2_000
FITS, LARGE = 4_000_000, 50_000_000
BLOCK = 1_000_000  # cells of a block
PER_WORKER = "3GB"
REPEATS = 5


def run(quick: bool = False) -> list[Row]:
    """Evaluations beside memory, strong and weak scaling, the cost model and the large fit."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        return [missing(SUITE, "all", OURS, "dask.distributed is not installed")]
    cells = 400_000 if quick else FITS
    rows = [*_overhead(cells), *_scaling(cells)]
    modelled, costs = _model(quick)
    return [*rows, *modelled, *_large(2_000_000 if quick else LARGE, costs)]


# -- data ----------------------------------------------------------------------------------------


def _block(block_id: tuple[int, ...], n_rows: tuple[int, ...], variables: int) -> np.ndarray:
    """Normal variables, the second half of them sums of others: correlated, as climates are."""
    rng = np.random.default_rng(block_id[0])
    X = rng.standard_normal((n_rows[block_id[0]], variables), dtype=np.float32)
    half = variables // 2
    X[:, half:] = (X[:, half:] + X[:, : variables - half]) * np.float32(np.sqrt(0.5))
    return X


def _counts(X: np.ndarray, total: int) -> np.ndarray:
    """Records, about ``RECORDS`` of all cells, where the first is high and the second medium."""
    likely = np.exp(X[:, 0] - X[:, 1].astype(np.float64) ** 2)
    share = RECORDS / (total * 0.95 * np.exp(0.5) / np.sqrt(3))  # the mean of likely
    rng = np.random.default_rng(int(X[0, 0] * 1e6) % 2**32)
    return (rng.uniform(size=len(X)) < share * likely).astype(np.float64)


def landscape(cells: int, block: int = BLOCK, variables: int = VARIABLES) -> tuple[Any, Any]:
    """Lazy cells and records."""
    import dask.array as da

    sizes = tuple(min(block, cells - start) for start in range(0, cells, block))
    X = da.map_blocks(
        _block,
        n_rows=sizes,
        variables=variables,
        chunks=(sizes, (variables,)),
        dtype=np.float32,
        meta=np.empty((0, 0), np.float32),
    )
    y = X.map_blocks(_counts, total=cells, drop_axis=1, dtype=np.float64, meta=np.empty(0))
    return X, y


def _features(knots: int = KNOTS) -> list[Any]:
    return [Linear(), Square(), Hinge(knots)]


@contextmanager
def _cluster(workers: int, limit: str = "auto") -> Iterator[Any]:
    from maxent.rows.dask.cluster import connect

    with connect(workers=workers, memory_limit=limit) as client:
        yield client


# -- one evaluation ------------------------------------------------------------------------------


def _weights(n_features: int, seed: int) -> np.ndarray:
    """As in a fit: a few weights other than 0."""
    rng = np.random.default_rng(seed)
    w, used = np.zeros(n_features), rng.choice(n_features, 30, replace=False)
    w[used] = rng.normal(size=30)
    return w


def evaluation(problem: Any) -> Callable[[], float]:
    """Value and gradient of all features, at other weights each time."""
    count = iter(range(10**9))

    def once() -> float:
        state = problem.state(_weights(problem.features.n_features, next(count)))
        return state.dual + float(state.gradient[0])

    return once


def _seconds(function: Callable[[], float], repeats: int = REPEATS) -> list[float]:
    function()
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return times


def _in_blocks(cells: int, workers: int, knots: int = KNOTS) -> list[float]:
    """Seconds of evaluations on a cluster, two blocks for each worker."""
    with _cluster(workers):
        X, y = landscape(cells, max(cells // (2 * workers), 1))
        problem = MaxentDensity(_features(knots)).task(X, y).problem
        return _seconds(evaluation(problem))


def _overhead(cells: int) -> list[Row]:
    """The same problem in blocks and in memory."""
    X, y = landscape(cells)
    problem = MaxentDensity(_features()).task(np.asarray(X), np.asarray(y)).problem
    times = {OURS: _in_blocks(cells, 2), MEMORY: _seconds(evaluation(problem))}
    ratio = statistics.median(times[OURS]) / statistics.median(times[MEMORY])
    features = f"{problem.features.n_features:,} features"
    name = f"one evaluation, {cells:,} cells x {VARIABLES} variables, {features}"
    rows = compared(SUITE, name, times, OURS, dict.fromkeys(times, np.nan), {})
    goal = {"target": "under 1.5 x memory's", "met": "yes" if ratio < 1.5 else "no"}
    first = Row(**{**vars(rows[0]), **goal, "note": f"{ratio:.2f} x the time in memory"})
    return [first, *rows[1:]]


def _scaling(cells: int) -> list[Row]:
    """The same cells on one worker and on two; as many cells for each worker."""
    one, two, half = _in_blocks(cells, 1), _in_blocks(cells, 2), _in_blocks(cells // 2, 1)
    strong = {OURS: two, "1 worker": one}
    weak = {OURS: two, "1 worker, half of the cells": half}
    rows = []
    for name, times in (("strong", strong), ("weak", weak)):
        said = f"{name} scaling of an evaluation, {cells:,} cells on two workers"
        rows += compared(SUITE, said, times, OURS, dict.fromkeys(times, np.nan), {})
    return rows


# -- the cost model ------------------------------------------------------------------------------


class Costs(NamedTuple):
    """seconds = a + b cells per worker + c features; the largest relative error of the fit."""

    a: float
    b: float
    c: float
    worst: float

    def seconds(self, cells: float, features: float) -> float:
        """Of one evaluation."""
        return self.a + self.b * cells + self.c * features


def _model(quick: bool) -> tuple[list[Row], Costs]:
    """The costs by least squares on relative errors, and what they say of a continent."""
    scale = 0.1 if quick else 1.0
    sizes = [(int(n * scale), k) for n in (250_000, 1_000_000, 4_000_000) for k in (10, 100, 1_000)]
    rows, measured = [], []
    for cells, knots in sizes:
        times = _in_blocks(cells, 2, knots)
        features = VARIABLES * (2 + 2 * (knots - 1))
        seconds = statistics.median(times)
        measured.append((cells / 2, features, seconds))
        name = f"evaluation of {cells / 2:,.0f} cells per worker, {features:,} features"
        rows.append(Row(SUITE, name, OURS, seconds=seconds, repeats=len(times)))
    costs = cost_model(measured)
    said = f"a + b cells per worker + c features, {VARIABLES} variables"
    each = f"a = {costs.a:.3g} s, b = {costs.b:.3g} s, c = {costs.c:.3g} s"
    note = f"{each}; off by {100 * costs.worst:.0f} % at worst"
    rows.append(Row(SUITE, said, "model", note=note))
    large = costs.seconds(2 * 1e8, 20 * (2 + 2 * (KNOTS - 1)))
    said = f"model: evaluation of 10 billion cells x 20 variables, {KNOTS} knots, 100 workers"
    rows.append(Row(SUITE, said, "model", seconds=large, note="twice the variables: twice b"))
    return rows, costs


def cost_model(measured: list[tuple[float, float, float]]) -> Costs:
    """Costs >= 0 of measured (cells, features, seconds)."""
    from scipy.optimize import nnls

    cells, features, seconds = np.array(measured).T
    design = np.column_stack([np.ones_like(cells), cells, features]) / seconds[:, None]
    size = np.abs(design).max(axis=0)
    scaled, _ = nnls(design / size, np.ones_like(seconds))
    found = scaled / size
    worst = float(np.abs(design @ found - 1).max())
    return Costs(float(found[0]), float(found[1]), float(found[2]), worst)


# -- the large fit -------------------------------------------------------------------------------


def _peak() -> float:
    """GB that a process has taken at most."""
    return peak_memory() / 1e9


def _counted(blocks: Any) -> list[str]:
    """The passes over blocks from now on, by their names."""
    passes: list[str] = []
    reduce = blocks.reduce

    def counting(work: Any, *args: Any, **settings: Any) -> Any:
        passes.append(work if isinstance(work, str) else work.__name__)
        return reduce(work, *args, **settings)

    blocks.reduce = counting
    return passes


def _large(cells: int, costs: Costs | None = None) -> list[Row]:
    """Fitted to the default gap within the memory of two workers."""
    with _cluster(2, PER_WORKER) as client:
        X, y = landscape(cells)
        begin = perf_counter()
        task = MaxentDensity(_features()).task(X, y)
        ready = perf_counter() - begin
        passes = _counted(task.problem.features.blocks)
        solution = task.solve()
        count = len(passes)
        density = task.density(solution)
        seconds = perf_counter() - begin
        peaks = client.run(_peak).values()
        one = statistics.median(_seconds(evaluation(task.problem), 3))
    name = f"fit of {cells:,} cells x {VARIABLES} variables to a gap of {task.tol:g}"
    used = f"{len(density.weights)} of {density.n_features:,} features in use"
    note = (
        f"gap {solution.gap:.1e} after {solution.n_iter} steps, {used}, "
        f"{density.n_presences:g} records; rows read and binned in {ready:.0f} s; "
        f"peak {max(peaks):.2f} GB per worker, {_peak():.2f} GB of the client; {count} passes, "
        f"an evaluation takes {one:.2f} s"
    )
    if costs is not None:
        note += f", by the model {costs.seconds(cells / 2, density.n_features):.2f} s"
    met = "yes" if solution.status.reached and max(peaks) < 3 else "no"
    target = f"within {PER_WORKER} per worker"
    return [
        Row(SUITE, name, OURS, "OK", seconds, accuracy=solution.gap, repeats=1, target=target,
            met=met, note=note)
    ]  # fmt: skip


if __name__ == "__main__":
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else LARGE
    for row in _large(cells):
        print(f"{row.problem}: {row.seconds:.0f} s; {row.note}")

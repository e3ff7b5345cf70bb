"""Classifiers on a dask cluster: 2 million x 200 x 20, generated in blocks, to a gap of 1e-6.

Two workers of one thread each hold the rows in float32. Beside ours are scikit-learn's partial
fits, whose model goes from block to block (what dask-ml's ``Incremental`` does), for the same
objectives: softmax, and one logistic regression per class. Our Problem, in blocks as well, judges
every answer; a peer's time is that of its passes until it is within a share of our objective.

    python -m benchmarks.dask_learning --samples 100000      a trial; --write keeps its results
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.peers import sklearn_partial_fit as peer
from benchmarks.report import Row, missing
from maxent import Equality, Families, FermiDirac, Problem, Quadratic, SampleMap, Shannon
from maxent.core.entropies import Entropy
from maxent.rows.blocks import InBlocks, SampleBlock, SampleBlockMap
from maxent.rows.blocks.table import Part, block_table

SUITE, OURS = "dask_learning", "maxent"
STRENGTH, TOL = 1e-4, 1e-6
WITHIN = (0.1, 0.01, 0.001)  # shares by which an objective may exceed ours


@dataclass(frozen=True)
class Size:
    """Of the table and of the comparison."""

    samples: int = 2_000_000
    columns: int = 200
    classes: int = 20
    blocks: int = 20
    passes: int = 5

    def __str__(self) -> str:
        return f"{self.samples} x {self.columns} x {self.classes}, {self.blocks} blocks"


def run(quick: bool = False) -> list[Row]:
    """The full size, or a small one."""
    return measured(Size(20_000, 50, 5, 4, 2) if quick else Size())


def measured(size: Size) -> list[Row]:
    """Both objectives on one cluster of two processes."""
    try:
        from distributed import wait

        from maxent.rows.dask.cluster import connect
    except ImportError as error:
        return [missing(SUITE, str(size), OURS, str(error))]
    with connect(workers=2) as client:
        X, y = (part.persist() for part in table(size))
        wait([X, y])
        warm_up(size)
        rows = []
        for name, compare in (("softmax", softmax), ("one-vs-all", one_vs_all)):
            rows += compare(f"{name}, {size}", size, X, y, client)
        return rows


# -- the table -----------------------------------------------------------------------------------


def table(size: Size) -> tuple[Any, Any]:
    """Normal features, and classes by a softmax of linear scores, made block by block."""
    import dask.array as da

    chunk = -(-size.samples // size.blocks)
    scales = 0.35 * np.random.RandomState(0).randn(size.columns, size.classes)
    rows = da.zeros(size.samples, chunks=chunk, dtype=np.float32)
    X = rows.map_blocks(
        _features, size.columns, new_axis=1, chunks=(rows.chunks[0], (size.columns,)), dtype="f4"
    )
    y = X.map_blocks(_labels, scales, drop_axis=1, dtype=np.int64)
    return X, y


def _features(rows: np.ndarray, columns: int, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    draw = np.random.default_rng(block_id[0])
    return draw.standard_normal((len(rows), columns), dtype=np.float32)


def _labels(X: np.ndarray, scales: np.ndarray, block_id: tuple[int, ...] = (0,)) -> np.ndarray:
    noise = np.random.default_rng([1, block_id[0]]).gumbel(size=(len(X), scales.shape[1]))
    return np.argmax(X @ scales + noise, axis=1)


# -- ours ----------------------------------------------------------------------------------------


def fit_softmax(X: Any, y: Any, classes: int) -> Any:
    from maxent.learn import FenchelYoungClassifier

    return FenchelYoungClassifier("shannon", potential=STRENGTH, tol=TOL).fit(X, y)


def fit_one_vs_all(X: Any, y: Any, classes: int) -> Any:
    from maxent.learn import FenchelYoungMultilabel

    Y = (y[:, None] == np.arange(classes)).astype(np.float32)
    return FenchelYoungMultilabel("one-vs-all", potential=STRENGTH, tol=TOL).fit(X, Y)


def warm_up(size: Size) -> None:
    """Workers load their kernels."""
    X, y = table(Size(400, size.columns, size.classes, 4))
    fit_softmax(X, y, size.classes)
    fit_one_vs_all(X, y, size.classes)


# -- the judge -----------------------------------------------------------------------------------


def judge(X: Any, y: Any, entropy: Entropy, size: Size) -> Problem:
    """mean loss + strength/2 ||W||^2 with free intercepts, the rows in their blocks."""
    k = size.classes
    blocks = block_table(X, y=y).blocks.map(_sample_block, entropy, k, size.samples)
    features = SampleBlockMap(blocks, (size.columns + 1) * k, size.samples, k)
    potential = Families([Quadratic(STRENGTH), Equality()], [size.columns * k, k])
    return Problem(entropy, features, potential, observed=InBlocks())


def _sample_block(part: Part, entropy: Entropy, classes: int, samples: int) -> SampleBlock:
    ones = np.ones((part.n_rows(), 1), part.X.dtype)
    features = SampleMap(np.hstack([part.X, ones]), classes)
    weights = np.full(part.n_rows(), 1 / samples)
    observed = np.eye(classes)[part.columns["y"]]
    return SampleBlock(part.number, entropy, features, weights, observed)


def objective(problem: Problem, weights: np.ndarray) -> float:
    return problem.dual(weights.ravel()) + problem.observed_value


# -- the comparison ------------------------------------------------------------------------------


def softmax(problem: str, size: Size, X: Any, y: Any, client: Any) -> list[Row]:
    fresh = [peer.softmax(STRENGTH, rate) for rate in peer.RATES]
    return compare(problem, size, X, y, client, Shannon(), fit_softmax, peer.SOFTMAX, fresh)


def one_vs_all(problem: str, size: Size, X: Any, y: Any, client: Any) -> list[Row]:
    fresh = [peer.one_vs_all(STRENGTH)]
    return compare(
        problem, size, X, y, client, FermiDirac(), fit_one_vs_all, peer.ONE_VS_ALL, fresh
    )


def compare(
    problem: str,
    size: Size,
    X: Any,
    y: Any,
    client: Any,
    entropy: Entropy,
    fit: Callable[[Any, Any, int], Any],
    name: str,
    fresh: list[Any],
) -> list[Row]:
    """Ours, and a peer at every share of our objective."""
    begin = perf_counter()
    model = fit(X, y, size.classes)
    seconds = perf_counter() - begin
    memory = max(client.run(_peak).values())
    judged = judge(X, y, entropy, size)
    best = objective(judged, np.vstack([model.coef_.T, model.intercept_]))
    note = f"gap {model.gap_:.1e}, objective {best:.8f}, {model.n_iter_} steps, "
    note += f"{memory:.0f} MB at most in a worker; accuracy: gap"
    rows = [Row(SUITE, problem, OURS, seconds=seconds, accuracy=model.gap_, repeats=1, note=note)]
    runs = [
        [(spent, objective(judged, w) / best - 1) for spent, w in learned(one, X, y, size)]
        for one in fresh
    ]
    return rows + [reached(problem, name, share, runs, seconds) for share in WITHIN]


def learned(fresh: Any, X: Any, y: Any, size: Size) -> Iterator[tuple[float, np.ndarray]]:
    """Seconds so far and weights after every pass; the model travels, the blocks stay."""
    from distributed import get_client

    client = get_client()
    pairs = list(zip(_futures(X), _futures(y), strict=True))
    model: Any = client.scatter(fresh)
    spent = 0.0
    for _ in range(size.passes):
        begin = perf_counter()
        for rows, labels in pairs:
            model = client.submit(peer.learn, model, rows, labels, size.classes, pure=False)
        answer = model.result()
        spent += perf_counter() - begin
        yield spent, peer.weights(answer)


def _futures(persisted: Any) -> list[Any]:
    from distributed import futures_of

    number = {future.key: future for future in futures_of(persisted)}
    return [number[key] for key in map(_key, persisted.to_delayed().ravel())]


def _key(delayed: Any) -> Any:
    return delayed.key


def reached(
    problem: str, name: str, share: float, runs: list[list[tuple[float, float]]], ours: float
) -> Row:
    """When a peer, at the best of its rates, was first within a share of our objective."""
    label = f"{name}, to within {share:g} of our objective"
    firsts = [
        next((n, *one) for n, one in enumerate(passes, start=1) if one[1] <= share)
        for passes in runs
        if min(above for _, above in passes) <= share
    ]
    if firsts:
        count, spent, above = min(firsts, key=lambda first: first[1])
        note = f"{count} passes; accuracy: share above ours"
        return Row(SUITE, problem, label, "OK", spent, spent / ours, above, repeats=1, note=note)
    least, spent = min((above, spent) for passes in runs for spent, above in passes)
    note = f"not in {len(runs[0])} passes; accuracy: the least share above ours"
    return Row(SUITE, problem, label, "NC", spent, math.nan, least, repeats=1, note=note)


def _peak() -> float:
    from benchmarks.density import peak

    return peak()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in vars(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{default} by default")
    parser.add_argument("--write", action="store_true", help="to benchmarks/results")
    given = vars(parser.parse_args())
    write = given.pop("write")
    rows = measured(Size(**given))
    report.show(rows)
    for row in rows:
        print(f"{row.method}: {row.note}")
    if write:
        print(f"written: {report.write(SUITE, rows).name}")


if __name__ == "__main__":
    main()

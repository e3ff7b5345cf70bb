"""Dependency trees beside ufal.chu_liu_edmonds, torch-struct and what lp-sparsemap took."""

from __future__ import annotations

import math

import numpy as np

import maxent as mx
from benchmarks.peers import lp_sparsemap, torch_struct, ufal_chu_liu_edmonds
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

SUITE = "structured_trees"
BATCH, NODES = 256, 40
CHECKED = 16  # graphs whose marginals are compared with a longer arithmetic
OURS = "maxent"
BEST_TARGET = ("at least 3 x faster", 3.0)
SUMS_TARGET = ("at least as fast", 1.0)


def reference(scores: np.ndarray) -> np.ndarray:
    """Marginals of a root with any number of dependents from an inverse in long doubles."""
    exact = scores.astype(np.longdouble)
    n = exact.shape[1]
    no_arc = np.eye(n, dtype=bool)
    no_arc[:, 0] = True
    exact[:, no_arc] = -np.inf
    weight = np.exp(exact - _column_top(exact))
    total = weight.sum(axis=1)
    laplacian = -weight[:, 1:, 1:].copy()
    index = np.arange(n - 1)
    laplacian[:, index, index] = total[:, 1:]
    table = np.concatenate([laplacian, np.broadcast_to(np.eye(n - 1), laplacian.shape)], axis=2)
    for k in range(n - 1):  # no pivoting: an M-matrix
        table[:, k] /= table[:, k, k, None].copy()
        others = index != k
        table[:, others] -= table[:, others, k, None] * table[:, None, k]
    inverse = table[:, :, n - 1 :]
    p = np.zeros_like(weight)
    own = inverse[:, index, index]
    p[:, 0, 1:] = weight[:, 0, 1:] * own
    p[:, 1:, 1:] = weight[:, 1:, 1:] * (own[:, None, :] - inverse.transpose(0, 2, 1))
    return p


def _column_top(scores: np.ndarray) -> np.ndarray:
    top = scores.max(axis=1, keepdims=True)
    return np.where(np.isfinite(top), top, 0)


def _score(scores: np.ndarray, heads: np.ndarray) -> np.ndarray:
    batch, nodes = np.arange(len(scores))[:, None], np.arange(1, scores.shape[1])
    return scores[batch, heads[:, 1:], nodes].sum(axis=1)


def _best(scores: np.ndarray) -> list[Row]:
    problem = f"best tree, any number of root arcs, {BATCH} x n={NODES}"
    trees, single = mx.Arborescence(root="multi"), mx.Arborescence()
    theta = scores.reshape(BATCH, -1)
    competitors = {
        OURS: lambda: trees.argmax(theta),
        f"{OURS} (single root)": lambda: single.argmax(theta),
    }
    rows = []
    heads = {}
    try:
        competitors[ufal_chu_liu_edmonds.NAME] = ufal_chu_liu_edmonds.best_trees(scores)
        heads[ufal_chu_liu_edmonds.NAME] = competitors[ufal_chu_liu_edmonds.NAME]()
    except ImportError as error:
        rows.append(missing(SUITE, problem, ufal_chu_liu_edmonds.NAME, str(error)))
    times = in_turns(competitors, repeats=25)
    ours = (trees.argmax(theta) * theta).sum(axis=1)
    accuracy = dict.fromkeys(times, math.nan)
    accuracy[OURS] = 0.0
    for name, found in heads.items():
        accuracy[name] = float(np.abs(_score(scores, found) - ours).max())
    targets = {ufal_chu_liu_edmonds.NAME: BEST_TARGET}
    return rows + compared(SUITE, problem, times, OURS, accuracy, targets)


def _sums(scores: np.ndarray, scale: float, dtype: type) -> list[Row]:
    name = np.dtype(dtype).name
    problem = f"marginals, any number of root arcs, {BATCH} x n={NODES}, {name}, scale {scale:g}"
    table = (scale * scores).astype(dtype)
    theta = table.reshape(BATCH, -1)
    trees = mx.Arborescence(root="multi")
    competitors = {OURS: lambda: trees.softmax(theta)[1].reshape(table.shape)}
    rows = []
    try:
        competitors[torch_struct.NAME] = torch_struct.marginals(table, multiroot=True)
        competitors[torch_struct.NAME]()
    except ImportError as error:
        rows.append(missing(SUITE, problem, torch_struct.NAME, str(error)))
    times = in_turns(competitors, repeats=25)
    exact = reference(table[:CHECKED])
    errors = {
        method: float(np.abs(competitors[method]()[:CHECKED] - exact).max()) for method in times
    }
    return rows + compared(SUITE, problem, times, OURS, errors, {torch_struct.NAME: SUMS_TARGET})


def _sparsemap(scores: np.ndarray) -> list[Row]:
    problem = f"SparseMAP forward and backward, n={NODES}, per graph"
    try:
        import torch
        from benchmarks.sparsemap import sparsemap_rows
    except ImportError as error:
        return [missing(SUITE, problem, OURS, str(error))]
    theta = torch.tensor(scores.reshape(len(scores), -1))
    recorded = lp_sparsemap.SECONDS_PER_TREE
    return sparsemap_rows(SUITE, problem, mx.Arborescence(), theta, recorded)


def run(quick: bool = False) -> list[Row]:
    """One row for every problem and competitor."""
    scores = np.random.default_rng(0).normal(size=(BATCH, NODES, NODES))
    rows = _best(scores)
    for scale in (1.0, 10.0):
        for dtype in (np.float32,) if quick else (np.float32, np.float64):
            rows += _sums(scores, scale, dtype)
    return rows + _sparsemap(scores[: 8 if quick else 64])

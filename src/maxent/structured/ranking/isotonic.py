"""Projections onto permutahedra and soft sorting of (rows, size) arrays: kernels and threads.

Kernels (and with them numba) are imported at the first call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent._support.threads import over_rows
from maxent.rows.arrays import Array

KINDS = {"hard": 0, "l2": 1, "kl": 2}  # as the kernels number them
_ONE = np.ones(1)
_STEPS = 10  # of the loops, for an entry


def argmax_map(theta: Array, w: Array) -> Array:
    """w in the order of the scores of each row."""
    from maxent.structured.ranking.kernels.isotonic import argmax_rows

    out, bits = np.empty_like(theta), _bits(theta)
    _run(argmax_rows, theta, bits, w, out)
    return out


def project_map(
    theta: Array, w: Array, kind: str = "l2", scale: Array = _ONE
) -> tuple[Array, Array]:
    """The projection of scale * theta onto the permutahedron of w, and the block of each entry.

    ``scale`` is one number for all rows, or one per row. Rows that cannot be projected are NaN:
    those with NaN, +inf or more scores of -inf than w has zeros.
    """
    from maxent._support.compiling.kernels import exact
    from maxent.structured.ranking.kernels.isotonic import project_rows

    p, block = np.empty_like(theta), np.empty(theta.shape, np.int32)
    # exponentials of libraries differ in the last bit
    project = project_rows if kind == "kl" else exact(project_rows, _STEPS * theta.size)
    _run(project, theta, theta, _bits(theta), scale, w, KINDS[kind], p, block)
    return p, block


def project_jvp(block: Array, p: Array, v: Array, kind: str = "l2", scale: float = 1.0) -> Array:
    """The (symmetric) Jacobian of ``project_map`` times v, in the type of p."""
    from maxent.structured.ranking.kernels.isotonic import project_jvp_rows

    out = np.empty_like(p)
    _run(project_jvp_rows, p, block, p, np.ascontiguousarray(v), float(scale), KINDS[kind], out)
    return out


def weighted_rank_map(
    theta: Array, weights: Array, scale: float, hard: bool
) -> tuple[Array, Array]:
    """Soft ranks of scale * theta whose entries count as often as their weights, and the blocks.

    They are the ranks of integer weights' copies. Rows with NaN or infinity are NaN.
    """
    from maxent.structured.ranking.kernels.weighted import weighted_rank_rows

    p, block = np.empty_like(theta), np.empty(theta.shape, np.int32)
    order = np.argsort(-theta, axis=1, kind="stable")
    _run(weighted_rank_rows, theta, theta, weights, order, float(scale), hard, p, block)
    return p, block


def sort_map(theta: Array, step: Array, kind: str = "l2") -> tuple[Array, Array, Array]:
    """Soft falling order with this step from place to place, the entries in order, and the blocks.

    Rows with NaN or infinity are NaN.
    """
    from maxent.structured.ranking.kernels.isotonic import sort_rows

    p = np.empty_like(theta)
    order, block = np.empty(theta.shape, np.int32), np.empty(theta.shape, np.int32)
    _run(sort_rows, theta, theta, _bits(theta), step, KINDS[kind], p, order, block)
    return p, order, block


def sort_vjp(theta: Array, order: Array, block: Array, g: Array, kind: str = "l2") -> Array:
    """The Jacobian of ``sort_map``, transposed, times g."""
    from maxent.structured.ranking.kernels.isotonic import sort_vjp_rows

    out = np.empty_like(theta)
    _run(sort_vjp_rows, theta, theta, order, block, np.ascontiguousarray(g), KINDS[kind], out)
    return out


def _bits(theta: Array) -> Array:
    return theta.view(np.uint32 if theta.dtype == np.float32 else np.uint64)


def _run(kernel: Any, template: Array, *arguments: Any) -> None:
    over_rows(lambda start, stop: kernel(*arguments, start, stop), *template.shape)

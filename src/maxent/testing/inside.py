"""Oracles never leave their set, at any scale of scores: not one entry by one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxent.core.domains import Domain
from maxent.rows.arrays import Array
from maxent.structured.transport.domain import Couplings

SCALES = (1e-9, 1e-2, 1.0, 10.0, 1e3, 1e7, 1e12)


def check_inside(
    domain: Domain,
    size: int,
    oracle: Callable[[Any], Any],
    name: str,
    random_state: int = 0,
    rows: int = 12,
) -> None:
    """Raise AssertionError where what ``oracle`` makes of scores is not exactly in its set.

    Scores of all ``SCALES``, ``rows`` of each with ties and without, in float64 and float32. Every
    entry lies between its least and its largest value at the vertices of ``domain``, exactly; the
    sums that make the domain are right up to ``domain.roundings(size)`` units of rounding of
    float64, and 4 of the type of the scores.

    Parameters
    ----------
    domain : Domain
        The domain.
    size : int
        Entries of a row.
    oracle : callable
        From scores to points.
    name : str
        What to call it in messages.
    random_state : int, default 0
        Seed of what is drawn.
    rows : int, default 12
        Rows of each scale.

    Examples
    --------
    >>> from maxent.core.domains import Simplex
    >>> check_inside(Simplex(), 4, lambda theta: Simplex().softmax(theta)[1], "softmax")
    """
    scores = wide_scores(size, rows, np.random.default_rng(random_state))
    few = slice(None, None, max(rows // 2, 1))  # membership is dear in some domains
    least, largest = entry_range(domain, size)
    for dtype in (np.float64, np.float32):
        p = np.asarray(oracle(scores.astype(dtype)))
        assert p.dtype == dtype, f"{name} of {np.dtype(dtype)} is {p.dtype}"
        beyond = (p < least.astype(dtype)) | (p > largest.astype(dtype)) | np.isnan(p)
        row, entry = divmod(int(np.argmax(beyond)), size)
        assert not beyond.any(), (
            f"{domain!r}: {name} in {np.dtype(dtype)} leaves its set at scores of size "
            f"{np.abs(scores[row]).max():.0e}: {float(p[row, entry])!r} is not in "
            f"[{least[entry]!r}, {largest[entry]!r}] ({beyond.sum()} entries do)"
        )
        total = max(1.0, float(np.abs(np.where(np.isfinite(largest), largest, 0.0)).max()))
        units = domain.roundings(size) * np.finfo(np.float64).eps + 4 * np.finfo(dtype).eps
        inside = domain.contains(p[few].astype(np.float64), units * total)
        worst = scores[few][np.argmin(inside)]
        assert inside.all(), (
            f"{domain!r}: the sums of {name} in {np.dtype(dtype)} are off by more than "
            f"{units * total:.1e} at scores of size {np.abs(worst).max():.0e}"
        )


def wide_scores(size: int, rows: int, rng: np.random.Generator) -> Array:
    """Rows at all scales: without ties, with many, and with ties that a small number breaks."""
    shape = (rows, size)
    batches = []
    for scale in SCALES:
        ties = scale * rng.integers(-2, 3, size=shape)
        smooth = scale * rng.normal(size=shape)
        batches += [smooth, ties, ties + rng.normal(size=shape)]
    return np.concatenate(batches)


def entry_range(domain: Domain, size: int) -> tuple[Array, Array]:
    """The least and the largest value of each entry over the domain."""
    if isinstance(domain, Couplings):
        a, b = domain.sums(size)
        return np.zeros(size), np.minimum(a[:, None], b).ravel()
    if not domain.bounded:
        probe = np.asarray(domain.project(np.full(size, -1e300)))
        return np.where(probe == 0, 0.0, -np.inf), np.full(size, np.inf)
    vertices = domain.vertices(size)
    return vertices.min(axis=0), vertices.max(axis=0)

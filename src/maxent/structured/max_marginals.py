"""The best structure with each entry, for any domain of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxent.core.domains import Domain, SumProductDomain
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Rows, Tied, flat, like
from maxent.structured.transport.domain import Birkhoff

_ENTRIES = 1 << 20  # of structures that are looked at in one go


def max_marginals(domain: SumProductDomain | Birkhoff, theta: Any) -> Rows:
    """`max {<theta, v> : v_i = 1}`: the best score of a structure with each entry.

    It is -inf where no structure has the entry. One best structure is looked for per entry.

    Parameters
    ----------
    domain : SumProductDomain or Birkhoff
        A domain whose vertices are zeros and ones.
    theta : array
        Scores, one row or several.

    Examples
    --------
    >>> from maxent import KSubset
    >>> max_marginals(KSubset(2), [3.0, 1.0, 2.0])
    array([5., 4., 5.])
    """
    check_zeros_and_ones(domain)
    theta = domain.check_scores(theta)
    rows = domain.check_rows(theta)
    if isinstance(rows, Tied):
        raise ValueError(f"max_marginals needs scores of each position: give {domain}.untie(theta)")
    best = [best_with_each(domain, row) for row in each_row(rows)]
    out = rows.copy()
    flat(out)[...] = np.concatenate([np.empty(0), *best])
    return like(out, theta)


def check_zeros_and_ones(domain: Domain) -> None:
    """Refuse domains whose vertices do not choose entries."""
    if not isinstance(domain, SumProductDomain | Birkhoff):
        raise TypeError(f"{domain} has vertices that are not zeros and ones: no entry is chosen")


def best_with_each(domain: Domain, scores: Array) -> Array:
    """The best score of a structure with each entry of a row."""
    out, finite = np.empty(scores.size), np.where(scores == -np.inf, 0, scores).astype(np.float64)
    for entries, best in structures_with_each(domain, scores):
        out[entries] = np.where(best.any(1), best @ finite, -np.inf)
    return out


def structures_with_each(domain: Domain, scores: Array) -> Iterator[tuple[Array, Array]]:
    """Entries, some at a time, and a best structure with each; zeros where there is none."""
    scores = scores.astype(np.float64)
    # more than any two structures differ by: an entry that can be had is then always taken
    bonus = 1 + 2 * np.abs(scores, where=np.isfinite(scores), out=np.zeros_like(scores)).sum()
    step = max(1, _ENTRIES // scores.size)
    for start in range(0, scores.size, step):
        entries = np.arange(start, min(start + step, scores.size))
        raised = np.tile(scores, (entries.size, 1))
        raised[np.arange(entries.size), entries] += bonus
        best = np.asarray(domain.argmax(raised))
        had = best[np.arange(entries.size), entries] > 0.5
        yield entries, best * (had & (scores[entries] > -np.inf))[:, None]

"""The best structure with each entry, for any domain of zeros and ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxent.core.domains import Domain, SumProductDomain
from maxent.core.domains.base import each_row
from maxent.rows.arrays import Array, Rows, Tied, flat, like
from maxent.structured.alignment.domain import Alignment
from maxent.structured.transport.domain import Birkhoff

_ENTRIES = 1 << 20  # of structures that are looked at in one go
_ROOM = 1e8  # how much larger than the smallest score a bonus may be at first, and grow by
_LARGEST = np.finfo(np.float64).max / 4


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
    best = [best_with_each(domain, row, i) for i, row in enumerate(each_row(rows))]
    out = rows.copy()
    flat(out)[...] = np.concatenate([np.empty(0), *best])
    return like(out, theta)


def check_zeros_and_ones(domain: Domain) -> None:
    """Refuse domains whose vertices do not choose entries."""
    if not isinstance(domain, SumProductDomain | Birkhoff):
        raise TypeError(f"{domain} has vertices that are not zeros and ones: no entry is chosen")


def best_with_each(domain: Domain, scores: Array, row: int = 0) -> Array:
    """The best score of a structure with each entry of a row.

    ``row`` is its number in a batch whose rows the domain tells apart.
    """
    out, finite = np.empty(scores.size), np.where(scores == -np.inf, 0, scores).astype(np.float64)
    for entries, best in structures_with_each(domain, scores, row):
        out[entries] = np.where(best.any(1), best @ finite, -np.inf)
    return out


def structures_with_each(
    domain: Domain, scores: Array, row: int = 0
) -> Iterator[tuple[Array, Array]]:
    """Entries, some at a time, and a best structure with each; zeros where there is none."""
    if isinstance(domain, Alignment):
        domain = domain.alone(row)
    scores = scores.astype(np.float64)
    sizes = np.abs(scores[np.isfinite(scores) & (scores != 0)])
    # more than any two structures differ by: an entry that can be had is then always taken
    with np.errstate(over="ignore"):
        enough = min(3 * float(sizes.sum()), _LARGEST) or 1.0
    step = max(1, _ENTRIES // scores.size)
    for start in range(0, scores.size, step):
        waiting = np.arange(start, min(start + step, scores.size))
        # an entry that is taken for less is in a best structure with it as well, and scores that
        # are small beside others (-1e30 in place of -inf) are not rounded away beside the bonus
        bonus = min(enough, _ROOM * float(sizes.min(initial=np.inf)))
        while True:
            raised = np.tile(scores, (waiting.size, 1))
            raised[np.arange(waiting.size), waiting] += bonus
            best = np.asarray(domain.argmax(raised))
            taken = best[np.arange(waiting.size), waiting] > 0.5
            had = taken & (scores[waiting] > -np.inf)
            done = taken | (bonus >= enough)
            yield waiting[done], (best * had[:, None])[done]
            waiting = waiting[~done]
            if not waiting.size:
                break
            bonus = min(enough, _ROOM * bonus)

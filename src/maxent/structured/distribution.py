"""Sparse distributions over structures, found from the best ones alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from maxent.core.domains import KBestDomain
from maxent.rows.arrays import Array, Rows, row_scale

if TYPE_CHECKING:
    from maxent.core.entropies import Entropy


@dataclass(frozen=True, eq=False)
class StructureDistribution:
    """Structures with positive probability, row by row.

    Attributes
    ----------
    structures : list of array
        Batches of vertices, best first.
    probabilities : array (n_rows, n_structures)
        Probability of each.
    mean : array
        Sum of probability times structure.
    value : array (n_rows,)
        `max_q <q, scores> - Omega(q)` of each row.
    exact : array (n_rows,)
        Whether each row's last structure listed has probability 0 (or there are no more), so that
        no structure left out has any.
    """

    structures: list[Rows]
    probabilities: Array
    mean: Rows
    value: Array
    exact: Array


def sparse_distribution(
    domain: KBestDomain,
    theta: Any,
    entropy: Entropy,
    k: int = 16,
    max_k: int = 1024,
) -> StructureDistribution:
    """`argmax_q <q, scores> - Omega(q)` over distributions q on all structures, by the k best.

    With a sparse entropy (Tsallis with `alpha > 1`, sparsemax at 2; Fenchel-Young paper, §7.1) few
    structures have positive probability, and scores alone decide which: if the k-th best gets none,
    no worse one does, and the answer is exact. k doubles until then.

    Parameters
    ----------
    domain : KBestDomain
        A domain with the k best structures.
    theta : array
        Scores, one row or several.
    entropy : Entropy
        A sparse entropy of the simplex.
    k : int, default 16
        Structures to begin with.
    max_k : int, default 1024
        Structures at most.

    Examples
    --------
    >>> import numpy as np
    >>> from maxent import Chain, Tsallis
    >>> found = sparse_distribution(Chain(2), np.array([[1.0, 0.5, *[0.0] * 6]]), Tsallis(2.0))
    >>> found.probabilities.round(3)[:, :4], bool(found.exact[0])
    (array([[0.5, 0.5, 0. , 0. ]]), True)
    """
    if not isinstance(domain, KBestDomain):
        raise TypeError(
            f"sparse_distribution needs a domain with the k best structures (kbest), got {domain!r}"
        )
    theta = domain.check_rows(domain.check_scores(theta))
    whole = all(isinstance(number, int | np.integer) for number in (k, max_k))
    if not whole or k < 1 or max_k < k:
        raise ValueError(f"k and max_k are integers with 1 <= k <= max_k, got {k} and {max_k}")
    while True:
        scores, structures = domain.kbest(theta, k)
        value, probabilities = entropy.conjugate(scores)
        exact = probabilities[:, -1] == 0
        if exact.all() or k >= max_k:
            break
        k = min(2 * k, max_k)
    mean = row_scale(structures[0], probabilities[:, 0])
    least = largest = structures[0]
    for rank in range(1, k):
        if probabilities[:, rank].any():
            mean = mean + row_scale(structures[rank], probabilities[:, rank])
            largest = np.maximum(largest, structures[rank])
            used = probabilities[:, rank] > 0  # else the row may be one of zeros, after the last
            least = np.minimum(least, structures[rank] + row_scale(largest, 1.0 * ~used))
    # the sum of the probabilities may be off by a rounding, which takes no entry beyond structures'
    mean = np.maximum(np.minimum(mean, largest), least)
    return StructureDistribution(structures, probabilities, mean, value, exact)

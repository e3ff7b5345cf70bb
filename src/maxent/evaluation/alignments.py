"""How alike two alignments are. A path is an array (length, 2) of the pairs (i, j) it has."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxent.rows.arrays import Array


def alignment_overlap(path: ArrayLike, other: ArrayLike) -> float:
    """Pairs that both paths have, as a share of those that either has: 1 for equal paths.

    Parameters
    ----------
    path : array (n_pairs, 2)
        Pairs of a path.
    other : array (n_pairs, 2)
        Pairs of another path.

    Examples
    --------
    >>> alignment_overlap([[0, 0], [1, 1]], [[0, 0], [0, 1], [1, 1]])
    0.6666666666666666
    """
    first, second = (set(map(tuple, _path(x).tolist())) for x in (path, other))
    return len(first & second) / len(first | second)


def alignment_deviation(path: ArrayLike, other: ArrayLike) -> float:
    """How far apart the partners are, on average over the elements of the first sequence.

    Where an element has several partners it is their mean that counts; 0 for equal paths. The
    unit is one element of the second sequence.

    Parameters
    ----------
    path : array (n_pairs, 2)
        Pairs of a path.
    other : array (n_pairs, 2)
        Pairs of another path.

    Examples
    --------
    >>> alignment_deviation([[0, 0], [1, 1]], [[0, 0], [0, 1], [1, 1]])
    0.25
    """
    first, second = _partners(path), _partners(other)
    if first.size != second.size:
        raise ValueError(
            f"the paths align sequences of {first.size} and of {second.size} elements, and only "
            "paths of the same sequences can be compared"
        )
    return float(np.mean(np.abs(first - second)))


def _path(path: ArrayLike) -> Array:
    pairs = np.asarray(path)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"a path has shape (length, 2), got {pairs.shape}")
    return pairs


def _partners(path: ArrayLike) -> Array:
    """The mean partner of each element of the first sequence."""
    i, j = _path(path).T
    return np.bincount(i, weights=j) / np.bincount(i)

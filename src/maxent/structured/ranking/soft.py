"""Soft ranks, soft sorting and soft choices of the best k: projections onto permutahedra.

``strength`` says how soft. 0 is the hard operation, tied scores sharing their places; the softer,
the more entries move together. The default None gives the scores the spread that the result has,
so that it does not depend on the unit of the scores (soft sorting: follows it).

``regularization`` is "l2" (1/2 ||p||^2, a Euclidean projection, piecewise linear in the scores) or
"kl" (sum p log p, smoother).
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from maxent.rows.arrays import Array, as_float, as_rows, check_scores
from maxent.structured.ranking.isotonic import project_map, sort_map
from maxent.structured.ranking.permutahedron import Permutahedron

REGULARIZATIONS = ("l2", "kl")
_LARGEST = 1e300  # factor of the scores


def soft_rank(
    theta: Any,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    descending: bool = False,
    axis: int = -1,
) -> Array:
    """Ranks from 1 to d along an axis: the smallest score has rank 1, or the largest (descending).

    `argmax_p <theta, p> - strength Omega(p)` over the permutahedron of [d, ..., 1]. Their sum is
    `d (d + 1) / 2` at every strength.

    Parameters
    ----------
    theta : array
        Scores.
    strength : float, default None
        How soft: 0 is the hard operation, tied scores sharing their places. None gives the scores
        the spread that the result has, so that their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        `Omega`: "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`,
        smoother.
    descending : bool, default False
        Whether the largest score has rank 1.
    axis : int, default -1
        Axis along which to work.

    Examples
    --------
    >>> soft_rank([0.3, 5.0, 0.1], strength=0)
    array([2., 3., 1.])
    >>> soft_rank([0.3, 5.0, 0.1], strength=1.0)  # two scores that are closer than 1
    array([1.6, 3. , 1.4])
    """
    scores, back = _along(theta, axis, "soft_rank")
    _require_finite(scores, "soft_rank")
    domain = rankings(scores.shape[1])
    return back(_soft(-scores if descending else scores, domain, strength, regularization))


def soft_topk(
    theta: Any,
    k: int,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    axis: int = -1,
) -> Array:
    """A soft choice of the k largest scores: numbers from 0 to 1 of sum k.

    `argmax_p <theta, p> - strength Omega(p)` over the permutahedron of k ones and d - k zeros. A
    score of -inf has no chance.

    Parameters
    ----------
    theta : array
        Scores.
    k : int
        How many scores to choose.
    strength : float, default None
        How soft: 0 is the hard operation, tied scores sharing their places. None gives the scores
        the spread that the result has, so that their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        `Omega`: "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`,
        smoother.
    axis : int, default -1
        Axis along which to work.

    Examples
    --------
    >>> soft_topk([0.3, 5.0, 0.1, 4.0], 2, strength=0)
    array([0., 1., 0., 1.])
    >>> soft_topk([0.3, 1.0, 0.1, 4.0], 2, strength=1.0)
    array([0.15, 0.85, 0.  , 1.  ])
    """
    scores, back = _along(theta, axis, "soft_topk")
    domain = choices(k, scores.shape[1])
    return back(_soft(scores, domain, strength, regularization))


def soft_partial_rank(
    theta: Any,
    k: int,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    axis: int = -1,
) -> Array:
    """Points of a ranking of the best k: k for the largest score, down to 1, and 0 for the rest.

    `argmax_p <theta, p> - strength Omega(p)` over the permutahedron of [k, ..., 1, 0, ..., 0].

    Parameters
    ----------
    theta : array
        Scores.
    k : int
        How many places have points.
    strength : float, default None
        How soft: 0 is the hard operation, tied scores sharing their places. None gives the scores
        the spread that the result has, so that their unit does not matter.
    regularization : "l2" or "kl", default "l2"
        `Omega`: "l2" is `1/2 ||p||^2`, piecewise linear in the scores; "kl" is `sum p log p`,
        smoother.
    axis : int, default -1
        Axis along which to work.

    Examples
    --------
    >>> soft_partial_rank([0.3, 5.0, 0.1, 4.0], 2, strength=0)
    array([0., 2., 0., 1.])
    """
    scores, back = _along(theta, axis, "soft_partial_rank")
    domain = partial_rankings(k, scores.shape[1])
    return back(_soft(scores, domain, strength, regularization))


def soft_sort(
    theta: Any,
    strength: float | None = None,
    regularization: str = "l2",
    *,
    descending: bool = False,
    axis: int = -1,
) -> Array:
    """The scores in rising order (or falling: descending) along an axis, softly.

    The projection of [d, ..., 1] / strength onto the permutahedron of the scores; "kl" does so
    with the exponentials of the scores, in logarithms. "l2" keeps the sum of the scores.

    Parameters
    ----------
    theta : array
        Scores.
    strength : float, default None
        How soft: 0 is the hard operation. None follows the spread of the scores.
    regularization : "l2" or "kl", default "l2"
        "l2" keeps the sum of the scores; "kl" works with their exponentials, see above.
    descending : bool, default False
        Whether the order falls.
    axis : int, default -1
        Axis along which to work.

    Examples
    --------
    >>> soft_sort([0.3, 5.0, 0.1], strength=0)
    array([0.1, 0.3, 5. ])
    >>> soft_sort([0.3, 5.0, 0.1], strength=1.0)  # neighbours are at most 1 apart
    array([0.8, 1.8, 2.8])
    """
    scores, back = _along(theta, axis, "soft_sort")
    _require_finite(scores, "soft_sort")
    check_regularization(regularization)
    size = scores.shape[1]
    if strength is None:
        unit = spread(scores)
        step = np.array([1 / ranks_spread(size)])
        p = (unit * sort_map(scores / unit, step, regularization)[0]).astype(scores.dtype)
    elif check_strength(strength):
        p = sort_map(scores, np.array([factor(strength)]), regularization)[0]
    else:
        p = -np.sort(-scores, axis=1)
    return back(p if descending else p[:, ::-1])


def kendall_tau(a: Any, b: Any) -> Array:
    """Kendall's tau-b of two rankings of the same entries, row by row: from -1 to 1.

    The pairs that both order in the same way less those they do not, over the root of the product
    of their numbers of pairs that are no ties; 0 where one of them ties all.

    Parameters
    ----------
    a : array (..., d)
        Rankings.
    b : array (..., d)
        Rankings of the same entries.

    Examples
    --------
    >>> kendall_tau([[1, 2, 3], [1, 2, 3]], [[1, 2, 3], [3, 2, 1]])
    array([ 1., -1.])
    """
    a, b = as_float(a), as_float(b)
    if a.shape != b.shape or a.ndim == 0:
        raise ValueError(f"kendall_tau needs two arrays of one shape, got {a.shape} and {b.shape}")
    i, j = np.triu_indices(a.shape[-1], 1)
    order_a, order_b = np.sign(a[..., i] - a[..., j]), np.sign(b[..., i] - b[..., j])
    pairs = np.sqrt((order_a**2).sum(axis=-1) * (order_b**2).sum(axis=-1))
    return np.asarray((order_a * order_b).sum(axis=-1) / np.maximum(pairs, 1.0))


def rankings(size: int) -> Permutahedron:
    """The permutahedron of [d, ..., 1]."""
    return Permutahedron(np.arange(size, 0, -1))


def choices(k: int, size: int) -> Permutahedron:
    """The permutahedron of k ones and d - k zeros."""
    return Permutahedron(np.arange(size) < _count(k, size))


def partial_rankings(k: int, size: int) -> Permutahedron:
    """The permutahedron of [k, ..., 1, 0, ..., 0]."""
    return Permutahedron(np.maximum(_count(k, size) - np.arange(size), 0))


def _soft(
    scores: Array, domain: Permutahedron, strength: float | None, regularization: str
) -> Array:
    check_regularization(regularization)
    domain.require_enough(scores)
    if strength is None:
        scale = (result_spread(domain, regularization) / spread(scores)).ravel()
        return project_map(scores, domain.w, regularization, scale)[0]
    if check_strength(strength):
        return project_map(scores, domain.w, regularization, np.array([factor(strength)]))[0]
    return project_map(scores, domain.w, "hard")[0]


def _along(theta: Any, axis: int, name: str) -> tuple[Array, Any]:
    """Scores as rows, and what puts results back in their place."""
    theta = as_float(theta)
    if theta.ndim and not -theta.ndim <= axis < theta.ndim:
        raise ValueError(f"{name}: axis {axis} of scores of shape {theta.shape}")
    moved = check_scores(np.moveaxis(theta, axis, -1) if theta.ndim else theta)
    return as_rows(moved), lambda p: np.moveaxis(p.reshape(moved.shape), -1, axis)


def _require_finite(scores: Array, name: str) -> None:
    if np.isneginf(scores).any():
        raise ValueError(f"{name} gives every score a place, so they must be finite, got -inf")


def spread(scores: Array) -> Array:
    """Standard deviation of each row's finite scores, as a column; 1 where all are the same."""
    finite = np.isfinite(scores)
    number = finite.sum(axis=1, keepdims=True)
    top = np.max(np.abs(scores), axis=1, keepdims=True, where=finite, initial=0.0)
    unit = np.where(top > 0, top, 1.0)  # squares of the ratios neither overflow nor vanish
    ratio = np.where(finite, scores, 0.0) / unit.astype(np.float64)
    mean = ratio.sum(axis=1, keepdims=True) / number
    deviation = np.where(finite, ratio - mean, 0.0)
    found = unit * np.sqrt((deviation**2).sum(axis=1, keepdims=True) / number)
    same = np.max(scores, axis=1, keepdims=True) == np.min(
        scores, axis=1, keepdims=True, where=finite, initial=np.inf
    )
    return np.where(same | (found == 0), 1.0, found)


def result_spread(domain: Permutahedron, regularization: str) -> float:
    """The spread that scores are given by default: that of w, or 1 in logarithms.

    The logarithms of [d, ..., 1] / d have the standard deviation 1 as d grows.
    """
    return 1.0 if regularization == "kl" else float(np.std(domain.w)) or 1.0


def ranks_spread(size: int) -> float:
    """Standard deviation of 1, ..., d; 1 where d = 1."""
    return ((size * size - 1) / 12) ** 0.5 or 1.0


def factor(strength: float) -> float:
    """1 / strength, finite."""
    return min(1 / float(strength), _LARGEST)


def check_strength(strength: float) -> bool:
    """Refuse what is no strength; whether it is above 0."""
    number = isinstance(strength, Real) and not isinstance(strength, bool)
    if not (number and 0 <= float(strength) < np.inf):
        raise ValueError(
            f"strength must be a number >= 0, or None for the default, got {strength!r}"
        )
    return float(strength) > 0


def check_regularization(regularization: str) -> None:
    """Refuse a regularization that there is not."""
    if regularization not in REGULARIZATIONS:
        raise ValueError(f'regularization must be "l2" or "kl", got {regularization!r}')


def _count(k: int, size: int) -> int:
    """k as an integer from 1 to the number of scores."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= size:
        raise ValueError(f"a choice of the best k needs an integer k from 1 to {size}, got {k!r}")
    return int(k)

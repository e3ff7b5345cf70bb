"""The Kullback-Leibler projection onto a polytope known only through its argmax oracle.

argmin_p sum p log p - <theta, p> by Newton steps. The quadratic model at p is the Euclidean
projection of sqrt(p) (theta - log p) onto the polytope with its entries divided by sqrt(p), whose
argmax is that of the polytope at directions divided by sqrt(p): Wolfe's method does it, a fully
corrective Frank-Wolfe method (Fenchel-Young paper, §7.2 and §8.3). Some six steps make p exact to
rounding, where one vertex after the other would take thousands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from maxent.core.domains.active_set import Support, support_by_argmax
from maxent.rows.arrays import Array

Oracle = Callable[[Array], Array]  # a batch of rows to the best vertex of each

_STEPS = 60
_SHARE = 0.99  # of an entry that one step may take away
_NEAR = 0.2  # relative step from which on Newton's method needs no line search
_TIGHT = 1e-15
_FAR = 1e15  # scores from which on no entropy is seen beside them
_HALVINGS = 50
_PROBES = 8  # random directions at a time, in which vertices are looked for
_STEEP = 1e8  # how much more the face counts than such a direction
_FLAT = 1e-9  # of a difference of vertices: what a rounding may leave of it


def project_kl_row(argmax: Oracle, theta: Array) -> Array:
    """The projection of exp(theta); an entry of -inf keeps out the vertices that use it."""
    allowed = np.isfinite(theta)
    corners = np.where(allowed, np.eye(theta.size), -np.inf)
    corners[~allowed] = np.where(allowed, 0.0, -np.inf)
    spread = np.asarray(argmax(corners), dtype=np.float64)  # each entry as large as it can be
    best = np.asarray(argmax(theta[None]), dtype=np.float64)[0]
    if np.abs(theta[allowed]).max(initial=0.0) >= _FAR:
        return best
    p = spread.mean(axis=0)  # positive wherever a vertex is
    score = np.where(p > 0, theta, 0.0)
    p = p + _line_search(score, p, best - p, 1 - 1e-6) * (best - p)
    last, before = np.inf, None
    for _ in range(_STEPS):
        support, root = _newton_support(argmax, theta, p, before)
        step = support.point() * root - p
        before = support.vertices.toarray() * root, support.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(p > 0, step / p, 0.0)
        size = float(np.abs(change).max(initial=0.0))
        longest = min(1.0, _SHARE / max(float(-change.min(initial=0.0)), 1e-300))
        p = p + (longest if size < _NEAR else _line_search(score, p, step, longest)) * step
        if size <= _TIGHT or (size < 1e-6 and size >= last / 2):
            break
        last = size
    return np.clip(p, 0.0, spread.max(axis=0))


def project_kl_jvp_row(argmax: Oracle, theta: Array, p: Array, v: Array) -> Array:
    """Derivative of that projection along v: Newton's, within the face that p lies in."""
    support, root = _newton_support(argmax, theta, p.astype(np.float64), None)
    vertices = support.vertices.toarray()
    q, r = np.linalg.qr((vertices[1:] - vertices[0]).T)
    q = q[:, np.abs(np.diag(r)) > 1e-12 * np.abs(r).max(initial=1e-300)]
    on, best = p > 0, _scaled(argmax, p > 0, root)
    slope = np.where(on, root * (theta - np.log(np.where(on, p, 1.0)) - 1), 0.0)
    q = _spanned(lambda direction: best(direction + _STEEP * slope), on, q)
    return root * (q @ (q.T @ np.where(p > 0, root * v, 0.0)))


def _scaled(argmax: Oracle, on: Array, root: Array) -> Oracle:
    """The oracle of the vertices that use no other entries than ``on``, divided by ``root``."""
    return lambda direction: np.asarray(argmax(np.where(on, direction / root, -np.inf))) / root


def _spanned(best: Oracle, on: Array, basis: Array) -> Array:
    """A basis grown to all directions of a face: few of its vertices may mix a point with ties.

    ``best`` answers with vertices of the face. All of them have one product with a random direction
    across the basis only if it is complete.
    """
    rng = np.random.default_rng(0)
    while basis.shape[1] < on.sum():
        across = rng.normal(size=(_PROBES, on.size)) * on
        for _ in range(2):
            across -= (across @ basis) @ basis.T
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        apart = best(across) - best(-across)
        sizes = np.linalg.norm(apart, axis=1)
        wide = np.einsum("ij,ij->i", apart, across) > _FLAT * sizes
        if not wide.any():
            break
        for x in apart[wide] / sizes[wide, None]:
            rest = x - basis @ (basis.T @ x)
            rest -= basis @ (basis.T @ rest)
            left = float(np.linalg.norm(rest))
            if left > _FLAT:
                basis = np.column_stack([basis, rest / left])
    return basis


def _newton_support(
    argmax: Oracle, theta: Array, p: Array, before: tuple[Array, Array] | None
) -> tuple[Support, Array]:
    """The vertices of the quadratic model's solution, divided by sqrt(p), and sqrt(p).

    ``before`` : the vertices of the last step, as they are, and their weights.
    """
    on = p > 0
    root = np.sqrt(np.where(on, p, 1.0))
    scaled = _scaled(argmax, on, root)
    goal = np.where(on, root * (theta - np.log(np.where(on, p, 1.0))), -np.inf)
    start = None if before is None else [Support(sparse.csr_array(before[0] / root), before[1])]
    return support_by_argmax(scaled, goal[None], start)[0], root


def _line_search(score: Array, p: Array, step: Array, longest: float) -> float:
    """The length at which sum p log p - <score, p> is least along a step, by bisection."""
    on = p > 0

    def rising(length: float) -> bool:
        point = p[on] + length * step[on]
        return float((np.log(point) + 1 - score[on]) @ step[on]) > 0

    if not rising(longest):
        return longest
    low, high = 0.0, longest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) else (middle, high)
    return low

"""Newton's steps on the faces of a quadratic model with absolute values."""

from __future__ import annotations

import numpy as np

from maxent.rows.arrays import Array


def solve_faces(
    gram: Array, gradient: Array, w: Array, l1: Array, l2: Array, d: Array, max_faces: int
) -> None:
    """min_d <g, d> + 1/2 d'Gd + sum l1 |w + d| + l2/2 (w + d)^2, in place, on the weights in use.

    Steps until no sign changes, each as long as the model with its absolute values goes down along
    it; a weight that ends at 0 leaves the face. Coordinate descent alone crawls among nearly equal
    columns. Raises ``LinAlgError`` where the matrix of a face is singular.
    """
    for _ in range(max_faces):
        face = np.flatnonzero((w + d != 0.0) | (l1 == 0.0))
        if not len(face):
            return
        x = w[face] + d[face]
        slope = gradient[face] + l1[face] * np.sign(x) + l2[face] * x + gram[face] @ d
        matrix = gram[np.ix_(face, face)]
        np.einsum("ii->i", matrix)[:] += l2[face]
        move = np.linalg.solve(matrix, -slope)
        down = float(slope @ move)
        if not down < 0.0:
            return
        length, corner, jump = _length(x, move, l1[face], down)
        d[face] = x + length * move - w[face]
        if corner >= 0:
            d[face[corner]] = -w[face[corner]]
        if jump == 0.0:
            return


def _length(x: Array, move: Array, l1: Array, down: float) -> tuple[float, int, float]:
    """How far the model goes down, the weight that ends it at 0 (or -1), and the jumps before.

    Along the step the slope rises from ``down`` < 0 to 0 at length 1, and jumps at a sign change.
    """
    crossing = np.flatnonzero((l1 > 0.0) & (x * move < 0.0))
    at = -x[crossing] / move[crossing]
    jump = 0.0
    for place in np.argsort(at, kind="stable"):
        length = 1.0 + jump / down
        if at[place] >= length:
            return length, -1, jump
        a = int(crossing[place])
        jump += float(2.0 * l1[a] * abs(move[a]))
        if down * (1.0 - at[place]) + jump >= 0.0:
            return float(at[place]), a, jump
    return 1.0 + jump / down, -1, jump

"""Coordinate descent on small quadratic models."""

import numpy as np

from maxent._kernels.compiling import njit


@njit(cache=True, nogil=True)
def elastic_quadratic(gram, gradient, w, l1, l2, d, max_passes, tol):
    """min_d <g, d> + 1/2 d'Gd + sum l1 |w + d| + l2/2 (w + d)^2 by coordinate descent.

    Alternates full passes with passes over the coordinates that are not at zero. Changes d in
    place; returns whether a full pass moved nothing by more than ``tol`` (in slope).
    """
    n = w.size
    slope = gradient + gram @ d
    full = True
    for _ in range(max_passes):
        worst = 0.0
        for j in range(n):
            x = w[j] + d[j]
            if not full and x == 0.0:
                continue
            h = gram[j, j] + l2[j]
            if h <= 0.0:
                continue
            v = gram[j, j] * x - slope[j]
            if v > l1[j]:
                new = (v - l1[j]) / h
            elif v < -l1[j]:
                new = (v + l1[j]) / h
            else:
                new = 0.0
            step = new - x
            if step != 0.0:
                d[j] += step
                for k in range(n):
                    slope[k] += step * gram[k, j]
                worst = max(worst, abs(step) * h)
        if worst <= tol:
            if full:
                return True
            full = True
        else:
            full = False
    return False


@njit(cache=True, nogil=True)
def solve_faces(gram, gradient, w, l1, l2, d, max_faces):
    """Newton's steps for the same model on the weights in use, in place, until no sign changes.

    Each step is as long as the model with its absolute values goes down along it; a weight that
    ends at 0 leaves the face. Coordinate descent alone crawls among nearly equal columns.
    """
    n = w.size
    face = np.empty(n, dtype=np.intp)
    for _ in range(max_faces):
        count = 0
        for j in range(n):
            if w[j] + d[j] != 0.0 or l1[j] == 0.0:
                face[count] = j
                count += 1
        if count == 0:
            return
        matrix = np.empty((count, count))
        slope = np.empty(count)
        x = np.empty(count)
        for a in range(count):
            j = face[a]
            x[a] = w[j] + d[j]
            total = gradient[j] + l1[j] * np.sign(x[a]) + l2[j] * x[a]
            for k in range(n):
                total += gram[j, k] * d[k]
            slope[a] = total
            for b in range(count):
                matrix[a, b] = gram[j, face[b]]
            matrix[a, a] += l2[j]
        move = np.linalg.solve(matrix, -slope)
        # along the step the slope rises from down < 0 to 0 at length 1, and jumps at a sign change
        down, at = 0.0, np.full(count, np.inf)
        for a in range(count):
            down += slope[a] * move[a]
            if l1[face[a]] > 0.0 and x[a] * move[a] < 0.0:
                at[a] = -x[a] / move[a]
        if not down < 0.0:
            return
        jump, corner, length = 0.0, -1, 1.0
        for a in np.argsort(at):
            length = 1.0 + jump / down
            if at[a] >= length:
                break
            jump += 2.0 * l1[face[a]] * abs(move[a])
            if down * (1.0 - at[a]) + jump >= 0.0:
                corner, length = a, at[a]
                break
            length = 1.0 + jump / down
        for a in range(count):
            d[face[a]] = x[a] + length * move[a] - w[face[a]]
        if corner >= 0:
            d[face[corner]] = -w[face[corner]]
        if jump == 0.0:
            return


@njit(cache=True, nogil=True)
def simplex_quadratic(gram, linear, weights, max_steps, tol):
    """min 1/2 a'Qa + <c, a> over the simplex by steepest pairs, in place; returns the last gap."""
    n = weights.size
    slope = linear.copy()
    for i in range(n):
        if weights[i] != 0.0:
            for k in range(n):
                slope[k] += weights[i] * gram[k, i]
    gap = np.inf
    for _ in range(max_steps):
        best = 0
        worst = -1
        for i in range(n):
            if slope[i] < slope[best]:
                best = i
            if weights[i] > 0.0 and (worst < 0 or slope[i] > slope[worst]):
                worst = i
        gap = slope[worst] - slope[best]
        if gap <= tol:
            break
        bend = gram[best, best] + gram[worst, worst] - 2 * gram[best, worst]
        step = weights[worst]
        if bend > 0.0:
            step = min(step, gap / bend)
        weights[best] += step
        weights[worst] = weights[worst] - step if step < weights[worst] else 0.0
        for k in range(n):
            slope[k] += step * (gram[k, best] - gram[k, worst])
    return gap

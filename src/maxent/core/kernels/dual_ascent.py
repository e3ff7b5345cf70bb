"""Block coordinate ascent on the distributions p_i of a linear model, one sample at a time.

The residual r = sum a_i x_i p_i' - mu and the weights w = -grad V(r) follow every change of p_i.
Matrices of weights are (features, outputs). A sample is a row of a dense X, or of compressed rows.
"""

import math

import numpy as np

from maxent._support.compiling.copying import copy
from maxent._support.compiling.kernels import njit

TSALLIS, FERMI_DIRAC, BINARY_GINI = 0, 1, 2
_ROUNDING = 4e-16


@njit(cache=True, nogil=True, error_model="numpy")
def _omega(z):
    """Wright's omega: w + log w = z, by the quartic iteration of Fritsch, Shafer and Crowley."""
    if z < -700.0:
        return math.exp(z)
    if z > 1.0:
        w = z - math.log(z)
    elif z < -2.0:
        w = math.exp(z)
    else:
        w = math.exp(2.0 * (z - 1.0) / 3.0)
    for _ in range(6):
        rest = z - w - math.log(w)
        if abs(rest) <= _ROUNDING * (1.0 + abs(z)):
            break
        half = 2.0 * (1.0 + w) * (1.0 + w + 2.0 * rest / 3.0)
        w *= 1.0 + rest / (1.0 + w) * (half - rest) / (half - 2.0 * rest)
    return w


@njit(cache=True, nogil=True, error_model="numpy")
def _inverse(y, tau, a):
    """The p >= 0 with p + tau (p^a - 1)/a = y, 0 where y is too small, and dp/dy."""
    if a == 0.0:
        p = tau * _omega(y / tau - math.log(tau))
        return p, p / (p + tau)
    if a < 0.0:  # concave in p, so that Newton's method climbs from a lower bound
        p = math.exp(math.log1p(max(1.0 - y, 0.0) * (-a / tau)) / a)
        if p == 0.0:
            return 0.0, 0.0
        for _ in range(100):
            power = p ** (a - 1.0)
            step = (y - p - tau * math.expm1(a * math.log(p)) / a) / (1.0 + tau * power)
            if not step > _ROUNDING * p:
                break
            p += step
        return p, 1.0 / (1.0 + tau * p ** (a - 1.0))
    room = y + tau / a
    if room <= 0.0:
        return 0.0, 0.0
    if a == 1.0 or tau == 0.0:
        return room / (1.0 + tau), 1.0 / (1.0 + tau)
    if a == 0.5:
        root = room / (math.sqrt(room + tau * tau) + tau)
        return root * root, root / (root + tau)
    # convex in x = p^min(a, 1), so that Newton's method descends from an upper bound
    if a < 1.0:
        b = 1.0 / a
        x = min(room**a, room * a / tau)
        for _ in range(100):
            power = x ** (b - 1.0)
            step = (power * x + tau * b * x - room) / (b * power + tau * b)
            if not step > _ROUNDING * x:
                break
            x -= step
        p = x**b
    else:
        p = min(room, (room * a / tau) ** (1.0 / a))
        for _ in range(100):
            power = p ** (a - 1.0)
            step = (p + tau * power * p / a - room) / (1.0 + tau * power)
            if not step > _ROUNDING * p:
                break
            p -= step
    if p <= 0.0:
        return 0.0, 0.0
    return p, 1.0 / (1.0 + tau * p ** (a - 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def _simplex_prox(y, tau, a, p, live):
    """argmin 1/2 ||p - y||^2 + tau Omega(p), Omega Tsallis's with alpha = a + 1 (App. A.1).

    p_j = inverse(y_j - nu): Newton's method on sum p = 1 inside the bracket of Prop. 9, from its
    lower end, where it climbs for alpha <= 2.
    """
    size = y.size
    top = y[0]
    for j in range(1, size):
        top = max(top, y[j])
    low = top - 1.0
    least = -math.log(size) if a == 0.0 else (size**-a - 1.0) / a
    high = top - 1.0 / size - tau * least
    nu, total, n = low, 1.0, size
    for j in range(size):
        live[j] = j
    for _ in range(200):
        total, slope = 0.0, 0.0
        for c in range(n):
            j = live[c]
            p[j], bend = _inverse(y[j] - nu, tau, a)
            total += p[j]
            slope += bend
        excess = total - 1.0
        if excess >= 0.0:  # nu is a lower bound: what is 0 stays 0
            kept = 0
            for c in range(n):
                live[kept] = live[c]
                kept += p[live[c]] > 0.0
            n = kept
        if abs(excess) <= _ROUNDING * size:
            break
        if excess > 0.0:
            low = nu
        else:
            high = nu
        new = nu + excess / slope if slope > 0.0 else high
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - nu) <= _ROUNDING * (abs(nu) + 1.0):
            break
        nu = new
    for j in range(size):
        p[j] /= total


@njit(cache=True, nogil=True, error_model="numpy")
def _fermi_dirac_prox(y, tau):
    """sigmoid(u) with sigmoid(u) + tau u = y."""
    low, high = (y - 1.0) / tau, y / tau
    u = min(max((y - 0.5) / (tau + 0.25), low), high)
    p = 0.5
    for _ in range(200):
        small = math.exp(-abs(u))
        p = 1.0 / (1.0 + small)
        slope = small * p * p
        if u < 0.0:
            p = small * p
        excess = p + tau * u - y
        if excess > 0.0:
            high = u
        else:
            low = u
        new = u - excess / (slope + tau)
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - u) <= _ROUNDING * (abs(u) + 1e-3):
            break
        u = new
    return p


@njit(cache=True, nogil=True, error_model="numpy")
def prox_row(kind, y, tau, a, p, live):
    """The prox of one row, by the kind of its entropy."""
    if kind == TSALLIS:
        _simplex_prox(y, tau, a, p, live)
    elif kind == FERMI_DIRAC:
        for j in range(y.size):
            p[j] = _fermi_dirac_prox(y[j], tau)
    else:
        for j in range(y.size):
            p[j] = min(max((y[j] + tau) / (1.0 + 2.0 * tau), 0.0), 1.0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _scores(values, columns, first, last, W, theta):
    """theta += x'W, two features at a time."""
    t = first
    while t + 1 < last:
        x0, x1 = values[t], values[t + 1]
        k0, k1 = t - first, t + 1 - first
        if columns.size > 0:
            k0, k1 = columns[t], columns[t + 1]
        for j in range(theta.size):
            theta[j] += x0 * W[k0, j] + x1 * W[k1, j]
        t += 2
    if t < last:
        k0 = columns[t] if columns.size > 0 else t - first
        for j in range(theta.size):
            theta[j] += values[t] * W[k0, j]


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def _weight(r, l1, inverse):
    """w = -grad V(r) of an elastic penalty, ``inverse`` = 1/l2."""
    return -math.copysign(max(abs(r) - l1, 0.0), r) * inverse


@njit(cache=True, nogil=True, error_model="numpy")
def _move(values, columns, first, last, change, changed, n, l1, inverse, R, W):
    """r += x change' and w = -grad V(r) for the first n outputs in ``changed``."""
    for t in range(first, last):
        x = values[t]
        k = columns[t] if columns.size > 0 else t - first
        if n == change.size:
            for j in range(n):
                r = R[k, j] + x * change[j]
                R[k, j] = r
                W[k, j] = _weight(r, l1[k, j], inverse[k, j])
        else:
            for c in range(n):
                j = changed[c]
                r = R[k, j] + x * change[j]
                R[k, j] = r
                W[k, j] = _weight(r, l1[k, j], inverse[k, j])


@njit(cache=True, nogil=True, error_model="numpy")
def pass_over(
    order,
    kind,
    a,
    temperature,
    cost,
    values,
    columns,
    offsets,
    weights,
    steps,
    l1,
    inverse,
    P,
    R,
    W,
):
    """p_i <- prox_{tau_i Omega}(p_i + tau_i theta_i) for the rows in order; those that moved.

    ``steps`` are the tau_i, ``inverse`` is 1/l2. Returns how many of ``order``, put at its front,
    have changed.
    """
    size = P.shape[1]
    theta, y, p = np.empty(size), np.empty(size), np.empty(size)
    changed = np.empty(size, np.int64)
    moved = 0
    for o in range(order.size):
        i = order[o]
        first, last = offsets[i], offsets[i + 1]
        for j in range(size):
            theta[j] = cost[i, j] if cost.shape[0] > 1 else cost[0, j]
        _scores(values, columns, first, last, W, theta)
        tau = steps[i]
        for j in range(size):
            y[j] = P[i, j] + tau * theta[j]
        prox_row(kind, y, tau * temperature, a, p, changed)
        n, largest = 0, 0.0
        for j in range(size):
            change = p[j] - P[i, j]
            if change != 0.0:
                changed[n] = j
                n += 1
                y[j] = weights[i] * change
                largest = max(largest, abs(change))
        if largest <= _ROUNDING:
            continue
        copy(p, P[i])
        _move(values, columns, first, last, y, changed, n, l1, inverse, R, W)
        order[moved] = i
        moved += 1
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def pairwise_pass(order, cost, values, columns, offsets, weights, steps, l1, inverse, P, R, W):
    """Pairwise Frank-Wolfe steps of a hinge: from the lowest score in use to the highest.

    ||e_j - e_k||^2 = 2, so the exact step is tau_i (theta_j - theta_k)/2, and p_k at most.
    """
    size = P.shape[1]
    theta, change = np.empty(size), np.zeros(size)
    pair = np.empty(2, np.int64)
    moved = 0
    for o in range(order.size):
        i = order[o]
        first, last = offsets[i], offsets[i + 1]
        for j in range(size):
            theta[j] = cost[i, j] if cost.shape[0] > 1 else cost[0, j]
        _scores(values, columns, first, last, W, theta)
        best, worst = 0, -1
        for j in range(size):
            if theta[j] > theta[best]:
                best = j
            if P[i, j] > 0.0 and (worst < 0 or theta[j] < theta[worst]):
                worst = j
        mass = min(P[i, worst], 0.5 * steps[i] * (theta[best] - theta[worst]))
        if best == worst or mass <= _ROUNDING:
            continue
        P[i, best] += mass
        P[i, worst] = P[i, worst] - mass if mass < P[i, worst] else 0.0
        pair[0], pair[1] = best, worst
        change[best], change[worst] = weights[i] * mass, -weights[i] * mass
        _move(values, columns, first, last, change, pair, 2, l1, inverse, R, W)
        change[best], change[worst] = 0.0, 0.0
        order[moved] = i
        moved += 1
    return moved

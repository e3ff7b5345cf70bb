"""check_entropy: the Fenchel-Young inequality and what follows from it."""

from __future__ import annotations

import numpy as np

from maxent.core.domains import Simplex
from maxent.core.entropies import Entropy, MeasuredEntropy, Relative, Scaled
from maxent.core.losses import FenchelYoungLoss
from maxent.rows.arrays import Array, row_dot
from maxent.testing.inside import check_inside

_SCALES = (1e-5, 1e-2, 1.0, 30.0, 1e4)


def check_entropy(entropy: Entropy, size: int, random_state: int = 0) -> None:
    """Raise AssertionError where ``entropy`` breaks a property, on random rows of ``size``.

    Conjugacy (equality at the maximiser, inequality elsewhere, the subgradient inequality),
    derivatives by differences, the proximity operator at three steps, smoothness, margin, the link
    to a density, temperature, float32, maps that leave their set by no rounding at any scale
    (``check_inside``), -inf scores, leading shapes, independence of rows, and for a
    MeasuredEntropy what a base measure promises.

    Parameters
    ----------
    entropy : Entropy
        The entropy to check.
    size : int
        Entries of a row.
    random_state : int, default 0
        Seed of what is drawn.
    """
    rng = np.random.default_rng(random_state)
    points = _domain_points(entropy, size, rng)
    for scale in _SCALES:
        theta = np.minimum(scale * rng.normal(size=(6, size)), entropy.largest_score)
        _check_conjugacy(entropy, theta, points)
        _check_shapes(entropy, theta)
    theta = rng.normal(size=(6, size))
    if entropy.differentiable:
        _check_derivatives(entropy, theta, rng)
        _check_smoothness(entropy, theta, rng)
    if entropy.convex:
        _check_prox(entropy, theta)
    _check_temperature(entropy, theta)
    _check_float32(entropy, theta)
    if _row_free(entropy):
        the_map = f"the map of {entropy!r}"
        check_inside(entropy.domain, size, lambda x: _map(entropy, x), the_map, random_state)
    if isinstance(entropy.domain, Simplex):
        _check_simplex(entropy, theta, rng)
        _check_link(entropy, theta)
        if isinstance(entropy, MeasuredEntropy):
            _check_measure(entropy, theta, rng)


def _map(entropy: Entropy, scores: Array) -> Array:
    """The maximisers, of scores for which their float type can express them."""
    share = np.log(np.finfo(scores.dtype).max) / np.log(np.finfo(np.float64).max)
    limit = scores.dtype.type(share * entropy.largest_score)
    return np.asarray(entropy.conjugate(np.minimum(scores, limit))[1])


def _fail_if(wrong: bool, message: str) -> None:
    if wrong:
        raise AssertionError(message)


def _domain_points(entropy: Entropy, size: int, rng: np.random.Generator) -> Array:
    """Points of the domain: mixtures of a few maximisers of linear functions, or projections."""
    raw = rng.normal(size=(12, size)) * 3
    if not entropy.domain.bounded:
        return np.asarray(entropy.domain.project(raw))
    vertices = np.asarray(entropy.domain.argmax(raw))
    mixed = rng.dirichlet(np.full(12, 0.3), size=12) @ vertices
    return np.concatenate([vertices, mixed])


def _check_conjugacy(entropy: Entropy, theta: Array, points: Array) -> None:
    values, p = entropy.conjugate(theta)
    scale = 1 + np.abs(values) + row_dot(np.abs(theta), np.abs(p))
    _fail_if(not np.isfinite(values).all(), f"{entropy!r}: the conjugate is not finite")
    _fail_if(not entropy.domain.contains(p).all(), f"{entropy!r}: the maximiser left the domain")
    excess = values + entropy.value(p) - row_dot(theta, p)
    _fail_if(
        bool((np.abs(excess) > 1e-11 * scale).any()),
        f"{entropy!r}: Omega*(theta) + Omega(p) - <theta, p> = {np.abs(excess).max():.2e} at the "
        "maximiser, should be 0",
    )
    value_at_points = entropy_values(entropy, points, len(theta))
    slack = values[:, None] + value_at_points - theta @ points.T
    _fail_if(
        bool((slack < -1e-11 * scale[:, None]).any()),
        f"{entropy!r}: the Fenchel-Young inequality fails by {-slack.min():.2e}: p does not "
        "maximise <theta, p> - Omega(p)",
    )
    other = theta[::-1]
    below = values[::-1] - values - row_dot(other - theta, p)
    if _row_free(entropy):
        _fail_if(
            bool((below < -1e-11 * (scale + scale[::-1])).any()),
            f"{entropy!r}: p is not a subgradient of Omega* (by {-below.min():.2e})",
        )


def entropy_values(entropy: Entropy, points: Array, rows: int) -> Array:
    """Omega of every point for every row, (rows, points); rows matter for per-row costs."""
    if _row_free(entropy):
        return np.broadcast_to(entropy.value(points), (rows, len(points)))
    each = [entropy.value(np.tile(point, (rows, 1))) for point in points]
    return np.stack(each, axis=1)


def _row_free(entropy: Entropy) -> bool:
    """Whether all rows share one Omega (a cost or measure may come row by row)."""
    extra = getattr(entropy, "cost", getattr(entropy, "q0", np.empty(1)))
    return np.ndim(extra) < 2


def _check_shapes(entropy: Entropy, theta: Array) -> None:
    values, p = entropy.conjugate(theta)
    if not _row_free(entropy):
        return
    for i, row in enumerate(theta):
        one_value, one_p = entropy.conjugate(row)
        same = np.allclose(one_p, p[i], atol=1e-13) and np.isclose(one_value, values[i], rtol=1e-12)
        _fail_if(not same, f"{entropy!r}: row {i} depends on the other rows of the batch")
    cube = theta.reshape(2, 3, -1)
    values_3d, p_3d = entropy.conjugate(cube)
    right = values_3d.shape == (2, 3) and p_3d.shape == cube.shape
    _fail_if(not right, f"{entropy!r}: leading shape (2, 3) became {values_3d.shape}")
    _fail_if(
        not np.allclose(p_3d.reshape(theta.shape), p, atol=1e-13),
        f"{entropy!r}: the result depends on the leading shape",
    )


def _check_derivatives(entropy: Entropy, theta: Array, rng: np.random.Generator) -> None:
    p = entropy.conjugate(theta)[1]
    v = rng.normal(size=theta.shape)
    least, h = np.full(len(theta), np.inf), 0.0
    for h in (1e-7, 1e-6, 1e-5):  # a kink of p between the ends is left out from nearer
        ahead, behind = entropy.conjugate(theta + h * v), entropy.conjugate(theta - h * v)
        slope = (ahead[0] - behind[0]) / (2 * h)
        # Omega* is a difference of terms as large as Omega, whose last digits h makes larger
        rounding = np.finfo(float).eps * (np.abs(ahead[0]) + np.abs(entropy.value(p))) / h
        least = np.minimum(least, np.abs(slope - row_dot(p, v)) - rounding)
    error = least.max()
    _fail_if(
        error > 1e-6, f"{entropy!r}: the gradient of Omega* differs from differences by {error:.2e}"
    )
    forward, backward = (ahead[1] - p) / h, (p - behind[1]) / h
    kink = np.abs(forward - backward).max(axis=1) > 1e-3 * (1 + np.abs(forward).max(axis=1))
    product = entropy.hvp(theta, p, v)
    error = np.abs(product - (forward + backward) / 2)[~kink].max(initial=0.0)
    _fail_if(error > 1e-4, f"{entropy!r}: hvp differs from differences by {error:.2e}")
    # the Jacobian is symmetric and positive semidefinite
    u = rng.normal(size=theta.shape)
    asymmetry = np.abs(row_dot(u, product) - row_dot(v, entropy.hvp(theta, p, u)))[~kink]
    _fail_if(
        asymmetry.max(initial=0.0) > 1e-5, f"{entropy!r}: the Jacobian in hvp is not symmetric"
    )
    bend = row_dot(v, product)[~kink]
    _fail_if(bend.min(initial=0.0) < -1e-6, f"{entropy!r}: the Jacobian in hvp is not >= 0")
    if entropy.has_curvature:
        diagonal, spike = entropy.curvature(theta, p)
        spike = np.zeros_like(theta) if spike is None else spike
        built = diagonal * v - spike * row_dot(spike, v)[:, None]
        # what cancels between the two terms
        rounding = np.abs(diagonal * v) + np.abs(spike) * row_dot(np.abs(spike), np.abs(v))[:, None]
        error = (np.abs(built - product) - 16 * np.finfo(float).eps * rounding).max()
        _fail_if(error > 1e-9, f"{entropy!r}: curvature and hvp differ by {error:.2e}")


def _check_smoothness(entropy: Entropy, theta: Array, rng: np.random.Generator) -> None:
    if not np.isfinite(entropy.smoothness):
        return
    other = theta + 0.3 * rng.normal(size=theta.shape)
    moved = np.linalg.norm(entropy.conjugate(theta)[1] - entropy.conjugate(other)[1], axis=1)
    allowed = entropy.smoothness * np.linalg.norm(theta - other, axis=1)
    _fail_if(
        bool((moved > allowed * (1 + 1e-9)).any()),
        f"{entropy!r}: the map moves faster than smoothness {entropy.smoothness} allows",
    )


def _check_prox(entropy: Entropy, eta: Array) -> None:
    for tau in (0.3, 1.0, 4.0):
        try:
            p = np.asarray(entropy.prox(eta, tau))
        except NotImplementedError:
            _fail_if(entropy.has_prox, f"{entropy!r}: has_prox promises what prox refuses")
            return
        _fail_if(not entropy.has_prox, f"{entropy!r}: prox is there, has_prox says that it is not")
        _fail_if(
            not entropy.domain.contains(p, 1e-8).all(), f"{entropy!r}: prox({tau}) left the domain"
        )
        # optimal iff (eta - p)/tau is a subgradient of Omega at p: equality in Fenchel-Young
        slope = (eta - p) / tau
        excess = entropy.conjugate(slope)[0] + entropy.value(p) - row_dot(slope, p)
        _fail_if(
            np.abs(excess).max() > 1e-7,
            f"{entropy!r}: prox at tau = {tau} misses its optimality condition by "
            f"{np.abs(excess).max():.2e}",
        )


def _check_temperature(entropy: Entropy, theta: Array) -> None:
    """(t Omega)*(theta) = t Omega*(theta/t), Prop. 1.4 and 2.5."""
    values, p = Scaled(entropy, 0.5).conjugate(theta)
    plain_values, plain_p = entropy.conjugate(theta / 0.5)
    _fail_if(
        not (np.allclose(values, 0.5 * plain_values) and np.allclose(p, plain_p, atol=1e-12)),
        f"{entropy!r}: temperature scaling fails",
    )


def _check_float32(entropy: Entropy, theta: Array) -> None:
    single = theta.astype(np.float32)
    p = np.asarray(entropy.conjugate(single)[1])
    _fail_if(p.dtype != np.float32, f"{entropy!r}: float32 scores gave {p.dtype}")
    exact = np.asarray(entropy.conjugate(single.astype(np.float64))[1])
    error = np.abs(p - exact).max()
    if entropy.differentiable:
        allowed = 5e-6 * max(1.0, np.abs(exact).max())  # masses of couplings are of any size
        _fail_if(error > allowed, f"{entropy!r}: float32 is off by {error:.2e}")


def _check_simplex(entropy: Entropy, theta: Array, rng: np.random.Generator) -> None:
    values, p = entropy.conjugate(theta)
    shifted_values, shifted_p = entropy.conjugate(theta + 3.0)
    _fail_if(
        not (np.allclose(shifted_values, values + 3.0) and np.allclose(shifted_p, p, atol=1e-9)),
        f"{entropy!r}: adding a constant to the scores changes more than the value",
    )
    size = theta.shape[1]
    if size > 2 and _row_free(entropy):
        masked = theta.copy()
        masked[:, 0] = -np.inf
        hidden = entropy.conjugate(masked)
        finite = np.isfinite(hidden[0]).all() and np.isfinite(hidden[1]).all()
        _fail_if(
            not finite or bool((np.asarray(hidden[1])[:, 0] > 1e-9).any()),
            f"{entropy!r}: an entry with score -inf must get probability 0 and finite results",
        )
    if entropy.margin is not None:
        _check_margin(entropy, entropy.margin, size)


def _check_margin(entropy: Entropy, margin: float, size: int) -> None:
    """The loss is 0 at the margin and not before it, as near as rounding lets one see."""
    loss = FenchelYoungLoss(entropy)

    def at(share: float) -> float:
        scores = np.zeros(size)
        scores[1] = share * margin
        return float(loss.value(scores, 1))

    start = at(0.0)

    def visible(share: float) -> bool:
        return at(share) >= 1e-12 * start

    def check(share: float, positive: bool) -> None:
        wrong = f"loss {at(share):.2e} at {share:.3g} of its margin {margin}"
        _fail_if(visible(share) != positive, f"{entropy!r}: {wrong}")

    check(1.0, False)
    if not (visible(0.25) and at(0.25) < start):
        if margin < 25 * start:  # beyond, a loss may be below rounding at a quarter
            check(0.25, True)
        return
    # Near the margin the loss is a power of 1 - share, so steep for Tsallis near alpha = 1 that it
    # is below rounding before it: on to where the power that the last two shares show leaves these.
    far, near = 0.0, 0.25
    for left in (1e-4, 1e-8, 4e-12):
        power = np.log(at(far) / at(near)) / np.log((1 - far) / (1 - near))
        share = 1 - (1 - near) * (left * start / at(near)) ** (1 / power)
        if share > near:
            far, near = near, min(share, 0.97)
            check(near, True)
        if near == 0.97 or at(near) >= at(far):
            return


def _check_link(entropy: Entropy, theta: Array) -> None:
    """The map is the one that ``link_power`` promises: a line through two points gives the rest."""
    power = entropy.link_power
    if power is None:
        return
    p, q0 = np.asarray(entropy.conjugate(theta)[1]), getattr(entropy, "q0", np.ones(theta.shape))
    for score, row, q in zip(theta, p, np.broadcast_to(q0, p.shape), strict=True):
        ratio = row / q
        inside = ratio > 0
        low, high = score[inside].min(), score.max()
        if power == 0:
            expected = ratio.max() * np.exp(score - high)
        elif np.isinf(power):
            expected = np.where(score >= low, ratio.max(), 0.0)
        elif low == high:
            continue
        else:
            ends = np.array([ratio[score == low][0], ratio.max()]) ** power
            line = ends[0] + (ends[1] - ends[0]) * (score - low) / (high - low)
            expected = np.where(score >= low, np.maximum(line, 1e-300) ** (1 / power), 0.0)
            _fail_if(
                bool((line[~inside] > 1e-9).any()),
                f"{entropy!r}: link_power {power} promises mass where the map has none",
            )
        _fail_if(
            not np.allclose(ratio, expected, rtol=1e-6, atol=1e-9),
            f"{entropy!r}: the map is not of the form that link_power {power} promises",
        )
        slope = entropy.link_slope(row, q)
        if slope is not None and low < high:
            rise = (ratio.max() ** power - ratio[score == low][0] ** power) / (high - low)
            _fail_if(
                not np.isclose(slope, rise, rtol=1e-6),
                f"{entropy!r}: link_slope {slope}, and the map rises by {rise}",
            )


def _check_measure(entropy: MeasuredEntropy, theta: Array, rng: np.random.Generator) -> None:
    """Scores of 0 give back the base measure, and a cell may be split into two halves."""
    size = theta.shape[1]
    q0 = rng.dirichlet(np.full(size, 3.0))
    relative = Relative(entropy, q0)
    _fail_if(
        not np.allclose(relative.conjugate(np.zeros(size))[1], q0, atol=1e-9),
        f"{entropy!r}: relative to q0, scores of 0 do not give q0",
    )
    last, half = np.append(np.arange(size), size - 1), np.append(q0[:-1], [q0[-1] / 2] * 2)
    values, p = relative.conjugate(theta)
    split_values, split_p = Relative(entropy, half).conjugate(theta[:, last])
    joined = np.column_stack([split_p[:, : size - 1], split_p[:, size - 1 :].sum(axis=1)])
    _fail_if(
        not (np.allclose(split_values, values) and np.allclose(joined, p, atol=1e-8)),
        f"{entropy!r}: relative to q0, splitting a cell into two halves changes the map",
    )

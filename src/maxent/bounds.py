"""The papers' guarantees as numbers (density paper, section 5).

A sample of m independent draws from an unknown pi gives the moments mu = pi~[f]. Everything follows
from the deviation pi~[f] - pi[f]: where it lies in a region, the weights w_hat fitted with that
region as potential lose at most an *excess* over any other weights w*,

    L_pi(w_hat) <= L_pi(w*) + excess.

``*_beta``, ``*_parameters`` and ``quadratic_strength`` are the parameters of the potentials for
which this holds with probability 1 - delta; ``*_excess`` are the right-hand sides. They need no
knowledge of pi but of the size of w*. ``printable_bound`` needs only what was fitted.

L is the log loss L_pi(w) = log Z_w - <w, pi[f]>, relative to the default distribution. None of the
arguments uses more than that it is convex in w and linear in pi: they hold for the Fenchel-Young
loss Omega*(F'w) - <w, pi[f]> of every entropy. For weights that minimise the dual up to a duality
gap, add the gap to the excess.

What is assumed throughout: independent draws, and features chosen without looking at them (or, for
monotone features of a variable, ``dkw_beta``, chosen freely).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxent._rows import Array
from maxent.potentials import Potential

Numbers = float | Sequence[float] | Array


class SmoothBoxParameters(NamedTuple):
    """What ``SmoothBox`` takes, in its order."""

    beta: float
    smoothing: float


class ElasticParameters(NamedTuple):
    """What ``ElasticNet`` takes, in its order."""

    beta: float
    strength: float


# -- checks ----------------------------------------------------------------------------------------


def _float(value: Any) -> float:
    """The number, or NaN where it is none: NaN passes no comparison."""
    array = np.asarray(value)
    return float(array) if array.ndim == 0 and array.dtype.kind in "iuf" else np.nan


def _delta(delta: float) -> float:
    number = _float(delta)
    if not 0 < number < 1:
        raise ValueError(f"delta, the probability of failure, must lie in (0, 1), got {delta!r}")
    return number


def _count(name: str, value: Any, least: int = 1) -> int:
    number = _float(value)
    if not (number >= least and number.is_integer()):
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(number)


def _size(name: str, value: Any, positive: bool = False) -> float:
    number = _float(value)
    if not (np.isfinite(number) and (number > 0 if positive else number >= 0)):
        least = "> 0" if positive else ">= 0"
        raise ValueError(f"{name} must be a finite number {least}, got {value!r}")
    return number


def _sizes(name: str, value: Numbers) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1 or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"{name} must be a finite number >= 0 or a vector of them, got {value!r}")
    return array


def _vector(name: str, value: Numbers, length: int | None = None) -> Array:
    array = np.asarray(value, dtype=np.float64)
    wrong = length is not None and array.shape != (length,)
    if array.ndim != 1 or wrong or not np.isfinite(array).all():
        expected = "vector" if length is None else f"vector of {length} numbers"
        raise ValueError(f"{name} must be a finite {expected}, got {value!r}")
    return array


def _check_fits(name: str, array: Array, n: int) -> None:
    if array.ndim and array.size != n:
        raise ValueError(
            f"{name} must be a number or have one entry per weight, {n}, got {array.size}"
        )


# -- how far the sample's moments may be from the true ones ----------------------------------------


def hoeffding_beta(n: int, m: int, delta: float, diameter: float = 1.0) -> float:
    """beta = D sqrt(log(2n/delta) / 2m): |pi~[f_j] - pi[f_j]| <= beta for all n features.

    For features with values in an interval of length D = ``diameter``, 1 for [0, 1] (Corollary 5;
    with a diameter as in Corollary 9). Hoeffding's inequality and a union bound.

    >>> round(hoeffding_beta(n=20, m=100, delta=0.05), 4)
    0.1828
    """
    n, m, delta = _count("n", n), _count("m", m), _delta(delta)
    return _size("diameter", diameter) * float(np.sqrt(np.log(2 * n / delta) / (2 * m)))


def vc_beta(d: int, m: int, delta: float) -> float:
    """beta = sqrt((d log(e m^2/d) + log(1/delta) + log(4 e^8)) / 2m), Corollary 6.

    For binary features of a class of VC dimension d <= m^2, however many. For thresholds
    ``dkw_beta`` is less than half as large.

    >>> round(vc_beta(d=2, m=100, delta=0.05), 4)
    0.3963
    """
    d, m, delta = _count("d", d), _count("m", m), _delta(delta)
    if d > m**2:
        raise ValueError(f"the VC dimension must be at most m^2 = {m**2}, got d = {d}")
    total = d * (1 + 2 * np.log(m) - np.log(d)) - np.log(delta) + np.log(4) + 8
    return float(np.sqrt(total / (2 * m)))


def bernstein_beta(sd: Numbers, n: int, m: int, delta: float) -> Array:
    """beta_j = sqrt(6e (sd_j^2 + sqrt(log(2n/delta) / 2m) + e/6)) + e, e = log(4n/delta) / 3m.

    For n features in [0, 1] with sample standard deviations sd_j (divisor m - 1), one number or a
    vector: features that vary little may deviate little. Corollary 7 as its proof in Appendix A
    has it; the printed line lost the extent of the root.

    >>> bernstein_beta([0.0, 0.5], n=20, m=1000, delta=0.05).round(4)
    array([0.0318, 0.0699])
    """
    n, m, delta = _count("n", n), _count("m", m, least=2), _delta(delta)
    sd = _sizes("sd", sd)
    most = 0.5 * np.sqrt(m / (m - 1))
    if (sd > most * (1 + 1e-9)).any():
        raise ValueError(
            f"{m} values in [0, 1] have a standard deviation of at most {most:.4g}, "
            f"got {sd.max():.4g}: scale the features to [0, 1]"
        )
    e = np.log(4 * n / delta) / (3 * m)
    variance = sd**2 + np.sqrt(np.log(2 * n / delta) / (2 * m))
    return np.sqrt(6 * e * (variance + e / 6)) + e


def dkw_beta(k: int, m: int, delta: float) -> float:
    """beta = sqrt(log(2k/delta) / 2m), for all monotone [0, 1] features of k variables at once.

    All thresholds, all hinges, the variables themselves, with knots wherever one likes, also at
    the sample's own values. The inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's
    constant bounds sup_t |F~(t) - F(t)| of one variable's distribution functions by beta with
    probability 1 - delta/k. A monotone f with values in [0, 1] is the mean over t in [0, 1] of the
    indicators of {f > t}, which are half-lines of the variable, so its mean deviates no more.

    >>> round(dkw_beta(k=5, m=100, delta=0.05), 4)
    0.1628
    """
    return hoeffding_beta(_count("k", k), m, delta)


def mixed_beta(
    monotone: Any, n_variables: int, m: int, delta: float, sd: Numbers | None = None
) -> Array:
    """One beta per [0, 1] feature, where some are monotone in a single variable and some are not.

    All features that a fit could choose from belong here, not only those it has chosen:
    ``monotone`` says which are (linear, threshold, hinge; not quadratic, product or category) and
    ``n_variables`` is k, the number of variables whose monotone features it could choose. The event
    of ``dkw_beta`` for each of the k variables and of Hoeffding's inequality for each of the other
    n' features fails with probability delta / (k + n') at most if
    beta = sqrt(log(2 (k + n')/delta) / 2m). By the union bound all hold together with probability
    1 - delta: delta is split k : n' between the groups.

    With the sample standard deviations ``sd`` half of delta goes to this event and half to that of
    ``bernstein_beta`` for all features. Where both hold so does the smaller beta of each feature.
    Monotone features must then be fixed in advance too, and n counts all of them.

    >>> mixed_beta([True, True, True, False], n_variables=1, m=100, delta=0.05).round(4)
    array([0.148, 0.148, 0.148, 0.148])
    >>> mixed_beta([True, False], 1, m=5000, delta=0.05, sd=[0.01, 0.5]).round(4)
    array([0.0076, 0.0225])
    """
    monotone = np.asarray(monotone)
    if monotone.ndim != 1 or monotone.dtype != bool or not monotone.size:
        raise ValueError(f"monotone must be a vector of booleans, got {monotone!r}")
    count = int(monotone.sum())
    events = _count("n_variables", n_variables, least=min(count, 1)) + monotone.size - count
    if sd is None:
        return np.full(monotone.size, hoeffding_beta(events, m, delta))
    sd = _vector("sd", sd, monotone.size)
    half = _delta(delta) / 2
    return np.minimum(hoeffding_beta(events, m, half), bernstein_beta(sd, monotone.size, m, half))


def practical_beta(sd: Numbers, m: int, beta0: float = 1.0) -> Array:
    """beta_j = beta0 sd_j / sqrt(m), the form tuned in the paper's experiments (section 8).

    No guarantee: at beta0 = 1 each deviation exceeds its beta in about a third of the samples.

    >>> practical_beta([0.1, 0.5], m=100)
    array([0.01, 0.05])
    """
    sd = _sizes("sd", sd)
    return _size("beta0", beta0) * sd / np.sqrt(_count("m", m))


def ball_beta(diameter: float, m: int, delta: float) -> float:
    """beta = D (1 + sqrt(log(1/delta))) / sqrt(2m): ||pi~[f] - pi[f]||_2 <= beta, Lemma 10.

    D is the l2 diameter of the feature vectors, see ``l2_diameter_bound``; the number of features
    does not matter. The radius of the ``Ball`` of Theorem 11.

    >>> round(ball_beta(diameter=2.0, m=100, delta=0.05), 4)
    0.3862
    """
    diameter, m = _size("diameter", diameter), _count("m", m)
    return diameter * (1 + float(np.sqrt(-np.log(_delta(delta))))) / float(np.sqrt(2 * m))


def l2_diameter_bound(features: Any) -> float:
    """An upper bound on D_2 = sup ||f(x) - f(x')||_2 over the cells, from their features.

    ``features`` is the matrix (cells, features). Twice the largest distance from the middle of the
    features' ranges: never over sqrt(n) for n features in [0, 1], and less where few are 1 at once.

    >>> round(l2_diameter_bound([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 4)
    1.4142
    """
    matrix = np.asarray(features, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(f"features must be a finite matrix (cells, features), got {matrix.shape}")
    middle = (matrix.min(axis=0) + matrix.max(axis=0)) / 2
    return 2 * float(np.linalg.norm(matrix - middle, axis=1).max())


# -- the excess over any other weights: for every potential ----------------------------------------


def absolute_excess(potential: Potential, true_moments: Numbers, w_star: Numbers) -> float:
    """2 U(pi[f]) + U*(w*) + U*(-w*), Lemma 3 (12), U an absolute potential, of the moments.

    The problem is then Problem(entropy, features, U, target=0): its residual is F p itself.

    >>> from maxent.potentials import Box, ShiftedPotential
    >>> around_sample = ShiftedPotential(Box(0.1), [0.5])  # |0.5 - u| <= 0.1
    >>> round(absolute_excess(around_sample, true_moments=[0.45], w_star=[2.0]), 4)
    0.4
    """
    w_star = _vector("w_star", w_star)
    return _both_sides(potential, _vector("true_moments", true_moments, w_star.size), w_star)


def potential_excess(potential: Potential, deviation: Numbers, w_star: Numbers) -> float:
    """2 V(-d) + V*(w*) + V*(-w*) with d = pi~[f] - pi[f], Lemma 3 (13), for any potential.

    The paper's relative potential U_{pi~} takes pi~[f] - p[f], the opposite of the residual
    r = F p - mu of V: V(r) = U_{pi~}(-r), V*(-w) = U_{pi~}*(w).

    >>> from maxent.potentials import Quadratic
    >>> round(potential_excess(Quadratic(0.5), deviation=[0.1], w_star=[2.0]), 4)
    2.02
    """
    w_star = _vector("w_star", w_star)
    return _both_sides(potential, -_vector("deviation", deviation, w_star.size), w_star)


def _both_sides(potential: Potential, point: Array, w_star: Array) -> float:
    penalties = potential.conjugate(w_star) + potential.conjugate(-w_star)
    return 2 * potential.value(point) + penalties


def weights_excess(
    potential: Potential, deviation: Numbers, w_star: Numbers, w_hat: Numbers
) -> float:
    """<w_hat - w*, d> + V*(-w*) - V*(-w_hat) with d = pi~[f] - pi[f], Lemma 3 (14).

    The sharpest of the three: it knows the fitted weights, and can be negative.

    >>> from maxent.potentials import Quadratic
    >>> round(weights_excess(Quadratic(0.5), [0.1], w_star=[2.0], w_hat=[1.5]), 4)
    0.3875
    """
    w_star = _vector("w_star", w_star)
    w_hat = _vector("w_hat", w_hat, w_star.size)
    deviation = _vector("deviation", deviation, w_star.size)
    penalties = potential.conjugate(-w_star) - potential.conjugate(-w_hat)
    return float((w_hat - w_star) @ deviation) + penalties


def region_excess(region: Potential, w_star: Numbers) -> float:
    """2 V*(w*), Theorem 4: V the indicator of a symmetric region that contains the deviation.

    ``Box``, ``Ball``, ``NormBall`` with a beta that holds. Corollaries 5 to 7 and Theorem 11 are
    this with their own beta.

    >>> from maxent.potentials import Box
    >>> round(region_excess(Box([0.1, 0.2]), w_star=[1.0, -2.0]), 4)
    1.0
    """
    return 2 * region.conjugate(_vector("w_star", w_star))


def smooth_region_excess(beta: Numbers, smoothing: Numbers, w_star: Numbers) -> float:
    """2 sum beta_j |w*_j| + 2 log 2 sum alpha_j beta_j, Theorem 8, for ``SmoothBox``.

    alpha = ``smoothing``. It holds where |pi~[f_j] - pi[f_j]| <= beta_j for all features.

    >>> round(smooth_region_excess([0.1, 0.2], smoothing=0.01, w_star=[1.0, -2.0]), 4)
    1.0042
    """
    w_star, beta, smoothing = (
        _vector("w_star", w_star),
        _sizes("beta", beta),
        _sizes("smoothing", smoothing),
    )
    _check_fits("beta", beta, w_star.size)
    _check_fits("smoothing", smoothing, w_star.size)
    return 2 * float(np.sum(beta * (np.abs(w_star) + np.log(2) * smoothing)))


def quadratic_deviation_excess(strength: float, deviation: Numbers, w_star: Numbers) -> float:
    """||d||_2^2 / alpha + alpha/2 ||w*||_2^2 with d = pi~[f] - pi[f], Lemma 12, ``Quadratic``.

    alpha = ``strength``. Half the penalty of ``potential_excess``.

    >>> round(quadratic_deviation_excess(0.5, deviation=[0.1], w_star=[2.0]), 4)
    1.02
    """
    strength, w_star = _size("strength", strength, positive=True), _vector("w_star", w_star)
    deviation = _vector("deviation", deviation, w_star.size)
    return float(deviation @ deviation) / strength + strength / 2 * float(w_star @ w_star)


# -- the excess over any other weights: with probability 1 - delta ---------------------------------


def hoeffding_excess(l1_norm: float, n: int, m: int, delta: float, diameter: float = 1.0) -> float:
    """||w*||_1 D sqrt(2 log(2n/delta) / m), Corollary 5: ``Box(hoeffding_beta(...))``.

    >>> round(hoeffding_excess(l1_norm=3.0, n=20, m=100, delta=0.05), 4)
    1.0969
    """
    return 2 * _size("l1_norm", l1_norm) * hoeffding_beta(n, m, delta, diameter)


def vc_excess(l1_norm: float, d: int, m: int, delta: float) -> float:
    """||w*||_1 sqrt(2 (d log(e m^2/d) + log(1/delta) + log(4 e^8)) / m), Corollary 6.

    >>> round(vc_excess(l1_norm=3.0, d=2, m=100, delta=0.05), 4)
    2.378
    """
    return 2 * _size("l1_norm", l1_norm) * vc_beta(d, m, delta)


def bernstein_excess(w_star: Numbers, sd: Numbers, n: int, m: int, delta: float) -> float:
    """2 sum beta_j |w*_j|, Corollary 7: ``Box(bernstein_beta(...))``.

    >>> round(bernstein_excess([1.0, -2.0], sd=[0.0, 0.5], n=20, m=1000, delta=0.05), 4)
    0.3431
    """
    w_star, beta = _vector("w_star", w_star), bernstein_beta(sd, n, m, delta)
    _check_fits("sd", np.asarray(beta), w_star.size)
    return 2 * float(np.sum(beta * np.abs(w_star)))


def dkw_excess(l1_norm: float, k: int, m: int, delta: float) -> float:
    """||w*||_1 sqrt(2 log(2k/delta) / m): ``Box(dkw_beta(...))`` in Theorem 4.

    >>> round(dkw_excess(l1_norm=3.0, k=5, m=100, delta=0.05), 4)
    0.9766
    """
    return 2 * _size("l1_norm", l1_norm) * dkw_beta(k, m, delta)


def smooth_box_parameters(
    l1_norm: float, epsilon: float, n: int, m: int, delta: float, diameter: float = 1.0
) -> SmoothBoxParameters:
    """beta = D sqrt(log(2n/delta) / 2m), smoothing alpha = epsilon L_1 / (n log 2), Corollary 9.

    For weights up to ||w*||_1 <= L_1 = ``l1_norm``, features within an l_inf diameter D.

    >>> beta, smoothing = smooth_box_parameters(3.0, epsilon=0.1, n=20, m=100, delta=0.05)
    >>> round(beta, 4), round(smoothing, 4)
    (0.1828, 0.0216)
    """
    beta = hoeffding_beta(n, m, delta, diameter)
    room = _size("epsilon", epsilon, positive=True) * _size("l1_norm", l1_norm, positive=True)
    return SmoothBoxParameters(beta, room / (n * float(np.log(2))))


def smooth_box_excess(
    l1_norm: float, epsilon: float, n: int, m: int, delta: float, diameter: float = 1.0
) -> float:
    """(1 + epsilon) L_1 D sqrt(2 log(2n/delta) / m), Corollary 9, for ||w*||_1 <= L_1.

    The fit is with ``SmoothBox(*smooth_box_parameters(...))``.

    >>> round(smooth_box_excess(3.0, epsilon=0.1, n=20, m=100, delta=0.05), 4)
    1.2066
    """
    whole = 1 + _size("epsilon", epsilon, positive=True)
    return whole * hoeffding_excess(l1_norm, n, m, delta, diameter)


def ball_excess(l2_norm: float, diameter: float, m: int, delta: float) -> float:
    """||w*||_2 D (sqrt 2 + sqrt(2 log(1/delta))) / sqrt(m), Theorem 11: ``Ball(ball_beta(...))``.

    >>> round(ball_excess(l2_norm=1.5, diameter=2.0, m=100, delta=0.05), 4)
    1.1586
    """
    return 2 * _size("l2_norm", l2_norm) * ball_beta(diameter, m, delta)


def quadratic_strength(l2_norm: float, diameter: float, m: int, s: float = 1.0) -> float:
    """alpha = s D / (L_2 sqrt(m)), Theorem 13, the strength of ``Quadratic``.

    For weights up to ||w*||_2 <= L_2 = ``l2_norm``. s = 1 is best in expectation, and
    s = 1 + sqrt(log(1/delta)) with probability 1 - delta.

    >>> round(quadratic_strength(l2_norm=1.5, diameter=2.0, m=100), 4)
    0.1333
    """
    l2_norm, s = _size("l2_norm", l2_norm, positive=True), _size("s", s, positive=True)
    return (
        s * _size("diameter", diameter, positive=True) / (l2_norm * float(np.sqrt(_count("m", m))))
    )


def quadratic_excess(
    l2_norm: float, diameter: float, m: int, delta: float, s: float = 1.0
) -> float:
    """L_2 D / sqrt(m) (s + (1 + sqrt(log(1/delta)))^2 / s) / 2, Theorem 13, ||w*||_2 <= L_2.

    >>> round(quadratic_excess(l2_norm=1.5, diameter=2.0, m=100, delta=0.05), 4)
    1.2686
    """
    chance = (1 + float(np.sqrt(-np.log(_delta(delta))))) ** 2
    return _quadratic(l2_norm, diameter, m, s, chance)


def quadratic_expected_excess(l2_norm: float, diameter: float, m: int, s: float = 1.0) -> float:
    """L_2 D / sqrt(m) (s + 1/s) / 2, Theorem 13, for the mean of L_pi(w_hat) over samples.

    (14) and the mean of the deviation, 0, give half of the 1/s term: E[excess] <= V*(-w*) +
    E[V(-d)] for every potential.

    >>> round(quadratic_expected_excess(l2_norm=1.5, diameter=2.0, m=100), 4)
    0.3
    """
    return _quadratic(l2_norm, diameter, m, s, 1.0)


def _quadratic(l2_norm: float, diameter: float, m: int, s: float, chance: float) -> float:
    scale = _size("l2_norm", l2_norm) * _size("diameter", diameter) / np.sqrt(_count("m", m))
    s = _size("s", s, positive=True)
    return float(scale * (s + chance / s) / 2)


def elastic_parameters(
    l2_norm: float, l2_diameter: float, n: int, m: int, delta: float, diameter: float = 1.0
) -> ElasticParameters:
    """beta of ``hoeffding_beta``, alpha = D_2 min{1/sqrt 2, sqrt(m delta)} / (L_2 sqrt m).

    The beta and strength alpha of ``ElasticNet`` in Theorem 15, for ||w*||_2 <= L_2 = ``l2_norm``,
    D_inf = ``diameter`` and D_2 = ``l2_diameter``. alpha is printed with a further
    1/2, from which the stated expectation does not follow.

    >>> beta, strength = elastic_parameters(1.5, l2_diameter=2.0, n=20, m=100, delta=0.05)
    >>> round(beta, 4), round(strength, 4)
    (0.1828, 0.0943)
    """
    beta = hoeffding_beta(n, m, delta, diameter)
    l2_norm = _size("l2_norm", l2_norm, positive=True)
    extra = _elastic_extra(l2_norm, _size("l2_diameter", l2_diameter, positive=True), m, delta)
    return ElasticParameters(beta, extra / l2_norm**2)


def elastic_excess(
    l1_norm: float,
    l2_norm: float,
    l2_diameter: float,
    n: int,
    m: int,
    delta: float,
    diameter: float = 1.0,
) -> float:
    """||w*||_1 D_inf sqrt(2 log(2n/delta) / m) + 1/2 L_2 D_2/sqrt(m) min{1/sqrt 2, sqrt(m delta)}.

    Theorem 15 with probability 1 - delta, for ||w*||_2 <= L_2 = ``l2_norm`` and the fit with
    ``ElasticNet(*elastic_parameters(...))``.

    >>> round(elastic_excess(3.0, 1.5, l2_diameter=2.0, n=20, m=100, delta=0.05), 4)
    1.203
    """
    extra = _elastic_extra(_size("l2_norm", l2_norm), l2_diameter, m, delta)
    return hoeffding_excess(l1_norm, n, m, delta, diameter) + extra / 2


def elastic_expected_excess(
    l1_norm: float,
    l2_norm: float,
    l2_diameter: float,
    n: int,
    m: int,
    delta: float,
    diameter: float = 1.0,
) -> float:
    """||w*||_1 D_inf sqrt(2 log(2n/delta) / m) + L_2 D_2/sqrt(m) min{1/sqrt 2, sqrt(m delta)}.

    Theorem 15 for the mean of L_pi(w_hat) over samples; delta is a parameter of the fit only.

    >>> round(elastic_expected_excess(3.0, 1.5, l2_diameter=2.0, n=20, m=100, delta=0.05), 4)
    1.3091
    """
    extra = _elastic_extra(_size("l2_norm", l2_norm), l2_diameter, m, delta)
    return hoeffding_excess(l1_norm, n, m, delta, diameter) + extra


def _elastic_extra(l2_norm: float, l2_diameter: float, m: int, delta: float) -> float:
    """L_2 D_2 / sqrt(m) min{1/sqrt 2, sqrt(m delta)} = alpha L_2^2."""
    m, share = _count("m", m), min(np.sqrt(0.5), np.sqrt(m * _delta(delta)))
    return float(l2_norm * _size("l2_diameter", l2_diameter) / np.sqrt(m) * share)


# -- a bound that can be printed -------------------------------------------------------------------


def structural_beta(
    complexity: Numbers, n_sets: int, m: int, delta: float, diameter: float = 1.0
) -> Array:
    """2 R_m(H_k) + D sqrt(log(2 p / delta) / (2 m)): structural paper, (1).

    With probability 1 - delta no feature of any of the ``n_sets`` = p sets H_k has a mean over m
    records further than this from its true mean; ``complexity`` holds R_m(H_k) or bounds B_k, one
    for each feature or set. Features lie in an interval of length D = ``diameter``: 1 for [0, 1],
    2 Lambda for [-Lambda, Lambda], where (1) has Lambda (docs/differences.md).

    >>> structural_beta([0.0, 0.1], n_sets=4, m=200, delta=0.05).round(3)
    array([0.113, 0.313])
    """
    chance = hoeffding_beta(_count("n_sets", n_sets), m, delta, diameter)
    return 2 * _sizes("complexity", complexity) + chance


def structural_excess(l1_norms: Numbers, beta: Numbers) -> float:
    """2 sum_k ||w_k||_1 beta_k: structural paper, Theorem 2, beta_k from ``structural_beta``.

    The solution under these beta_k (lambda = 2 in the words of §4) has with probability 1 - delta
    a loss at most this much above that of any w with these norms in the sets H_k.

    >>> structural_excess([1.0, 2.0], [0.1, 0.3])
    1.4
    """
    norms, radius = _vector("l1_norms", l1_norms), _sizes("beta", beta)
    _check_fits("beta", radius, norms.size)
    return float(2 * np.sum(np.abs(norms) * radius))


@dataclass(frozen=True)
class LossBound:
    """An upper bound on the loss of fitted weights on new data, from what is known.

    Attributes
    ----------
    sample_loss : the loss on the sample.
    deviation : what chance may add to it.
    delta : the probability that the bound fails.
    n_cells : the number of cells, where the loss of the uniform distribution is known from it.
    """

    sample_loss: float
    deviation: float
    delta: float
    n_cells: int | None = None

    @property
    def bound(self) -> float:
        """sample_loss + deviation."""
        return self.sample_loss + self.deviation

    @property
    def uniform(self) -> float | None:
        """The log loss of the uniform distribution over the cells, log N."""
        return None if self.n_cells is None else float(np.log(self.n_cells))

    def __str__(self) -> str:
        text = (
            f"With probability {100 * (1 - self.delta):.6g} % the log loss on new occurrences "
            f"drawn like these is at most {self.bound:.3f} ({self.sample_loss:.3f} on the sample + "
            f"{self.deviation:.3f} for chance)"
        )
        if self.uniform is None:
            return f"{text}."
        text = f"{text}; uniform over the {self.n_cells:,} cells: {self.uniform:.3f}."
        if self.bound < self.uniform:
            return text
        return f"{text} The sample is too small for weights of this size to promise more."


def printable_bound(
    sample_loss: float, w: Numbers, beta: Numbers, delta: float, n_cells: int | None = None
) -> LossBound:
    """L_pi(w) <= L_sample(w) + sum beta_j |w_j| with probability 1 - delta, for any fitted w.

    The two losses differ by <w, pi~[f] - pi[f]>, and where |pi~[f_j] - pi[f_j]| <= beta_j this is
    at most the sum, for all w at once: w may come from any fit, tuned in any way on the same
    sample. beta must be a theoretical one (``mixed_beta``, ``hoeffding_beta``, ``bernstein_beta``,
    ``dkw_beta``) at this delta, computed for all features that the fit could choose from; the
    tuned penalties of the fit bound nothing. "Drawn like these" includes the sampling bias.

    ``sample_loss`` is the mean of -log q_w(x) over the sample for a uniform default distribution;
    for another q0 take that of -log(q_w(x)/q0(x)), and leave ``n_cells`` out.

    >>> bound = printable_bound(6.2, w=[1.0, -2.0], beta=0.15, delta=0.05, n_cells=2000)
    >>> print(bound)  # doctest: +NORMALIZE_WHITESPACE
    With probability 95 % the log loss on new occurrences drawn like these is at most 6.650
    (6.200 on the sample + 0.450 for chance); uniform over the 2,000 cells: 7.601.
    """
    if not np.isfinite(_float(sample_loss)):
        raise ValueError(f"sample_loss must be a finite number, got {sample_loss!r}")
    w, beta = _vector("w", w), _sizes("beta", beta)
    _check_fits("beta", beta, w.size)
    cells = None if n_cells is None else _count("n_cells", n_cells)
    return LossBound(float(sample_loss), float(np.sum(beta * np.abs(w))), _delta(delta), cells)


# -- maximum-entropy discrimination ----------------------------------------------------------------


@dataclass(frozen=True)
class MarginBound:
    """A bound on the probability that an averaging model is wrong, and what it is made of.

    error : the bound, the sum of the other three. margin_error : share of the sample with a margin
    of at most gamma. copies_term, divergence_term : the price of the ``copies`` m of the model that
    stand for it.
    """

    error: float
    margin_error: float
    copies_term: float
    divergence_term: float
    copies: int


def margin_bound(
    margins: Numbers,
    divergence: float,
    *,
    gamma: float,
    scale: float,
    log_outputs: float,
    delta: float = 0.05,
    copies: int | None = None,
) -> MarginBound:
    """The PAC-Bayes bound of the discrimination paper, Theorem 8, with explicit constants.

    With probability 1 - delta over N independent samples, for every posterior p and every gamma,
    Pr(margin <= 0) <= Pr_sample(margin <= gamma) + |Y| e^{-m gamma^2 / (32 c^2)}
    + sqrt((m KL(p || p_0) + ln N + 3 ln((m + 1) / delta) + 2) / (2 N - 1)),  for any m >= 1
    (appendix B.5). It needs |F(x, y; w)| <= c for *all* weights w that the prior allows: no normal
    or Laplace prior gives that. A prior with bounded weights does (a ``CumulantPrior`` of coins,
    say), or scores that are clipped at c.

    margins : of each sample, the mean score of the right output less that of the best other one.
    divergence : KL(p || p_0). gamma : the margin asked for. scale : c.
    log_outputs : ln |Y|, for chains T ln K. copies : m; the best by default.

    >>> margins = np.full(100_000, 0.9)
    >>> bound = margin_bound(margins, 0.5, gamma=0.5, scale=1.0, log_outputs=np.log(4))
    >>> round(bound.error, 2), bound.copies > 1
    (0.05, True)
    """
    margins = _vector("margins", margins)
    divergence, gamma = _size("divergence", divergence), _size("gamma", gamma, positive=True)
    scale, delta = _size("scale", scale, positive=True), _delta(delta)
    log_outputs, n = _size("log_outputs", log_outputs), margins.size
    rate = gamma**2 / (32 * scale**2)
    if copies is not None:
        choices = np.array([_count("copies", copies)], dtype=np.float64)
    else:
        # beyond this many copies the first term is below 1/N, and the second grows on
        most = int(np.ceil((log_outputs + np.log(n)) / rate)) + 1
        choices = np.unique(np.geomspace(1, most, 10_000).astype(np.int64)).astype(np.float64)
    first = np.exp(np.minimum(log_outputs - rate * choices, 50.0))
    second = np.sqrt(
        (choices * divergence + np.log(n) + 3 * np.log((choices + 1) / delta) + 2) / (2 * n - 1)
    )
    best = int(np.argmin(first + second))
    share = float(np.mean(margins <= gamma))
    parts = share, float(first[best]), float(second[best])
    return MarginBound(sum(parts), *parts, int(choices[best]))

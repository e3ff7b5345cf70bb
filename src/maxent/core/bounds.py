"""The papers' guarantees as numbers (density paper, section 5).

A sample of m independent draws from an unknown pi gives the moments mu = pi~[f]. Everything follows
from the deviation pi~[f] - pi[f]: where it lies in a region, the weights w_hat fitted with that
region as potential lose at most an *excess* over any other weights w*,

    L_pi(w_hat) <= L_pi(w*) + excess.

``*_beta``, ``*_parameters`` and ``quadratic_strength`` are the parameters of the potentials for
which this holds with probability `1 - delta`; ``*_excess`` are the right-hand sides. They need no
knowledge of pi but of the size of w*. ``printable_bound`` needs only what was fitted.

L is the log loss L_pi(w) = log Z_w - <w, pi[f]>, relative to the default distribution. None of the
arguments uses more than that it is convex in w and linear in pi: they hold for the Fenchel-Young
loss Omega*(F'w) - <w, pi[f]> of every entropy. For weights that minimise the dual up to a duality
gap, add the gap to the excess.

What is assumed throughout: independent draws, and features chosen without looking at them (or, for
monotone features of a variable, ``dkw_beta``, chosen freely).

Several records in one cell are as many records: m counts them all. Records with weights that were
set without regard to where they lie are fewer than they look: ``effective_number`` is the m of all
that rests on Hoeffding's inequality, ``half_line_number`` that of ``weighted_dkw_beta``. What holds
for records of equal weight alone asks for an integer m (docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maxent.core.potentials import Potential, QuadraticForm
from maxent.rows.arrays import Array

Numbers = float | Sequence[float] | Array
_MOST_STEPS = 256


class SmoothBoxParameters(NamedTuple):
    """What ``SmoothBox`` takes, in its order.

    Attributes
    ----------
    beta : float
        Half the width of the box.
    smoothing : float
        alpha.
    """

    beta: float
    smoothing: float


class ElasticParameters(NamedTuple):
    """What ``ElasticNet`` takes, in its order.

    Attributes
    ----------
    beta : float
        Half the width of the dead zone.
    strength : float
        alpha.
    """

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


def _number(value: Any) -> float:
    """m, of records or effective: see ``effective_number``."""
    number = _float(value)
    if not 1 <= number < np.inf:
        raise ValueError(f"m must be a finite number >= 1, got {value!r}")
    return number


def _records(value: Any, least: int = 1) -> int:
    """m where all records count alike."""
    number = _float(value)
    if number > least and np.isfinite(number) and not number.is_integer():
        raise ValueError(
            f"m must be an integer >= {least}, got {value!r}: this inequality is for records of "
            "equal weight; with weights use hoeffding_beta at their effective_number, or "
            "weighted_dkw_beta at their half_line_number"
        )
    return _count("m", value, least)


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


def _cells_by_features(features: Any) -> Array:
    matrix = np.asarray(features, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(f"features must be a finite matrix (cells, features), got {matrix.shape}")
    return matrix


def _check_fits(name: str, array: Array, n: int) -> None:
    if array.ndim and array.size != n:
        raise ValueError(
            f"{name} must be a number or have one entry per weight, {n}, got {array.size}"
        )


# -- weighted records ------------------------------------------------------------------------------


def _weighted(weights: Any, counts: Any = None) -> tuple[Array, Array]:
    """Distinct weights > 0, the largest first and 1, and how many records have each."""
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ValueError(
            "weights must be a vector of finite numbers >= 0, one of them positive, got "
            f"{weights!r:.80}"
        )
    number = np.ones(array.size) if counts is None else np.asarray(counts, dtype=np.float64)
    if number.shape != array.shape or not (number >= 0).all() or (number % 1 != 0).any():
        raise ValueError(
            f"counts must be integers >= 0, one for each of {array.size} weights, got "
            f"{counts!r:.80}"
        )
    used = (array > 0) & (number > 0)
    if not used.any():
        raise ValueError("no weight > 0 has a count > 0")
    # weights that differ by rounding alone are equal
    share = np.round(array[used] / array[used].max(), 12)
    values, place = np.unique(-share, return_inverse=True)
    return -values, np.bincount(place, number[used])


def effective_number(weights: Any, counts: Any = None) -> float:
    """`(sum w)^2 / sum w^2`: how many records of equal weight say as much, at most their number.

    Hoeffding's inequality for `sum_i a_i f(x_i)` with fixed `a_i >= 0` that add up to 1 is
    `P(|deviation| > t) <= 2 exp(-2 t^2 / sum a_i^2)`, so m is `1 / sum a_i^2`: for
    ``hoeffding_beta``, ``ball_beta``, ``structural_beta`` with ``weighted_complexity``, and what is
    made of them. The weights must not depend on where the records lie; their scale does not matter.

    Parameters
    ----------
    weights : array
        Weights of the records; their scale does not matter.
    counts : array, default None
        How many records have each weight; None is one each.

    Examples
    --------
    >>> effective_number([100.0, 100.0, 100.0]), round(effective_number([1.0, 2.0, 3.0]), 4)
    (3.0, 2.5714)
    """
    values, number = _weighted(weights, counts)
    if values.size == 1:
        return float(number[0])
    return max(float((number @ values) ** 2 / (number @ values**2)), 1.0)


def _nested(weights: Any, counts: Any) -> tuple[Array, Array]:
    """The weighted mean as a mixture of plain means: over the k heaviest records with share c_k.

    c_k = k (a_(k) - a_(k+1)), the a_(k) in falling order; c_k = 0 is left out.
    """
    values, number = _weighted(weights, counts)
    heaviest = np.cumsum(number)
    share = heaviest * -np.diff(values, append=0.0)
    return heaviest, share / share.sum()


def half_line_number(weights: Any, counts: Any = None) -> float:
    """`m = 1 / s^2` with `s = sum_k a_(k) (sqrt k - sqrt(k-1))`, the largest share `a_(1)` first.

    The m of ``weighted_dkw_beta``: the number of records where all weights are equal, else less
    than ``effective_number``.

    Parameters
    ----------
    weights : array
        Weights of the records; their scale does not matter.
    counts : array, default None
        How many records have each weight; None is one each.

    Examples
    --------
    >>> half_line_number([7.0] * 50), round(half_line_number([1.0, 2.0, 3.0]), 4)
    (50.0, 2.0941)
    """
    heaviest, share = _nested(weights, counts)
    if heaviest.size == 1:
        return float(heaviest[0])
    return max(float(1 / np.sum(share / np.sqrt(heaviest)) ** 2), 1.0)


def weighted_dkw_beta(k: int, m: float, delta: float) -> float:
    """`beta = sqrt(log(6k/delta) / 2m)`, m of ``half_line_number``: all that ``dkw_beta`` is for.

    A weighted mean is a mixture, with shares `c_k`, of the plain means over the k heaviest records.
    The inequality of Dvoretzky, Kiefer and Wolfowitz holds for each of these; the largest deviation
    of the mixture is at most the mixture of theirs, and a mean of variables with tails
    `2 exp(-2 u^2)` has a tail of at most `6 exp(-2 u^2)` (docs/differences.md). Massart's 2 is
    known for equal weights alone.

    Parameters
    ----------
    k : int
        Number of variables.
    m : float
        The ``half_line_number`` of the weights.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> weights = np.repeat([1.0, 2.0], 50)
    >>> round(half_line_number(weights), 1), round(effective_number(weights), 1)
    (77.2, 90.0)
    >>> round(weighted_dkw_beta(5, half_line_number(weights), delta=0.05), 4)
    0.2035
    """
    return float(np.sqrt(np.log(6 * _count("k", k) / _delta(delta)) / (2 * _number(m))))


def weighted_complexity(
    complexity: Callable[[int], float], weights: Any, counts: Any = None
) -> float:
    """`sum_k c_k B(k) >= R_a(H)`: the Rademacher complexity of a set under weighted records.

    `R_a(H) = E sup_f sum_i a_i s_i f(x_i)`, `s_i` random signs, and ``complexity`` is
    `B(k) >= R_k(H)` for k records. The weighted sum is the mixture with shares `c_k` of means over
    the k heaviest.

    Parameters
    ----------
    complexity : callable
        `B(k) >= R_k(H)` for k records.
    weights : array
        Weights of the records; their scale does not matter.
    counts : array, default None
        How many records have each weight; None is one each.

    Examples
    --------
    >>> def bound(k):
    ...     return float(np.sqrt(2 / k))
    >>> weighted_complexity(bound, [5.0] * 8), round(weighted_complexity(bound, [1.0, 3.0]), 4)
    (0.5, 1.2071)
    """
    heaviest, share = _nested(weights, counts)
    # R_k falls in k, so that each k may stand for larger ones: a few hundred are enough
    steps = np.geomspace(heaviest[0], heaviest[-1], min(heaviest.size, _MOST_STEPS))
    first = np.unique(np.searchsorted(heaviest, steps * (1 + 1e-12), side="right") - 1)
    shares = np.add.reduceat(share, first)
    return float(shares @ [complexity(int(k)) for k in heaviest[first]])


# -- how far the sample's moments may be from the true ones ----------------------------------------


def hoeffding_beta(n: int, m: float, delta: float, diameter: float = 1.0) -> float:
    """`beta = D sqrt(log(2n/delta) / 2m)`: `|pi~[f_j] - pi[f_j]| <= beta` for all n features.

    Corollary 5; with a diameter as in Corollary 9. Hoeffding's inequality and a union bound.

    Parameters
    ----------
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> round(hoeffding_beta(n=20, m=100, delta=0.05), 4)
    0.1828
    """
    n, m, delta = _count("n", n), _number(m), _delta(delta)
    return _size("diameter", diameter) * float(np.sqrt(np.log(2 * n / delta) / (2 * m)))


def vc_beta(d: int, m: int, delta: float) -> float:
    """`beta = sqrt((d log(e m^2/d) + log(1/delta) + log(4 e^8)) / 2m)`, Corollary 6.

    For binary features of a class of VC dimension `d <= m^2`, however many. For thresholds of fewer
    than 10,000 variables ``dkw_beta`` is smaller.

    Parameters
    ----------
    d : int
        VC dimension of the class.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(vc_beta(d=2, m=100, delta=0.05), 4)
    0.3963
    """
    d, m, delta = _count("d", d), _records(m), _delta(delta)
    if d > m**2:
        raise ValueError(f"the VC dimension must be at most m^2 = {m**2}, got d = {d}")
    total = d * (1 + 2 * np.log(m) - np.log(d)) - np.log(delta) + np.log(4) + 8
    return float(np.sqrt(total / (2 * m)))


def bernstein_beta(sd: Numbers, n: int, m: int, delta: float) -> Array:
    """`beta_j = sqrt(6e (sd_j^2 + sqrt(log(2n/delta) / 2m) + e/6)) + e`, `e = log(4n/delta) / 3m`.

    For n features in [0, 1] with sample standard deviations `sd_j` (divisor m - 1), one number or a
    vector: features that vary little may deviate little. Corollary 7 as its proof in Appendix A
    has it; copies as plain text lose the extent of the root.

    Parameters
    ----------
    sd : float or array
        Sample standard deviations of the features (divisor m - 1).
    n : int
        Number of features.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> bernstein_beta([0.0, 0.5], n=20, m=1000, delta=0.05).round(4)
    array([0.0318, 0.0699])
    """
    n, m, delta = _count("n", n), _records(m, least=2), _delta(delta)
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
    """`beta = sqrt(log(2k/delta) / 2m)`, for all monotone [0, 1] features of k variables at once.

    All thresholds, all hinges, the variables themselves, with knots wherever one likes, also at the
    sample's own values. The inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant
    bounds `sup_t |F~(t) - F(t)|` of one variable's distribution functions by beta with probability
    `1 - delta`/k. A monotone f with values in [0, 1] is the mean over t in [0, 1] of the indicators
    of `{f > t}`, which are half-lines of the variable, so its mean deviates no more.

    Parameters
    ----------
    k : int
        Number of variables.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(dkw_beta(k=5, m=100, delta=0.05), 4)
    0.1628
    """
    return hoeffding_beta(_count("k", k), _records(m), delta)


def mixed_beta(
    monotone: Any, n_variables: int, m: int, delta: float, sd: Numbers | None = None
) -> Array:
    """One beta per [0, 1] feature, where some are monotone in a single variable and some are not.

    All features that a fit could choose from belong here, not only those it has chosen. The event
    of ``dkw_beta`` for each of the k variables and of Hoeffding's inequality for each of the other
    n' features fails with probability `delta / (k + n')` at most if
    `beta = sqrt(log(2 (k + n')/delta) / 2m)`. By the union bound all hold together with probability
    1 - delta: delta is split k : n' between the groups.

    With ``sd`` half of delta goes to this event and half to that of ``bernstein_beta`` for all
    features. Where both hold so does the smaller beta of each feature. Monotone features must then
    be fixed in advance too, and n counts all of them.

    Parameters
    ----------
    monotone : array of bool (n_features,)
        Which features are monotone (linear, threshold, hinge; not quadratic, product or category).
    n_variables : int
        k, the number of variables whose monotone features the fit could choose.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.
    sd : float or array, default None
        Sample standard deviations of the features (divisor m - 1).

    Examples
    --------
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
    m = _records(m)
    if sd is None:
        return np.full(monotone.size, hoeffding_beta(events, m, delta))
    sd = _vector("sd", sd, monotone.size)
    half = _delta(delta) / 2
    return np.minimum(hoeffding_beta(events, m, half), bernstein_beta(sd, monotone.size, m, half))


def practical_beta(sd: Numbers, m: float, beta0: float = 1.0) -> Array:
    """`beta_j = beta0 sd_j / sqrt(m)`, the form tuned in the paper's experiments (section 8).

    No guarantee: at `beta0 = 1` each deviation exceeds its beta in about a third of the samples.

    Parameters
    ----------
    sd : float or array
        Sample standard deviations of the features (divisor m - 1).
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    beta0 : float, default 1.0
        Factor of all.

    Examples
    --------
    >>> practical_beta([0.1, 0.5], m=100)
    array([0.01, 0.05])
    """
    sd = _sizes("sd", sd)
    return _size("beta0", beta0) * sd / np.sqrt(_number(m))


def ball_beta(diameter: float, m: float, delta: float) -> float:
    """`beta = D (1 + sqrt(log(1/delta))) / sqrt(2m)`: `||pi~[f] - pi[f]||_2 <= beta`, Lemma 10.

    The number of features does not matter. The radius of the ``Ball`` of Theorem 11.

    Parameters
    ----------
    diameter : float
        D, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(ball_beta(diameter=2.0, m=100, delta=0.05), 4)
    0.3862
    """
    diameter, m = _size("diameter", diameter), _number(m)
    return diameter * (1 + float(np.sqrt(-np.log(_delta(delta))))) / float(np.sqrt(2 * m))


def l2_diameter_bound(features: Any) -> float:
    """An upper bound on `D_2 = sup ||f(x) - f(x')||_2` over the cells, from their features.

    Twice the largest distance from the middle of the features' ranges: never over `sqrt(n)` for n
    features in [0, 1], and less where few are 1 at once.

    Parameters
    ----------
    features : array (n_cells, n_features)
        Features of the cells.

    Examples
    --------
    >>> round(l2_diameter_bound([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 4)
    1.4142
    """
    matrix = _cells_by_features(features)
    middle = (matrix.min(axis=0) + matrix.max(axis=0)) / 2
    return 2 * float(np.linalg.norm(matrix - middle, axis=1).max())


# -- the excess over any other weights: for every potential ----------------------------------------


def absolute_excess(potential: Potential, true_moments: Numbers, w_star: Numbers) -> float:
    """`2 U(pi[f]) + U*(w*) + U*(-w*)`, Lemma 3 (12), U an absolute potential, of the moments.

    The problem is then Problem(entropy, features, U, target=0): its residual is F p itself.

    Parameters
    ----------
    potential : Potential
        U, of the moments.
    true_moments : array
        pi[f], the moments under the truth.
    w_star : array
        The weights `w*` to compare with.

    Examples
    --------
    >>> from maxent.core.potentials import Box, ShiftedPotential
    >>> around_sample = ShiftedPotential(Box(0.1), [0.5])  # |0.5 - u| <= 0.1
    >>> round(absolute_excess(around_sample, true_moments=[0.45], w_star=[2.0]), 4)
    0.4
    """
    w_star = _vector("w_star", w_star)
    return _both_sides(potential, _vector("true_moments", true_moments, w_star.size), w_star)


def potential_excess(potential: Potential, deviation: Numbers, w_star: Numbers) -> float:
    """`2 V(-d) + V*(w*) + V*(-w*)` with `d = pi~[f] - pi[f]`, Lemma 3 (13), for any potential.

    The paper's relative potential `U_{pi~}` takes `pi~[f] - p[f]`, the opposite of the residual
    `r = F p - mu` of V: `V(r) = U_{pi~}(-r)`, `V*(-w) = U_{pi~}*(w)`.

    Parameters
    ----------
    potential : Potential
        The potential V.
    deviation : array
        `d = pi~[f] - pi[f]`, the deviation of the moments.
    w_star : array
        The weights `w*` to compare with.

    Examples
    --------
    >>> from maxent.core.potentials import Quadratic
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
    """`<w_hat - w*, d> + V*(-w*) - V*(-w_hat)` with `d = pi~[f] - pi[f]`, Lemma 3 (14).

    The sharpest of the three: it knows the fitted weights, and can be negative.

    Parameters
    ----------
    potential : Potential
        The potential V.
    deviation : array
        `d = pi~[f] - pi[f]`, the deviation of the moments.
    w_star : array
        The weights `w*` to compare with.
    w_hat : array
        The fitted weights.

    Examples
    --------
    >>> from maxent.core.potentials import Quadratic
    >>> round(weights_excess(Quadratic(0.5), [0.1], w_star=[2.0], w_hat=[1.5]), 4)
    0.3875
    """
    w_star = _vector("w_star", w_star)
    w_hat = _vector("w_hat", w_hat, w_star.size)
    deviation = _vector("deviation", deviation, w_star.size)
    penalties = potential.conjugate(-w_star) - potential.conjugate(-w_hat)
    return float((w_hat - w_star) @ deviation) + penalties


def region_excess(region: Potential, w_star: Numbers) -> float:
    """`2 V*(w*)`, Theorem 4: V the indicator of a symmetric region that contains the deviation.

    ``Box``, ``Ball``, ``NormBall`` with a beta that holds. Corollaries 5 to 7 and Theorem 11 are
    this with their own beta.

    Parameters
    ----------
    region : Potential
        The indicator of the region.
    w_star : array
        The weights `w*` to compare with.

    Examples
    --------
    >>> from maxent.core.potentials import Box
    >>> round(region_excess(Box([0.1, 0.2]), w_star=[1.0, -2.0]), 4)
    1.0
    """
    return 2 * region.conjugate(_vector("w_star", w_star))


def smooth_region_excess(beta: Numbers, smoothing: Numbers, w_star: Numbers) -> float:
    """`2 sum beta_j |w*_j| + 2 log 2 sum alpha_j beta_j`, Theorem 8, for ``SmoothBox``.

    It holds where `|pi~[f_j] - pi[f_j]| <= beta_j` for all features.

    Parameters
    ----------
    beta : float or array
        Bound on the deviation of each feature.
    smoothing : float or array
        alpha of ``SmoothBox``.
    w_star : array
        The weights `w*` to compare with.

    Examples
    --------
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
    """`||d||_2^2 / alpha + alpha/2 ||w*||_2^2` with `d = pi~[f] - pi[f]`, Lemma 12, ``Quadratic``.

    Half the penalty of ``potential_excess``.

    Parameters
    ----------
    strength : float
        alpha of ``Quadratic``.
    deviation : array
        `d = pi~[f] - pi[f]`, the deviation of the moments.
    w_star : array
        The weights `w*` to compare with.

    Examples
    --------
    >>> round(quadratic_deviation_excess(0.5, deviation=[0.1], w_star=[2.0]), 4)
    1.02
    """
    strength, w_star = _size("strength", strength, positive=True), _vector("w_star", w_star)
    deviation = _vector("deviation", deviation, w_star.size)
    return float(deviation @ deviation) / strength + strength / 2 * float(w_star @ w_star)


# -- the excess over any other weights: with probability 1 - delta ---------------------------------


def hoeffding_excess(
    l1_norm: float, n: int, m: float, delta: float, diameter: float = 1.0
) -> float:
    """`||w*||_1 D sqrt(2 log(2n/delta) / m)`, Corollary 5: ``Box(hoeffding_beta(...))``.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> round(hoeffding_excess(l1_norm=3.0, n=20, m=100, delta=0.05), 4)
    1.0969
    """
    return 2 * _size("l1_norm", l1_norm) * hoeffding_beta(n, m, delta, diameter)


def vc_excess(l1_norm: float, d: int, m: int, delta: float) -> float:
    """`||w*||_1 sqrt(2 (d log(e m^2/d) + log(1/delta) + log(4 e^8)) / m)`, Corollary 6.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    d : int
        VC dimension of the class.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(vc_excess(l1_norm=3.0, d=2, m=100, delta=0.05), 4)
    2.378
    """
    return 2 * _size("l1_norm", l1_norm) * vc_beta(d, m, delta)


def bernstein_excess(w_star: Numbers, sd: Numbers, n: int, m: int, delta: float) -> float:
    """`2 sum beta_j |w*_j|`, Corollary 7: ``Box(bernstein_beta(...))``.

    Parameters
    ----------
    w_star : array
        The weights `w*` to compare with.
    sd : float or array
        Sample standard deviations of the features (divisor m - 1).
    n : int
        Number of features.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(bernstein_excess([1.0, -2.0], sd=[0.0, 0.5], n=20, m=1000, delta=0.05), 4)
    0.3431
    """
    w_star, beta = _vector("w_star", w_star), bernstein_beta(sd, n, m, delta)
    _check_fits("sd", np.asarray(beta), w_star.size)
    return 2 * float(np.sum(beta * np.abs(w_star)))


def dkw_excess(l1_norm: float, k: int, m: int, delta: float) -> float:
    """`||w*||_1 sqrt(2 log(2k/delta) / m)`: ``Box(dkw_beta(...))`` in Theorem 4.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    k : int
        Number of variables.
    m : int
        Number of records.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(dkw_excess(l1_norm=3.0, k=5, m=100, delta=0.05), 4)
    0.9766
    """
    return 2 * _size("l1_norm", l1_norm) * dkw_beta(k, m, delta)


def smooth_box_parameters(
    l1_norm: float, epsilon: float, n: int, m: float, delta: float, diameter: float = 1.0
) -> SmoothBoxParameters:
    """`beta = D sqrt(log(2n/delta) / 2m)`, `alpha = epsilon L_1 / (n log 2)`: Corollary 9.

    beta and smoothing alpha of ``SmoothBox``, for weights up to `||w*||_1 <= L_1` and features
    within an `l_inf` diameter D.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    epsilon : float
        Share by which the bound may grow for smoothness.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> beta, smoothing = smooth_box_parameters(3.0, epsilon=0.1, n=20, m=100, delta=0.05)
    >>> round(beta, 4), round(smoothing, 4)
    (0.1828, 0.0216)
    """
    beta = hoeffding_beta(n, m, delta, diameter)
    room = _size("epsilon", epsilon, positive=True) * _size("l1_norm", l1_norm, positive=True)
    return SmoothBoxParameters(beta, room / (n * float(np.log(2))))


def smooth_box_excess(
    l1_norm: float, epsilon: float, n: int, m: float, delta: float, diameter: float = 1.0
) -> float:
    """`(1 + epsilon) L_1 D sqrt(2 log(2n/delta) / m)`, Corollary 9, for `||w*||_1 <= L_1`.

    The fit is with ``SmoothBox(*smooth_box_parameters(...))``.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    epsilon : float
        Share by which the bound may grow for smoothness.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> round(smooth_box_excess(3.0, epsilon=0.1, n=20, m=100, delta=0.05), 4)
    1.2066
    """
    whole = 1 + _size("epsilon", epsilon, positive=True)
    return whole * hoeffding_excess(l1_norm, n, m, delta, diameter)


def ball_excess(l2_norm: float, diameter: float, m: float, delta: float) -> float:
    """`||w*||_2 D (sqrt 2 + sqrt(2 log(1/delta))) / sqrt(m)`, Theorem 11: ``Ball(ball_beta(...))``.

    Parameters
    ----------
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    diameter : float
        D, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> round(ball_excess(l2_norm=1.5, diameter=2.0, m=100, delta=0.05), 4)
    1.1586
    """
    return 2 * _size("l2_norm", l2_norm) * ball_beta(diameter, m, delta)


def quadratic_strength(l2_norm: float, diameter: float, m: float, s: float = 1.0) -> float:
    """`alpha = s D / (L_2 sqrt(m))`, Theorem 13, the strength of ``Quadratic``.

    For weights up to `||w*||_2 <= L_2`. `s = 1` is best in expectation, and
    `s = 1 + sqrt(log(1/delta))` with probability `1 - delta`.

    Parameters
    ----------
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    diameter : float
        D, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    s : float, default 1.0
        Factor of the strength.

    Examples
    --------
    >>> round(quadratic_strength(l2_norm=1.5, diameter=2.0, m=100), 4)
    0.1333
    """
    l2_norm, s = _size("l2_norm", l2_norm, positive=True), _size("s", s, positive=True)
    return s * _size("diameter", diameter, positive=True) / (l2_norm * float(np.sqrt(_number(m))))


def quadratic_excess(
    l2_norm: float, diameter: float, m: float, delta: float, s: float = 1.0
) -> float:
    """`L_2 D / sqrt(m) (s + (1 + sqrt(log(1/delta)))^2 / s) / 2`, Theorem 13, `||w*||_2 <= L_2`.

    Parameters
    ----------
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    diameter : float
        D, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    s : float, default 1.0
        Factor of the strength, see ``quadratic_strength``.

    Examples
    --------
    >>> round(quadratic_excess(l2_norm=1.5, diameter=2.0, m=100, delta=0.05), 4)
    1.2686
    """
    chance = (1 + float(np.sqrt(-np.log(_delta(delta))))) ** 2
    return _quadratic(l2_norm, diameter, m, s, chance)


def quadratic_expected_excess(l2_norm: float, diameter: float, m: float, s: float = 1.0) -> float:
    """`L_2 D / sqrt(m) (s + 1/s) / 2`, Theorem 13, for the mean of `L_pi(w_hat)` over samples.

    (14) and the mean of the deviation, 0, give half of the 1/s term:
    `E[excess] <= V*(-w*) + E[V(-d)]` for every potential.

    Parameters
    ----------
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    diameter : float
        D, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    s : float, default 1.0
        Factor of the strength, see ``quadratic_strength``.

    Examples
    --------
    >>> round(quadratic_expected_excess(l2_norm=1.5, diameter=2.0, m=100), 4)
    0.3
    """
    return _quadratic(l2_norm, diameter, m, s, 1.0)


def _quadratic(l2_norm: float, diameter: float, m: float, s: float, chance: float) -> float:
    scale = _size("l2_norm", l2_norm) * _size("diameter", diameter) / np.sqrt(_number(m))
    s = _size("s", s, positive=True)
    return float(scale * (s + chance / s) / 2)


def form_features(features: Any, A: Any, strength: float = 1.0) -> Array:
    """`f' = alpha^(1/2) A^(-1/2) f`: under f' the penalty `w'Aw / 2` is `alpha/2 ||w'||_2^2`.

    The map of §5.4, from ``QuadraticForm(A)`` to ``Quadratic(strength)``, for A positive definite;
    the weights become those of ``form_weights``. With `alpha = 1`, the guarantees of Theorem 13
    for f' are those of ``QuadraticForm(c A)`` with c of ``quadratic_strength``.

    Parameters
    ----------
    features : array (n_cells, n_features)
        Features of the cells, or any rows of moments and deviations.
    A : array (n_features, n_features)
        Symmetric positive definite matrix.
    strength : float, default 1.0
        alpha.

    Examples
    --------
    >>> form_features([[4.0, 3.0]], A=[[4.0, 0.0], [0.0, 9.0]])
    array([[2., 1.]])
    """
    matrix = _cells_by_features(features)
    root = _root_of_form(A, matrix.shape[1])
    return np.sqrt(_size("strength", strength, positive=True)) * np.linalg.solve(root, matrix.T).T


def form_weights(w: Numbers, A: Any, strength: float = 1.0) -> Array:
    """`w' = alpha^(-1/2) A^(1/2) w`, the weights of ``form_features``: `<w', f'> = <w, f>`.

    Parameters
    ----------
    w : array (n_features,)
        Weights.
    A : array (n_features, n_features)
        Symmetric positive definite matrix.
    strength : float, default 1.0
        alpha.

    Examples
    --------
    >>> form_weights([1.0, 2.0], A=[[4.0, 0.0], [0.0, 9.0]])
    array([2., 6.])
    """
    w = _vector("w", w)
    return _root_of_form(A, w.size) @ w / np.sqrt(_size("strength", strength, positive=True))


def quadratic_form_excess(A: Any, features: Any, w_star: Numbers, m: float, delta: float) -> float:
    """`(L^2 + (1 + sqrt(log(1/delta)))^2 D^2/m) / 2`, Theorem 13 for ``QuadraticForm(A)``.

    `L^2 = w*'A w*`, and D is the l2 diameter of `A^(-1/2) f`: ``quadratic_excess`` under the map of
    ``form_features``, at the s with which its strength is that of the fit.

    Parameters
    ----------
    A : array (n_features, n_features)
        Symmetric positive definite matrix, set without regard to the sample.
    features : array (n_cells, n_features)
        Features of the cells.
    w_star : array (n_features,)
        The weights `w*` to compare with.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.

    Examples
    --------
    >>> cells, form = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.2, 0.1], [0.1, 0.2]]
    >>> round(quadratic_form_excess(form, cells, w_star=[1.0, -1.0], m=100, delta=0.05), 4)
    0.8457
    """
    return _under_form(A, features, w_star, m, (1 + float(np.sqrt(-np.log(_delta(delta))))) ** 2)


def quadratic_form_expected_excess(A: Any, features: Any, w_star: Numbers, m: float) -> float:
    """`(L^2 + D^2/m) / 2`: ``quadratic_form_excess`` for the mean of `L_pi(w_hat)` over samples.

    Parameters
    ----------
    A : array (n_features, n_features)
        Symmetric positive definite matrix, set without regard to the sample.
    features : array (n_cells, n_features)
        Features of the cells.
    w_star : array (n_features,)
        The weights `w*` to compare with.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.

    Examples
    --------
    >>> cells, form = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.2, 0.1], [0.1, 0.2]]
    >>> round(quadratic_form_expected_excess(form, cells, w_star=[1.0, -1.0], m=100), 4)
    0.2
    """
    return _under_form(A, features, w_star, m, 1.0)


def _under_form(A: Any, features: Any, w_star: Numbers, m: float, chance: float) -> float:
    """Theorem 13 with alpha = 1: the fit is Quadratic(1) under ``form_features``."""
    size = form_weights(w_star, A)
    diameter = l2_diameter_bound(form_features(features, A))
    return (float(size @ size) + chance * diameter**2 / _number(m)) / 2


def _root_of_form(A: Any, n: int) -> Array:
    """A^(1/2), symmetric."""
    form = QuadraticForm(A)
    form.check_size(n)
    if form.strong_convexity() <= 0:
        raise ValueError("A must be positive definite, it has an eigenvalue 0")
    spectrum, basis = np.linalg.eigh(form.A)
    return (basis * np.sqrt(spectrum)) @ basis.T


def elastic_parameters(
    l2_norm: float, l2_diameter: float, n: int, m: float, delta: float, diameter: float = 1.0
) -> ElasticParameters:
    """beta of ``hoeffding_beta``, `alpha = D_2 min{1/sqrt 2, sqrt(m delta)} / (L_2 sqrt m)`.

    The beta and strength alpha of ``ElasticNet`` in Theorem 15, for `||w*||_2 <= L_2` =
    ``l2_norm``, `D_inf` = ``diameter`` and `D_2` = ``l2_diameter``. alpha is printed with a further
    1/2; the stated bounds hold with either (docs/differences.md).

    Parameters
    ----------
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    l2_diameter : float
        `D_2`, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D_inf, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
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
    m: float,
    delta: float,
    diameter: float = 1.0,
) -> float:
    """`||w*||_1 D_inf sqrt(2 log(2n/delta)/m) + 1/2 L_2 D_2/sqrt(m) min{1/sqrt 2, sqrt(m delta)}`.

    Theorem 15 with probability `1 - delta`, for `||w*||_2 <= L_2` = ``l2_norm`` and the fit with
    ``ElasticNet(*elastic_parameters(...))``.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    l2_diameter : float
        `D_2`, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D_inf, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
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
    m: float,
    delta: float,
    diameter: float = 1.0,
) -> float:
    """`||w*||_1 D_inf sqrt(2 log(2n/delta) / m) + L_2 D_2/sqrt(m) min{1/sqrt 2, sqrt(m delta)}`.

    Theorem 15 for the mean of `L_pi(w_hat)` over samples; delta is a parameter of the fit only.

    Parameters
    ----------
    l1_norm : float
        `||w*||_1`, or the bound `L_1` on it.
    l2_norm : float
        `||w*||_2`, or the bound `L_2` on it.
    l2_diameter : float
        `D_2`, the l2 diameter of the feature vectors, see ``l2_diameter_bound``.
    n : int
        Number of features.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Parameter of the fit, see ``elastic_parameters``.
    diameter : float, default 1.0
        D_inf, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> round(elastic_expected_excess(3.0, 1.5, l2_diameter=2.0, n=20, m=100, delta=0.05), 4)
    1.3091
    """
    extra = _elastic_extra(_size("l2_norm", l2_norm), l2_diameter, m, delta)
    return hoeffding_excess(l1_norm, n, m, delta, diameter) + extra


def _elastic_extra(l2_norm: float, l2_diameter: float, m: float, delta: float) -> float:
    """L_2 D_2 / sqrt(m) min{1/sqrt 2, sqrt(m delta)} = alpha L_2^2."""
    m, share = _number(m), min(np.sqrt(0.5), np.sqrt(m * _delta(delta)))
    return float(l2_norm * _size("l2_diameter", l2_diameter) / np.sqrt(m) * share)


# -- a bound that can be printed -------------------------------------------------------------------


def structural_beta(
    complexity: Numbers, n_sets: int, m: float, delta: float, diameter: float = 1.0
) -> Array:
    """`2 R_m(H_k) + D sqrt(log(2 p / delta) / (2 m))`: structural paper, (1).

    With probability `1 - delta` no feature of any of the ``n_sets`` = p sets `H_k` has a mean over
    m records further than this from its true mean; Features lie in an interval of length D =
    ``diameter``: 1 for [0, 1], `2 Lambda` for `[-Lambda, Lambda]`, where (1) has `Lambda`
    (docs/differences.md).

    Parameters
    ----------
    complexity : float or array
        `R_m(H_k)` or bounds `B_k`, one for each feature or set; of weighted records their
        ``weighted_complexity``.
    n_sets : int
        p, the number of sets.
    m : float
        Number of records, or the ``effective_number`` of weighted ones.
    delta : float
        Probability that the bound fails.
    diameter : float, default 1.0
        D, the length of the interval that holds each feature; 1 for [0, 1].

    Examples
    --------
    >>> structural_beta([0.0, 0.1], n_sets=4, m=200, delta=0.05).round(3)
    array([0.113, 0.313])
    """
    chance = hoeffding_beta(_count("n_sets", n_sets), m, delta, diameter)
    return 2 * _sizes("complexity", complexity) + chance


def structural_excess(l1_norms: Numbers, beta: Numbers) -> float:
    """`2 sum_k ||w_k||_1 beta_k`: structural paper, Theorem 2, `beta_k` from ``structural_beta``.

    The solution under these `beta_k` (`lambda = 2` in the words of §4) has with probability 1 -
    delta a loss at most this much above that of any w with these norms in the sets `H_k`.

    Parameters
    ----------
    l1_norms : array
        `||w_k||_1` of each set.
    beta : float or array
        `beta_k` of each set.

    Examples
    --------
    >>> structural_excess([1.0, 2.0], [0.1, 0.3])
    1.4
    """
    norms, radius = _vector("l1_norms", l1_norms), _sizes("beta", beta)
    _check_fits("beta", radius, norms.size)
    return float(2 * np.sum(np.abs(norms) * radius))


INDEPENDENT = "the records are independent"


@dataclass(frozen=True)
class LossBound:
    """An upper bound on the loss of fitted weights on new data, from what is known.

    Attributes
    ----------
    sample_loss : float
        The loss on the sample.
    deviation : float
        What chance may add to it.
    delta : float
        The probability that the bound fails.
    n_cells : int or None
        Number of cells, where the loss of the uniform distribution is known from it.
    assumes : str
        What must be true of the records for it to hold.
    on : str
        What the new data are.
    """

    sample_loss: float
    deviation: float
    delta: float
    n_cells: int | None = None
    assumes: str = INDEPENDENT
    on: str = "new occurrences drawn like these"

    @property
    def bound(self) -> float:
        """``sample_loss + deviation``."""
        return self.sample_loss + self.deviation

    @property
    def uniform(self) -> float | None:
        """The log loss of the uniform distribution over the cells, log N."""
        return None if self.n_cells is None else float(np.log(self.n_cells))

    def __str__(self) -> str:
        text = (
            f"With probability {100 * (1 - self.delta):.6g} %, if {self.assumes}, the log loss on "
            f"{self.on} is at most {self.bound:.3f} "
            f"({self.sample_loss:.3f} on the sample + {self.deviation:.3f} for chance)"
        )
        if self.uniform is None:
            return f"{text}."
        text = f"{text}; uniform over the {self.n_cells:,} cells: {self.uniform:.3f}."
        if self.bound < self.uniform:
            return text
        return f"{text} The sample is too small for weights of this size to promise more."


def printable_bound(
    sample_loss: float,
    w: Numbers,
    beta: Numbers,
    delta: float,
    n_cells: int | None = None,
    assumes: str = INDEPENDENT,
) -> LossBound:
    """`L_pi(w) <= L_sample(w) + sum beta_j |w_j|` with probability `1 - delta`, for any fitted w.

    The two losses differ by `<w, pi~[f] - pi[f]>`, and where `|pi~[f_j] - pi[f_j]| <= beta_j` this
    is at most the sum, for all w at once: w may come from any fit, tuned in any way on the same
    sample. beta must be a theoretical one (``mixed_beta``, ``hoeffding_beta``, ``bernstein_beta``,
    ``dkw_beta``) at this delta, computed for all features that the fit could choose from; the tuned
    penalties of the fit bound nothing. "Drawn like these" includes the sampling bias.

    Parameters
    ----------
    sample_loss : float
        Mean of `-log q_w(x)` over the sample for a uniform default distribution; for another q0
        that of `-log(q_w(x)/q0(x))`. For weighted records it is the weighted mean.
    w : array (n_features,)
        The fitted weights.
    beta : float or array
        Bound on the deviation of each feature; for weighted records that of their
        ``effective_number`` or ``weighted_dkw_beta``.
    delta : float
        Probability that the bound fails.
    n_cells : int, default None
        Number of cells; leave it out where q0 is not uniform.
    assumes : str, default "the records are independent"
        What must be true of the records, printed with the bound.

    Examples
    --------
    >>> bound = printable_bound(6.2, w=[1.0, -2.0], beta=0.15, delta=0.05, n_cells=2000)
    >>> print(bound)  # doctest: +NORMALIZE_WHITESPACE
    With probability 95 %, if the records are independent, the log loss on new occurrences drawn
    like these is at most 6.650 (6.200 on the sample + 0.450 for chance); uniform over the 2,000
    cells: 7.601.
    """
    if not np.isfinite(_float(sample_loss)):
        raise ValueError(f"sample_loss must be a finite number, got {sample_loss!r}")
    w, beta = _vector("w", w), _sizes("beta", beta)
    _check_fits("beta", beta, w.size)
    cells = None if n_cells is None else _count("n_cells", n_cells)
    deviation = float(np.sum(beta * np.abs(w)))
    return LossBound(float(sample_loss), deviation, _delta(delta), cells, assumes)


# -- maximum-entropy discrimination ----------------------------------------------------------------


@dataclass(frozen=True)
class MarginBound:
    """A bound on the probability that an averaging model is wrong, and what it is made of.

    Attributes
    ----------
    error : float
        The bound, the sum of the other three.
    margin_error : float
        Share of the sample with a margin of at most gamma.
    copies_term : float
        The price of taking m copies for the model, the second term of ``margin_bound``.
    divergence_term : float
        The price of their divergence from the prior, the third term.
    copies : int
        m, the copies of the model that stand for it.
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
    sample_weight: Numbers | None = None,
) -> MarginBound:
    """The PAC-Bayes bound of the discrimination paper, Theorem 8, with explicit constants.

    With probability `1 - delta` over N independent samples, for every posterior p and every gamma,
    for any `m >= 1` (appendix B.5),

        `Pr(margin <= 0) <= Pr_sample(margin <= gamma) + |Y| e^{-m gamma^2 / (32 c^2)}`
        `+ sqrt((m KL(p || p_0) + ln N + 3 ln((m + 1) / delta) + 2) / (2 N - 1))`.

    It needs `|F(x, y; w)| <= c` for *all* weights w that the prior allows: no normal or Laplace
    prior gives that. A prior with bounded weights does (a ``CumulantPrior`` of coins, say), or
    scores that are clipped at c.

    Parameters
    ----------
    margins : array (n_samples,)
        Of each sample, the mean score of the right output less that of the best other one.
    divergence : float
        `KL(p || p_0)`.
    gamma : float
        The margin asked for.
    scale : float
        The bound c on the scores.
    log_outputs : float
        `ln |Y|`, for chains `T ln K`.
    delta : float, default 0.05
        Probability that the bound fails.
    copies : int, default None
        m; None is the best.
    sample_weight : array (n_samples,), default None
        Weight of each sample, set without regard to it. Pr_sample is then weighted, and N the
        ``effective_number``: the proof uses no more of the sample than Hoeffding's inequality.

    Examples
    --------
    >>> margins = np.full(100_000, 0.9)
    >>> bound = margin_bound(margins, 0.5, gamma=0.5, scale=1.0, log_outputs=np.log(4))
    >>> round(bound.error, 2), bound.copies > 1
    (0.05, True)
    """
    margins = _vector("margins", margins)
    divergence, gamma = _size("divergence", divergence), _size("gamma", gamma, positive=True)
    scale, delta = _size("scale", scale, positive=True), _delta(delta)
    log_outputs = _size("log_outputs", log_outputs)
    weight = np.ones(margins.size) if sample_weight is None else sample_weight
    weight = _vector("sample_weight", weight, margins.size)
    n = effective_number(weight)
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
    share = float(np.average(margins <= gamma, weights=weight))
    parts = share, float(first[best]), float(second[best])
    return MarginBound(sum(parts), *parts, int(choices[best]))

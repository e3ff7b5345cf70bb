from dataclasses import dataclass

import numpy as np
import pytest
from scipy import special
from sklearn import datasets

import maxent as mx
from catalogue import ENTROPIES
from maxent.testing import check_entropy


@pytest.mark.parametrize(("entropy", "size"), ENTROPIES, ids=lambda x: repr(x)[:60])
def test_mathematics(entropy, size):
    check_entropy(entropy, size)


@dataclass(frozen=True)
class ChiSquare(mx.MeasuredEntropy):
    """A user's own: Omega(p) = 1/2 sum_i p_i^2 / q_i, whose map is p_i = q_i [theta_i - tau]_+."""

    link_power = 1.0
    margin = 1.0

    def _value(self, p, q=None):
        square = np.square(np.maximum(p, 0), dtype=np.float64)
        return 0.5 * np.sum(np.where(p > 0, square / (1 if q is None else q), 0), axis=1)

    def _conjugate(self, theta, q=None):
        top = theta.max(axis=1, keepdims=True)
        x = np.maximum((theta - top).astype(np.float64), -1e150)
        mass = np.broadcast_to(1.0 if q is None else q, x.shape)
        order = np.argsort(-x, axis=1)
        steps, weight = (np.take_along_axis(z, order, axis=1) for z in (x, mass))
        tau = (np.cumsum(weight * steps, axis=1) - 1) / np.cumsum(weight, axis=1)
        last = np.sum(steps > tau, axis=1, keepdims=True) - 1
        p = mass * np.maximum(x - np.take_along_axis(tau, last, axis=1), 0)
        score = np.sum(np.where(p > 0, x, 0) * p, axis=1)
        return top[:, 0] + score - self._value(p, q), p.astype(theta.dtype)


@pytest.mark.parametrize("entropy", [ChiSquare(), mx.Relative(ChiSquare(), [1.0, 2.0, 4.0, 2.0])])
def test_an_own_entropy_takes_a_base_measure(entropy):
    check_entropy(entropy, 4)


def test_an_own_measured_entropy_agrees_with_its_closed_forms():
    theta, q0 = np.array([[0.3, -1.0, 0.2, 0.9], [0.0, 0.1, 0.2, 0.3]]), [0.1, 0.2, 0.4, 0.3]
    own, known = mx.Relative(ChiSquare(), q0), mx.Relative(mx.SquaredNorm(), q0)
    np.testing.assert_allclose(own.conjugate(theta)[1], known.conjugate(theta)[1], atol=1e-12)
    np.testing.assert_allclose(own.prox(theta, 0.7), known.prox(theta, 0.7), atol=1e-7)


def test_base_measures_that_are_normalised_stay_as_they_are():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 100, 10_001):
        relative = mx.Relative(mx.Shannon(), rng.random((3, size)) ** 9)
        np.testing.assert_array_equal(mx.Relative(mx.Shannon(), relative.q0).q0, relative.q0)


@pytest.mark.parametrize(
    ("entropy", "power"),
    [
        (mx.Shannon(), 0.0),
        (mx.Shannon(domain=mx.Cube()), None),
        (mx.Tsallis(1.5), 0.5),
        (mx.NormEntropy(3.0), 2.0),
        (mx.NormEntropy(float("inf")), float("inf")),
        (mx.SquaredNorm(1.5), 0.5),
        (mx.SquaredNorm(domain=mx.Euclidean()), None),
        (mx.Renyi(0.5), -0.5),
        (mx.Relative(mx.Renyi(3.0), [0.5, 0.5]), 2.0),
        (mx.PairwiseHinge("squared", 3), None),
        (mx.FermiDirac(), None),
    ],
    ids=repr,
)
def test_link_power(entropy, power):
    assert entropy.link_power == power


SEPARABLE = {
    "Shannon": (lambda t: np.log(t) + 1, lambda s: np.exp(s - 1), mx.Shannon()),
    "Tsallis 0.4": (lambda t: (1 - t**-0.6) / 0.6, lambda s: (1 - 0.6 * s) ** (-1 / 0.6), None),
    "Tsallis 1.5": (lambda t: 2 * (np.sqrt(t) - 1), lambda s: (1 + s / 2) ** 2, mx.Tsallis(1.5)),
    "squared norm": (lambda t: t, lambda s: s, mx.SquaredNorm()),
    "sigmoid": (special.logit, special.expit, mx.FermiDirac()),
    "sparse sigmoid": (lambda t: 2 * t - 1, lambda s: (s + 1) / 2, mx.BinaryGini()),
    "relu": (lambda t: t, lambda s: s, mx.SquaredNorm(domain=mx.NonNegative())),
}


@pytest.mark.parametrize("name", SEPARABLE)
def test_prop_9_from_the_derivative_and_its_inverse_alone(name):
    """Maps, conjugates (up to the constant that g' does not tell) and prox of known entropies."""
    derivative, inverse, known = SEPARABLE[name]
    known = known or mx.Tsallis(0.4)
    entropy = mx.SeparableEntropy(derivative, inverse, domain=known.domain)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(40, 6)) * rng.choice([0.1, 1.0, 10.0, 1e3], size=(40, 1))
    (values, p), (exact, q) = entropy.conjugate(theta), known.conjugate(theta)
    np.testing.assert_allclose(p, q, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(p < 1e-300, q < 1e-300)
    assert np.ptp(values - exact) <= 1e-13 * (1 + np.abs(exact).max())
    for tau in (0.1, 3.0):
        np.testing.assert_allclose(entropy.prox(theta, tau), known.prox(theta, tau), atol=1e-9)
    if isinstance(known.domain, mx.Simplex):
        assert entropy.margin == known.margin


def test_algorithm_1_as_printed():
    """Bisection of the paper, stopped at the same accuracy, meets the faster steps."""
    g, inverse = (lambda t: np.arctanh(t / 2)), (lambda s: 2 * np.tanh(s))  # an entropy of no name
    theta = np.array([0.3, -0.4, 0.1, 0.25])
    low, high = theta.max() - g(1.0), theta.max() - g(1 / 4)
    for _ in range(60):
        tau = (low + high) / 2
        p = inverse(np.maximum(theta - tau, g(0.0)))
        low, high = (low, tau) if p.sum() < 1 else (tau, high)
    own = mx.SeparableEntropy(g, inverse)
    np.testing.assert_allclose(own.conjugate(theta)[1], p, atol=1e-14)
    check_entropy(own, 4)


def test_a_separable_entropy_learns():
    X, y = datasets.load_iris(return_X_y=True)
    own = mx.SeparableEntropy(*SEPARABLE["Tsallis 1.5"][:2])
    mine, known = (
        mx.FenchelYoungClassifier(entropy, potential=1e-2, tol=1e-9).fit(X, y)
        for entropy in (own, mx.Tsallis(1.5))
    )
    np.testing.assert_allclose(mine.coef_, known.coef_, atol=1e-4)


def test_functions_that_are_no_separable_entropy_are_refused():
    with pytest.raises(ValueError, match="increases"):
        mx.SeparableEntropy(lambda t: -t, lambda s: -s)
    with pytest.raises(ValueError, match="does not give back p"):
        mx.SeparableEntropy(np.log, lambda s: np.exp(s) + 1e-3)
    with pytest.raises(TypeError, match="two functions"):
        mx.SeparableEntropy(np.log, 2.0)
    with pytest.raises(TypeError, match="Simplex, Cube or NonNegative"):
        mx.SeparableEntropy(np.log, np.exp, domain=mx.Chain(2))


class WrongLink(mx.Tsallis):
    """The power of another alpha."""

    link_power = 1.0


class WrongMeasure(mx.Tsallis):
    """Takes the base measure for the counting measure."""

    def _conjugate(self, theta, q=None):
        return super()._conjugate(theta)


class WrongMap(mx.Shannon):
    """Softmax sharpened: p no longer maximises."""

    def _conjugate(self, theta, q=None):
        values, _ = super()._conjugate(theta, q)
        return values, super()._conjugate(1.1 * theta, q)[1]


class WrongDerivative(mx.Tsallis):
    """A Jacobian twice too large."""

    def _hvp(self, theta, p, v, q=None):
        return 2 * super()._hvp(theta, p, v, q)


class WrongStep(mx.Tsallis):
    """A proximity operator that ignores its step: invisible at tau = 1."""

    def _prox(self, eta, tau, q=None):
        return super()._prox(eta, 1.0, q)


class WrongMargin(mx.Tsallis):
    """Half the margin."""

    margin = 0.5


@pytest.mark.parametrize(
    ("entropy", "message"),
    [
        (WrongMap(), "at the maximiser"),
        (WrongDerivative(1.5), "hvp differs"),
        (WrongStep(1.5), r"prox at tau = 0\.3"),
        (WrongMargin(2.0), "of its margin"),
        (WrongLink(1.5), "link_power"),
        (WrongMeasure(1.5), "scores of 0 do not give q0"),
    ],
)
def test_a_broken_entropy_is_caught(entropy, message):
    with pytest.raises(AssertionError, match=message):
        check_entropy(entropy, 5)


class FarMargin(mx.Tsallis):
    """A margin too large by some share."""

    excess = 1.0

    @property
    def margin(self):
        return self.excess / (self.alpha - 1)


# the nearer alpha is to 1, the earlier before its margin is the loss below rounding
@pytest.mark.parametrize(("alpha", "excess"), [(2.0, 1.04), (1.3, 1.04), (1.1, 1.06), (1.07, 2.0)])
def test_margins_are_checked_as_near_as_rounding_allows(alpha, excess, monkeypatch):
    check_entropy(FarMargin(alpha), 5)
    monkeypatch.setattr(FarMargin, "excess", excess)
    with pytest.raises(AssertionError, match="of its margin"):
        check_entropy(FarMargin(alpha), 5)


@pytest.mark.parametrize(
    "entropy",
    [mx.SquaredNorm(1.1058), mx.Scaled(mx.Tsallis(1.1075), 0.59), *map(mx.Tsallis, (1.05, 1.01))],
    ids=repr,
)
def test_steep_losses_pass(entropy):
    check_entropy(entropy, 7)


@pytest.mark.parametrize("size", [2, 6, 7, 30])
def test_maps_at_the_margin_are_finite(size):
    """There the last step to the threshold is nothing but rounding, which must not pass 0."""
    for alpha in np.linspace(2.05, 6.0, 400):
        entropy = mx.Tsallis(alpha)
        scores = entropy.margin * np.eye(1, size, 1)
        values, p = entropy.conjugate(scores)
        np.testing.assert_allclose(p, np.eye(1, size, 1), atol=1e-14)
        np.testing.assert_allclose(values, entropy.margin, rtol=1e-14)


@pytest.mark.parametrize("far", [False, True], ids=["near 0", "with far scores"])
def test_the_sigmoid_of_one_column_has_all_its_digits(far):
    scores = np.concatenate([np.linspace(-690, 690, 801), np.logspace(-300, 0, 50), [0.0]])
    scores = np.append(scores, [-707.0, 707.0, -1e300, 1e300]) if far else scores
    value, p = mx.FermiDirac().conjugate(scores[:, None])
    small = np.exp(-np.abs(scores))
    expected = np.where(scores >= 0, 1 / (1 + small), small / (1 + small))
    np.testing.assert_allclose(p[:, 0], expected, rtol=4e-15)
    expected = np.maximum(scores, 0) + np.log1p(small)
    np.testing.assert_allclose(value, expected, rtol=4e-15)


@pytest.mark.parametrize("alpha", [1.5, 2.5, 4.53])
def test_curvature_of_pairs_does_not_cancel(alpha):
    entropy = mx.OneVsAll(mx.Tsallis(alpha))
    edge = 1 / (alpha - 1)  # beyond which p is 0
    theta = np.array([[-edge + 1e-12, -edge + 1e-6, 0.1, edge - 1e-9]])
    p = entropy.conjugate(theta)[1]
    first, second = p ** (2 - alpha), (1 - p) ** (2 - alpha)
    exact = first * second / (first + second)
    np.testing.assert_allclose(entropy.curvature(theta, p)[0], exact, rtol=1e-12)
    v = np.array([[1.0, -2.0, 0.5, 3.0]])
    np.testing.assert_allclose(entropy.hvp(theta, p, v), exact * v, rtol=1e-12)

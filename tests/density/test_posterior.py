"""How well a density is known: against finite differences, inverses written out, and refits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from maxent import MaxentDensity, Tsallis
from maxent.density import Places, Posterior


def fitted(seed: int = 0, n: int = 40):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (300, 2))
    weight = np.exp(1.5 * X[:, 0] - 2 * X[:, 1] ** 2)
    y = rng.multinomial(n, weight / weight.sum())
    density = MaxentDensity("lq", multiplier=0.3).fit(X, y).density_
    assert len(density.weights) >= 2
    return X, y, density


def features(density, X):
    """Features in use, written out: their names are x0, x1, x0^2 ... scaled to ranges."""
    from maxent.features import bind

    return bind(density.operators, density.schema.read(X)).columns()


def exponent(F, w):
    """eta at every cell: log q + H(q), q = exp(F w) / Z over the cells."""
    theta = F @ w
    log_q = theta - np.logaddexp.reduce(theta)
    return log_q - np.exp(log_q) @ log_q


def test_slopes_are_those_of_the_exponent_with_its_normalisation_and_entropy():
    X, _, density = fitted()
    F, w = features(density, X), density.weights
    posterior = Posterior.from_density(density, X)
    places = posterior.at(X)
    np.testing.assert_allclose(places.exponent, exponent(F, w), atol=1e-9)
    np.testing.assert_allclose(places.suitability, density.predict(X, "cloglog"), atol=1e-12)
    for j in range(len(w)):
        step = 1e-5 * np.eye(len(w))[j]
        slope = (exponent(F, w + step) - exponent(F, w - step)) / 2e-5
        np.testing.assert_allclose(places.slopes[:, j], slope, atol=1e-7)


def test_the_covariance_inverts_the_curvature_of_loss_and_prior():
    X, y, density = fitted()
    F, w, n = features(density, X), density.weights, y.sum()
    theta = F @ w
    q = np.exp(theta - np.logaddexp.reduce(theta))
    centred = F - q @ F
    precision = n * (centred.T * q) @ centred + np.diag((n * density.beta) ** 2 / 2)
    posterior = Posterior.from_density(density, X)
    np.testing.assert_allclose(posterior.covariance @ precision, np.eye(len(w)), atol=1e-8)
    twice = Posterior.from_density(
        density, np.concatenate([X, X[:5]]), np.r_[np.full(300, 2.0), [0] * 5]
    )
    np.testing.assert_allclose(twice.covariance, posterior.covariance, rtol=1e-9)


@pytest.mark.parametrize("detection", [1.0, 0.4])
def test_visits_take_off_what_they_tell(detection):
    X, _, density = fitted()
    posterior = Posterior.from_density(density, X)
    places = posterior.at(X)
    importance = places.importance()
    before = places.variance(posterior.covariance).mean()
    np.testing.assert_allclose(np.trace(importance @ posterior.covariance), before)
    np.testing.assert_allclose(before, np.mean(posterior.deviation(X) ** 2))
    told = places.reduction(posterior.covariance, importance, detection)
    for i in (0, 17, 200):
        after = posterior.after(places.take([i]), detection)
        left = places.variance(after.covariance).mean()
        np.testing.assert_allclose(before - left, told[i], rtol=1e-9)
    # several at once: the inverse of the sum of what they tell, written out
    some = places.take([3, 4, 99])
    told = (some.slopes.T * some.information(detection)) @ some.slopes
    expected = np.linalg.inv(np.linalg.inv(posterior.covariance) + told)
    found = posterior.after(some, detection).covariance
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("detection", [1.0, 0.3])
def test_information_is_the_mean_squared_slope_of_the_log_probability(detection):
    eta = np.array([-30.0, -3.0, -0.5, 0.0, 1.0, 2.5])
    step = 1e-5

    def log_probabilities(exponent):
        found = -detection * np.expm1(-np.exp(exponent))
        return np.log(found), np.log1p(-found)

    slopes = [
        (up - down) / (2 * step)
        for up, down in zip(
            log_probabilities(eta + step), log_probabilities(eta - step), strict=True
        )
    ]
    chance = -detection * np.expm1(-np.exp(eta))
    expected = chance * slopes[0] ** 2 + (1 - chance) * slopes[1] ** 2
    places = Places(np.zeros((6, 1)), eta)
    np.testing.assert_allclose(places.information(detection), expected, rtol=1e-4)
    # certain places tell nothing, and nothing overflows
    far = Places(np.zeros((3, 1)), np.array([-800.0, 50.0, 800.0]))
    assert np.isfinite(far.information(detection)).all()
    assert far.information(detection).max() < 1e-12


def test_deviations_are_those_of_fits_to_fresh_records():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (200, 1))
    truth = np.exp(1.5 * X[:, 0])
    found, told = [], []
    for _ in range(40):
        y = rng.multinomial(60, truth / truth.sum())
        model = MaxentDensity("l", multiplier=0.01).fit(X, y)
        found.append(model.predict(X, "cloglog"))
        told.append(Posterior.from_density(model.density_, X).deviation(X))
    ratio = np.median(np.mean(told, axis=0) / np.std(found, axis=0))
    assert 0.75 < ratio < 1.33


def test_what_cannot_be_had_is_said():
    X, _, density = fitted()
    with pytest.raises(ValueError, match="detection must lie above 0"):
        Posterior.from_density(density, X).at(X).information(0.0)
    with pytest.raises(ValueError, match=r"weight has shape \(3,\), expected \(300,\)"):
        Posterior.from_density(density, X, np.ones(3))
    with pytest.raises(ValueError, match="cells of no weight"):
        Posterior.from_density(density, X, np.zeros(300))
    other = replace(density, entropy=Tsallis(2.0))
    with pytest.raises(ValueError, match="Shannon's entropy"):
        Posterior.from_density(other, X)

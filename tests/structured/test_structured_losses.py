"""Losses and margins on structured domains, against the enumeration of their vertices."""

import numpy as np
import pytest
from scipy import special

import maxent as mx

# (domain, row size)
DOMAINS = [
    (mx.Chain(2), 14),
    (mx.Chain(3, forbidden=((0, 1),)), 15),
    (mx.Tree([(0, 1), (0, 2)], (2, 3, 2)), 17),
    (mx.Alignment(3, 4), 12),
    (mx.Alignment(4, 3, band=1), 12),
]
over_domains = pytest.mark.parametrize(("domain", "size"), DOMAINS, ids=str)


def _case(domain, size, seed=0):
    """Random scores, vertices drawn as targets, all vertices."""
    rng = np.random.default_rng(seed)
    vertices = domain.vertices(size)
    y = vertices[rng.integers(0, len(vertices), 5)]
    return rng.normal(size=(5, size)), y, vertices


@over_domains
def test_shannon_is_the_crf_loss(domain, size):
    theta, y, vertices = _case(domain, size)
    loss = mx.FenchelYoungLoss(mx.Shannon(domain=domain))
    value, gradient = loss.value_and_gradient(theta, y)
    scores = theta @ vertices.T
    expected = special.logsumexp(scores, axis=1) - np.sum(theta * y, axis=1)
    np.testing.assert_allclose(value, expected, atol=1e-8)
    np.testing.assert_allclose(gradient, special.softmax(scores, axis=1) @ vertices - y, atol=1e-10)


@over_domains
def test_squared_norm_is_the_sparse_map_loss(domain, size):
    """1/2 ||theta - y||^2 - 1/2 ||theta - p||^2, p being the nearest point."""
    theta, y, vertices = _case(domain, size)
    loss = mx.FenchelYoungLoss(mx.SquaredNorm(domain=domain))
    value, gradient = loss.value_and_gradient(theta, y)
    p = gradient + y
    beyond = np.einsum("ij,ikj->ik", theta - p, vertices - p[:, None])
    assert beyond.max() <= 1e-9
    expected = 0.5 * np.sum((theta - y) ** 2 - (theta - p) ** 2, axis=1)
    np.testing.assert_allclose(value, expected, atol=1e-10)


@over_domains
def test_zero_is_the_perceptron_loss(domain, size):
    theta, y, vertices = _case(domain, size)
    value, gradient = mx.FenchelYoungLoss(mx.Zero(domain=domain)).value_and_gradient(theta, y)
    scores = theta @ vertices.T
    np.testing.assert_allclose(value, scores.max(axis=1) - np.sum(theta * y, axis=1), atol=1e-12)
    np.testing.assert_array_equal(gradient + y, vertices[scores.argmax(axis=1)])


@over_domains
def test_a_shift_by_the_cost_is_the_structured_hinge(domain, size):
    """With cost 1/2 ||y - y'||^2 written as <c, y'> + constant; the constant cancels."""
    theta, y, vertices = _case(domain, size)
    loss = mx.FenchelYoungLoss(mx.Shifted(mx.Zero(domain=domain), 0.5 - y))
    value, gradient = loss.value_and_gradient(theta, y)
    cost = 0.5 * np.sum((vertices - y[:, None]) ** 2, axis=2)
    augmented = theta @ vertices.T + cost
    expected = augmented.max(axis=1) - np.sum(theta * y, axis=1)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    np.testing.assert_array_equal(gradient + y, vertices[augmented.argmax(axis=1)])


def _needed(theta, y, vertices):
    """The largest m with <theta, y> >= <theta, v> + m/2 ||y - v||^2 for all vertices v."""
    distance = np.sum((vertices - y) ** 2, axis=1)
    other = distance > 0
    return np.min(2 * ((y - vertices) @ theta)[other] / distance[other])


@pytest.mark.parametrize(("domain", "size"), [case for case in DOMAINS if case[0].constant_norm])
def test_prop_8_the_loss_is_0_from_a_margin_of_1_on(domain, size):
    entropy = mx.SquaredNorm(domain=domain)
    loss = mx.FenchelYoungLoss(entropy)
    assert entropy.margin == 1
    assert mx.Scaled(entropy, 3.0).margin == 3
    noise, targets, vertices = _case(domain, size)
    for theta, y in zip(0.2 * noise, targets, strict=True):
        # scale y up until the margin is just reached, from both sides
        short = 1 - _needed(theta, y, vertices)
        assert loss.value(theta + (short + 1e-6) * y, y) == pytest.approx(0, abs=1e-10)
        assert loss.value(theta + (short - 1e-2) * y, y) > 1e-7


def test_alignments_need_twice_the_margin():
    """A path may contain another one, whose norm is smaller: Prop. 8 does not hold."""
    domain = mx.Alignment(2, 2)
    entropy = mx.SquaredNorm(domain=domain)
    assert not domain.constant_norm
    assert entropy.margin is None
    loss = mx.FenchelYoungLoss(entropy)
    vertices = domain.vertices(4)
    y = np.array([1.0, 1.0, 0.0, 1.0])
    for margin, expected in ((1.0, True), (1.9, True), (2.0, False)):
        theta = margin * np.array([0.0, 0.5, -2.0, 0.0])
        assert _needed(theta, y, vertices) == pytest.approx(margin)
        assert (loss.value(theta, y) > 1e-9) == expected


@over_domains
def test_entropies_without_a_margin(domain, size):
    """The CRF loss is positive everywhere; a hinge's margin is that of its cost."""
    shannon = mx.Shannon(domain=domain)
    assert shannon.margin is None
    assert mx.Zero(domain=domain).margin is None
    assert mx.Shifted(mx.Zero(domain=domain), np.ones(size)).margin is None
    _, y, _ = _case(domain, size)
    assert (mx.FenchelYoungLoss(shannon).value(3 * y, y) > 0).all()
    hinge = mx.FenchelYoungLoss(mx.Shifted(mx.Zero(domain=domain), 0.5 - y))
    np.testing.assert_allclose(hinge.value(1.001 * (y - 0.5), y), 0, atol=1e-12)
    assert (hinge.value(0.9 * (y - 0.5), y) > 0).all()

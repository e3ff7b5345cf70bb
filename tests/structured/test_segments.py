"""Segmentations: every oracle by enumeration, rows that are sums, extreme scores, bad input."""

import numpy as np
import pytest
from scipy import special

import maxent as mx
from maxent.rows.arrays import flat, row_dot, row_sum
from maxent.structured import SegmentMap, SemiMarkov
from maxent.testing import check_domain

CASES = [(SemiMarkov(2, 3), 3), (SemiMarkov(1, 4), 4), (SemiMarkov(3, 1), 2), (SemiMarkov(2, 5), 1)]
LENGTHS = (5, 1, 3, 6)


@pytest.mark.parametrize(("domain", "length"), CASES, ids=str)
def test_oracles(domain, length):
    check_domain(domain, domain.size(length))


def test_the_vertices_are_all_segmentations():
    """Cuts of 4 positions into segments of up to 2, each with one of 2 labels."""
    domain = SemiMarkov(2, 2)
    found = domain.decode(domain.vertices(domain.size(4)))
    shapes = [(1, 1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2)]
    assert len(found) == sum(2 ** len(shape) for shape in shapes)
    assert len({tuple(segments) for segments in found}) == len(found)
    np.testing.assert_array_equal(
        np.array(domain.encode(found).rows()), domain.vertices(domain.size(4))
    )


def test_segments_of_one_position_are_a_chain():
    rng = np.random.default_rng(0)
    nodes, change = rng.normal(size=(5, 6, 3)), rng.normal(size=(3, 3))
    theta = SemiMarkov(3, 1).scores(nodes[:, :, None], change)
    value, p = SemiMarkov(3, 1).softmax(theta)
    chains = np.concatenate(
        [nodes.reshape(5, -1), np.tile(change.ravel(), (5, 5))], axis=1
    )  # the same layout
    expected, marginals = mx.Chain(3).softmax(chains)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(p, marginals, atol=1e-13)


def _sums(domain, rng, scale=1.0):
    c, k = domain.n_labels, domain.longest
    own = [[scale * rng.normal(size=(n, c)) for n in LENGTHS] for _ in range(3)]
    tables = scale * rng.normal(size=(k, c)), scale * rng.normal(size=(c, c))
    return domain.sums(own[0], *tables, own[1], own[2])


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0, 1e4])
def test_rows_of_sums_agree_with_the_same_scores_written_out(scale):
    domain, rng = SemiMarkov(2, 3), np.random.default_rng(3)
    theta = _sums(domain, rng, scale)
    written = domain.untie(theta)
    value, p = domain.softmax(theta)
    expected, q = domain.softmax(written)
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(flat(p), flat(domain.tie(q)), atol=1e-13 * (1 + scale))
    assert flat(p).min() >= 0
    assert p.own.values.max() <= 1
    assert domain.contains(p).all()
    best, written_best = domain.argmax(theta), domain.argmax(written)
    np.testing.assert_array_equal(flat(best), flat(domain.tie(written_best)))
    assert domain.decode(best) == domain.decode(written_best)
    np.testing.assert_array_equal(flat(domain.encode(domain.decode(best), tied=True)), flat(best))
    along, against = _sums(domain, rng), _sums(domain, rng)
    moved = row_dot(domain.softmax_jvp(theta, p, along), against + 0 * p)
    slopes = domain.softmax_jvp(written, q, domain.untie(along))
    np.testing.assert_allclose(moved, row_dot(slopes, domain.untie(against)), atol=1e-10)
    scores, batches = domain.kbest(theta, 3)
    np.testing.assert_allclose(scores, domain.kbest(written, 3)[0], rtol=1e-12)
    np.testing.assert_allclose(row_dot(batches[0], theta + 0 * p), scores[:, 0], rtol=1e-12)


def test_entropy_and_draws_of_rows_of_sums():
    domain = SemiMarkov(2, 3)
    theta = _sums(domain, np.random.default_rng(4))
    value, p = domain.softmax(theta)
    np.testing.assert_allclose(domain.negentropy(p), row_dot(theta + 0 * p, p) - value, atol=1e-8)
    drawn = sum(flat(x) for x in domain.sample(theta, 4000, random_state=0)) / 4000
    np.testing.assert_allclose(drawn, flat(p), atol=0.05)
    assert (domain.negentropy(domain.argmax(theta)) == 0).all()


def test_marginals_stay_probabilities_along_a_long_sequence():
    """600 positions, segments of up to 200: no sum leaves its range by a rounding."""
    rng = np.random.default_rng(5)
    domain, n = SemiMarkov(3, 200), 600
    content = [30 * rng.normal(size=(n, 3))]
    theta = domain.sums(content, rng.normal(size=(200, 3)), rng.normal(size=(3, 3)))
    value, p = domain.softmax(theta)
    own = p.own.values.reshape(n, 3, 3)
    assert own.min() >= 0
    assert own.max() <= 1
    np.testing.assert_allclose(own[:, 0].sum(axis=1), 1, atol=1e-11)
    assert domain.contains(p, atol=1e-9).all()
    # a constant on every segment: the log-partition moves by its expected number
    h = 1e-6
    tied = theta.tied.copy()
    tied[:, : 200 * 3] += h
    moved = domain.softmax(mx.Tied(theta.own, tied))[0] - value
    assert moved[0] / h == pytest.approx(own[:, 1].sum(), rel=1e-4)


def test_segments_beyond_the_end_are_in_no_vertex():
    domain = SemiMarkov(1, 3)
    theta = np.zeros(domain.size(2)).reshape(1, -1)
    theta[0, [2, 4, 5]] = 100.0  # lengths 3 from 0, 2 and 3 from 1
    assert domain.decode(domain.argmax(theta)) in ([[(0, 1, 0), (1, 2, 0)]], [[(0, 2, 0)]])
    value, p = domain.softmax(theta)
    assert value == pytest.approx(np.log(2))
    assert not p[0, [2, 4, 5]].any()


def test_the_map_and_its_adjoint():
    rng = np.random.default_rng(6)
    X = [rng.normal(size=(n, 4)) for n in LENGTHS]
    for parts, kept in ((("inside", "first", "last"), None), (("last",), np.array([0, 3, 5]))):
        features = SegmentMap(X, 2, 3, parts, kept)
        w, p = rng.normal(size=features.n_features), _sums(SemiMarkov(2, 3), rng)
        p = p + 0 * SemiMarkov(2, 3).softmax(p)[1]
        left = row_dot(features.scores(w) + 0 * p, p).sum()
        assert left == pytest.approx(w @ features.moments(p), rel=1e-12)
        some = features.take(np.array([2, 0]))
        np.testing.assert_allclose(
            flat(some.scores(w).own),
            np.concatenate([features.scores(w).own.rows()[i] for i in (2, 0)]),
        )
        assert (
            row_sum(features.scores(w) * features.scores(w)) <= features.row_norms() * (w @ w)
        ).all()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: SemiMarkov(0, 2), "n_labels >= 1"),
        (lambda: SemiMarkov(2, 1.5), "longest >= 1"),
        (lambda: SemiMarkov(2, 3).argmax(np.zeros(7)), "6 for T=1 and 16 for T=2"),
        (lambda: SemiMarkov(2, 3).encode([[(0, 4, 0)]]), "1 to 3 positions"),
        (lambda: SemiMarkov(2, 3).encode([[(0, 2, 0), (1, 3, 1)]]), "starts at 2"),
        (lambda: SemiMarkov(2, 3).encode([[]]), "no segment"),
        (lambda: SemiMarkov(2, 3).scores([np.zeros((4, 3, 2))], np.zeros((3, 3))), "transitions"),
        (lambda: SemiMarkov(2, 3).scores([np.zeros((4, 2, 2))], np.zeros((2, 2))), "sequence 0"),
        (lambda: SemiMarkov(1, 2).sums([[[0.0]]], [[0.0]], [[0.0]]), "durations"),
        (lambda: SemiMarkov(1, 1).sums([[[-np.inf]]], [[0.0]], [[0.0]]), None),
        (lambda: SegmentMap([np.ones((2, 1))], 2, 3, parts=("middle",)), "parts are some of"),
        (lambda: SegmentMap([np.ones((2, 1))], 2, 3, kept=np.array([9])), "places from 0 to 3"),
        (lambda: SegmentMap([np.ones((2, 1))], 2, 0), "longest >= 1"),
    ],
)
def test_bad_input_is_refused(call, match):
    if match is None:  # made, but not summed
        domain, theta = SemiMarkov(1, 1), call()
        with pytest.raises(ValueError, match="must be finite"):
            domain.softmax(theta)
        with pytest.raises(TypeError, match=r"SemiMarkov\.untie"):
            domain.project(SemiMarkov(1, 1).sums([[[0.0]]], [[0.0]], [[0.0]]))
        return
    with pytest.raises(ValueError, match=match):
        call()


def test_rows_without_a_segmentation_are_named():
    domain = SemiMarkov(1, 2)
    begins = [np.zeros((3, 1)), np.array([[-np.inf], [0.0]])]
    theta = domain.sums([np.zeros((3, 1)), np.zeros((2, 1))], np.zeros((2, 1)), [[0.0]], begins)
    for oracle in (domain.softmax, domain.argmax, domain.sample):
        with pytest.raises(ValueError, match="row 1 has no segmentation"):
            oracle(theta)


def test_a_fit_has_its_certificate():
    """Two problems with one optimum: rows of sums, and the same scores written out."""
    rng = np.random.default_rng(7)
    X = [rng.normal(size=(n, 2)) for n in LENGTHS]
    domain = SemiMarkov(2, 3)
    features = SegmentMap(X, 2, 3)
    truth = domain.argmax(features.scores(3 * rng.normal(size=features.n_features)))
    problem = mx.Problem(mx.Shannon(domain=domain), features, mx.Quadratic(0.1), observed=truth)
    solution = problem.solve(tol=1e-9)
    assert solution.gap <= 1e-9
    theta = features.scores(solution.w)
    by_hand = 0.0
    for row, path in zip(domain.untie(theta).rows(), domain.decode(truth), strict=True):
        scores = domain.vertices(row.size) @ row
        by_hand += special.logsumexp(scores) - domain.encode([path]).rows()[0] @ row
    objective = by_hand / len(X) + 0.05 * solution.w @ solution.w
    state = problem.state(solution.w)
    assert state.smooth + problem.observed_value + state.penalty == pytest.approx(objective)

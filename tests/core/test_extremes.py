"""Every entropy of the catalogue at its edges: huge, tiny, tied, forbidden, single, odd input."""

import concurrent.futures
import contextlib
import os

import numpy as np
import pytest

import maxent as mx
from catalogue import ENTROPIES
from maxent._support import threads

YOUNGIZED = [e for e, _ in ENTROPIES if isinstance(e, mx.Youngized)]
# where exp(theta) is part of Omega*, most of the scores here are beyond its largest
CASES = [(e, d) for e, d in ENTROPIES if e not in YOUNGIZED and np.isinf(e.largest_score)]
SIMPLEX = [(e, d) for e, d in CASES if isinstance(e.domain, mx.Simplex)]
every = pytest.mark.parametrize(("entropy", "size"), CASES, ids=lambda x: repr(x)[:60])
on_simplex = pytest.mark.parametrize(("entropy", "size"), SIMPLEX, ids=lambda x: repr(x)[:60])


def rows_of(entropy):
    """Per-row costs need as many rows as they have."""
    cost = getattr(entropy, "cost", None)
    return len(cost) if np.ndim(cost) == 2 else 3


def unbounded(entropy):
    return not entropy.domain.bounded


def draw(entropy, size, seed=0):
    return np.random.default_rng(seed).normal(size=(rows_of(entropy), size))


def check(entropy, theta, atol=1e-9):
    values, p = entropy.conjugate(theta)
    p = np.asarray(p)
    assert p.dtype == theta.dtype
    assert np.isfinite(p).all(), f"p = {p}"
    assert entropy.domain.contains(p, atol).all(), f"p = {p} left the domain"
    assert not np.isnan(values).any(), f"values = {values}"
    return values, p


@every
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_scale_of_scores_in_float64(entropy, size, scale):
    theta = scale * np.clip(draw(entropy, size), -3, 3)
    values, _ = check(entropy, theta)
    if not (unbounded(entropy) and scale == 1e300):  # there Omega* = theta^2/2 overflows truly
        assert np.isfinite(values).all(), f"values = {values}"


@on_simplex
def test_the_largest_doubles_of_both_signs(entropy, size):
    largest = 1.7e308 * min(getattr(entropy, "temperature", 1.0), 1.0)
    theta = np.full((rows_of(entropy), size), -largest)
    theta[:, 1] = largest
    values, p = check(entropy, theta)
    np.testing.assert_array_equal(p[:, 1], 1)
    np.testing.assert_allclose(values, largest)


@every
def test_rounding_beyond_the_border_has_a_value(entropy, size):
    for vertex in entropy.domain.vertices(size)[:3]:
        p = np.tile(vertex, (rows_of(entropy), 1))
        beyond = p * (1 + 2.3e-16)
        assert entropy.domain.contains(beyond).all()
        np.testing.assert_allclose(entropy.value(beyond), entropy.value(p), atol=1e-9)


@every
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_of_scores_in_float32(entropy, size, scale):
    theta = (scale * draw(entropy, size)).astype(np.float32)
    values, _ = check(entropy, theta)
    assert np.isfinite(values).all()


@on_simplex
def test_float32_far_from_zero(entropy, size):
    """Shifted by 1e4 float32 scores keep 1e-3: what they do hold must be used to the last digit."""
    theta = (1e4 + draw(entropy, size)).astype(np.float32)
    values, p = check(entropy, theta)
    exact_values, exact_p = entropy.conjugate(theta.astype(np.float64))
    np.testing.assert_allclose(values, exact_values, rtol=1e-6)
    if entropy.differentiable:
        np.testing.assert_allclose(p, exact_p, atol=5e-6)


def _can_forbid(entropy):
    return not isinstance(entropy.domain, mx.Euclidean)


@pytest.mark.parametrize(
    ("entropy", "size"),
    [(e, d) for e, d in CASES if _can_forbid(e)],
    ids=lambda x: repr(x)[:60],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forbidden_entries(entropy, size, dtype):
    theta = draw(entropy, size).astype(dtype)
    theta[:, 1] = -np.inf
    values, p = check(entropy, theta)
    assert np.isfinite(values).all()
    assert (p[:, 1] == 0).all()


@on_simplex
def test_all_but_one_forbidden(entropy, size):
    theta = np.full((rows_of(entropy), size), -np.inf)
    theta[:, 2] = 0.7
    values, p = check(entropy, theta)
    np.testing.assert_allclose(p, np.broadcast_to(np.eye(size)[2], p.shape), atol=1e-15)
    np.testing.assert_allclose(values, 0.7 - entropy.value(p), atol=1e-12)


@every
def test_ties(entropy, size):
    """Equal scores: finite, inside, and equal shares where Omega is symmetric and smooth."""
    theta = np.zeros((rows_of(entropy), size))
    for level in (0.0, 1.0, -1e6, 1e15):
        if entropy.domain == mx.NonNegative() and isinstance(entropy, mx.Zero):
            continue
        values, p = check(entropy, theta + level)
        assert np.isfinite(values).all()
        plain = not isinstance(entropy, mx.Bregman | mx.Relative | mx.Shifted)
        if plain and entropy.differentiable and isinstance(entropy.domain, mx.Simplex):
            np.testing.assert_allclose(p, 1 / size, atol=1e-12)


SINGLE = [
    *(mx.Tsallis(a) for a in (1.0, 1.5, 2.0, 2.7)),
    mx.Shannon(),
    mx.NormEntropy(2.0),
    mx.NormEntropy(np.inf),
    mx.SquaredNorm(1.5),
    mx.SquaredNorm(),
    mx.Renyi(0.5),
    mx.Renyi(3.0),
    mx.Zero(),
    mx.Shifted(mx.Tsallis(1.5), [0.5]),
    mx.Scaled(mx.Shannon(), 0.5),
    *(mx.Relative(e, [2.0]) for e in (mx.Shannon(), mx.Tsallis(1.5), mx.Renyi(0.5), mx.Renyi(3.0))),
    mx.Relative(mx.SquaredNorm(1.5), [1.0]),
    mx.Shannon(domain=mx.KSubset(1)),
    mx.SquaredNorm(domain=mx.KSubset(1)),
    mx.Zero(domain=mx.Chain(1)),
    mx.Shannon(domain=mx.Chain(1)),
]


@pytest.mark.parametrize("entropy", SINGLE, ids=lambda x: repr(x)[:60])
def test_rows_of_one_entry(entropy):
    """The simplex of one entry is a point: p = 1, Omega* = theta - Omega(1)."""
    theta = np.array([[-3.0], [0.0], [1e5]])
    values, p = check(entropy, theta)
    np.testing.assert_allclose(p, 1.0, atol=1e-12)
    np.testing.assert_allclose(values, theta[:, 0] - entropy.value(p), atol=1e-10)
    if entropy.convex and entropy.differentiable:
        np.testing.assert_allclose(entropy.prox(theta, 0.5), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("entropy", "size"),
    [(e, d) for e, d in ENTROPIES if rows_of(e) == 3],
    ids=lambda x: repr(x)[:60],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_rows(entropy, size, dtype):
    empty = np.empty((0, size), dtype)
    values, p = entropy.conjugate(empty)
    assert values.shape == (0,)
    assert p.shape == (0, size)
    assert p.dtype == dtype
    assert entropy.value(empty).shape == (0,)
    assert entropy.hvp(empty, empty, empty).shape == (0, size)
    if entropy.convex:
        with contextlib.suppress(NotImplementedError):
            assert entropy.prox(empty, 1.0).shape == (0, size)


def forms(theta):
    """The same numbers in other clothes."""
    yield "Fortran order", np.asfortranarray(theta)
    yield "every second entry", np.repeat(theta, 2, axis=1)[:, ::2]
    yield "backwards", theta[:, ::-1].copy()[:, ::-1]
    read_only = theta.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    yield "list", theta.tolist()
    yield "integer", theta.astype(np.int64)
    yield "small integer", theta.astype(np.int8)
    yield "big-endian", theta.astype(">f8")


@every
def test_form_of_the_input(entropy, size, kernels_alone):
    theta = np.round(3 * draw(entropy, size))  # whole numbers, so that integers hold them
    values, p = entropy.conjugate(theta)
    for name, form in forms(theta):
        other_values, other_p = entropy.conjugate(form)
        np.testing.assert_array_equal(other_p, p, err_msg=name)
        np.testing.assert_array_equal(other_values, values, err_msg=name)
        np.testing.assert_array_equal(entropy.value(other_p), entropy.value(p), err_msg=name)
    half = entropy.conjugate(theta.astype(np.float16))
    single = entropy.conjugate(theta.astype(np.float32))
    assert np.asarray(half[1]).dtype == np.float32
    np.testing.assert_array_equal(half[1], single[1])


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inputs_are_neither_changed_nor_returned(entropy, size, dtype):
    theta = draw(entropy, size).astype(dtype)
    before = theta.copy()
    _, p = entropy.conjugate(theta)
    v = np.ones_like(theta)
    results = [p, entropy.value(p), entropy.hvp(theta, p, v)]
    if entropy.convex:
        with contextlib.suppress(NotImplementedError):
            results.append(entropy.prox(theta, 0.7))
    kept = p.copy()
    loss = mx.FenchelYoungLoss(entropy)
    results.append(loss.gradient(theta, p))
    results.append(loss.value(theta, p))
    np.testing.assert_array_equal(theta, before)
    np.testing.assert_array_equal(p, kept)
    np.testing.assert_array_equal(v, np.ones_like(theta))
    for result in results:
        assert not np.shares_memory(result, theta)
    for result in results[1:]:
        assert not np.shares_memory(result, p)
        assert not np.shares_memory(result, v)


SEARCHES = (mx.Renyi, mx.PairwiseHinge)  # of Python, row by row
# whose projections are made of many vertices, by an active set
HULLS = (mx.Alignment, mx.Arborescence, mx.Chain, mx.ConstituencyTree, mx.ProjectiveTree, mx.Tree)
THREADED = [(e, d) for e, d in CASES if rows_of(e) == 3]


def many(entropy, size, monkeypatch):
    """As many rows as are cut into four blocks; smaller ones where a row takes long.

    Elsewhere small blocks would be done before a second thread has begun.
    """
    block = threads._BLOCK
    if isinstance(entropy, SEARCHES) or isinstance(getattr(entropy, "entropy", None), SEARCHES):
        block = 1 << 5
    elif isinstance(entropy, mx.SquaredNorm) and isinstance(entropy.domain, HULLS):
        block = 1 << 7
    monkeypatch.setattr(threads, "_BLOCK", block)
    monkeypatch.setattr(threads, "_SMALL", 4 * block)
    rows = -(-threads._SMALL // size)
    assert len(threads.blocks(rows, size)) == 4
    return np.random.default_rng(5).normal(size=(rows, size))


@pytest.mark.parametrize(("entropy", "size"), THREADED, ids=lambda x: repr(x)[:60])
def test_number_of_threads_changes_nothing(entropy, size, monkeypatch, kernels_alone):
    theta = many(entropy, size, monkeypatch)
    monkeypatch.setenv("MAXENT_NUM_THREADS", "1")
    values, p = entropy.conjugate(theta)
    monkeypatch.setenv("MAXENT_NUM_THREADS", "2")
    two_values, two_p = entropy.conjugate(theta)
    np.testing.assert_array_equal(two_p, p)
    np.testing.assert_array_equal(two_values, values)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for worker_values, worker_p in pool.map(entropy.conjugate, [theta] * 3):
            np.testing.assert_array_equal(worker_p, p)
            np.testing.assert_array_equal(worker_values, values)


@pytest.mark.parametrize("setting", ["0", "-1", "two", "1.5"])
def test_a_bad_number_of_threads_is_refused(setting, monkeypatch):
    monkeypatch.setenv("MAXENT_NUM_THREADS", setting)
    with pytest.raises(ValueError, match="MAXENT_NUM_THREADS"):
        mx.Tsallis(1.5).conjugate(np.zeros((2, 3)))
    assert os.environ["MAXENT_NUM_THREADS"] == setting

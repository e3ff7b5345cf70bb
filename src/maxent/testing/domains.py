"""The mathematics of a domain, checked by enumeration and by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from maxent.core.domains import Domain, KBestDomain, StructuredDomain, SumProductDomain
from maxent.rows.arrays import Array
from maxent.testing.inside import check_inside, entry_range

_SCALES = np.array([0.0, 0.1, 1.0, 1.0, 3.0, 10.0])
_STEP = 1e-5  # of differences


def check_domain(domain: Domain, size: int, random_state: int = 0) -> None:
    """Check every oracle of a domain on rows of ``size`` entries; AssertionError says what fails.

    Bounded domains are compared with the enumeration of their vertices, so ``size`` must be
    small; unbounded ones are checked through their projection alone. Lists of the best vertices,
    draws, entropies and divergences, where the domain has them, are compared with it as well, and
    so is what its properties say of the vertices. No oracle may leave the domain by a rounding, at
    scores up to 1e12 (``check_inside``).

    Parameters
    ----------
    domain : Domain
        The domain to check.
    size : int
        Entries of a row.
    random_state : int, default 0
        Seed of what is drawn.

    Examples
    --------
    >>> from maxent.core.domains import Simplex
    >>> check_domain(Simplex(), 4)
    """
    rng = np.random.default_rng(random_state)
    theta = rng.normal(size=(_SCALES.size, size)) * _SCALES[:, None]
    theta[3] = np.round(theta[3])  # ties
    _check_projection(domain, theta, rng)
    _check_shapes(domain.project, theta, "project")
    check_inside(domain, size, domain.project, "project", random_state)
    if domain.has_project_kl and (entry_range(domain, size)[0] >= 0).all():
        check_inside(domain, size, domain.project_kl, "project_kl", random_state)
    if not domain.bounded:
        return
    vertices = domain.vertices(size)
    _check_vertices(domain, vertices)
    _check_support(domain, theta, vertices)
    if (vertices >= 0).all() and domain.rows_alike:
        _check_project_kl(domain, theta, vertices, rng)
    _check_argmax(domain, theta, vertices)
    _check_shapes(domain.argmax, theta, "argmax")
    check_inside(domain, size, domain.argmax, "argmax", random_state)
    scores = _forbid(theta, vertices, rng)
    if scores is not None:
        _check_argmax(domain, scores, vertices)
        _check_nearest(domain, scores, domain.project(scores), _allowed(scores, vertices))
        _check_support(domain, scores, vertices)
    if isinstance(domain, KBestDomain):
        for rows in (theta,) if scores is None else (theta, scores):
            _check_kbest(domain, rows, vertices)
        _check_shapes(lambda x: domain.kbest(x, 2)[1][1], theta, "second best")
    if isinstance(domain, StructuredDomain):
        for rows in (theta,) if scores is None else (theta, scores):
            _check_sample(domain, rows, vertices, random_state)
    if isinstance(domain, SumProductDomain):
        _check_softmax(domain, theta, vertices, rng)
        check_inside(domain, size, lambda x: domain.softmax(x)[1], "softmax", random_state)
        _check_shapes(lambda x: domain.softmax(x)[0], theta, "log-partition")
        _check_shapes(lambda x: domain.softmax(x)[1], theta, "marginals")
        for rows in (theta,) if scores is None else (theta, scores):
            _check_sums(domain, rows, vertices)
            _check_divergences(domain, rows, rng.normal(size=theta.shape), vertices)


def _close(what: str, actual: Any, expected: Any, tolerance: float) -> None:
    """Assert that two arrays agree; +-inf must agree exactly."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, not {expected.shape}"
    with np.errstate(invalid="ignore"):
        error = np.where(actual == expected, 0.0, np.abs(actual - expected))
    worst = np.max(error, initial=0.0)
    assert worst <= tolerance, f"{what}: off by {worst:.2e}, tolerance {tolerance:.0e}"


def _check_shapes(oracle: Callable[[Any], Any], theta: Array, name: str) -> None:
    """Rows are independent, leading axes are kept, float32 agrees and stays float32."""
    batch = np.asarray(oracle(theta))
    tolerance = 1e-9 * (1 + np.abs(theta).max())
    for i, row in enumerate(theta):
        _close(f"{name} of row {i} alone and in a batch", oracle(row), batch[i], tolerance)
    stacked = np.asarray(oracle(theta.reshape(2, 3, -1)))
    _close(f"{name} of rows with two leading axes", stacked.reshape(batch.shape), batch, tolerance)
    single = np.asarray(oracle(theta.astype(np.float32)))
    again = oracle(theta.astype(np.float32).astype(np.float64))
    _close(f"{name} in float32", single, again, 2e-5 * (1 + np.abs(theta).max()))
    if batch.shape == theta.shape:
        assert single.dtype == np.float32, f"{name} of float32 is {single.dtype}, not float32"


def _check_single(jvp: Callable[..., Any], theta: Array, p: Array, v: Array, name: str) -> None:
    """A derivative in float32 agrees and stays float32."""
    single = np.asarray(jvp(*(x.astype(np.float32) for x in (theta, p, v))))
    assert single.dtype == np.float32, f"{name} of float32 is {single.dtype}, not float32"
    _close(f"{name} in float32", single, jvp(theta, p, v), 1e-3)


def _check_vertices(domain: Domain, vertices: Array) -> None:
    """Vertices and their mean are inside; a point pushed beyond a vertex is not."""
    assert len(vertices) > 0, "a bounded domain has at least one vertex"
    centre = vertices.mean(axis=0)
    assert domain.contains(vertices).all(), "contains refuses a vertex"
    assert domain.contains(centre), "contains refuses the mean of the vertices"
    beyond = centre + 1.3 * (vertices - centre)
    apart = np.abs(vertices - centre).max(axis=1) > 1e-6
    assert not domain.contains(beyond)[apart].any(), "contains accepts a point beyond a vertex"
    assert not domain.contains(np.full_like(centre, np.nan)), "contains accepts NaN"
    largest = np.abs(vertices).max()
    assert largest <= domain.largest_entry * (1 + 1e-12), (
        f"largest_entry is {domain.largest_entry:g}, and a vertex has an entry of {largest:g}"
    )
    norms = np.linalg.norm(vertices, axis=1)
    spread = np.ptp(norms)
    assert not domain.constant_norm or spread <= 1e-9 * (1 + norms.max()), (
        f"constant_norm, and norms of vertices differ by {spread:.2e}"
    )


def _allowed(scores: Array, vertices: Array) -> list[Array]:
    """For each row, the vertices that use no entry of -inf."""
    return [vertices[~(vertices[:, np.isneginf(row)] != 0).any(axis=1)] for row in scores]


def _forbid(theta: Array, vertices: Array, rng: np.random.Generator) -> Array | None:
    """Scores with one entry of -inf per row that some vertex avoids; None if there is no such."""
    avoidable = np.flatnonzero((vertices == 0).any(axis=0))
    if (vertices < 0).any() or avoidable.size == 0 or theta.shape[1] == 1:
        return None
    scores = theta.copy()
    scores[np.arange(len(scores)), rng.choice(avoidable, len(scores))] = -np.inf
    return scores


def _finite(scores: Array) -> Array:
    return np.where(np.isneginf(scores), 0.0, scores)


def _check_argmax(domain: Domain, theta: Array, vertices: Array) -> None:
    """Argmax is a vertex, and none is better."""
    best_vertices = np.asarray(domain.argmax(theta))
    allowed_rounding = 1e-12 * max(1.0, float(np.abs(vertices).max()))  # of masses of any size
    for i, (row, vertex, allowed) in enumerate(
        zip(theta, best_vertices, _allowed(theta, vertices), strict=True)
    ):
        nearest = np.abs(allowed - vertex).max(axis=1).min()
        assert nearest <= allowed_rounding, (
            f"argmax of row {i} is {nearest:.2e} away from every vertex"
        )
        value, best = _finite(row) @ vertex, np.max(allowed @ _finite(row))
        _close(f"value of argmax of row {i}", value, best, 1e-12 * (1 + np.abs(_finite(row)).sum()))


def _check_kbest(domain: KBestDomain, theta: Array, vertices: Array) -> None:
    """The list has the scores of all vertices, falling, and every vertex once."""
    count = len(vertices) + 1
    values, batches = domain.kbest(theta, count)
    found = np.array([np.asarray(batch) for batch in batches])
    for i, (row, allowed) in enumerate(zip(theta, _allowed(theta, vertices), strict=True)):
        scores, number = _finite(row), len(allowed)
        expected = np.append(-np.sort(-(allowed @ scores)), np.full(count - number, -np.inf))
        limit = 1e-12 * (1 + np.abs(scores).sum()) * max(1.0, float(np.abs(vertices).max()))
        _close(f"scores of the best of row {i}", values[i], expected, limit)
        assert (np.diff(values[i, :number]) <= 0).all(), f"the best of row {i} do not fall"
        own = found[:number, i]
        _close(f"products of the best of row {i}", own @ scores, values[i, :number], limit)
        apart = np.abs(own[:, None] - allowed).max(axis=2)
        assert (apart.min(axis=1) <= 1e-12).all(), f"the best of row {i} are not all vertices"
        once = np.unique(apart.argmin(axis=1)).size == number
        assert once, f"the best of row {i} list a vertex twice"
        assert not found[number:, i].any(), f"row {i} has more structures than vertices"


def _check_sample(
    domain: StructuredDomain, theta: Array, vertices: Array, random_state: int
) -> None:
    """Draws are vertices with their probabilities, and the same for the same seed."""
    count = 500
    drawn = np.array([np.asarray(x) for x in domain.sample(theta, count, random_state)])
    again = np.array([np.asarray(x) for x in domain.sample(theta, count, random_state)])
    assert (drawn == again).all(), "draws of one random_state differ"
    for i, row in enumerate(theta):
        apart = np.abs(drawn[:, i, None] - vertices).max(axis=2)
        assert (apart.min(axis=1) == 0).all(), f"a draw of row {i} is no vertex"
        share = np.bincount(apart.argmin(axis=1), minlength=len(vertices)) / count
        used = (vertices[:, np.isneginf(row)] != 0).any(axis=1)
        p = special.softmax(np.where(used, -np.inf, vertices @ _finite(row)))
        worst = np.max(np.abs(share - p) - 6 * np.sqrt(p * (1 - p) / count))
        assert worst <= 6 / count, f"draws of row {i} do not follow the law: off by {worst:.2e}"
    single = np.asarray(domain.sample(theta.astype(np.float32), 1, random_state)[0])
    assert single.dtype == np.float32, f"draws of float32 are {single.dtype}, not float32"


def _check_support(domain: Domain, theta: Array, vertices: Array) -> None:
    """The mixtures of ``project_support`` are the projections, of vertices that may be used."""
    p = np.asarray(domain.project(theta))
    mixed, supports = domain.project_support(theta)
    scale = 1 + np.abs(_finite(theta)).max()
    _close("project_support", mixed, p, 1e-8 * scale)
    for i, (support, allowed) in enumerate(zip(supports, _allowed(theta, vertices), strict=True)):
        corners, weights = support.vertices.toarray(), support.weights
        assert (weights >= 0).all(), f"a weight in the support of row {i} is negative"
        _close(f"sum of the weights in the support of row {i}", weights.sum(), 1.0, 1e-9)
        apart = np.abs(corners[:, None] - allowed).max(axis=2).min(axis=1)
        limit = 1e-9 * (1 + np.abs(vertices).max())
        assert (apart <= limit).all(), f"the support of row {i} holds what is no vertex"
        _close(f"mixture of the support of row {i}", weights @ corners, mixed[i], 1e-8 * scale)


def _check_project_kl(
    domain: Domain, theta: Array, vertices: Array, rng: np.random.Generator
) -> None:
    """<theta - log p - 1, v - p> <= 0 for all vertices v, and the derivative is that along a line.

    Rows of scores near one another: far apart ones round entries to 0.
    """
    theta = theta / (1 + np.abs(theta).max(axis=1, keepdims=True) / 3)
    p = np.asarray(domain.project_kl(theta))
    assert domain.contains(p).all(), "project_kl leaves the domain"
    reached = vertices.max(axis=0) > 0
    assert (p[:, reached] > 0).all(), "project_kl is 0 where a vertex is not"
    with np.errstate(divide="ignore"):
        slope = np.where(reached, theta - np.log(np.where(reached, p, 1.0)) - 1, 0.0)
    largest = max(1.0, float(np.abs(vertices).max()))
    for i, (row, point) in enumerate(zip(slope, p, strict=True)):
        gap = np.max((vertices - point) @ row)
        assert gap <= 1e-6 * largest, f"project_kl of row {i} is not the projection: {gap:.2e}"
    v = rng.normal(size=theta.shape)
    after, before = domain.project_kl(theta + _STEP * v), domain.project_kl(theta - _STEP * v)
    forward, backward = (after - p) / _STEP, (p - before) / _STEP
    smooth = np.abs(forward - backward).max(axis=1) < 1e-3 * largest  # it jumps at kinks
    jvp = np.asarray(domain.project_kl_jvp(theta, p, v))
    curve = ((forward + backward) / 2)[smooth]
    _close("project_kl_jvp", jvp[smooth], curve, 1e-3 * largest)


def _check_divergences(
    domain: SumProductDomain, theta: Array, others: Array, vertices: Array
) -> None:
    """Entropies, divergences and cross-entropies are those of the enumeration."""
    entropy, divergence = domain.entropy(theta), domain.kl(theta, others)
    crossed = domain.cross_entropy(theta, others)
    scale = 1 + np.abs(_finite(theta)).sum(axis=1).max()
    for i, (row, other, allowed) in enumerate(
        zip(theta, others, _allowed(theta, vertices), strict=True)
    ):
        p = special.softmax(allowed @ _finite(row))
        log_q = allowed @ other - special.logsumexp(vertices @ other)
        own = special.entr(p).sum()
        _close(f"entropy of row {i}", entropy[i], own, 1e-11 * scale)
        _close(f"cross-entropy of row {i}", crossed[i], -p @ log_q, 1e-10 * scale)
        _close(f"kl of row {i}", divergence[i], -p @ log_q - own, 1e-10 * scale)


def _check_nearest(domain: Domain, theta: Array, p: Any, points: list[Array]) -> None:
    """<theta - p, v - p> <= 0 for all points v of the domain: p is nearest."""
    p = np.asarray(p)
    assert domain.contains(p).all(), "project leaves the domain"
    for i, (row, nearest, others) in enumerate(zip(theta, p, points, strict=True)):
        gap = np.max((others - nearest) @ (_finite(row) - nearest), initial=0.0)
        # products of entries round in the square of their unit
        limit = 1e-10 * (1 + np.abs(_finite(row)).max()) * max(1.0, np.abs(nearest).max())
        assert gap <= limit, f"project of row {i} is not nearest: <theta - p, v - p> = {gap:.2e}"


def _check_projection(domain: Domain, theta: Array, rng: np.random.Generator) -> None:
    p = np.asarray(domain.project(theta))
    size = theta.shape[-1]
    inside = np.asarray(domain.project(rng.normal(size=(50, size)) * 3))
    if domain.bounded:
        inside = np.concatenate([inside, domain.vertices(size)])
    _check_nearest(domain, theta, p, [inside] * len(theta))
    _close("project of a projection", domain.project(p), p, 1e-9 * (1 + np.abs(p).max()))
    v = rng.normal(size=theta.shape)
    after, before = domain.project(theta + _STEP * v), domain.project(theta - _STEP * v)
    forward, backward = (after - p) / _STEP, (p - before) / _STEP
    smooth = np.abs(forward - backward).max(axis=1) < 1e-4  # the derivative jumps at kinks
    jvp = np.asarray(domain.project_jvp(theta, p, v))
    _close("project_jvp", jvp[smooth], ((forward + backward) / 2)[smooth], 1e-4)
    _check_single(domain.project_jvp, theta[smooth], p[smooth], v[smooth], "project_jvp")


def _check_sums(domain: SumProductDomain, theta: Array, vertices: Array) -> None:
    """Log-partition and marginals are those of the enumeration."""
    log_partition, mean = domain.softmax(theta)
    scale = 1 + np.abs(_finite(theta)).sum(axis=1).max()
    for i, (row, allowed) in enumerate(zip(theta, _allowed(theta, vertices), strict=True)):
        scores = allowed @ _finite(row)
        _close(
            f"log-partition of row {i}", log_partition[i], special.logsumexp(scores), 1e-12 * scale
        )
        marginals = special.softmax(scores) @ allowed
        _close(f"marginals of row {i}", np.asarray(mean)[i], marginals, 1e-11 * scale)


def _check_softmax(
    domain: SumProductDomain, theta: Array, vertices: Array, rng: np.random.Generator
) -> None:
    log_partition, mean = domain.softmax(theta)
    p = np.asarray(mean)
    assert domain.contains(p).all(), "the marginals are not in the domain"
    v = rng.normal(size=theta.shape)
    after, before = domain.softmax(theta + _STEP * v), domain.softmax(theta - _STEP * v)
    slope = (after[0] - before[0]) / (2 * _STEP)
    _close("marginals as a derivative", np.sum(p * v, axis=1), slope, 1e-6)
    curve = (np.asarray(after[1]) - np.asarray(before[1])) / (2 * _STEP)
    _close("softmax_jvp", domain.softmax_jvp(theta, p, v), curve, 1e-6)
    _check_single(domain.softmax_jvp, theta, p, v, "softmax_jvp")
    conjugate = np.sum(theta * p, axis=1) - log_partition
    scale = 1 + np.abs(theta).sum(axis=1).max()
    _close("negentropy = <theta, p> - log Z", domain.negentropy(p), conjugate, 1e-7 * scale)

"""Birkhoff and Transport: oracles against enumeration and optimality, and what they refuse."""

import numpy as np
import pytest
from scipy import optimize
from scipy.optimize import linprog

import maxent as mx
from maxent.structured import Birkhoff, Transport
from maxent.testing.domains import check_domain

CASES = [
    (Birkhoff(), [1, 4, 9, 16]),
    (Transport([1.0, 2.0], [0.5, 1.5, 1.0]), [6]),
    (Transport([0.2, 0.3, 0.5], [0.5, 0.25, 0.25]), [9]),
    (Transport([1.0, 0.0, 2.0], [1.5, 1.5]), [6]),  # a row without mass
    (Transport([1.0, 1.0], np.full(4, 0.5, np.float32)), [8]),  # degenerate vertices
    (Transport([2.0], [0.5, 0.5, 1.0]), [3]),
]


@pytest.mark.parametrize(
    ("domain", "size"), [(domain, size) for domain, sizes in CASES for size in sizes], ids=str
)
@pytest.mark.parametrize("seed", [0, 3])
def test_oracles(domain, size, seed):
    check_domain(domain, size, random_state=seed)


def _draw(rng, trial):
    """A domain with scores of any size: ties, costs of points on a line, -inf, uneven masses."""
    m, n = (int(k) for k in rng.integers(1, 16, 2))
    if trial % 3 == 0:
        n, domain = m, Birkhoff()
    else:
        spread = [0.3, 1.0][trial % 2]
        a, b = rng.dirichlet(np.full(m, spread)), rng.dirichlet(np.full(n, spread))
        domain = Transport(a, b)
    scale = 10.0 ** rng.uniform(-3, 5)
    theta = rng.normal(size=m * n) * scale
    if trial % 4 == 1:
        theta = np.round(theta)
    if trial % 7 == 0:
        theta = -scale * np.square(rng.normal(size=(m, 1)) - rng.normal(size=n)).ravel()
    if trial % 5 == 0:
        vertex = domain.argmax(rng.normal(size=m * n))
        theta[(rng.random(m * n) < 0.3) & (vertex == 0)] = -np.inf
    return domain, theta, scale


def test_projections_are_optimal():
    """<slope, v - p> <= 0 for the best vertex v, slope = theta - p, or theta - log p."""
    rng = np.random.default_rng(0)
    for trial in range(100):
        domain, theta, scale = _draw(rng, trial)
        p = domain.project(theta)
        assert domain.contains(p), trial
        finite = theta > -np.inf
        assert not p[~finite].any()
        slope = np.where(finite, theta, 0) - p
        vertex = domain.argmax(np.where(finite, slope, -np.inf))
        assert slope @ (vertex - p) <= 1e-9 * (1 + scale), trial

        p = domain.project_kl(theta)
        assert domain.contains(p), trial
        on = p > 0
        slope = np.where(on, np.where(on, theta, 0) - np.log(np.where(on, p, 1)), 0)
        vertex = domain.argmax(np.where(on, slope, -np.inf))
        assert slope @ (vertex - p) <= 1e-9 * (1 + scale), trial


def test_transport_is_the_linear_programme():
    rng = np.random.default_rng(0)
    for trial in range(60):
        m, n = rng.integers(1, 6, 2)
        a = rng.integers(1, 6, m).astype(float)
        b = rng.multinomial(int(a.sum()), np.full(n, 1 / n)).astype(float)
        theta = np.round(2 * rng.normal(size=m * n)) if trial % 2 else rng.normal(size=m * n)
        closed = rng.random(m * n) < 0.2
        cell = np.arange(m * n)
        sums = [cell // n == i for i in range(m)] + [cell % n == j for j in range(n)]
        best = linprog(
            -theta,
            A_eq=np.array(sums, dtype=float),
            b_eq=np.concatenate([a, b]),
            bounds=[(0, 0 if shut else None) for shut in closed],
        )
        scores = np.where(closed, -np.inf, theta)
        if best.status == 2:
            with pytest.raises(ValueError, match=r"no coupling|everywhere"):
                Transport(a, b).argmax(scores)
            continue
        p = Transport(a, b).argmax(scores)
        assert Transport(a, b).contains(p)
        assert not p[closed].any()
        assert theta @ p == pytest.approx(-best.fun, abs=1e-9)


def test_square_transport_of_ones_is_birkhoff():
    theta = np.random.default_rng(0).normal(size=(5, 49)) * [[0.1], [1], [3], [10], [100]]
    ones = Transport(np.ones(7), np.ones(7))
    for oracle in ("argmax", "project", "project_kl"):
        np.testing.assert_allclose(
            getattr(ones, oracle)(theta), getattr(Birkhoff(), oracle)(theta), atol=1e-11
        )


def test_sinkhorn_by_hand():
    """[[x, 1 - x], [1 - x, x]] with x / (1 - x) = exp of half the difference of the diagonals."""
    p = Birkhoff().project_kl([3.0, 0.5, -0.5, 1.0])
    x = 1 / (1 + np.exp(-(3.0 + 1.0 - 0.5 + 0.5) / 2))
    np.testing.assert_allclose(p, [x, 1 - x, 1 - x, x], atol=1e-12)


def test_entries_that_no_matching_uses_are_zero():
    """Sinkhorn alone would approach them like one over the number of sweeps."""
    theta = np.array([[0.0, 5.0, 0.0], [-np.inf, 1.0, 2.0], [-np.inf, 0.0, 3.0]])
    p = Birkhoff().project_kl(theta.ravel()).reshape(3, 3)
    np.testing.assert_array_equal(p[0], [1, 0, 0])
    assert (p[1:, 1:] > 0).all()


def test_derivatives_against_differences():
    rng = np.random.default_rng(0)
    domain = Transport(rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(9)))
    theta, v = rng.normal(size=(4, 54)), rng.normal(size=(4, 54))
    theta[:2] *= 30
    step = 1e-6
    for name in ("project", "project_kl"):
        oracle, jvp = getattr(domain, name), getattr(domain, name + "_jvp")
        slope = (oracle(theta + step * v) - oracle(theta - step * v)) / (2 * step)
        np.testing.assert_allclose(jvp(theta, oracle(theta), v), slope, atol=1e-6)


def test_derivative_where_links_are_weak():
    """Far below rounding of p itself, the Jacobian keeps its digits."""
    x = 1e-14
    p = np.array([1 - x, x, x, 1 - x])
    slope = Birkhoff().project_kl_jvp(None, p, np.array([1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(slope, 0.5 * x * np.array([1, -1, -1, 1]), rtol=1e-2)
    assert abs(slope[1] + 0.5 * x) < 1e-12 * x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrices_of_several_sizes(dtype):
    rng = np.random.default_rng(0)
    rows = [3 * rng.normal(size=n * n).astype(dtype) for n in (3, 1, 6, 2)]
    theta, v = mx.Ragged.from_rows(rows), mx.Ragged.from_rows([np.cos(row) for row in rows])
    domain = Birkhoff()
    for name in ("argmax", "project", "project_kl"):
        together = getattr(domain, name)(theta)
        assert together.dtype == dtype
        assert domain.contains(together).all()
        for row, whole in zip(rows, together.rows(), strict=True):
            np.testing.assert_allclose(whole, getattr(domain, name)(row), atol=1e-6)
    p = domain.project_kl(theta)
    slopes = domain.project_kl_jvp(theta, p, v).rows()
    for x, direction, slope in zip(p.rows(), v.rows(), slopes, strict=True):
        alone = domain.project_kl_jvp(None, x, direction)
        np.testing.assert_allclose(slope, alone, atol=1e-6)


def test_scores_of_any_size():
    rng = np.random.default_rng(0)
    for scale in (1e-300, 1e4, 1e8, 1e15):
        theta = (rng.normal(size=(3, 25)) * scale).astype(np.float32 if scale == 1e4 else float)
        for oracle in (Birkhoff().project, Birkhoff().project_kl):
            p = oracle(theta)
            assert Birkhoff().contains(p).all()
            if scale > 1:
                np.testing.assert_allclose(p, Birkhoff().argmax(theta), atol=1e-4)


def test_no_rows():
    for oracle in (Birkhoff().argmax, Birkhoff().project, Birkhoff().project_kl):
        assert oracle(np.empty((0, 9))).shape == (0, 9)


def test_encode_and_decode():
    domain, orders = Birkhoff(), [np.array([2, 0, 1]), np.array([0]), np.array([1, 0])]
    rows = domain.encode(orders)
    assert domain.contains(rows).all()
    for order, back in zip(orders, domain.decode(rows), strict=True):
        np.testing.assert_array_equal(order, back)
    np.testing.assert_array_equal(domain.encode(np.array([[1, 0]])), [[0, 1, 1, 0]])


def test_capped_softmax():
    """Stationarity below the cap, and sums of k, whatever the scores."""
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0, 1e4):
        theta = scale * rng.normal(size=(50, 7))
        theta[:5, 2] = -np.inf
        p = mx.KSubset(3).project_kl(theta)
        assert mx.KSubset(3).contains(p).all()
        for row, x in zip(theta, p, strict=True):
            free = (x < 1) & (x > 1e-290)
            level = row[free] - np.log(x[free])
            if free.any():
                np.testing.assert_allclose(level, level[0], atol=1e-9 * (1 + scale))
                assert (row[x == 1] >= level[0] - 1e-9 * (1 + scale)).all()


BAD = [
    (lambda: Birkhoff().argmax(np.zeros(6)), r"size 6 is no square .* Transport\(a, b\)"),
    (lambda: Birkhoff().project([1.0, np.nan, 0.0, 0.0]), "NaN"),
    (lambda: Birkhoff().encode([[0, 0]]), "permutation of 0"),
    (lambda: Birkhoff().encode(np.zeros(3, int)), "2-D array"),
    (lambda: Transport([1.0], [0.5, 0.4]), "got 1 for a and 0.9 for b; divide"),
    (lambda: Transport([1.0, -1.0], [0.0]), "finite, >= 0"),
    (lambda: Transport([[1.0]], [1.0]), "vector"),
    (lambda: Transport([1.0], [0.5, 0.5]).argmax(np.zeros(3)), "size 3 is no 1 x 2 matrix"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("oracle", ["argmax", "project", "project_kl"])
def test_a_row_without_a_matching_is_named(oracle):
    theta = np.zeros((3, 9))
    theta[1, [0, 1, 3, 4, 6, 7]] = -np.inf  # two columns are closed
    with pytest.raises(ValueError, match="row 1 has no matching"):
        getattr(Birkhoff(), oracle)(theta)


@pytest.mark.parametrize("domain", [Birkhoff(), Transport([1.0], [0.5, 0.5])], ids=str)
def test_softmax_is_a_permanent(domain):
    with pytest.raises(TypeError, match=r"#P-hard.*MeanEntropy.*SquaredNorm"):
        domain.softmax(np.zeros(4))
    with pytest.raises(TypeError, match=r"SquaredNorm.*MeanEntropy"):
        mx.Shannon(domain=domain)


def test_mean_entropy_needs_a_bounded_domain():
    with pytest.raises(TypeError, match=r"Euclidean.*SquaredNorm"):
        mx.MeanEntropy(mx.Euclidean())


def test_a_point_outside_is_explained():
    with pytest.raises(ValueError, match="column sum of 2 where 1 is due"):
        Birkhoff().require(np.array([[1.0, 0.0, 1.0, 0.0]]), "targets")


def test_both_are_saved(tmp_path):
    domain = Transport([0.25, 0.75], [0.5, 0.5])
    mx.save(mx.MeanEntropy(domain), tmp_path / "plan.json")
    theta = np.arange(4.0)
    back = mx.load(tmp_path / "plan.json")
    np.testing.assert_array_equal(back.domain.project(theta), domain.project(theta))


@pytest.mark.parametrize("scale", [1e4, 1e7, 1e9, 1e12])
def test_sums_hold_at_any_scale_of_the_scores(scale):
    """Rows were off by 3.7e-9 at 1e7 and 1.2e-4 at 1e12, while the columns held."""
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.full(5, 0.6)), rng.dirichlet(np.full(7, 0.6))
    ties = scale * rng.integers(-2, 3, size=(6, 35)) + rng.normal(size=(6, 35))
    for domain, theta in (
        (Transport(a, b), np.concatenate([scale * rng.normal(size=(6, 35)), ties])),
        (Birkhoff(), ties[:, :25]),
    ):
        for project, share in ((domain.project, 1e-12), (domain.project_kl, 1e-11)):
            p = project(theta)
            assert domain.contains(p).all()
            rows, columns = domain.sums(theta.shape[1])
            plans = p.reshape(-1, rows.size, columns.size)
            assert (plans <= np.minimum(rows[:, None], columns)).all()
            for axis, due in ((2, rows), (1, columns)):
                off = np.abs(plans.sum(axis=axis) - due).sum(axis=1)
                assert off.max() <= share * due.sum()


def test_a_tiny_mass_beside_huge_scores_is_not_lost():
    """A column that the 1-norm of all sums does not see was left empty, and ended as NaN."""
    domain = mx.Transport([3.0, 27.0], [30 - 2.6e-6, 2.6e-6])
    theta = 2e12 * np.random.default_rng(0).normal(size=(20, 4))
    plans = domain.project_kl(theta).reshape(-1, 2, 2)
    np.testing.assert_allclose(plans.sum(axis=1), np.tile(domain.b, (20, 1)), rtol=1e-4)
    np.testing.assert_allclose(plans.sum(axis=2), np.tile(domain.a, (20, 1)), rtol=1e-9)


def test_vertices_that_differ_by_a_tiny_mass_are_two():
    domain = mx.Transport([4e-10, 1e-3], [6e-4, 4e-4 + 4e-10])
    assert len(domain.vertices(4)) == 2


def test_a_tiny_mass_goes_to_the_nearest_row():
    """It was shared alike by all rows: sums were right, the projection was not."""
    a, b = np.array([4e-11, 4.4e-3]), np.array([1.8e-5, 4.4e-3 - 8.9e-5 + 4e-11, 7.1e-5])
    domain = Transport(a, b)
    plan = domain.project([7.0, 3.2, -4.4, 2.6, -0.8, 0.8]).reshape(2, 3)
    np.testing.assert_allclose(plan[0], [a[0], 0, 0], rtol=1e-6)


def test_euclidean_projections_of_masses_of_all_sizes_are_the_nearest_points():
    rng = np.random.default_rng(1)
    for _ in range(150):
        m, n = rng.integers(1, 5, 2)
        a, b = (rng.dirichlet(np.full(k, 0.15)) + 1e-12 for k in (m, n))
        domain = Transport(a / a.sum(), b / b.sum())
        theta = rng.normal(size=m * n) * 10.0 ** rng.uniform(-3, 6)
        p = domain.project(theta)
        better = domain.argmax(theta - p) - p
        assert (theta - p) @ better <= 1e-11 * (1 + np.abs(theta).max())


def murty(theta, k):
    """The k best matchings by Murty's partition, an assignment solved anew for every part."""
    n, found = len(theta), []

    def solved(scores):
        try:
            return optimize.linear_sum_assignment(scores, maximize=True)[1]
        except ValueError:  # nothing is left
            return None

    waiting = [(theta, solved(theta))]
    while waiting and len(found) < k:
        values = [theta[np.arange(n), order].sum() for _, order in waiting]
        scores, best = waiting.pop(int(np.argmax(values)))
        found.append(max(values))
        for s in range(n):
            part = scores.copy()
            part[s, best[s]] = -np.inf
            for i in range(s):
                kept = part[i, best[i]]
                part[i] = -np.inf
                part[i, best[i]] = kept
            order = solved(part)
            if order is not None:
                waiting.append((part, order))
    return found


@pytest.mark.parametrize("kind", ["normal", "ties", "forbidden", "large"])
def test_the_k_best_matchings_beside_assignments_solved_anew(kind):
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(2, 12, 12))
    if kind == "ties":
        theta = np.round(theta)
    if kind == "forbidden":
        theta[rng.random(theta.shape) < 0.7] = -np.inf
        theta[:, np.arange(12), rng.permutation(12)] = -2.0
    if kind == "large":
        theta *= 1e9
    scores, batches = Birkhoff().kbest(theta.reshape(2, -1), 40)
    for i, matrix in enumerate(theta):
        right = np.append(murty(matrix, 40), np.full(40, -np.inf))[:40]
        np.testing.assert_allclose(scores[i], right, rtol=1e-12, atol=1e-12)
        number = np.isfinite(right).sum()
        listed = np.array([batch[i] for batch in batches])
        assert len(np.unique(listed[:number], axis=0)) == number
        assert Birkhoff().contains(listed[:number]).all()
        finite = np.where(np.isfinite(matrix), matrix, 0).ravel()
        np.testing.assert_allclose(listed @ finite, np.where(np.isfinite(right), right, 0))


def test_the_k_best_matchings_of_several_sizes():
    rng = np.random.default_rng(6)
    matrices = [rng.normal(size=n * n) for n in (3, 1, 5)]
    scores, batches = Birkhoff().kbest(mx.Ragged.from_rows(matrices), 7)
    for i, theta in enumerate(matrices):
        alone, listed = Birkhoff().kbest(theta, 7)
        np.testing.assert_array_equal(scores[i], alone)
        for mine, other in zip(batches, listed, strict=True):
            np.testing.assert_array_equal(mine.rows()[i], other)
    with pytest.raises(ValueError, match="row 1 has no matching"):
        Birkhoff().kbest([[0.0, 1.0, 1.0, 0.0], [0.0, -np.inf, 1.0, -np.inf]], 2)
    with pytest.raises(ValueError, match="k >= 1"):
        Birkhoff().kbest(np.zeros(4), 0)


def test_sparse_distributions_over_matchings():
    theta = np.random.default_rng(7).normal(size=(3, 16))
    found = mx.sparse_distribution(Birkhoff(), theta, mx.Tsallis(2.0))
    vertices = Birkhoff().vertices(16)
    right = mx.Tsallis(2.0).conjugate(theta @ vertices.T)[1]
    assert found.exact.all()
    np.testing.assert_allclose(found.mean, right @ vertices, atol=1e-12)
    loss = mx.FenchelYoungLoss(mx.DistributionEntropy(mx.Tsallis(2.0), Birkhoff()))
    value, slope = loss.value(theta, vertices[:3]), loss.gradient(theta, vertices[:3])
    np.testing.assert_allclose(slope, found.mean - vertices[:3], atol=1e-12)
    assert (value >= 0).all()

import numpy as np
import pytest
from scipy import sparse

import maxent as mx


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 4))
    observed = rng.dirichlet(np.full(30, 0.3))
    return X, observed


ENTROPIES = [
    mx.Shannon(),
    mx.Tsallis(1.5),
    mx.Tsallis(2.0),
    mx.SquaredNorm(1.5),
    mx.NormEntropy(2.0),
]
POTENTIALS = [
    mx.Box(0.05),
    mx.Quadratic(0.2),
    mx.Ball(0.1),
    mx.SmoothBox(0.1, 0.1),
    mx.LaplacePrior(0.1),
]


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
@pytest.mark.parametrize("potential", POTENTIALS, ids=repr)
def test_weak_duality_and_certificate(entropy, potential, data):
    X, observed = data
    problem = mx.Problem(entropy, X, potential, observed=observed)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.3, 3.0):
        w = scale * rng.normal(size=4)
        # any feasible p: the observed one has residual 0
        assert problem.primal(observed) + problem.dual(w) >= -1e-12
        gap = problem.gap(w)
        assert 0 <= gap < np.inf
        solution = problem.solve(w0=w)
        assert gap >= problem.dual(w) - solution.objective - 1e-8
        assert problem.gap(w, observed) == pytest.approx(problem.primal(observed) + problem.dual(w))
    assert solution.gap <= 1e-8
    assert problem.primal(solution.p) == pytest.approx(-solution.objective, abs=1e-6) or np.isinf(
        problem.primal(solution.p)
    )


@pytest.mark.parametrize("entropy", ENTROPIES, ids=repr)
def test_gradient_of_the_smooth_part(entropy, data):
    X, observed = data
    problem = mx.Problem(entropy, X, mx.Box(0.05), observed=observed)
    rng = np.random.default_rng(1)
    w, v, h = rng.normal(size=4), rng.normal(size=4), 1e-6
    slope = (problem.smooth(w + h * v)[0] - problem.smooth(w - h * v)[0]) / (2 * h)
    assert problem.smooth(w)[1] @ v == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_the_guarantees_hold(alpha, data):
    X, observed = data
    problem = mx.Problem(mx.Tsallis(alpha), X, mx.Box(0.02), observed=observed)
    best = problem.solve(mx.ProxNewton(tol=1e-13)).p
    rng = np.random.default_rng(1)
    for scale in (0.1, 1.0):
        state = problem.state(scale * rng.normal(size=4))
        bounds = problem.guarantees(state.gap)
        assert np.linalg.norm(best - state.p) <= bounds["l2"] + 1e-9
        loss = mx.FenchelYoungLoss(problem.entropy).value(state.theta, best / best.sum())
        assert loss <= bounds["fenchel_young"] + 1e-9
        if alpha == 1:
            kl = np.sum(best * np.log(best / state.p))
            assert kl <= bounds["kl"] + 1e-9
            assert np.abs(best - state.p).sum() <= bounds["l1"] + 1e-9


def test_moments_alone_give_an_optimality_where_no_gap_exists(data):
    X, observed = data
    problem = mx.Problem(mx.Shannon(), X, mx.Box(0.02), target=X.T @ observed)
    assert problem.gap(np.ones(4)) == np.inf
    solution = problem.solve()
    assert solution.optimality <= 1e-8
    with_gap = mx.Problem(mx.Shannon(), X, mx.Box(0.02), observed=observed).solve()
    np.testing.assert_allclose(solution.w, with_gap.w, atol=1e-5)


def test_equality_matches_the_moments(data):
    X, observed = data
    solution = mx.Problem(mx.Shannon(), X, mx.Equality(), target=X.T @ observed).solve()
    assert solution.gap == np.inf
    np.testing.assert_allclose(X.T @ solution.p, X.T @ observed, atol=1e-7)


def test_dense_sparse_and_identity_maps_agree(data):
    X, observed = data
    kinds = {"dense": X, "fortran": np.asfortranarray(X), "csr": sparse.csr_matrix(X)}
    kinds |= {"csc": sparse.csc_array(X), "map": mx.MatrixMap(X), "list": X.tolist()}
    results = {
        name: mx.Problem(mx.Shannon(), features, mx.Box(0.05), observed=observed).solve().w
        for name, features in kinds.items()
    }
    for name, w in results.items():
        np.testing.assert_allclose(w, results["dense"], atol=1e-9, err_msg=name)
    eye = mx.Problem(mx.Shannon(), np.eye(30), mx.Box(0.01), observed=observed).solve()
    same = mx.Problem(mx.Shannon(), mx.IdentityMap(30), mx.Box(0.01), observed=observed).solve()
    np.testing.assert_allclose(eye.p, same.p, atol=1e-9)


@pytest.mark.parametrize("potential", [mx.Box(0.02), mx.Quadratic(0.1)], ids=repr)
def test_sparse_samples_agree_with_dense_ones(potential):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.3)
    y = np.eye(3)[rng.integers(0, 3, 60)]
    for entropy in (mx.Shannon(), mx.Tsallis(1.5)):
        dense, thin = (
            mx.Problem(entropy, mx.SampleMap(features, 3), potential, observed=y).solve()
            for features in (X, sparse.csr_array(X))
        )
        assert thin.gap <= 1e-8
        np.testing.assert_allclose(thin.p, dense.p, atol=1e-6)


def test_float32_features_give_a_float32_answer_close_to_float64(data):
    X, observed = data
    single = mx.Problem(
        mx.Shannon(), X.astype(np.float32), mx.Box(0.05), observed=observed.astype(np.float32)
    ).solve(mx.FISTA(tol=1e-5))
    assert single.p.dtype == np.float32
    assert single.w.dtype == np.float64
    double = mx.Problem(mx.Shannon(), X, mx.Box(0.05), observed=observed).solve()
    np.testing.assert_allclose(single.p, double.p, atol=1e-4)


def test_weights_repeat_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.eye(3)[rng.integers(0, 3, 20)]
    counts = rng.integers(1, 4, 20)
    repeated = mx.Problem(
        mx.Tsallis(1.5),
        mx.SampleMap(np.repeat(X, counts, axis=0), 3),
        mx.Quadratic(0.1),
        observed=np.repeat(y, counts, axis=0),
    )
    weighted = mx.Problem(
        mx.Tsallis(1.5),
        mx.SampleMap(X, 3),
        mx.Quadratic(0.1),
        weights=counts / counts.sum(),
        observed=y,
    )
    np.testing.assert_allclose(repeated.solve().w, weighted.solve().w, atol=1e-6)


def test_past_the_critical_multiplier_the_weights_are_zero(data):
    X, observed = data
    start = mx.Problem(mx.Shannon(), X, mx.Box(0.05), observed=observed)
    c = mx.Box(0.05).critical_multiplier(start.state(np.zeros(4)).gradient)
    for share, zero in ((1.001, True), (0.98, False)):
        potential = mx.ScaledPotential(mx.Box(0.05), share * c)
        w = mx.Problem(mx.Shannon(), X, potential, observed=observed).solve().w
        assert (not w.any()) == zero


BAD = [
    ({"features": [[np.nan], [1.0]], "target": [0.0]}, "NaN or infinity"),
    ({"features": np.empty((0, 2)), "target": [0.0, 0.0]}, "non-empty matrix"),
    ({"features": np.ones(3), "target": [0.0]}, "non-empty matrix"),
    ({"features": np.ones((3, 2)), "target": [0.0]}, r"one moment per feature, shape \(2,\)"),
    ({"features": np.ones((3, 1)), "target": [np.inf]}, "must be finite"),
    ({"features": np.ones((3, 1))}, "either the target moments or the observed"),
    ({"features": np.ones((3, 1)), "observed": [1.0, 0.0]}, r"shape of the scores \(3,\)"),
    (
        {"features": np.ones((3, 1)), "observed": [1.0, 1.0, 0.0]},
        "sums to 2 .* divide counts by their sum",
    ),
    ({"features": np.ones((3, 1)), "target": [1.0], "potential": mx.Box([0.1, 0.2])}, "2 features"),
    ({"features": np.ones((3, 1)), "target": [1.0], "weights": [1.0]}, "single row"),
    (
        {"features": mx.SampleMap(np.ones((3, 1))), "target": [1.0], "weights": [1.0]},
        r"one entry per row, shape \(3,\)",
    ),
    (
        {"features": mx.SampleMap(np.ones((2, 1))), "target": [1.0], "weights": [1.0, -1.0]},
        "non-negative",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_problems_are_refused(arguments, message):
    given = {"entropy": mx.Shannon(), "potential": mx.Box(0.1)} | arguments
    with pytest.raises(ValueError, match=message):
        mx.Problem(**given)


def test_wrong_parts_are_named():
    with pytest.raises(TypeError, match="expected an instance of Entropy"):
        mx.Problem("shannon", np.ones((2, 1)), mx.Box(0.1), target=[1.0])
    with pytest.raises(TypeError, match="expected an instance of Potential"):
        mx.Problem(mx.Shannon(), np.ones((2, 1)), 0.1, target=[1.0])


def test_constant_features_are_harmless(data):
    X, observed = data
    constant = np.column_stack([X, np.ones(30), np.zeros(30)])
    solution = mx.Problem(mx.Shannon(), constant, mx.Box(0.05), observed=observed).solve()
    assert solution.gap <= 1e-8
    assert (solution.w[-2:] == 0).all()


@pytest.mark.parametrize("p", [1, 1.5, 2, np.inf])
def test_a_target_that_is_the_mean_of_the_cells(p):
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(2 + seed % 6, 1 + seed % 3))
        potential = mx.SquaredNormPotential(1.0, p)
        solution = mx.Problem(mx.Shannon(), X, potential, target=X.mean(axis=0)).solve()
        np.testing.assert_allclose(solution.p, 1 / len(X), atol=1e-7)


def test_an_active_box_beside_an_open_domain_has_a_gap_that_tends_to_0():
    rng = np.random.default_rng(0)
    X, observed = rng.uniform(-1, 1, size=(60, 4)), rng.dirichlet(np.full(60, 0.3))
    potential = mx.Families([mx.LaplacePrior(1.0), mx.Box(0.05)], [2, 2])
    solution = mx.Problem(mx.Shannon(), X, potential, observed=observed).solve(mx.FISTA(1e-9))
    assert solution.status is mx.Status.CONVERGED
    assert (np.abs(solution.w[2:]) > 0).any()  # the box is active
    assert solution.gap <= 1e-9

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import maxent as mx
from maxent.core.maps import kernel_root, pivot_coefficients
from maxent.core.solvers._dual import unwrap

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
Y = RNG.integers(0, 4, size=60)
COST = 1 - np.eye(4)[Y]
SDCA, BCFW = mx.DualCoordinateAscent, mx.BlockFrankWolfe
# compiled steps, then steps through entropy.prox
ENTROPIES = [
    *(mx.Tsallis(alpha) for alpha in (0.5, 1.0, 1.2, 1.5, 2.0, 2.7)),
    *(mx.Shannon(), mx.SquaredNorm(), mx.FermiDirac(), mx.BinaryGini()),
    mx.Shifted(mx.Tsallis(1.5), COST),
    mx.Scaled(mx.Shifted(mx.Shannon(), COST), 0.5),
    mx.Shifted(mx.Scaled(mx.Tsallis(2.0), 0.5), COST[0]),
    *(mx.NormEntropy(2.0), mx.SquaredNorm(1.5), mx.Renyi(0.7)),
    *(mx.OneVsAll(mx.Tsallis(1.5)), mx.SquaredNorm(domain=mx.Cube())),
    mx.Relative(mx.Tsallis(1.5), [0.1, 0.2, 0.3, 0.4]),
]
SLOW = 13  # from there on one row at a time


def _problem(entropy, potential=None, X=X, **settings):
    potential = potential or mx.Quadratic(0.2)
    settings = settings or {"observed": np.eye(4)[Y]}
    return mx.Problem(entropy, mx.SampleMap(X, 4), potential, **settings)


def _best(problem):
    other = mx.FISTA(tol=1e-10) if problem.entropy.differentiable else mx.CuttingPlane(tol=1e-10)
    return problem.solve(other)


@pytest.mark.parametrize("entropy", ENTROPIES, ids=lambda e: repr(e)[:40])
def test_coordinate_ascent_reaches_the_optimum_of_every_entropy(entropy):
    compiled = any(entropy is e for e in ENTROPIES[:SLOW])
    rows, tol = (60, 1e-10) if compiled else (15, 1e-7)
    problem = mx.Problem(
        entropy, mx.SampleMap(X[:rows], 4), mx.Quadratic(0.5), observed=np.eye(4)[Y[:rows]]
    )
    solution = problem.solve(SDCA(tol=tol))
    assert solution.gap <= tol
    assert abs(solution.objective - _best(problem).objective) < max(tol, 1e-8)


@pytest.mark.parametrize("entropy", ENTROPIES[::3], ids=lambda e: repr(e)[:40])
def test_block_frank_wolfe_needs_only_the_map(entropy):
    problem = _problem(entropy)
    solution = problem.solve(BCFW(tol=1e-7))
    assert abs(solution.objective - _best(problem).objective) < 1e-7


@pytest.mark.parametrize("solver", [SDCA(tol=1e-9), BCFW(tol=1e-9)], ids=["sdca", "bcfw"])
@pytest.mark.parametrize("entropy", [mx.Shifted(mx.Zero(), COST), mx.Zero()], ids=["hinge", "zero"])
def test_hinges_agree_with_cutting_planes(solver, entropy):
    problem = _problem(entropy)
    solution, other = problem.solve(solver), problem.solve(mx.CuttingPlane(tol=1e-9))
    assert solution.gap <= 1e-9
    assert solution.optimality <= 1e-6
    assert abs(solution.objective - other.objective) < 1e-8
    # the distribution of the certificate is reported, not the vertices of the argmax
    assert abs(problem.primal(solution.p) + solution.objective) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    "potential",
    [
        mx.ElasticNet(0.02, 0.2),
        mx.Quadratic(np.linspace(0.1, 2, 20)),
        mx.ElasticNet(np.linspace(0, 0.05, 20), np.linspace(0.1, 2, 20)),
        mx.ScaledPotential(mx.ElasticNet(0.01, 0.1), 2.0),
        mx.Families([mx.Quadratic(0.3), mx.ElasticNet(0.02, 0.2)], [8, 12]),
        mx.QuadraticForm(0.2 * np.eye(20) + 0.05),
        mx.NormPlusSquare(0.05, 0.2, 2),
        mx.SquaredNormPotential(0.2, 3.0),
        mx.ShiftedPotential(mx.Quadratic(0.2), np.linspace(-0.01, 0.01, 20)),
    ],
    ids=lambda p: repr(p)[:20],
)
@pytest.mark.parametrize("kind", [SDCA, BCFW])
def test_strongly_convex_penalties(potential, kind):
    problem = _problem(mx.Tsallis(1.5), potential)
    solution = problem.solve(kind(tol=1e-9))
    assert abs(solution.objective - problem.solve(mx.FISTA(tol=1e-10)).objective) < 1e-8


def test_the_penalty_must_be_strongly_convex_and_the_problem_have_rows():
    for potential in (mx.Box(0.1), mx.LaplacePrior(1.0), mx.Equality(), mx.DualBall(1.0)):
        with pytest.raises(TypeError, match=r"not strongly convex .*Quadratic or ElasticNet"):
            _problem(mx.Shannon(), potential).solve("dual-coordinate")
    density = mx.Problem(mx.Shannon(), X, mx.Quadratic(0.1), target=np.zeros(5))
    with pytest.raises(TypeError, match="no separate rows"):
        density.solve("block-frank-wolfe")
    with pytest.raises(TypeError, match="is not convex"):
        _problem(mx.Renyi(3.0)).solve(SDCA())
    with pytest.raises(TypeError, match="no proximity operator; use BlockFrankWolfe"):
        _problem(mx.fenchel_youngize(_perceptron, 4)).solve(SDCA())
    with pytest.raises(TypeError, match="base measure for each row"):
        _problem(mx.Relative(mx.Shannon(), RNG.dirichlet(np.ones(4), 60))).solve(SDCA())
    with pytest.raises(ValueError, match="passes must be >= 1"):
        SDCA(passes=0)


def _perceptron(theta):
    """max theta - theta_k, with a subgradient a class."""
    best = np.eye(4)[np.argmax(theta)]
    return theta.max() - theta, best - np.eye(4)


def test_the_gap_is_a_certificate_at_every_step():
    problem = _problem(mx.Tsallis(1.5), mx.Quadratic(0.01))
    best = problem.solve(mx.NewtonCG(tol=1e-13)).objective
    states = []
    SDCA(tol=1e-10, passes=1).solve(problem, callback=lambda _, state: states.append(state))
    assert len(states) > 3
    for state in states:
        assert state.gap >= state.dual - best - 1e-14
        assert state.gap <= state.gap_at(state.point)
        assert abs(state.gap - state.gap_at(state.prediction)) < 1e-14
    primals = [problem.primal(state.point) for state in states]
    assert (np.diff(primals) <= 1e-14).all()  # ascent on the dual of the paper


@pytest.mark.parametrize("kind", [SDCA, BCFW])
@pytest.mark.parametrize(
    "entropy", [mx.Tsallis(2.0), mx.Shifted(mx.Zero(), COST)], ids=["sparsemax", "hinge"]
)
def test_sparse_samples_give_the_same_model_as_dense_ones(kind, entropy):
    dense = np.where(RNG.random(X.shape) < 0.4, X, 0.0)
    dense[3] = 0.0
    solutions = [
        _problem(entropy, X=given).solve(kind(tol=1e-9))
        for given in (dense, np.asfortranarray(dense), sparse.csr_array(dense))
    ]
    for other in solutions[1:]:
        assert abs(other.objective - solutions[0].objective) < 1e-8
        np.testing.assert_allclose(other.w, solutions[0].w, atol=1e-4)


def test_single_precision_samples():
    problem = _problem(mx.Tsallis(1.5), X=X.astype(np.float32))
    reference = _problem(mx.Tsallis(1.5))
    assert abs(problem.solve(SDCA(tol=1e-6)).objective - _best(reference).objective) < 1e-5


@pytest.mark.parametrize("kind", [SDCA, BCFW])
def test_a_seed_fixes_the_run(kind):
    problem = _problem(mx.Shifted(mx.Zero(), COST), mx.Quadratic(0.1))
    first, again, other = (kind(tol=1e-8, random_state=seed).solve(problem).w for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(first, other, atol=1e-2)


@pytest.mark.parametrize("solver", [SDCA(tol=1e-10), BCFW(tol=1e-10)], ids=["sdca", "bcfw"])
def test_sample_weights_are_repetitions(solver):
    counts = RNG.integers(0, 4, size=60)
    weighted = _problem(
        mx.Tsallis(2.0), observed=np.eye(4)[Y], weights=counts / counts.sum()
    ).solve(solver)
    repeated = mx.Problem(
        mx.Tsallis(2.0),
        mx.SampleMap(np.repeat(X, counts, axis=0), 4),
        mx.Quadratic(0.2),
        observed=np.repeat(Y, counts),
    ).solve(solver)
    np.testing.assert_allclose(weighted.w, repeated.w, atol=1e-4)
    # rows that do not count are predicted all the same
    problem = _problem(mx.Tsallis(2.0))
    np.testing.assert_allclose(weighted.p, problem.state(weighted.w).p, atol=1e-4)


@pytest.mark.parametrize("kind", [SDCA, BCFW])
def test_targets_without_labels_and_warm_starts(kind):
    moments = _problem(mx.Shannon()).target
    cold = _problem(mx.Shannon(), target=moments).solve(kind())
    assert abs(cold.objective - _best(_problem(mx.Shannon())).objective) < 1e-8
    warm = kind().solve(_problem(mx.Shannon()), w0=cold.w)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("kind", [SDCA, BCFW])
def test_interruption_keeps_the_best_point(kind):
    def stop(count, state):
        if count == 2:
            raise KeyboardInterrupt

    problem = _problem(mx.Tsallis(1.5), mx.Quadratic(0.1))
    with pytest.raises(mx.Interrupted) as caught:
        kind(tol=0.0, passes=1).solve(problem, callback=stop)
    solution = caught.value.solution
    assert solution.status is mx.Status.INTERRUPTED
    assert solution.gap == solution.history[-1]["gap"] < solution.history[0]["gap"]


@pytest.mark.parametrize("kind", [SDCA, BCFW])
def test_a_tolerance_below_rounding_stops(kind):
    with pytest.warns(mx.ConvergenceWarning):
        solution = kind(tol=0.0, max_iter=300).solve(_problem(mx.Tsallis(2.0)))
    assert solution.gap < 1e-13


def test_averages_are_certified_too():
    hinge = mx.Shifted(mx.Zero(domain=mx.Chain(2)), _chain_cost())
    problem = mx.Problem(hinge, _chain(True), mx.Quadratic(0.1), observed=_chain_labels())
    plain, averaged = (
        BCFW(tol=1e-2, passes=1, average=flag).solve(problem) for flag in (False, True)
    )
    for solution in (plain, averaged):
        assert solution.gap <= 1e-2
        assert problem.gap(solution.w, solution.p) == pytest.approx(solution.gap, abs=1e-12)


def _chain(tied=False):
    rng = np.random.default_rng(3)
    return mx.ChainMap([rng.normal(size=(t, 3)) for t in (2, 4, 3, 5)], 2, tied)


def _chain_labels():
    rng = np.random.default_rng(4)
    scores = _chain().scores(rng.normal(size=_chain().n_features))
    return mx.Chain(2).argmax(scores)


def test_searches_row_by_row_are_left_to_others():
    with pytest.raises(TypeError, match=r"a linear programme for each row.*CuttingPlane"):
        _problem(mx.fenchel_youngize(_perceptron, 4)).solve(BCFW())


def _chain_cost():
    """1 for each wrong state, nothing for a transition."""
    states = 1 - mx.Chain(2).tie(_chain_labels()).own
    return mx.Chain(2).scores([x.reshape(-1, 2) for x in states.rows()], np.zeros((2, 2)))


def test_no_formula_for_the_entropy_of_sums_of_transitions():
    crf = mx.Problem(
        mx.Shannon(domain=mx.Chain(2)), _chain(True), mx.Quadratic(0.5), observed=_chain_labels()
    )
    with pytest.raises(TypeError, match="tied=False"):
        crf.solve(BCFW())


@pytest.mark.parametrize(
    ("solver", "entropy", "tied"),
    [
        (BCFW(tol=2e-3), mx.Zero(domain=mx.Chain(2)), False),
        (BCFW(tol=2e-3), mx.Zero(domain=mx.Chain(2)), True),
        (BCFW(tol=1e-5), mx.Shannon(domain=mx.Chain(2)), False),
        (SDCA(tol=1e-5), mx.SquaredNorm(domain=mx.Chain(2)), False),
        (SDCA(tol=1e-5), mx.Shannon(domain=mx.Chain(2)), False),
    ],
    ids=["M3N", "M3N tied", "CRF", "SparseMAP", "CRF by its prox"],
)
def test_structured_models_go_row_by_row(solver, entropy, tied):
    cost = _chain_cost()
    if not tied:
        blocks = [np.zeros((len(x) // 2 - 1, 2, 2)) for x in cost.own.rows()]
        cost = mx.Chain(2).scores([x.reshape(-1, 2) for x in cost.own.rows()], blocks)
    problem = mx.Problem(
        mx.Shifted(entropy, cost), _chain(tied), mx.Quadratic(0.5), observed=_chain_labels()
    )
    solution = problem.solve(solver)
    assert solution.gap <= solver.tol
    assert abs(solution.objective - _best(problem).objective) < solver.tol


def test_taking_rows_and_their_norms():
    chain, w = _chain(), np.random.default_rng(0).normal(size=_chain().n_features)
    part = chain.take(np.array([2, 0]))
    for position, i in enumerate((2, 0)):
        np.testing.assert_allclose(part.scores(w).rows()[position], chain.scores(w).rows()[i])
    for features in (chain, mx.SampleMap(X, 4)):
        for i, bound in enumerate(features.row_norms()[:4]):
            one = features.take(np.array([i]))
            scores = map(one.scores, np.eye(one.n_features))
            columns = [np.ravel(getattr(s, "values", s)) for s in scores]
            norm = np.linalg.norm(np.array(columns), 2) ** 2
            assert norm <= bound * (1 + 1e-12)


def test_a_linear_kernel_is_the_linear_model():
    kernel = mx.KernelMap(X @ X.T, 4)
    assert kernel.X.shape == (60, 5)
    linear = _problem(mx.Tsallis(2.0)).solve(SDCA(tol=1e-11))
    for solver in (SDCA(tol=1e-11), mx.NewtonCG(tol=1e-11)):
        problem = mx.Problem(mx.Tsallis(2.0), kernel, mx.Quadratic(0.2), observed=Y)
        solution = problem.solve(solver)
        assert abs(solution.objective - linear.objective) < 1e-9
        np.testing.assert_allclose(solution.p, linear.p, atol=1e-4)
        new = RNG.normal(size=(7, 5))
        scores = (new @ X.T) @ kernel.coefficients(solution.w)
        np.testing.assert_allclose(scores, new @ linear.w.reshape(5, 4), atol=1e-4)


def test_a_gaussian_kernel_has_sparse_dual_variables():
    distance = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    K = np.exp(-distance / 10)
    problem = mx.Problem(mx.Tsallis(2.0), mx.KernelMap(K, 4), mx.Quadratic(0.001), observed=Y)
    solution = problem.solve(SDCA(tol=1e-11))
    # the representer theorem: C = a (y - p) / strength
    C = (problem.observed - solution.p) / 60 / 0.001
    np.testing.assert_allclose(K @ C, problem.state(solution.w).theta, atol=1e-3)
    assert (C == 0).mean() > 0.15


def test_kernels_must_be_kernels():
    with pytest.raises(ValueError, match="symmetric matrix"):
        mx.KernelMap(np.ones((3, 2)))
    with pytest.raises(ValueError, match="positive semi-definite"):
        mx.KernelMap(np.array([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="is zero"):
        mx.KernelMap(np.zeros((2, 2)))


def test_the_root_of_a_kernel_has_its_rank_and_forgives_rounding():
    Z = RNG.normal(size=(300, 3))
    distance = ((Z[:, None] - Z[None]) ** 2).sum(axis=-1)
    smooth, full = np.exp(-distance / 50), np.exp(-5 * distance)
    twice = np.block([[full, full], [full, full]])
    for K, ranks in ((full, {300}), (twice, {300}), (Z @ Z.T, {3}), (smooth, range(60, 200))):
        root, pivots = kernel_root(K)
        assert pivots.size == root.shape[1] in ranks
        np.testing.assert_allclose(root @ root.T, K, atol=1e-12 * K.max())
        assert (np.triu(root[pivots], 1) == 0).all()
        W = RNG.normal(size=(pivots.size, 2))
        C = pivot_coefficients(root, pivots, W)
        assert np.count_nonzero(C.any(axis=1)) == pivots.size
        np.testing.assert_allclose(root.T @ C, W, atol=1e-8)
    single = np.exp(-distance / 5).astype(np.float32).astype(np.float64)
    assert np.linalg.eigvalsh(single)[0] < 0
    root, _ = kernel_root(single)
    np.testing.assert_allclose(root @ root.T, single, atol=3e-7)


@pytest.mark.parametrize("tau", [1e-6, 0.3, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("entropy", ENTROPIES[:10], ids=repr)
def test_compiled_proximity_operators_are_those_of_the_entropies(entropy, tau):
    from maxent.core.kernels.dual_ascent import prox_row
    from maxent.core.solvers.dual_coordinate import _kernel

    kind, power, temperature = _kernel(unwrap(entropy).entropy)
    for y in 3 * np.random.default_rng(1).normal(size=(20, 6)) * max(tau, 1.0):
        p = np.empty(6)
        prox_row(kind, y, tau * temperature, power, p, np.empty(6, np.int64))
        np.testing.assert_allclose(p, entropy.prox(y, tau), atol=1e-9)


GENERIC = [
    *(mx.Renyi(0.2), mx.Renyi(0.5), mx.SquaredNorm(1.5), mx.SquaredNorm(1.05)),
    *(mx.SquaredNorm(q) for q in (2.5, 8.0, 60.0)),
    *(mx.NormEntropy(q) for q in (1.1, 2.0, 2.5, 8.0, 20.0, 60.0)),
    mx.OneVsAll(mx.Renyi(0.5)),
    *(mx.PairwiseHinge("squared", 4), mx.PairwiseHinge("smooth", 4)),
    mx.Relative(mx.NormEntropy(3.0), [0.1, 0.2, 0.3, 0.4]),
    mx.Relative(mx.NormEntropy(5.0), [0.2, 0.0, 0.3, 0.5]),
]


@pytest.mark.parametrize("tau", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("entropy", GENERIC, ids=lambda e: repr(e)[:40])
def test_generic_proximity_operators_are_exact_and_take_few_maps(entropy, tau, monkeypatch):
    calls = []
    kind, conjugate = type(entropy), type(entropy)._conjugate

    def counted(self, theta, *rest):
        calls.append(1)
        return conjugate(self, theta, *rest)

    monkeypatch.setattr(kind, "_conjugate", counted)
    rng = np.random.default_rng(0)
    for scale in (1, 20) * 5:
        eta = rng.dirichlet(np.ones(4)) + tau * scale * rng.normal(size=4)
        p = entropy.prox(eta, tau)
        # p = grad Omega*(theta) at theta = (eta - p)/tau: equality in Fenchel-Young
        theta = (eta - p) / tau
        assert tau * (entropy.value(p) + entropy.conjugate(theta)[0] - theta @ p) <= 1e-13
    assert len(calls) <= 10 * 200  # without a Jacobian; else 10 to 30 for each row


def test_settings_travel_through_solve():
    solver = dataclasses.replace(SDCA(), passes=2, random_state=3)
    assert (solver.passes, solver.random_state) == (2, 3)
    assert _problem(mx.Tsallis(1.5)).solve("dual-coordinate", passes=2, tol=1e-5).gap <= 1e-5

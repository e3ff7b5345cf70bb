"""Solvers for hinges over ragged chains, compiled: they agree with enumeration and each other."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import maxent as mx
from maxent.core.solvers._path_rows import ActivePaths, PathRows, PlainRows
from maxent.tagging import PairChainMap
from tools import needs

K, D = 3, 4
LENGTHS = (1, 2, 4, 5, 3, 1, 5, 2)
FORBIDDEN = ((0, 2), (1, 0), (2, 1))


def _data(seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7) for n in LENGTHS]
    for x in X:
        x[:, -1] = 1.0  # a constant feature
    W, T = rng.normal(size=(D, K)), rng.normal(size=(K, K))
    chain = mx.Chain(K, forbidden=FORBIDDEN)
    noisy = chain.scores([x @ W + rng.gumbel(size=(len(x), K)) for x in X], T)
    return X, chain.decode(chain.argmax(noisy))


def _map(kind, X, labels):
    if kind == "dense":
        return mx.ChainMap(X, K)
    if kind == "sparse":
        return mx.ChainMap([sparse.csr_array(x) for x in X], K)
    return PairChainMap.seen(np.concatenate(X), np.array(LENGTHS), K, np.concatenate(labels))


def _problem(kind="dense", strength=None, weights=None, forbidden=(), seed=0, cost=True):
    X, labels = _data(seed)
    chain = mx.Chain(K, forbidden=forbidden)
    features = _map(kind, X, labels)
    hamming = chain.scores([1 - np.eye(K)[y] for y in labels], np.zeros((K, K)))
    entropy = mx.Shifted(mx.Zero(chain), hamming) if cost else mx.Zero(chain)
    if strength is None:
        strength = np.linspace(0.02, 0.5, features.n_features)
    observed = chain.encode(labels, tied=True)
    return mx.Problem(entropy, features, mx.Quadratic(strength), weights=weights, observed=observed)


def _enumerated(problem, forbidden=()):
    """The optimum by CVXPY, with one constraint for each path of each sequence."""
    cp = needs("cvxpy")
    _, labels = _data()
    chain = problem.entropy.domain
    w = cp.Variable(problem.features.n_features)
    losses = []
    for i, y in enumerate(labels):
        paths = itertools.product(range(K), repeat=len(y))
        paths = [p for p in paths if not set(forbidden) & set(itertools.pairwise(p))]
        one = problem.features.take(np.array([i]))
        right = one.moments(chain.encode([y], tied=True))
        rows = [one.moments(chain.encode([p], tied=True)) - right for p in paths]
        costs = [np.sum(np.array(p) != y) for p in paths]
        losses.append(cp.max(np.array(rows) @ w + np.array(costs)))
    l2 = problem.potential.elastic(problem.features.n_features)[1]
    total = sum(a * loss for a, loss in zip(problem.weights, losses, strict=True))
    objective = cp.Problem(cp.Minimize(total + cp.sum(cp.multiply(l2 / 2, w**2))))
    return objective.solve(solver="CLARABEL"), w.value


@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_paths_against_enumeration(kind, weighted):
    weights = np.linspace(0.1, 1.0, len(LENGTHS)) if weighted else None
    problem = _problem(kind, weights=weights)
    best, w = _enumerated(problem)
    solution = problem.solve(mx.BlockFrankWolfe(tol=1e-9))
    assert solution.gap <= 1e-9
    assert problem.gap(solution.w, solution.p) == pytest.approx(solution.gap, abs=1e-12)
    assert solution.objective == pytest.approx(best, abs=1e-7)
    np.testing.assert_allclose(solution.w, w, atol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"cache": 0}, {"sampling": "gap"}, {"plain": True}])
@pytest.mark.parametrize("kind", ["dense", "pairs"])
def test_compiled_rows_agree_with_slow_ones_and_cutting_planes(kind, settings, monkeypatch):
    problem = _problem(kind, strength=0.1)
    tol = 1e-3 if "plain" in settings else 1e-8
    fast = problem.solve(mx.BlockFrankWolfe(tol=tol, **settings))
    assert fast.gap <= tol
    other = problem.solve(mx.CuttingPlane(tol=1e-9))
    assert abs(fast.objective - other.objective) <= tol + 1e-9
    monkeypatch.setattr(mx.BlockFrankWolfe, "_chain_rows", lambda *_: None)
    slow = problem.solve(mx.BlockFrankWolfe(tol=1e-2))
    assert abs(fast.objective - slow.objective) <= 1e-2


def test_the_compiled_rows_are_used():
    problem = _problem()
    point = problem.observed
    rows = mx.BlockFrankWolfe()._rows(problem, point)
    assert type(rows) is PathRows
    assert type(mx.BlockFrankWolfe(plain=True)._rows(problem, point)) is PlainRows
    other = problem.with_potential(mx.ElasticNet(0.1, 0.1))
    assert type(mx.BlockFrankWolfe()._rows(other, point)) not in (PathRows, PlainRows)


def test_plain_steps_are_those_of_the_slow_rows(monkeypatch):
    """Both walk the rows in the order of the seed, so they take the same steps."""
    problem = _problem(strength=0.3)
    solver = mx.BlockFrankWolfe(tol=0.0, max_iter=1, passes=1, plain=True)
    fast = solver.run(problem)
    monkeypatch.setattr(mx.BlockFrankWolfe, "_chain_rows", lambda *_: None)
    np.testing.assert_allclose(fast.w, solver.run(problem).w, atol=1e-10)


@pytest.mark.parametrize("settings", [{}, {"plain": True}])
def test_forbidden_transitions(settings):
    problem = _problem(strength=2.0, forbidden=FORBIDDEN)
    best, _ = _enumerated(problem, FORBIDDEN)
    tol = 1e-3 if settings else 1e-9
    solution = problem.solve(mx.BlockFrankWolfe(tol=tol, **settings))
    assert solution.objective == pytest.approx(best, abs=tol + 1e-7)
    assert not solution.p.tied[:, [2, 3, 7]].any()
    allowed = _problem(strength=2.0).solve(mx.BlockFrankWolfe(tol=1e-9))
    assert allowed.objective > solution.objective + 1e-2  # more paths, more violations


@pytest.mark.parametrize("sampling", ["uniform", "gap"])
def test_a_seed_fixes_the_paths(sampling):
    problem = _problem(strength=0.05)

    def run(seed):
        solver = mx.BlockFrankWolfe(tol=1e-4, sampling=sampling, random_state=seed)
        return solver.solve(problem).w

    np.testing.assert_array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


@pytest.mark.parametrize("seed", [104, 106])
def test_steps_that_are_at_their_end_are_certified_there(seed):
    """The average of the passes, which lags behind, ended at 3e-6."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), 2)) for _ in range(3)]
    y = [rng.integers(0, 2, len(x)) for x in X]
    y[0][0], y[1][0] = 0, 1
    model = mx.M3N(0.01, tol=1e-6, solver=mx.BlockFrankWolfe())
    assert model.fit(X, y, rng.pareto(1.1, 3)).gap_ <= 1e-6


def test_perceptrons_have_no_cost():
    problem = _problem(cost=False)
    solution = problem.solve(mx.BlockFrankWolfe(tol=1e-8))
    assert solution.gap <= 1e-8
    assert abs(solution.objective) <= 1e-8  # w = 0 is optimal


def test_sequences_that_do_not_count_are_predicted():
    weights = np.ones(len(LENGTHS)) / len(LENGTHS)
    weights[2] = 0.0
    problem = _problem(weights=weights)
    solution = problem.solve(mx.BlockFrankWolfe(tol=1e-8))
    answer = problem.state(solution.w).p
    np.testing.assert_array_equal(solution.p.own.rows()[2], answer.own.rows()[2])


def test_observed_mixtures_start_from_paths():
    problem = _problem()
    soft = 0.5 * problem.observed + 0.5 * problem.state(np.ones(problem.features.n_features)).p
    mixed = mx.Problem(problem.entropy, problem.features, problem.potential, observed=soft)
    solution = mixed.solve(mx.BlockFrankWolfe(tol=1e-8))
    other = mixed.solve(mx.CuttingPlane(tol=1e-9))
    assert abs(solution.objective - other.objective) < 2e-8


def test_costs_of_transitions_are_left_to_the_slow_rows():
    X, labels = _data()
    chain = mx.Chain(K)
    cost = chain.scores([1 - np.eye(K)[y] for y in labels], 1 - np.eye(K))
    problem = mx.Problem(
        mx.Shifted(mx.Zero(chain), cost),
        mx.ChainMap(X, K),
        mx.Quadratic(0.5),
        observed=chain.encode(labels, tied=True),
    )
    assert not isinstance(mx.BlockFrankWolfe()._rows(problem, problem.observed), PathRows)
    solution = problem.solve(mx.BlockFrankWolfe(tol=1e-2))
    assert abs(solution.objective - problem.solve(mx.CuttingPlane()).objective) <= 1e-2


def test_resuming_under_another_penalty_is_faster_than_starting():
    solver = mx.BlockFrankWolfe(tol=1e-7, passes=1)
    problem = _problem(strength=0.02)
    first, active = solver.resume(problem)
    assert first.gap <= 1e-7
    assert set(np.unique(active.paths)) <= set(range(K))
    l2 = 0.02 * np.linspace(0.9, 1.1, problem.features.n_features)
    changed = problem.with_potential(mx.Quadratic(l2))
    cold, _ = solver.resume(changed)
    warm, again = solver.resume(changed, active)
    assert warm.gap <= 1e-7
    assert abs(warm.objective - cold.objective) < 2e-7
    assert warm.n_iter < cold.n_iter
    assert (again.counts >= 1).all()
    # at its own solution nothing is left to do
    assert solver.resume(changed, again)[0].n_iter <= 2


def test_resuming_needs_paths_of_the_same_sequences():
    problem = _problem()
    _, labels = _data()
    solver = mx.BlockFrankWolfe(tol=1e-6)
    with pytest.raises(ValueError, match="number of paths >= 1 each"):
        solver.resume(problem, ActivePaths.single(labels[:-1]))
    with pytest.raises(ValueError, match="sequences of other lengths"):
        solver.resume(problem, ActivePaths.single([labels[3], *labels[1:]]))
    with pytest.raises(ValueError, match="states run from 0 to 2"):
        solver.resume(problem, ActivePaths.single([y + K for y in labels]))
    start = ActivePaths.single(labels)
    start.shares[0] = 0.5
    with pytest.raises(ValueError, match="sum to 1"):
        solver.resume(problem, start)
    with pytest.raises(TypeError, match="resumes hinges over Chain"):
        solver.resume(problem.with_potential(mx.ElasticNet(0.1, 0.1)))


def test_settings_of_block_frank_wolfe():
    with pytest.raises(ValueError, match="cache must be >= 0"):
        mx.BlockFrankWolfe(cache=-1)
    with pytest.raises(ValueError, match="'uniform' or 'gap'"):
        mx.BlockFrankWolfe(sampling="random")


def test_many_paths_make_room():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(12, 3)) for _ in range(4)]
    labels = [rng.integers(0, 4, 12) for _ in X]  # noise: many paths are needed
    chain = mx.Chain(4)
    cost = chain.scores([1 - np.eye(4)[y] for y in labels], np.zeros((4, 4)))
    problem = mx.Problem(
        mx.Shifted(mx.Zero(chain), cost),
        mx.ChainMap(X, 4),
        mx.Quadratic(0.001),
        observed=chain.encode(labels, tied=True),
    )
    solution, active = mx.BlockFrankWolfe(tol=1e-6).resume(problem)
    assert solution.gap <= 1e-6
    assert active.counts.max() > 8
    assert problem.entropy.domain.contains(solution.p).all()


def _field(kind="dense", strength=None, entropy=None):
    """A conditional random field on the same sequences."""
    hinge = _problem(kind, strength)
    entropy = entropy or mx.Shannon(domain=hinge.entropy.domain)
    return mx.Problem(entropy, hinge.features, hinge.potential, observed=hinge.observed)


@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_exponentiated_gradient_on_hinges(kind):
    problem = _problem(kind)
    solution = problem.solve(mx.ExponentiatedGradient(tol=1e-3))
    assert solution.gap <= 1e-3
    assert problem.gap(solution.w, solution.p) == pytest.approx(solution.gap, abs=1e-12)
    other = problem.solve(mx.CuttingPlane(tol=1e-9))
    assert -1e-9 <= solution.objective - other.objective <= 1e-3


@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
@pytest.mark.parametrize("made", ["CRF", "softmax-margin", "cold"])
def test_exponentiated_gradient_on_random_fields(kind, made):
    chain, cost = mx.Chain(K), _problem(kind).entropy.cost
    entropy = {
        "CRF": mx.Shannon(domain=chain),
        "softmax-margin": mx.Shifted(mx.Shannon(domain=chain), cost),
        "cold": mx.Scaled(mx.Shannon(domain=chain), 0.2),
    }[made]
    problem = _field(kind, entropy=entropy)
    solution = problem.solve(mx.ExponentiatedGradient(tol=1e-9))
    assert solution.gap <= 1e-9
    other = problem.solve(mx.LBFGS(tol=1e-10))
    assert abs(solution.objective - other.objective) <= 2e-9
    np.testing.assert_allclose(solution.w, other.w, atol=1e-4)


def test_exponentiated_gradient_lowers_the_primal_at_every_look():
    problem = _problem(strength=0.05)
    states = []
    solver = mx.ExponentiatedGradient(tol=1e-3, passes=1)
    solver.solve(problem, callback=lambda _, state: states.append(state))
    primals = [problem.primal(state.point) for state in states]
    assert len(primals) > 5
    assert (np.diff(primals) < 0).all()


def test_exponentiated_gradient_keeps_out_of_forbidden_transitions():
    problem = _problem(forbidden=FORBIDDEN)
    best, _ = _enumerated(problem, FORBIDDEN)
    solution = problem.solve(mx.ExponentiatedGradient(tol=1e-3))
    assert solution.objective == pytest.approx(best, abs=1e-3)
    assert not solution.p.tied[:, [2, 3, 7]].any()


def test_exponentiated_gradient_says_what_it_needs():
    with pytest.raises(TypeError, match="needs Quadratic"):
        _problem().with_potential(mx.Box(0.1)).solve("exponentiated-gradient")
    samples = mx.Problem(
        mx.Shannon(), mx.SampleMap(np.eye(3), 2), mx.Quadratic(0.1), observed=np.array([0, 1, 0])
    )
    with pytest.raises(TypeError, match="on Chain with tied transitions"):
        samples.solve("exponentiated-gradient")


def test_projections_of_tied_rows_are_refused_before_they_start():
    with pytest.raises(TypeError, match="cannot be projected; use BlockFrankWolfe"):
        _problem().solve("dual-coordinate")


@pytest.mark.parametrize("settings", [{}, {"average": False}, {"step": 0.02}, {"beta": 3.0}])
@pytest.mark.parametrize("online", [False, True], ids=["batch", "online"])
def test_subgradients_agree_with_cutting_planes(online, settings):
    problem = _problem("pairs", strength=0.1)
    solution = problem.solve(mx.Subgradient(tol=1e-2, online=online, **settings))
    assert solution.gap <= 1e-2
    best = problem.solve(mx.CuttingPlane(tol=1e-9)).objective
    assert -1e-9 <= solution.objective - best <= 1e-2


UNEQUAL = np.linspace(0.05, 0.4, D * K + K * K)  # one over the variances of section 5


def _onto_the_l1_ball(w, radius):
    """Duchi et al. (2008), by sorting."""
    size = np.sort(np.abs(w))[::-1]
    above = (np.cumsum(size) - radius) / np.arange(1, w.size + 1)
    cut = above[np.flatnonzero(size > above)[-1]]
    return w if size.sum() <= radius else np.sign(w) * np.maximum(np.abs(w) - cut, 0)


@pytest.mark.parametrize(
    ("potential", "penalized"),
    [
        (mx.Quadratic(0.3), lambda w, step: w / (1 + 0.3 * step)),
        (mx.Quadratic(UNEQUAL), lambda w, step: w / (1 + UNEQUAL * step)),
        (mx.DualBall(0.5, p=1), lambda w, step: _onto_the_l1_ball(w, 0.5)),
    ],
    ids=["one strength", "unequal variances", "l1 ball"],
)
def test_a_pass_of_single_sequences_is_the_written_out_recursion(potential, penalized):
    weights = np.linspace(0.05, 0.2, len(LENGTHS))
    problem = _problem("sparse", strength=0.3, weights=weights).with_potential(potential)
    solver = mx.Subgradient(tol=0.0, max_iter=1, online=True, average=False, looks=1)
    w = np.zeros(problem.features.n_features)
    order = np.random.default_rng(0).permutation(len(LENGTHS))
    for t, i in enumerate(order, start=1):
        theta = problem.features.take(np.array([i])).scores(w)
        cost = problem.entropy.cost
        row = mx.Tied(mx.Ragged.from_rows([cost.own.rows()[i]]), np.zeros((1, K * K)))
        answer = problem.entropy.domain.argmax(theta + row)
        right = mx.Tied(
            mx.Ragged.from_rows([problem.observed.own.rows()[i]]), problem.observed.tied[i : i + 1]
        )
        g = len(LENGTHS) * weights[i] * problem.features.take(np.array([i])).moments(answer - right)
        step = 1 / (2 * np.sqrt(t))
        w = penalized(w - step * g, step)
    np.testing.assert_allclose(solver.run(problem).w, w, atol=1e-12)


def test_single_sequences_with_unequal_variances_agree_with_cutting_planes():
    problem = _problem(strength=0.1).with_potential(mx.Quadratic(UNEQUAL))
    solution = problem.solve(mx.Subgradient(tol=1e-2, online=True))
    best = problem.solve(mx.CuttingPlane(tol=1e-9)).objective
    assert -1e-9 <= solution.objective - best <= solution.gap <= 1e-2


@pytest.mark.parametrize("online", [False, True], ids=["batch", "online"])
def test_projected_subgradients_stay_in_the_l1_ball(online):
    cp = needs("cvxpy")
    problem = _problem(strength=0.1).with_potential(mx.DualBall(2.0, p=1))
    solution = problem.solve(mx.Subgradient(tol=5e-3, online=online))
    assert solution.gap <= 5e-3
    assert np.abs(solution.w).sum() <= 2 + 1e-9
    # the same hinge with the ball as a constraint, path by path
    chain, w = mx.Chain(K), cp.Variable(problem.features.n_features)
    losses = []
    for i, y in enumerate(_data()[1]):
        one = problem.features.take(np.array([i]))
        paths = list(itertools.product(range(K), repeat=len(y)))
        rows = [one.moments(chain.encode([p], tied=True)) for p in (*paths, y)]
        costs = np.array([np.sum(np.array(p) != y) for p in paths])
        losses.append(cp.max((np.array(rows[:-1]) - rows[-1]) @ w + costs))
    best = cp.Problem(cp.Minimize(sum(losses) / len(losses)), [cp.norm1(w) <= 2])
    best.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(best.value, abs=5e-3)


def test_subgradients_say_what_they_need():
    with pytest.raises(TypeError, match="has a gradient"):
        _field().solve("subgradient")
    samples = mx.SampleMap(np.eye(3), 2)
    hinge = mx.Problem(mx.Zero(), samples, mx.Quadratic(0.1), observed=np.array([0, 1, 0]))
    with pytest.raises(TypeError, match="tied transitions"):
        hinge.solve(mx.Subgradient(online=True))
    for wrong in ({"beta": 0.0}, {"step": -1.0}, {"looks": 0}):
        with pytest.raises(ValueError, match=r"must be >"):
            mx.Subgradient(**wrong)


@pytest.mark.parametrize("kind", ["dense", "sparse", "pairs"])
def test_stochastic_gradients_come_close_and_start_newton_like_methods(kind):
    problem = _field(kind, strength=0.05)
    best = problem.solve(mx.LBFGS(tol=1e-9))
    close = problem.solve(mx.StochasticGradient(tol=1e-3))
    assert close.gap <= 1e-3
    assert 0 <= close.objective - best.objective <= 1e-3
    warm = mx.LBFGS(tol=1e-9).solve(problem, w0=close.w)
    assert warm.n_iter < best.n_iter
    assert abs(warm.objective - best.objective) <= 2e-9


def test_stochastic_gradients_with_costs_weights_and_temperature():
    hinge = _problem(strength=0.2, weights=np.linspace(0.05, 0.2, len(LENGTHS)))
    entropy = mx.Shifted(mx.Scaled(mx.Shannon(domain=mx.Chain(K)), 0.5), hinge.entropy.cost)
    problem = mx.Problem(
        entropy, hinge.features, hinge.potential, weights=hinge.weights, observed=hinge.observed
    )
    solution = problem.solve(mx.StochasticGradient(tol=1e-3))
    assert solution.objective - problem.solve(mx.LBFGS(tol=1e-9)).objective <= 1e-3
    again = mx.StochasticGradient(tol=1e-3).solve(problem)
    np.testing.assert_array_equal(solution.w, again.w)


def test_stochastic_gradients_say_what_they_need():
    with pytest.raises(TypeError, match="Quadratic with one strength"):
        _field().solve("stochastic-gradient")
    with pytest.raises(TypeError, match="Shannon with costs of states"):
        _problem(strength=0.1).solve("stochastic-gradient")
    with pytest.raises(ValueError, match="first_step must be > 0"):
        mx.StochasticGradient(first_step=0.0)


@pytest.mark.parametrize("potential", [None, mx.Quadratic(0.02), mx.Box(0.02)], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "pairs"])
def test_a_slack_for_each_row_needs_fewer_answers(kind, potential):
    weights = np.linspace(0.0, 0.3, len(LENGTHS))  # the first sequence does not count
    problem = _problem(kind, weights=weights)
    problem = problem if potential is None else problem.with_potential(potential)
    one, each = (problem.solve(mx.CuttingPlane(tol=1e-8, slacks=s)) for s in ("one", "each"))
    assert each.gap <= 1e-8
    assert problem.gap(each.w, each.p) == pytest.approx(each.gap, abs=1e-12)
    assert abs(one.objective - each.objective) <= 1e-8
    assert each.n_iter < one.n_iter
    assert problem.entropy.domain.contains(each.p).all()


def test_slacks_of_samples_and_what_they_need():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 4, 30)
    hinge = mx.Shifted(mx.Zero(), 1 - np.eye(4)[y])
    problem = mx.Problem(hinge, mx.SampleMap(X, 4), mx.Quadratic(0.1), observed=np.eye(4)[y])
    one, each = (problem.solve(mx.CuttingPlane(slacks=s)) for s in ("one", "each"))
    assert abs(one.objective - each.objective) <= 2e-8
    with pytest.raises(ValueError, match="'one' or 'each'"):
        mx.CuttingPlane(slacks="two")
    single = mx.Problem(mx.Zero(), X, mx.Quadratic(0.1), target=np.zeros(3))
    with pytest.raises(TypeError, match="no separate rows; use slacks='one'"):
        single.solve(mx.CuttingPlane(slacks="each"))


@pytest.mark.parametrize(
    "potential",
    [
        mx.Box(0.02),
        mx.ElasticNet(0.02, 0.05),
        mx.Quadratic(0.05),
        mx.Families([mx.Box(0.02), mx.Quadratic(0.05)], [D * K, K * K]),
    ],
    ids=lambda p: repr(p)[:20],
)
def test_orthants_agree_with_proximal_gradients(potential):
    problem = _field().with_potential(potential)
    solution = problem.solve(mx.OWLQN(tol=1e-8))
    other = problem.solve(mx.FISTA(tol=1e-9))
    assert solution.gap <= 1e-8
    assert abs(solution.objective - other.objective) <= 1e-8
    np.testing.assert_array_equal(solution.w == 0, other.w == 0)
    if not isinstance(potential, mx.Quadratic):
        assert 0 < np.count_nonzero(solution.w) < solution.w.size


def test_orthants_lower_the_objective_at_every_step_and_take_a_start():
    problem = _field("pairs").with_potential(mx.Box(0.01))
    solver = mx.OWLQN(tol=1e-8)
    solution = solver.solve(problem)
    values = [record["objective"] for record in solution.history]
    assert (np.diff(values) <= 1e-14).all()
    warm = solver.solve(problem, w0=solution.w)
    assert warm.n_iter <= 2
    with pytest.raises(TypeError, match="orthants need a penalty"):
        problem.with_potential(mx.LaplacePrior(1.0)).solve("owlqn")
    with pytest.raises(TypeError, match="not differentiable"):
        _problem().solve("owlqn")


def test_auto_takes_the_solvers_of_chains(monkeypatch):
    from maxent.core import solvers

    assert isinstance(solvers.choose("auto", _problem()), mx.ColumnGeneration)
    monkeypatch.setattr(solvers, "_FEW_PATHS", 0)
    assert isinstance(solvers.choose("auto", _problem()), mx.BlockFrankWolfe)
    boxed = _problem().with_potential(mx.Box(0.1))
    assert isinstance(solvers.choose("auto", boxed), mx.CuttingPlane)
    sparse_field = _field().with_potential(mx.Box(0.1))
    assert isinstance(solvers.choose("auto", sparse_field), mx.FISTA)
    monkeypatch.setattr(solvers, "_MANY_L1", 5)
    assert isinstance(solvers.choose("auto", sparse_field), mx.OWLQN)
    elastic = sparse_field.with_potential(mx.ElasticNet(0.1, 0.1))
    assert isinstance(solvers.choose("auto", elastic), mx.FISTA)

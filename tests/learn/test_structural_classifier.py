"""StructMaxentClassifier: optima over enumerated features, peers, weights, odd input, saving."""

import pickle
import warnings
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import maxent as mx
from maxent import bounds, io
from maxent.core.solvers import choose
from maxent.families import Family, Monomials, Proposal, Search, Trees
from maxent.families.base import FeatureRows
from maxent.features import Operator, Schema
from maxent.learn.linear.class_map import ClassMap, ClassPart, Ones
from maxent.learn.structural.classifier import StructMaxentClassifier
from maxent.rows.local import LocalEvaluator
from tools import needs

# -- a family of one's own: all products of up to two scaled variables, searched exhaustively -----


@io.register
@dataclass(frozen=True, eq=False)
class PairTerms(Operator):
    low: np.ndarray
    high: np.ndarray
    pairs: np.ndarray  # (features, 2), -1 for no second factor

    @property
    def n_features(self):
        return len(self.pairs)

    def names(self):
        return [f"u{i}" if j < 0 else f"u{i}*u{j}" for i, j in self.pairs]

    def kinds(self):
        return np.full(self.n_features, "u")

    def restrict(self, index):
        return replace(self, pairs=self.pairs[index])

    def columns(self, cells, clamp=False):
        u = (cells.values.T - self.low) / (self.high - self.low)
        u = np.column_stack([np.clip(u, 0, 1) if clamp else u, np.ones(cells.n_cells)])
        return np.array([u[:, i] * u[:, j] for i, j in self.pairs])

    def bind(self, cells, clamp=False):
        return FeatureRows(self.columns(cells, clamp))


class PairSearch(Search):
    exhaustive = True

    def __init__(self, cells, max_level):
        super().__init__(cells)
        d = len(cells.values)
        self.levels = [[(i, -1) for i in range(d)], [(i, j) for i in range(d) for j in range(i, d)]]
        self.levels = self.levels[:max_level]
        self.all = PairTerms(
            cells.values.min(axis=1), cells.values.max(axis=1), np.concatenate(self.levels)
        )
        self.columns = self.all.columns(cells)

    def propose(self, r):
        found, start = [], 0
        for level, pairs in enumerate(self.levels, start=1):
            values = self.columns[start : start + len(pairs)] @ r
            best = int(np.argmax(np.abs(values)))
            operator = self.all.restrict(np.array([start + best]))
            found.append(Proposal(operator, level, float(values[best])))
            start += len(pairs)
        return found


@io.register
@dataclass(frozen=True)
class Pairs(Family):
    max_level: int = 2
    letter = "u"

    def complexity(self, level, d, m):
        return level * np.log(d) / np.sqrt(m)

    def search(self, cells, schema):
        return PairSearch(cells, self.max_level)


class Silent(Family):
    letter = "s"

    def complexity(self, level, d, m):
        return 0.0

    def search(self, cells, schema):
        return SilentSearch(cells)


class SilentSearch(Search):
    def propose(self, r):
        return []


# -- helpers ---------------------------------------------------------------------------------------


def classifier(*args, **settings):
    return StructMaxentClassifier(*args, **{"verbose": 0, **settings})


def short(*args, rounds=10, **settings):
    """A few rounds, and no proof about what they leave out, for claims that hold in each round."""
    return classifier(*args, rounds=rounds, proof_budget=0, **settings)


def samples(classes=3, n=90, d=4, seed=0):
    """Labels that depend on a variable and on a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(2)
    scores = np.outer(X[:, 0], np.linspace(-2, 2, classes))
    scores += np.outer(X[:, 1] * X[:, 2], (-1.0) ** np.arange(classes))
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    return X, y


def whole_problem(X, y, family, lam, beta, entropy, weight=None):
    """All features of the family for all classes, written out, with their constants."""
    schema = Schema.from_table(X)
    search = family.search(schema.read(X), schema)
    m, d = len(X), X.shape[1]
    price = [
        lam * family.complexity(k, d, m) + beta
        for k, pairs in enumerate(search.levels, start=1)
        for _ in pairs
    ]
    Phi = np.column_stack([search.columns.T, np.ones(len(X))])
    classes = y.max() + 1
    penalty = np.repeat([*price, beta], classes)
    features = mx.SampleMap(Phi, classes)
    observed = np.eye(classes)[y]
    problem = mx.Problem(entropy, features, mx.Box(penalty), observed=observed, weights=weight)
    return problem, Phi, np.array([*price, beta])


# -- the optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("entropy", [mx.Shannon(), mx.Tsallis(1.5), mx.Tsallis(2.0)])
@pytest.mark.parametrize("lam", [0.0, 0.01])
def test_corrective_reaches_the_optimum_over_all_features(classes, entropy, lam):
    X, y = samples(classes)
    model = classifier([Pairs()], lam, 0.001, tol=1e-7, rounds=200, entropy=entropy).fit(X, y)
    problem, _, _ = whole_problem(X, y, Pairs(), lam, 0.001, entropy)
    best = problem.solve(tol=1e-10)
    assert 3 <= model.n_features_ < problem.features.n_features
    assert abs(model.objective_ - best.objective) < 1e-8
    np.testing.assert_allclose(model.predict_proba(X), best.p, atol=1e-4)
    assert model.violation_ <= 1e-7
    assert model.gap_ <= 1e-9


def test_the_optimum_is_that_of_another_program():
    cp = needs("cvxpy")
    X, y = samples()
    model = classifier([Pairs()], 0.1, 0.005, tol=1e-7, rounds=200).fit(X, y)
    _, Phi, price = whole_problem(X, y, Pairs(), 0.1, 0.005, mx.Shannon())
    W = cp.Variable((Phi.shape[1], 3))
    scores = Phi @ W
    loss = cp.sum(cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(np.eye(3)[y], scores))
    objective = loss / len(X) + cp.sum(cp.multiply(np.outer(price, np.ones(3)), cp.abs(W)))
    tight = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
    value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, **tight)
    assert abs(model.objective_ - value) < 1e-6


def test_two_classes_are_deep_boosting_with_features_of_half_a_sign():
    # f(x) = sum_j w_j y phi_j(x) / 2 for y = +-1 (Cortes, Mohri and Syed, 2014)
    cp = needs("cvxpy")
    X, y = samples(2)
    model = classifier([Pairs()], 0.1, 0.005, tol=1e-7, rounds=200).fit(X, y)
    _, Phi, price = whole_problem(X, y, Pairs(), 0.1, 0.005, mx.Shannon())
    w = cp.Variable(Phi.shape[1])
    signs = 2 * y - 1
    margins = cp.multiply(signs, Phi @ w / 2) - cp.multiply(-signs, Phi @ w / 2)
    objective = cp.sum(cp.logistic(-margins)) / len(X) + price @ cp.abs(w)
    tight = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], 1e-9)
    value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, **tight)
    assert abs(model.objective_ - value) < 1e-6
    np.testing.assert_allclose(model.decision_function(X), Phi @ w.value, atol=1e-3)
    assert {row["class"] for row in model.features_} == {1}


def test_monomials_of_degree_one_are_l1_logistic_regression():
    X, y = samples(2, n=150)
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    model = classifier([Monomials(1)], 0.0, 0.01, tol=1e-7).fit(X, y)
    settings = {"solver": "liblinear", "l1_ratio": 1.0, "tol": 1e-10, "max_iter": 10_000}
    peer = LogisticRegression(C=1 / (0.01 * len(X)), **settings).fit(
        scaled, y
    )  # constant penalised
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(scaled), atol=1e-5)
    weights = {f"x{j}": w for j, w in enumerate(peer.coef_[0]) if abs(w) > 1e-6}
    assert {name for name, _ in model.coef_} == set(weights)
    for (name, _), weight in model.coef_.items():
        assert abs(weight - weights[name]) < 1e-3
    assert abs(model.intercept_[1] - peer.intercept_[0]) < 1e-3


def test_several_classes_are_l1_multinomial_regression():
    X, y = samples(3, n=150)
    scaled = np.column_stack([(X - X.min(axis=0)) / np.ptp(X, axis=0), np.ones(len(X))])
    model = classifier([Monomials(1)], 0.0, 0.01, tol=1e-7).fit(X, y)
    settings = {"solver": "saga", "l1_ratio": 1.0, "tol": 1e-9, "max_iter": 100_000}
    peer = LogisticRegression(C=1 / (0.01 * len(X)), fit_intercept=False, **settings).fit(scaled, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(scaled), atol=1e-4)


# -- how it grows ------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_the_first_feature_is_the_worst_violator_of_all(lam):
    X, y = samples(4)
    model = classifier([Pairs()], lam, 0.005, rounds=1, tol=1e-7).fit(X, y)
    problem, Phi, price = whole_problem(X, y, Pairs(), lam, 0.005, mx.Shannon())
    start = np.zeros((Phi.shape[1], 4))
    start[-1] = _constants(y, 0.005)
    gradient = problem.state(start.ravel()).gradient.reshape(-1, 4)
    violation = np.abs(gradient) - price[:, None]
    j, output = np.unravel_index(np.argmax(violation), violation.shape)
    schema = Schema.from_table(X)
    name = Pairs().search(schema.read(X), schema).all.names()[j]
    (row,) = model.features_
    assert (row["name"], row["class"], row["family"]) == (name, output, "Pairs")
    assert row["level"] == 1 + (j >= 4)
    assert abs(row["beta"] - price[j]) < 1e-15
    assert abs(model.history_[0]["violation"] - violation.max()) < 1e-6


def _constants(y, beta):
    """The best constants alone."""
    classes = y.max() + 1
    features = mx.SampleMap(np.ones((len(y), 1)), classes)
    problem = mx.Problem(mx.Shannon(), features, mx.Box(beta), observed=np.eye(classes)[y])
    return problem.solve(tol=1e-13).w


@pytest.mark.parametrize("entropy", [mx.Shannon(), mx.Tsallis(1.5)])
def test_line_search_takes_exact_steps_along_the_worst_feature(entropy):
    X, y = samples()
    problem, Phi, price = whole_problem(X, y, Pairs(), 0.1, 0.005, entropy)
    w = np.zeros((Phi.shape[1], 3))
    penalty = np.repeat(price, 3).reshape(-1, 3)
    objectives = [problem.dual(w.ravel())]
    for _ in range(12):
        gradient = problem.state(w.ravel()).gradient.reshape(-1, 3)
        at_zero = np.maximum(np.abs(gradient) - penalty, 0)
        violation = np.where(w == 0, at_zero, np.abs(gradient + penalty * np.sign(w)))
        j = np.unravel_index(np.argmax(violation), violation.shape)

        def along(value, j=j):
            moved = w.copy()
            moved[j] = value
            return problem.dual(moved.ravel())

        found = optimize.minimize_scalar(along, bounds=(-20, 20), options={"xatol": 1e-10})
        w[j] = found.x if found.fun < along(0.0) else 0.0
        objectives.append(problem.dual(w.ravel()))
    model = classifier(
        [Pairs()], 0.1, 0.005, rule="line-search", rounds=12, entropy=entropy, tol=1e-7
    )
    model.fit(X, y)
    mine = [record["objective"] for record in model.history_]
    np.testing.assert_allclose(mine, objectives, atol=1e-7)
    assert model.n_rounds_ == 12


def test_line_search_ends_as_in_the_paper_near_the_optimum():
    X, y = samples()
    best = classifier([Pairs()], 0.1, 0.005, tol=1e-7, rounds=200).fit(X, y)
    model = classifier([Pairs()], 0.1, 0.005, rule="line-search", rounds=1000).fit(X, y)
    objective = np.array([record["objective"] for record in model.history_])
    assert (np.diff(objective) < 0).all()
    assert (-np.diff(objective)[:-1] >= 1e-5).all()
    assert -np.diff(objective)[-1] < 1e-5
    assert 0 <= model.objective_ - best.objective_ < 1e-3
    assert len(model.coef_) == model.n_features_  # no feature twice
    settings = {"rule": "line-search", "rounds": 5000, "least_change": 1e-8, "tol": 1e-9}
    further = classifier([Pairs()], 0.1, 0.005, **settings).fit(X, y)
    above = model.objective_ - best.objective_, further.objective_ - best.objective_
    assert above[1] < 1e-6 < above[0] / 10
    assert further.family_gap_ < model.family_gap_ / 10


def test_several_features_a_round_are_of_different_classes():
    X, y = samples(4)
    one = classifier([Pairs()], 0.01, 0.002, tol=1e-6, rounds=200).fit(X, y)
    first = classifier([Pairs()], 0.01, 0.002, per_round=3, rounds=1).fit(X, y)
    assert len({row["class"] for row in first.features_}) == first.n_features_ == 3
    many = classifier([Pairs()], 0.01, 0.002, tol=1e-6, rounds=200, per_round=4).fit(X, y)
    assert abs(one.objective_ - many.objective_) < 1e-6
    assert many.n_rounds_ < one.n_rounds_ / 2


def test_certificates_bound_the_distance_to_the_optimum():
    X, y = samples()
    problem, Phi, _ = whole_problem(X, y, Pairs(), 0.1, 0.005, mx.Shannon())
    best = problem.solve(tol=1e-11)
    rough = classifier([Pairs()], 0.1, 0.005, rule="line-search", rounds=6).fit(X, y)
    schema = Schema.from_table(X)
    names = [*Pairs().search(schema.read(X), schema).all.names(), "1"]
    w = np.zeros((Phi.shape[1], 3))
    w[-1] = rough.intercept_
    for (name, output), weight in rough.coef_.items():
        w[names.index(name), output] = weight
    assert abs(problem.dual(w.ravel()) - rough.objective_) < 1e-12
    excess = rough.objective_ - best.objective
    assert 0 < excess <= rough.violation_ * np.abs(w.ravel() - best.w).sum()
    # the gap is over the features that came in
    used = np.flatnonzero(np.repeat((w != 0).any(axis=1), 3))
    part = problem.restrict(used, mx.Box(np.asarray(problem.potential.beta)[used]))
    inside = part.solve("fista", tol=1e-9).objective if rough.n_features_ else problem.dual(0 * w)
    assert rough.objective_ - inside <= rough.gap_ + 1e-8


# -- a prior: (10) to (12), Theorem 4 and (9) ------------------------------------------------------


def priors(n, classes, seed=5):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 3.0), size=n)


@pytest.mark.parametrize("classes", [2, 3])
def test_with_a_prior_it_is_the_closest_to_it_within_the_box(classes):
    """(10), written out for another program with all features; (13), no gap between the two."""
    cp = needs("cvxpy")
    X, y = samples(classes, n=40, d=3)
    p0 = priors(40, classes)
    lam, beta = 0.05, 0.01
    model = classifier([Pairs()], lam, beta, prior=lambda rows: p0, tol=1e-8, rounds=200)
    model.fit(X, y)
    _, Phi, price = whole_problem(X, y, Pairs(), lam, beta, mx.Shannon())
    p = cp.Variable((40, classes), nonneg=True)
    near = [cp.sum(p, axis=1) == 1]
    for output in [1] if classes == 2 else range(classes):
        near.append(cp.abs(Phi.T @ (p[:, output] - (y == output)) / 40) <= price)
    divergence = cp.sum(cp.kl_div(p, p0)) / 40  # as both sum to 1
    program = cp.Problem(cp.Minimize(divergence), near)
    program.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(model.predict_proba(X), p.value, atol=2e-4)
    ratio = np.log(model.predict_proba(X) / p0)[np.arange(40), y].mean()
    penalty = model.objective_ - model.loss_
    assert ratio - penalty == pytest.approx(program.value, abs=1e-6)  # (12), (13)
    loss = -np.log(model.predict_proba(X)[np.arange(40), y]).mean()
    assert model.loss_ == pytest.approx(loss, abs=1e-12)  # of (14)
    assert model.family_gap_ < 1e-5


def test_priors_of_all_kinds():
    X, y = samples(3)
    names = np.array(["a", "b", "c"])[y]
    share = np.array([0.2, 0.5, 0.3])
    high = classifier([Pairs()], 0.1, 10.0, prior=2 * share).fit(X, names)
    assert not high.features_
    np.testing.assert_allclose(high.predict_proba(X[:4]), np.tile(share, (4, 1)), atol=1e-15)
    assert list(high.predict(X[:2])) == ["b", "b"]
    plain = classifier([Pairs()], 0.05, 0.005).fit(X, names)
    uniform = classifier([Pairs()], 0.05, 0.005, prior=np.ones(3)).fit(X, names)
    np.testing.assert_allclose(plain.predict_proba(X), uniform.predict_proba(X), atol=1e-9)
    # of a model with the same prices the means are in the box already
    further = classifier([Pairs()], 0.05, 0.005, prior=plain.predict_proba).fit(X, names)
    assert not further.features_
    np.testing.assert_allclose(further.predict_proba(X), plain.predict_proba(X), atol=1e-12)
    assert classifier([Pairs()], 0.01, 0.001, prior=plain.predict_proba).fit(X, names).features_
    twice = classifier([Pairs()], 0.05, 0.005, prior=plain.predict_proba)
    weight = np.r_[np.zeros(30), np.ones(60)]
    np.testing.assert_allclose(
        twice.fit(X, names, weight).predict_proba(X),
        clone(twice).fit(X[30:], names[30:]).predict_proba(X),
        atol=1e-9,
    )
    sparse = classifier([Pairs()], 0.05, 0.005, prior=share, entropy=mx.Tsallis(1.5)).fit(X, names)
    rows = sparse.predict_proba(X)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)
    value = mx.Relative(mx.Tsallis(1.5), share).conjugate(sparse.decision_function(X))[0]
    score = sparse.decision_function(X)[np.arange(90), y]
    at_label = mx.Relative(mx.Tsallis(1.5), share).value(np.eye(3))[y]
    assert sparse.loss_ == pytest.approx(np.mean(value - score + at_label), abs=1e-10)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.5, 0.5], "for each of 3 classes"),
        ([0.5, 0.5, 0.0], "finite and positive"),
        ([0.5, np.nan, 0.5], "finite and positive"),
        (lambda X: np.ones((2, 3)), "for each of 90 samples"),
    ],
)
def test_wrong_priors(prior, message):
    X, y = samples(3)
    with pytest.raises(ValueError, match=message):
        classifier([Pairs()], prior=prior).fit(X, y)


@pytest.mark.parametrize("rounds", [1, 3, 6])
def test_the_divergence_from_the_optimum_is_at_most_what_is_guaranteed(rounds):
    """Theorem 4: the mean of KL(p*[.|x] || p_w[.|x]) over the samples, p* over all features."""
    X, y = samples()
    p0 = priors(90, 3)
    settings = {"prior": lambda rows: p0, "rule": "line-search"}
    rough = classifier([Pairs()], 0.1, 0.005, rounds=rounds, **settings).fit(X, y)
    problem, _, _ = whole_problem(X, y, Pairs(), 0.1, 0.005, mx.Relative(mx.Shannon(), p0))
    best = problem.solve(tol=1e-11)
    p = rough.predict_proba(X)
    divergence = np.sum(best.p * np.log(best.p / p), axis=1).mean()
    assert rough.guarantees_["mean_kl"] == rough.family_gap_
    assert 0 < divergence <= rough.guarantees_["mean_kl"]
    if rounds == 1:
        assert divergence > rough.gap_  # what is chosen alone would not do
    distance = np.sqrt(np.sum((best.p - p) ** 2, axis=1).mean())
    assert distance <= rough.guarantees_["rms_l2"]


def test_the_bound_on_new_labels(tmp_path):
    """(9), by hand; and held in every one of many draws of labels, of a truth that is known."""
    X, _ = samples(3, n=400)
    truth = np.exp(1.5 * X[:, :3])
    truth /= truth.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    for _ in range(3):
        y = (rng.random((400, 1)) > truth.cumsum(axis=1)).sum(axis=1)
        model = classifier([Pairs(1), Monomials(2)], 0.05, 0.005).fit(X, y)
        told = model.bound(0.1)
        chance = np.sqrt(np.log(2 * 3 * (1 + 1 + 2) / 0.1) / (2 * 400))  # 12 sets
        level = {
            "Pairs": lambda k: k * np.log(4) / 20,
            "Monomials": lambda k: np.sqrt(2 * k * np.log(4)) / 20,
        }
        deviation = chance * np.abs(model.intercept_).sum()
        for row in model.features_:
            beta = 2 * level[row["family"]](row["level"]) + chance
            deviation += beta * abs(row["weight"])
        assert told.deviation == pytest.approx(deviation, rel=1e-12)
        assert told.sample_loss == model.loss_
        expected = -np.sum(truth * np.log(model.predict_proba(X)), axis=1).mean()
        assert expected <= told.bound
    assert "new labels of these samples" in str(told)
    prior = classifier([Pairs(1)], 0.05, 0.005, prior=[0.6, 0.3, 0.1]).fit(X, y)
    assert prior.bound().sample_loss == pytest.approx(
        np.mean(np.log(np.array([0.6, 0.3, 0.1])[y] / prior.predict_proba(X)[np.arange(400), y]))
    )
    mx.save(prior, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    assert (again.bound(), again.guarantees_) == (prior.bound(), prior.guarantees_)
    np.testing.assert_array_equal(again.predict_proba(X), prior.predict_proba(X))
    weight = rng.uniform(1, 3, 400)
    heavier = classifier([Pairs(1)], 0.05, 0.005).fit(X, y, weight)
    share = weight / weight.sum()
    chance = np.sqrt(np.log(2 * 3 * 2 / 0.05) * np.sum(share**2) / 2)
    rows = np.array([row["weight"] for row in heavier.features_])
    complexity = bounds.weighted_complexity(lambda m: np.log(4) / np.sqrt(m), weight)
    deviation = (2 * complexity + chance) * np.abs(rows).sum()
    deviation += chance * np.abs(heavier.intercept_).sum()
    assert heavier.bound().deviation == pytest.approx(deviation, rel=1e-12)
    with pytest.raises(ValueError, match="class_weight"):
        classifier([Pairs(1)], class_weight="balanced").fit(X, y).bound()
    with pytest.raises(ValueError, match="for the log loss"):
        classifier([Pairs(1)], entropy=mx.Tsallis(1.5)).fit(X, y).bound()


def test_what_greed_does_not_find_is_found_or_bounded():
    X = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=-1).reshape(-1, 2) / 5
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)  # no first question helps
    with pytest.warns(UserWarning, match="the families propose no feature"):
        greedy = classifier([Trees(3)], 0.0, 0.05, searches=0).fit(X, y)
    assert greedy.n_features_ == 0
    assert greedy.violation_found_ == pytest.approx(0.2)  # of the tree that the proof finds
    assert greedy.violation_ == pytest.approx(0.2)
    model = classifier([Trees(3)], 0.0, 0.05).fit(X, y)
    assert model.score(X, y) == 1.0
    assert model.violation_ <= 1e-4
    assert model.family_gap_ < 1e-3
    assert greedy.family_gap_ >= greedy.objective_ - model.objective_ > 0.3


def test_violations_that_no_solver_can_remove_are_told():
    X, y = samples()
    with pytest.warns(mx.ConvergenceWarning, match="raise tol"):
        classifier([Pairs()], 0.1, 0.005, tol=1e-20, rounds=3).fit(X, y)
    # the certificate of a tiny penalty stalls above the gap of its rounds: no reason to warn
    model = classifier([Pairs()], 0.0, 1e-6, tol=1e-4, rounds=3).fit(X, y)
    assert model.n_features_ == 3


def test_a_high_price_of_complexity_keeps_complex_features_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    free = classifier([Pairs()], 0.0, 0.003).fit(X, y)
    assert free.features_[0]["name"] == "u0*u1"
    assert free.score(X, y) > 0.85
    dear = classifier([Pairs()], 1.0, 0.01).fit(X, y)
    assert not [row for row in dear.features_ if row["level"] > 1]
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    free = short(None, 0.0, 0.01).fit(X, y)
    assert "Trees" in {row["family"] for row in free.features_}
    dear = short(None, 0.2, 0.01).fit(X, y)
    assert {row["family"] for row in dear.features_} == {"Monomials"}


def check_objective(model, X, y, entropy):
    """The objective is that of the predictions and weights."""
    loss = mx.FenchelYoungLoss(entropy).value(model.decision_function(X), y).mean()
    assert abs(model.loss_ - loss) < 1e-12
    l1 = sum(row["beta"] * abs(row["weight"]) for row in model.features_)
    l1 += model.beta * np.abs(model.intercept_).sum()
    assert abs(model.objective_ - loss - l1) < 1e-12


def test_the_loss_is_the_fenchel_young_loss():
    X, y = samples()
    for entropy in (mx.Shannon(), mx.Tsallis(1.5)):
        model = classifier([Pairs()], 0.1, 0.005, entropy=entropy).fit(X, y)
        check_objective(model, X, y, entropy)


def test_tsallis_gives_exact_zeros():
    X, y = samples()
    proba = classifier([Pairs()], 0.0, 0.002, entropy=mx.Tsallis(2.0)).fit(X, y).predict_proba(X)
    assert (proba == 0).mean() > 0.05
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    assert (classifier([Pairs()], 0.0, 0.002).fit(X, y).predict_proba(X) > 0).all()


# -- Ctrl-C --------------------------------------------------------------------------------------


MANY = [Pairs(), Monomials(2), Trees(4)]


def interrupt(monkeypatch, owner, name, number):
    """The call of that number, from 1, is interrupted."""
    real, calls = getattr(owner, name), count(1)

    def method(self, *args):
        if next(calls) == number:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(owner, name, method)


def check_same_model(model, whole, X):
    """Every fitted attribute but times."""
    for name in ("features_", "n_features_", "loss_", "objective_", "gap_", "n_rounds_"):
        assert getattr(model, name) == getattr(whole, name)
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    for mine, other in zip(model.history_[:-1], whole.history_[:-1], strict=True):
        assert mine | {"seconds": 0} == other | {"seconds": 0}
    check_last_record(model)


def check_last_record(model):
    last = model.history_[-1]
    assert last["objective"] == model.objective_
    assert last["gap"] == model.gap_
    assert last["violation"] == model.violation_found_
    assert last["features"] == model.n_features_ == len(model.features_)
    assert model.n_rounds_ == len(model.history_) - 1


@pytest.mark.parametrize("rule", ["corrective", "line-search"])
@pytest.mark.parametrize(("classes", "searches"), [(2, 1), (3, 3)])
def test_an_interrupted_search_leaves_the_model_so_far(
    monkeypatch, tmp_path, rule, classes, searches
):
    X, y = samples(classes)
    settings = {"families": MANY, "lam": 0.01, "rule": rule, "per_round": classes}
    whole = classifier(**settings, rounds=2).fit(X, y)
    interrupt(monkeypatch, PairSearch, "propose", 2 * searches + 1)  # of the third round
    model = classifier(**settings)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_rounds_ == 2
    assert model.n_features_ > 0
    assert model.violation_ == np.inf  # not known at these weights
    check_same_model(model, whole, X)
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.history_ == model.history_


def interrupt_solve(monkeypatch, number):
    """The solve of that number, from 1, is interrupted after its first step."""
    calls = count(1)

    def run(self, solver, w0, **settings):
        stop = _interrupt if next(calls) == number else None
        return replace(choose(solver, self), **settings).run(self, w0, callback=stop)

    monkeypatch.setattr(mx.Problem, "run", run)


def _interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("rule", "number"), [("corrective", 4), ("line-search", 3)])
def test_an_interrupted_solve_leaves_the_weights_before_it(monkeypatch, rule, number):
    X, y = samples()
    settings = {"families": MANY, "lam": 0.01, "rule": rule}
    whole = classifier(**settings, rounds=2).fit(X, y)
    interrupt_solve(monkeypatch, number)  # of the third round
    model = classifier(**settings)
    with pytest.raises(mx.Interrupted):
        model.fit(X, y)
    assert model.n_rounds_ == 2
    assert model.violation_found_ == whole.violation_found_ > model.tol  # the solve was to remove
    check_same_model(model, whole, X)


@pytest.mark.parametrize("rule", ["corrective", "line-search"])
def test_wherever_it_is_interrupted_the_model_is_of_one_piece(monkeypatch, rule):
    X, y = samples()
    for number in range(2, 40):
        model = classifier([Pairs()], 0.01, 0.001, rule=rule, tol=1e-7)
        with monkeypatch.context() as patch:
            interrupt(patch, LocalEvaluator, "evaluate", number)
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
        check_objective(model, X, y, mx.Shannon())
        check_last_record(model)


def test_interrupted_before_the_first_round_classes_are_equally_probable(monkeypatch):
    X, y = samples()
    interrupt_solve(monkeypatch, 1)
    model = classifier([Pairs()])
    with pytest.raises(mx.Interrupted):
        model.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)
    assert model.features_ == []
    assert model.n_rounds_ == 0
    assert abs(model.objective_ - np.log(3)) < 1e-12
    assert model.violation_ == np.inf
    assert np.isfinite(model.gap_)


# -- data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("families", [None, [Pairs()]])
def test_sample_weights_are_repetitions(families):
    X, y = samples(n=60)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    settings = {"tol": 1e-6}
    weighted = short(families, 0.05, 0.003, **settings).fit(X, y, sample_weight=weight)
    repeated = short(families, 0.05, 0.003, **settings)
    repeated.fit(X.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert abs(weighted.objective_ - repeated.objective_) < 1e-9
    plain = short(families, 0.05, 0.003, **settings).fit(X, y)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3


def test_ten_classes_with_names():
    rng = np.random.default_rng(0)
    names = np.array([f"class {k}" for k in range(10)])
    centres = rng.uniform(size=(10, 2))
    y = rng.integers(0, 10, 400)
    X = centres[y] + 0.03 * rng.normal(size=(400, 2))
    model = short(lam=0.01, per_round=10, rounds=5).fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    assert model.predict_proba(X).shape == (400, 10)
    assert model.score(X, names[y]) > 0.9
    assert {row["class"] for row in model.features_} <= set(names)
    np.testing.assert_array_equal(
        model.predict(X), names[model.decision_function(X).argmax(axis=1)]
    )


def test_frames_with_categories():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"wet": rng.uniform(size=200), "soil": rng.choice(["bog", "fen", "heath"], 200)}
    )
    y = np.where((X["soil"] == "bog") ^ (X["wet"] > 0.7), "a", "b")
    model = classifier(lam=0.02).fit(X, y)
    assert model.score(X, y) == 1
    assert any("soil" in row["name"] for row in model.features_)
    coded = X.assign(soil=X["soil"].map({"bog": 3, "fen": 1, "heath": 2}))
    again = classifier(lam=0.02, categorical=["soil"]).fit(coded, y)
    assert again.score(coded, y) == 1
    with pytest.warns(UserWarning, match="were not there at the fit"):
        model.predict(X.assign(soil="moor"))


def test_predictions_hold_variables_within_their_ranges():
    X, y = samples()
    for families in ([Pairs()], None):
        model = short(families).fit(X, y)
        inside = np.clip(10 * X, X.min(axis=0), X.max(axis=0))
        np.testing.assert_allclose(model.predict_proba(10 * X), model.predict_proba(inside))


def test_constant_columns_are_not_used():
    X, y = samples()
    alone = short(lam=0.0).fit(X, y)  # B_k counts all columns, so any price would differ
    with pytest.warns(UserWarning, match="constant columns are not used: x4"):
        model = short(lam=0.0).fit(np.column_stack([X, np.ones(len(X))]), y)
    assert model.n_features_ > 0
    assert not any("x4" in row["name"] for row in model.features_)
    assert {name for name, _ in model.coef_} == {name for name, _ in alone.coef_}


def test_without_proposals_there_are_constants_alone():
    X, y = samples(2)
    with pytest.warns(UserWarning, match="the families propose no feature"):
        model = classifier([Silent()], beta=1e-9, tol=1e-8).fit(X, y)
    assert model.features_ == []
    assert model.n_rounds_ == 0
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=1e-6)


def test_free_constants_have_no_finite_gap_but_an_optimum():
    X, y = samples(2)
    model = classifier([Monomials(1)], 0.3, 0.0, tol=1e-6).fit(X, y)
    assert model.violation_ <= 1e-6
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lam": -1.0}, "lam must be a number >= 0, got -1.0"),
        ({"beta": "small"}, "beta must be a number >= 0"),
        ({"least_change": -1}, "least_change must be a number >= 0"),
        ({"least_change": 1e-3}, "has no effect with rule='corrective'"),
        ({"rounds": 0}, "rounds must be an integer >= 1, got 0"),
        ({"per_round": 1.5}, "per_round must be an integer >= 1"),
        ({"rule": "newton"}, "rule must be one of corrective, line-search"),
        ({"families": []}, "families must be a list of families"),
        ({"families": ["trees"]}, "families must be a list of families"),
        ({"entropy": "tsallis"}, 'entropy must be "shannon" or a strictly convex'),
        ({"entropy": mx.Zero()}, 'entropy must be "shannon" or a strictly convex'),
        ({"entropy": mx.FermiDirac()}, 'entropy must be "shannon" or a strictly convex'),
    ],
)
def test_wrong_parameters(change, message):
    X, y = samples()
    with pytest.raises(ValueError, match=message):
        classifier(**change).fit(X, y)


def test_wrong_samples():
    X, y = samples()
    lost = X.copy()
    lost[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains missing values \(NaN, None\) in 1 rows"):
        classifier().fit(lost, y)
    with pytest.raises(ValueError, match="missing values"):
        classifier().fit(pd.DataFrame({"a": X[:, 0], "b": [None, *("uv" * 50)[: len(X) - 1]]}), y)
    with pytest.raises(ValueError, match="n_samples=4, and growing features needs at least 5"):
        classifier().fit(X[:4], y[:4])
    with pytest.raises(ValueError, match="n_samples=4"):
        classifier().fit(X, y, sample_weight=np.arange(len(X)) < 4)
    with pytest.raises(ValueError, match="every sample is of one class, 'a'"):
        classifier().fit(X, ["a"] * len(X))
    with pytest.raises(ValueError, match="X is empty"):
        classifier().fit(pd.DataFrame(), [])


# -- the feature map ---------------------------------------------------------------------------


def test_the_map_is_its_matrix():
    rng = np.random.default_rng(0)
    n, classes = 2500, 3
    parts = [
        ClassPart(FeatureRows(rng.uniform(size=(2, n))), 2, np.array([1, 4])),
        ClassPart(Ones(), 0, np.array([0])),
        ClassPart(FeatureRows(rng.uniform(size=(3, n))), 0, np.array([2, 3, 5])),
    ]
    features = ClassMap(parts, n, classes)
    F = np.zeros((n, classes, 6))
    F[:, 0, 0] = 1
    F[:, 0, [2, 3, 5]] = parts[2].bound.rows.T
    F[:, 2, [1, 4]] = parts[0].bound.rows.T
    w, p = rng.normal(size=6), rng.uniform(size=(n, classes))
    diagonal, spike = rng.uniform(size=(2, n, classes))
    for some in (np.arange(6), np.array([0, 3, 4]), np.array([2, 5])):
        part, G = features.restrict(some), F[:, :, some]
        assert part.n_features == some.size
        np.testing.assert_allclose(part.scores(w[some]), G @ w[some])
        np.testing.assert_allclose(part.moments(p), np.einsum("iy,iyj->j", p, G))
        curved = np.einsum("iyj,iy,iyk->jk", G, diagonal, G)
        np.testing.assert_allclose(part.gram(diagonal, None), curved)
        edge = np.einsum("iyj,iy->ij", G, spike)
        np.testing.assert_allclose(part.gram(diagonal, spike), curved - edge.T @ edge)
    seen = np.r_[0:1024, 2048:2500]
    expected = np.einsum("iyj,iy,iyk->jk", F[seen], diagonal[seen], F[seen]) * n / seen.size
    np.testing.assert_allclose(features.gram(diagonal, None, every=2), expected)
    assert repr(features) == "ClassMap(2500 samples, 6 features, 3 classes)"
    np.testing.assert_array_equal(features.ranges(), [np.zeros(6), np.ones(6)])


# -- saving and scikit-learn -------------------------------------------------------------------


@pytest.mark.parametrize("families", [None, [Pairs()], [Monomials(1), Trees(2)]])
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([3, 7]),
        np.arange(2) > 0,
    ],
)
def test_saved_models_predict_the_same(tmp_path, families, labels):
    X, y = samples(2)
    X = pd.DataFrame(X, columns=list("abcd"))
    model = classifier(families, lam=0.02, entropy=mx.Tsallis(1.5), rounds=6).fit(X, labels[y])
    mx.save(model, tmp_path / "model.json")
    again = mx.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    assert again.features_ == model.features_
    assert model.n_features_ > 0
    assert again.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X)
    )
    assert repr(clone(again)) == repr(clone(model))


@pytest.mark.slow
@parametrize_with_checks([short()])
def test_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constant columns|the families propose")
        check(estimator)


class _Frame:
    """Indexed as polars frames are: numbers and slices pick rows, a name or a mask columns."""

    def __init__(self, columns):
        self._columns = columns

    @property
    def columns(self):
        return list(self._columns)

    @property
    def shape(self):
        return len(self), len(self._columns)

    def __len__(self):
        return len(next(iter(self._columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return self._columns[key]
        if isinstance(key, np.ndarray) and key.dtype == bool:
            raise ValueError(f"expected {len(self._columns)} values, got {len(key)}")
        return _Frame({name: column[key] for name, column in self._columns.items()})


def _polars(columns):
    return needs("polars").DataFrame(columns)


@pytest.mark.parametrize("frame", [_Frame, _polars])
def test_a_frame_whose_rows_no_mask_picks(frame):
    X, y = samples(2)
    levels = np.array(["low", "high"])[(X[:, 1] > 0).astype(int)]
    columns = {"a": X[:, 0], "b": X[:, 2], "c": levels}
    weight = np.ones(len(y))
    weight[::7] = 0
    model = short().fit(frame(columns), y, sample_weight=weight)
    pandas = short().fit(pd.DataFrame(columns), y, sample_weight=weight)
    assert model.features_ == pandas.features_
    np.testing.assert_array_equal(
        model.predict(frame(columns)), pandas.predict(pd.DataFrame(columns))
    )


def test_class_weights_are_sample_weights():
    X, y = samples(3)
    given = {0: 3.0, 1: 1.0, 2: 0.5}
    model = short(class_weight=given).fit(X, y)
    factors = np.array([given[label] for label in y])
    # weights also count in the m of B_k, which class weights leave alone
    scaled = factors * len(y) / factors.sum()
    other = short().fit(X, y, sample_weight=scaled)
    assert model.objective_ == pytest.approx(other.objective_, abs=1e-9)
    balanced = short(class_weight="balanced").fit(X, y)
    counts = np.bincount(y)
    equal = short().fit(X, y, sample_weight=len(y) / (3 * counts[y]))
    assert balanced.objective_ == pytest.approx(equal.objective_, abs=1e-9)
    with pytest.raises(ValueError, match="class_weight must be"):
        short(class_weight="even").fit(X, y)
    with pytest.raises(ValueError, match="positive for every class"):
        short(class_weight={0: 0.0}).fit(X, y)

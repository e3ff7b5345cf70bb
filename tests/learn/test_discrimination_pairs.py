"""Chains small enough to enumerate, every loss with every potential, against CVXPY."""

import numpy as np
import pytest

import maxent as mx
from catalogue import ABSTRACT
from maxent.learn.structured.chain import chain_entropy
from tools import needs

cp = needs("cvxpy")

LENGTHS, STATES, FEATURES = (1, 2, 3, 2), 2, 2
SIZE = FEATURES * STATES + STATES**2
RNG = np.random.default_rng(3)
X = [RNG.normal(size=(length, FEATURES)) for length in LENGTHS]
PATHS = [RNG.integers(0, STATES, size=length) for length in LENGTHS]
ROOT = RNG.normal(size=(SIZE, SIZE))
FORM = ROOT @ ROOT.T + np.eye(SIZE)
CENTRE = RNG.normal(size=SIZE)
A = 1 / len(LENGTHS)
CHAIN = mx.Chain(STATES)
VERTICES = [np.asarray(CHAIN.vertices(CHAIN.size(length))) for length in LENGTHS]


def _squares(r, strength):
    return cp.sum_squares(r) / (2 * strength)


def _outside(r, radius, p):
    """dist(r, ball)^2 as an infimum over the ball."""
    inside = cp.Variable(SIZE)
    return cp.sum_squares(r - inside), [cp.norm(inside, p) <= radius]


def _kl(r, beta, smoothing):
    up, down = (1 + r / beta) / 2, (1 - r / beta) / 2
    terms = -cp.entr(up) - cp.entr(down) + np.log(2)
    return smoothing * beta * cp.sum(terms)


# potential, and V(r) with its constraints for CVXPY
PAIRS = {
    "Equality": (mx.Equality(), lambda r: (0, [r == 0])),
    "Box": (mx.Box(0.05), lambda r: (0, [cp.abs(r) <= 0.05])),
    "Quadratic": (mx.Quadratic(0.2), lambda r: (_squares(r, 0.2), [])),
    "ElasticNet": (
        mx.ElasticNet(0.05, 0.1),
        lambda r: (cp.sum_squares(cp.pos(cp.abs(r) - 0.05)) / 0.2, []),
    ),
    "QuadraticForm": (
        mx.QuadraticForm(FORM),
        lambda r: (cp.quad_form(r, np.linalg.inv(FORM)) / 2, []),
    ),
    "Ball": (mx.Ball(0.1), lambda r: (0, [cp.norm(r) <= 0.1])),
    "NormBall": (mx.NormBall(0.1, 1), lambda r: (0, [cp.norm(r, 1) <= 0.1])),
    "SquaredNormPotential": (
        mx.SquaredNormPotential(0.2, 1),
        lambda r: (cp.square(cp.norm(r, 1)) / 0.4, []),
    ),
    "NormPlusSquare": (
        mx.NormPlusSquare(0.1, 0.2, 1),
        lambda r: tuple(x / 0.4 if i == 0 else x for i, x in enumerate(_outside(r, 0.1, 1))),
    ),
    "DualBall": (mx.DualBall(1.5, 1), lambda r: (1.5 * cp.norm(r, "inf"), [])),
    "SmoothBox": (mx.SmoothBox(0.2, 0.5), lambda r: (_kl(r, 0.2, 0.5), [])),
    # the Laplace prior as V(r) = -sum log(1 - r_k^2 / lam)
    "LaplacePrior": (
        mx.LaplacePrior(0.04),
        lambda r: (-cp.sum(cp.log(1 - cp.square(r) / 0.04)), []),
    ),
    "Families": (
        mx.Families([mx.Box(0.05), mx.Quadratic(0.3)], [4, SIZE - 4]),
        lambda r: (_squares(r[4:], 0.3), [cp.abs(r[:4]) <= 0.05]),
    ),
    "ScaledPotential": (
        mx.ScaledPotential(mx.LaplacePrior(1.0), 0.25),
        lambda r: (-0.25 * cp.sum(cp.log(1 - cp.square(r / 0.25))), []),
    ),
    "ShiftedPotential": (
        mx.ShiftedPotential(mx.Quadratic(0.2), 0.1 * CENTRE),
        lambda r: (_squares(0.1 * CENTRE - r, 0.2), []),
    ),
    "Centred": (
        mx.Centred(mx.Quadratic(0.2), CENTRE),
        lambda r: (_squares(r, 0.2) - CENTRE @ r, []),
    ),
    "CumulantPrior": (
        mx.CumulantPrior(lambda eta: eta**2 / 2, lambda eta: eta),
        lambda r: (cp.sum_squares(r) / 2, []),
    ),
    # weights of -1 or 1: means end there, and K* has no gradient
    "coins": (
        mx.CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh),
        lambda r: (cp.sum(cp.logistic(2 * r) - r) - SIZE * np.log(2), []),
    ),
    "moved coins": (
        mx.Centred(
            mx.CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh),
            0.5 * CENTRE,
        ),
        lambda r: (cp.sum(cp.logistic(2 * r) - r) - SIZE * np.log(2) - 0.5 * CENTRE @ r, []),
    ),
    # means are positive: 0 lies at an end of the domain
    "counts": (
        mx.CumulantPrior(np.expm1, np.exp),
        lambda r: (cp.sum(cp.exp(-r) - 1), []),
    ),
}
# kinks on both sides, and no programme that solves them: by smoothing, to fewer digits
HARD = {("hinge", "SquaredNormPotential"), ("hinge", "Families")}
LOSSES = ("crf", "hinge", "softmax-margin", "sparsemap")


def _problem(loss, potential):
    tied = loss != "sparsemap"
    observed = CHAIN.encode(list(PATHS), tied=tied)
    entropy = chain_entropy(loss, CHAIN)
    if loss in ("hinge", "softmax-margin"):
        cost = mx.Tied(1 - observed.own, np.zeros((1, STATES**2)))
        entropy = mx.Shifted(entropy, cost)
    return mx.Problem(entropy, mx.ChainMap(X, STATES, tied=tied), potential, observed=observed)


def _by_enumeration(loss, potential):
    """The primal over distributions of enumerated paths."""
    distributions = [cp.Variable(len(v), nonneg=True) for v in VERTICES]
    constraints = [cp.sum(q) == 1 for q in distributions]
    value, moments = 0, 0
    for x, path, vertices, q in zip(X, PATHS, VERTICES, distributions, strict=True):
        images = np.array([mx.ChainMap([x], STATES).moments(CHAIN.tie(v[None])) for v in vertices])
        truth = np.asarray(CHAIN.encode([path]).values)
        right = mx.ChainMap([x], STATES).moments(CHAIN.tie(truth[None]))
        moments = moments + A * ((images - right).T @ q)
        if loss in ("crf", "softmax-margin"):
            value = value - A * cp.sum(cp.entr(q))
        if loss == "sparsemap":
            value = value + A * cp.sum_squares(vertices.T @ q) / 2
        if loss in ("hinge", "softmax-margin"):
            wrong = len(path) - vertices[:, : len(path) * STATES] @ truth[: len(path) * STATES]
            value = value - A * (wrong @ q)
    extra, limits = PAIRS[potential][1](moments)
    problem = cp.Problem(cp.Minimize(value + extra), constraints + limits)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value


def test_every_potential_is_paired():
    potentials = {type(p).__name__ for p in (pair[0] for pair in PAIRS.values())}
    public = {
        name
        for name in mx.potentials.__all__
        if isinstance(getattr(mx.potentials, name), type) and name not in ABSTRACT
    }
    of_matrices = {"Coupled", "Spectral", "Spiked"}  # a column of weights for each species
    assert potentials == public - of_matrices


def _chain_rows(cost):
    """f(x, y) - f(x, y_i) and the cost of every path y, for each chain."""
    rows = []
    for x, path, vertices in zip(X, PATHS, VERTICES, strict=True):
        images = np.array([mx.ChainMap([x], STATES).moments(CHAIN.tie(v[None])) for v in vertices])
        truth = np.asarray(CHAIN.encode([path]).values)
        right = mx.ChainMap([x], STATES).moments(CHAIN.tie(truth[None]))
        paths = CHAIN.decode(mx.Ragged.from_rows(list(vertices)))
        rows.append((images - right, np.array([cost[path, labels].sum() for labels in paths])))
    return rows


def _dual(rows, potential, kind="linear", rate=1.0):
    """-D1 of the paper over multipliers of all outputs, whose sum m in a row is priced U*(m)."""
    value, moments = 0, 0
    limits, share = [], 1 / len(rows)
    for differences, cost in rows:
        alpha = cp.Variable(len(cost), nonneg=True)
        mass = cp.sum(alpha)
        moments = moments + share * (differences.T @ alpha)
        if kind == "linear":
            limits.append(mass <= 1)
            price = 0
        else:
            price = cp.square(mass) / 2 if kind == "squared" else -cp.log(1 - mass) / rate
        value = value + share * (price - cost @ alpha)
    extra, more = potential(moments)
    problem = cp.Problem(cp.Minimize(value + extra), limits + more)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return -problem.value


def _settings(kind):
    return {"slack": kind, "tol": 1e-7} | ({"slack_rate": 3.0} if kind == "kl" else {})


@pytest.mark.parametrize("kind", ["squared", "kl"])
@pytest.mark.parametrize("potential", PAIRS)
def test_slack_and_potential_against_enumeration(kind, potential):
    """Definition 1 with every prior and every function of the slacks."""
    prior, by_hand = PAIRS[potential]
    model = mx.ChainClassifier("hinge", prior, **_settings(kind)).fit(X, PATHS)
    value = _dual(_chain_rows(1 - np.eye(STATES)), by_hand, kind, 3.0)
    assert model.objective_ == pytest.approx(value, abs=2e-6)
    assert model.gap_ <= 1e-7


COSTLY = np.array([[0.0, 2.5], [0.5, 0.0]])


@pytest.mark.parametrize("kind", ["linear", "squared", "kl"])
def test_laplace_networks_with_costs_and_slacks(kind):
    C, lam = 0.8, 3.0
    model = mx.LaplaceMEDN(C, lam, cost=COSTLY, **_settings(kind)).fit(X, PATHS)
    share = 1 / (C * len(X))
    laplace = lambda r: (-share * cp.sum(cp.log(1 - cp.square(r / share) / lam)), [])  # noqa: E731
    value = _dual(_chain_rows(COSTLY), laplace, kind, 3.0)
    assert model.objective_ == pytest.approx(value, abs=2e-6)
    assert model.gap_ <= 1e-7
    plain = mx.LaplaceMEDN(C, lam, **_settings(kind)).fit(X, PATHS)
    assert abs(plain.objective_ - model.objective_) > 1e-3


@pytest.mark.parametrize("kind", ["linear", "squared", "kl"])
def test_trees_with_costs_and_slacks(kind):
    """The slack of every tree by itself, all labellings listed."""
    parents = [[-1], [-1, 0, 0], [-1, 0, 1], [-1, 0, 0, 1]]
    rng = np.random.default_rng(5)
    features = [rng.normal(size=(len(p), FEATURES)) for p in parents]
    labels = [rng.integers(0, 2, size=len(p)) for p in parents]
    rows = []
    for x, above, truth in zip(features, parents, labels, strict=True):
        child = np.flatnonzero(np.array(above) >= 0)
        parent = np.array(above)[child]

        def image(y, x=x, parent=parent, child=child):
            tables = np.zeros((2, 2))
            np.add.at(tables, (y[parent], y[child]), 1)
            return np.concatenate([(x.T @ np.eye(2)[y]).ravel(), tables.ravel()])

        outputs = [np.array(y) for y in np.ndindex(*(2,) * len(above))]
        differences = np.array([image(y) - image(truth) for y in outputs])
        rows.append((differences, np.array([COSTLY[truth, y].sum() for y in outputs])))
    prior, by_hand = PAIRS["LaplacePrior"]
    model = mx.TreeClassifier("hinge", prior, cost=COSTLY, **_settings(kind))
    model.fit(list(zip(features, parents, strict=True)), labels)
    assert model.objective_ == pytest.approx(_dual(rows, by_hand, kind, 3.0), abs=2e-6)
    assert model.gap_ <= 1e-7
    with pytest.raises(ValueError, match='is for loss="hinge"'):
        mx.TreeClassifier("crf", slack="squared").fit(
            list(zip(features, parents, strict=True)), labels
        )


@pytest.mark.parametrize("kind", ["linear", "squared", "kl"])
@pytest.mark.parametrize(
    "potential", ["QuadraticForm", "LaplacePrior", "coins", "counts", "Centred"]
)
def test_priors_and_slacks_of_classes(kind, potential):
    """MED for two classes of points, whose posterior mean has SIZE entries."""
    rng = np.random.default_rng(6)
    points, classes = rng.normal(size=(5, SIZE // 2)), np.array([0, 1, 1, 0, 1])
    rows = []
    for x, y in zip(points, classes, strict=True):
        images = [np.outer(x, np.eye(2)[c]).ravel() for c in (0, 1)]
        rows.append((np.array([f - images[y] for f in images]), 1.0 - np.eye(2)[y]))
    prior, by_hand = PAIRS[potential]
    C = 1 / len(points)  # the problem of the mean, less a factor
    model = mx.MED(C, prior, **_settings(kind)).fit(points, classes)
    assert model.objective_ == pytest.approx(_dual(rows, by_hand, kind, 3.0), abs=2e-6)
    assert model.gap_ <= 1e-7


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("potential", PAIRS)
def test_loss_and_potential_against_enumeration(loss, potential):
    problem = _problem(loss, PAIRS[potential][0])
    tol = 1e-4 if (loss, potential) in HARD else 1e-7
    solution = problem.solve(tol=tol)
    reference = _by_enumeration(loss, potential)
    assert -solution.objective == pytest.approx(reference, abs=2e-6 if tol < 1e-6 else tol)
    if potential != "Equality":
        assert solution.gap <= tol

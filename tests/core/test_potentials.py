"""Potentials: checks of every class, references (CVXPY, scipy, integration), limits, bad input."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

import maxent as mx
from maxent.core.potentials import (
    BY_NAME,
    Ball,
    Box,
    Centred,
    Coupled,
    CumulantPrior,
    DualBall,
    ElasticNet,
    ElasticPotential,
    Equality,
    Families,
    LaplacePrior,
    NormBall,
    NormPlusSquare,
    Potential,
    Quadratic,
    QuadraticForm,
    ScaledPotential,
    ShiftedPotential,
    SmoothBox,
    Spectral,
    Spiked,
    SquaredNormPotential,
    balls,
    gaussian_prior,
    make_potential,
)
from maxent.testing.potentials import check_potential
from tools import needs

SIZE = 4
INF = np.inf
ORDERS = [1, 1.5, 2, 3, INF]
_RNG = np.random.default_rng(7)
_ROOT = _RNG.standard_normal((SIZE, SIZE))
FULL = _ROOT @ _ROOT.T
SINGULAR = _ROOT[:, :2] @ _ROOT[:, :2].T
REFERENCE = np.array([0.4, -0.3, 0.05, 0.0])

BASIC: dict[str, Potential] = {
    "equality": Equality(),
    "box": Box(0.5),
    "box-vector": Box([0.1, 0.0, 1.0, 2.0]),
    "ball": Ball(0.8),
    "ball-0": Ball(0.0),
    "quadratic": Quadratic(0.7),
    "quadratic-vector": Quadratic([0.1, 1.0, 2.0, 3.0]),
    "elastic-net": ElasticNet(0.3, 0.5),
    "elastic-net-vector": ElasticNet([0.1, 0.0, 1.0, 2.0], 0.5),
    "quadratic-form": QuadraticForm(FULL),
    "quadratic-form-singular": QuadraticForm(SINGULAR),
    "quadratic-form-0": QuadraticForm(np.zeros((SIZE, SIZE))),
    "smooth-box": SmoothBox(0.5, 0.2),
    "smooth-box-vector": SmoothBox([0.0, 0.5, 1.0, 2.0], [0.3, 0.1, 1.0, 0.2]),
    "laplace": LaplacePrior(2.0),
    "laplace-vector": LaplacePrior([0.5, 1.0, 10.0, 100.0]),
    "normal-cumulant": CumulantPrior(lambda eta: eta**2 / 2, lambda eta: eta),
    "laplace-cumulant": CumulantPrior(
        lambda eta: -np.log1p(-(eta**2) / 2), lambda eta: 2 * eta / (2 - eta**2), np.sqrt(2)
    ),
    "coin-cumulant": CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh),
}
for _p in ORDERS:
    BASIC[f"norm-ball-{_p}"] = NormBall(0.7, _p)
    BASIC[f"squared-norm-{_p}"] = SquaredNormPotential(0.6, _p)
    BASIC[f"norm-plus-square-{_p}"] = NormPlusSquare(0.4, 0.8, _p)
    BASIC[f"dual-ball-{_p}"] = DualBall(1.3, _p)
PAIRS = [(1, 1.5), (1, INF), (1.5, 1), (1.5, 3), (2, 3), (2, INF), (3, 1.2), (3, 3), (INF, 1)]
for _p, _s in PAIRS:
    BASIC[f"norm-{_p}-plus-square-{_s}"] = NormPlusSquare(0.4, 0.8, _p, _s)

FAMILIES: dict[str, Potential] = {
    "box+laplace": Families([Box(0.3), LaplacePrior(2.0)], [1, 3]),
    "ball+quadratic": Families([Ball(0.3), Quadratic([1.0, 2.0])], [2, 2]),
    "equality+smooth+dual": Families(
        [Equality(), SmoothBox(0.3, 0.1), DualBall(1.0, 1.5)], [1, 1, 2]
    ),
    "box+elastic": Families([Box(0.2), ElasticNet([0.1, 0.2], 1.0)], [2, 2]),
    "smooth+laplace": Families([SmoothBox(0.3, 0.1), LaplacePrior([2.0, 3.0])], [2, 2]),
}
INNER = ["box", "ball", "elastic-net", "norm-plus-square-3", "dual-ball-2", "laplace-vector"]
WRAPPED: dict[str, Potential] = {
    "gaussian": gaussian_prior(REFERENCE, FULL + np.eye(SIZE)),
    **{f"centred({k})": Centred(BASIC[k], REFERENCE) for k in [*INNER, "quadratic-form"]},
    **{f"scaled({k})": ScaledPotential(BASIC[k], 2.5) for k in [*INNER, "smooth-box", "equality"]},
    **{f"scaled({k})": ScaledPotential(FAMILIES[k], 0.4) for k in ["box+laplace", "box+elastic"]},
    **{
        f"shifted({k})": ShiftedPotential(BASIC[k], REFERENCE)
        for k in [*INNER, "equality", "box-vector", "quadratic-form", "squared-norm-inf"]
    },
    "shifted-far(box)": ShiftedPotential(Box(0.1), REFERENCE + 1),
    "shifted-far(smooth-box)": ShiftedPotential(SmoothBox(0.1, 0.2), REFERENCE + 1),
    "shifted(families)": ShiftedPotential(FAMILIES["box+laplace"], 0.5 * REFERENCE),
    "shifted(scaled)": ShiftedPotential(ScaledPotential(Box(0.3), 2.0), REFERENCE),
    "scaled(shifted)": ScaledPotential(ShiftedPotential(Ball(0.9), REFERENCE), 2.0),
}
RELATED = np.array([[1.0, 0.8], [0.8, 1.0]])
MATRICES: dict[str, Potential] = {
    **{
        f"coupled({k})": Coupled(RELATED, BASIC[k])
        for k in ["box", "ball", "dual-ball-2", "quadratic", "quadratic-vector", "squared-norm-2"]
    },
    "coupled-alone": Coupled(np.eye(1), BASIC["quadratic-vector"]),
    "coupled-spiked": Coupled(Spiked.from_factor(0.5, [[1.0, 2.0, 0.0, -1.0]]), Quadratic(0.3)),
    "coupled-rows": Coupled(RELATED, Quadratic([0.1, 0.1, 3.0, 3.0])),
    "spectral": Spectral(2, 0.5),
    "spectral-square": Spectral(2, 0.5, 0.8),
    "spectral-one": Spectral(1, 0.5),
    "spectral-0": Spectral(2, 0.0, 0.8),
}
ALL = {**BASIC, **FAMILIES, **WRAPPED, **MATRICES}


@pytest.mark.parametrize("name", ALL)
def test_check_potential(name):
    check_potential(ALL[name], SIZE)


@pytest.mark.parametrize(
    "potential",
    [Box(0.3), Ball(0.4), LaplacePrior(3.0), DualBall(0.5, 3), NormPlusSquare(0.1, 0.3, 1)],
)
def test_check_potential_other_sizes(potential):
    check_potential(potential, 1, random_state=1)
    check_potential(potential, 11, random_state=np.random.default_rng(2))


def test_every_public_class_is_checked():
    def inside(potential: Potential) -> set[type]:
        parts = getattr(potential, "potentials", [getattr(potential, "potential", None)])
        return {type(potential)}.union(*(inside(p) for p in parts if p is not None))

    def concrete(cls: type) -> set[type]:
        return {c for s in cls.__subclasses__() for c in {s, *concrete(s)}}

    public = {
        c
        for c in concrete(Potential)
        if c.__module__.startswith("maxent.core.potentials.") and not c.__name__.startswith("_")
    }
    checked = set().union(*(inside(p) for p in ALL.values()))
    assert {c for c in public if not inspect.isabstract(c)} - {ElasticPotential} == checked


# -- check_potential finds what is wrong -----------------------------------------------------------


class _WrongStep(Box):
    def prox_conjugate(self, v, step):
        return super().prox_conjugate(v, 1.1 * step)


class _WrongFactor(Quadratic):
    def conjugate(self, v):
        return 2 * super().conjugate(v)


class _WrongGauge(Box):
    def gauge(self, r):
        return 1.1 * super().gauge(r)


class _InfiniteGauge(Quadratic):
    def gauge(self, r):
        return INF


class _WrongGradient(LaplacePrior):
    def grad(self, r):
        return super().grad(r) * 1.01


class _WrongConjugateGradient(SmoothBox):
    def conjugate_gradient(self, v):
        return -super().conjugate_gradient(v)


class _WrongCritical(Ball):
    def critical_multiplier(self, r):
        return 0.9 * super().critical_multiplier(r)


class _MissingCritical(ElasticNet):
    critical_multiplier = Potential.critical_multiplier


class _WrongCoordinate(LaplacePrior):
    def coordinate_step(self, j, w, gradient, curvature):
        return 0.99 * super().coordinate_step(j, w, gradient, curvature)


class _WrongElastic(ElasticNet):
    def elastic(self, n):
        return super().elastic(n)[0], 2 * super().elastic(n)[1]


class _Writes(Box):
    def prox_conjugate(self, v, step):
        result = super().prox_conjugate(v, step)
        v[:] = 0
        return result


class _NotConvex(Potential):
    """Both sides 0 or a wave, so that only convexity (or Fenchel) can fail."""

    def value(self, r):
        return float(np.sum(r**2) / 2 + np.sum(np.cos(5 * r)))

    def conjugate(self, v):
        return float(np.sum(v**2) / 2)

    def prox_conjugate(self, v, step):
        return v / (1 + step)

    def gauge(self, r):
        return 0.0


@pytest.mark.parametrize(
    ("potential", "message"),
    [
        (_WrongStep(0.5), "prox_conjugate is not optimal|Moreau"),
        (_WrongFactor(0.7), "prox_conjugate is not optimal|Moreau"),
        (_WrongGauge(0.5), "gauge"),
        (_InfiniteGauge(0.5), "gauge"),
        (_WrongGradient(2.0), "grad says slope"),
        (_WrongConjugateGradient(0.5, 0.2), "conjugate_gradient says slope"),
        (_WrongCritical(0.5), "critical_multiplier"),
        (_MissingCritical(0.5, 1.0), "critical_multiplier"),
        (_WrongCoordinate(2.0), "coordinate_step is not optimal"),
        (_WrongElastic(0.5, 1.0), "elastic gives the penalty"),
        (_Writes(0.5), "prox_conjugate modifies its input"),
        (_NotConvex(), "Fenchel|Moreau|not convex"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, Potential) else "",
)
def test_check_potential_fails_on_a_broken_one(potential, message):
    with pytest.raises(AssertionError, match=message):
        check_potential(potential, SIZE)


def test_check_potential_names_potential_and_place():
    with pytest.raises(AssertionError, match=r"_WrongStep\(beta.*v = .*step = "):
        check_potential(_WrongStep(0.5), SIZE)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BY_NAME)
def test_potentials_by_name(name):
    potential = make_potential(name, np.full(SIZE, 0.3))
    check_potential(potential, SIZE)
    parts = potential.elastic(SIZE)
    assert BY_NAME[name].dense == (parts is None or not parts[0].any())
    assert make_potential(potential, np.ones(SIZE)) is potential


def test_named_potentials_have_the_units_of_beta():
    beta = np.array([0.1, 0.2])
    assert make_potential("box", beta) == Box(beta)
    assert make_potential("quadratic", beta) == Quadratic(beta**2)
    assert make_potential("elastic", beta) == ElasticNet(beta / 2, beta**2 / 2)
    assert make_potential("ball", beta) == Ball(float(np.linalg.norm(beta)))
    assert make_potential("smooth-box", beta) == SmoothBox(beta, 0.1)
    assert make_potential("laplace", beta) == LaplacePrior(beta**2)
    assert make_potential("equality", beta) == Equality()


@pytest.mark.parametrize("given", ["l1", None, 0.1, ["box"]])
def test_unknown_names_of_potentials_are_refused(given):
    with pytest.raises(ValueError, match=r"a Potential or one of box, quadratic.*, got"):
        make_potential(given, np.ones(2))


# -- references ------------------------------------------------------------------------------------


@dataclass
class Reference:
    """V as a CVXPY program: a function (cvxpy, r) -> (objective, constraints)."""

    potential: Potential
    program: Any


_BETA = np.array([0.1, 0.5, 1.0, 2.0])
REFERENCES = {
    "box": Reference(Box(_BETA), lambda cp, r: (0, [cp.abs(r) <= _BETA])),
    "ball": Reference(Ball(0.8), lambda cp, r: (0, [cp.norm(r, 2) <= 0.8])),
    "quadratic": Reference(Quadratic(0.7), lambda cp, r: (cp.sum_squares(r) / 1.4, [])),
    "quadratic-form": Reference(
        QuadraticForm(FULL), lambda cp, r: (0.5 * cp.quad_form(r, np.linalg.inv(FULL)), [])
    ),
    "elastic-net": Reference(
        ElasticNet(_BETA, 0.5), lambda cp, r: (cp.sum_squares(cp.pos(cp.abs(r) - _BETA)), [])
    ),
}
for _p in (1.5, 3):
    REFERENCES[f"norm-ball-{_p}"] = Reference(
        NormBall(0.7, _p), lambda cp, r, p=_p: (0, [cp.pnorm(r, p) <= 0.7])
    )
for _p in (1, 1.5, 3, INF):
    REFERENCES[f"squared-norm-{_p}"] = Reference(
        SquaredNormPotential(0.6, _p), lambda cp, r, p=_p: (cp.square(cp.norm(r, p)) / 1.2, [])
    )
for _p in (1, 3):
    REFERENCES[f"dual-ball-{_p}"] = Reference(
        DualBall(1.3, _p),
        lambda cp, r, q={1: INF, 3: 1.5}[_p]: (1.3 * cp.norm(r, q), []),
    )


_HALF = np.linalg.cholesky(RELATED)  # any root will do for a norm that rotations leave alone
REFERENCES["coupled-quadratic"] = Reference(
    Coupled(RELATED, Quadratic(0.7)),
    lambda cp, r: (cp.sum_squares(cp.reshape(r, (2, 2), order="C") @ _HALF) / 1.4, []),
)
REFERENCES["coupled-ball"] = Reference(
    Coupled(RELATED, Ball(0.8)),
    lambda cp, r: (0, [cp.norm(cp.reshape(r, (2, 2), order="C") @ _HALF, "fro") <= 0.8]),
)
REFERENCES["spectral"] = Reference(
    Spectral(2, 0.5), lambda cp, r: (0, [cp.sigma_max(cp.reshape(r, (2, 2), order="C")) <= 0.5])
)


def _norm_plus_square(p, squared_p):
    def program(cp, r):
        near = cp.Variable(SIZE)
        return cp.square(cp.norm(r - near, squared_p)) / 1.6, [cp.norm(near, p) <= 0.4]

    return program


for _p, _s in [(1, 2), (1.5, 2), (INF, 2), *PAIRS]:
    REFERENCES[f"norm-{_p}-plus-square-{_s}"] = Reference(
        NormPlusSquare(0.4, 0.8, _p, _s), _norm_plus_square(_p, _s)
    )
_POINT = np.array([1.1, -0.6, 0.05, 2.3])


@pytest.mark.parametrize("name", REFERENCES)
def test_conjugate_against_cvxpy(name):
    cp = needs("cvxpy")
    reference = REFERENCES[name]
    # a point inside dom V*, which a ball on the weights needs
    v = reference.potential.prox_conjugate(_POINT, 1.0) * 0.9
    r = cp.Variable(SIZE)
    value, constraints = reference.program(cp, r)
    found = cp.Problem(cp.Maximize(v @ r - value), constraints).solve(solver="CLARABEL")
    assert reference.potential.conjugate(v) == pytest.approx(found, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("step", [0.4, 2.0])
@pytest.mark.parametrize("name", REFERENCES)
def test_prox_against_cvxpy(name, step):
    # Moreau: prox_{step V*}(v) = v - step argmin_r step/2 ||r - v/step||^2 + V(r)
    cp = needs("cvxpy")
    reference = REFERENCES[name]
    r = cp.Variable(SIZE)
    value, constraints = reference.program(cp, r)
    objective = 0.5 * step * cp.sum_squares(r - _POINT / step) + value
    cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")
    x = reference.potential.prox_conjugate(_POINT, step)
    np.testing.assert_allclose(x, _POINT - step * r.value, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in REFERENCES if "square" in name])
def test_value_of_squares_against_cvxpy(name):
    cp = needs("cvxpy")
    reference = REFERENCES[name]
    r = cp.Variable(SIZE)
    value, constraints = reference.program(cp, r)
    found = cp.Problem(cp.Minimize(value), [*constraints, r == _POINT]).solve(solver="CLARABEL")
    assert found > 0.5
    assert reference.potential.value(_POINT) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(("p", "squared_p"), [(1.5, 3), (2, INF), (INF, 1), (1, 1.5)])
def test_density_under_norms_of_two_orders_against_cvxpy(p, squared_p):
    cp = needs("cvxpy")
    rng = np.random.default_rng(4)
    X, seen = rng.normal(size=(30, 3)), rng.dirichlet(np.full(30, 0.3))
    problem = mx.Problem(mx.Shannon(), X, NormPlusSquare(0.1, 0.2, p, squared_p), observed=seen)
    solution = problem.solve(tol=1e-9)
    assert solution.gap <= 1e-9
    density, near = cp.Variable(30, nonneg=True), cp.Variable(3)
    square = cp.square(cp.norm(X.T @ (density - seen) - near, squared_p)) / 0.4
    rules = [cp.sum(density) == 1, cp.norm(near, p) <= 0.1]
    best = cp.Problem(cp.Minimize(square - cp.sum(cp.entr(density))), rules)
    assert best.solve(solver="CLARABEL") == pytest.approx(-solution.objective, abs=1e-6)
    np.testing.assert_allclose(solution.p, density.value, atol=1e-4)


@pytest.mark.parametrize(("q", "r"), [(1.5, 3.0), (3.0, 1.2), (2.0, 5.0)])
def test_two_norms_by_newton_and_by_nested_searches(q, r):
    y = np.array([1.0, 0.4, 0.7])
    for c in (0.1, 0.9 * balls.p_norm(y, balls.dual_order(q))):
        both = balls._TwoNorms(y, q, c, r, 0.7)
        nested = both._inner(balls._falling_root(both._outer, balls.p_norm(y, r)))
        np.testing.assert_allclose(both.point(), nested, rtol=1e-9)


@pytest.mark.parametrize("p", [1.1, 1.5, 3.0, 7.0])
@pytest.mark.parametrize("radius", [1e-6, 0.7, 3.0])
def test_projection_on_a_norm_ball_is_stationary(p, radius):
    v = np.array([1.1, -0.6, 0.05, 2.3, 0.0, 1e-9])
    x = DualBall(radius, p).prox_conjugate(v, 1.0)
    np.testing.assert_allclose(NormBall(radius, p).prox_conjugate(v, 1.0), v - x)
    norm = np.sum(np.abs(x) ** p) ** (1 / p)
    if np.sum(np.abs(v) ** p) ** (1 / p) <= radius:
        np.testing.assert_array_equal(x, v)
        return
    assert norm == pytest.approx(radius, rel=1e-12)
    # v - x is normal to the sphere
    normal = np.sign(x) * np.abs(x / radius) ** (p - 1)
    scale = (v - x) @ normal / (normal @ normal)
    np.testing.assert_allclose(v - x, scale * normal, atol=1e-12)


@pytest.mark.parametrize("potential", [SmoothBox(0.5, 0.2), LaplacePrior(3.0)])
@pytest.mark.parametrize("v", [-4.0, -0.3, 0.01, 1.7])
def test_scalar_conjugate_and_prox_by_brute_force(potential, v):
    edge = {SmoothBox: 0.5, LaplacePrior: np.sqrt(3.0)}[type(potential)]

    def minimise(function, low, high):
        tolerance = {"xatol": 1e-13}
        return optimize.minimize_scalar(
            lambda x: function(np.array([x])),
            bounds=(low, high),
            method="bounded",
            options=tolerance,
        )

    best = minimise(lambda r: potential.value(r) - v * r[0], -edge, edge)
    assert potential.conjugate(np.array([v])) == pytest.approx(-best.fun, rel=1e-7)
    for step in (0.2, 1.0, 6.0):
        low, high = sorted((0.0, v))
        found = minimise(
            lambda x, t=step: (x[0] - v) ** 2 / 2 + t * potential.conjugate(x), low, high
        )
        assert potential.prox_conjugate(np.array([v]), step)[0] == pytest.approx(found.x, abs=1e-6)


@pytest.mark.parametrize("lam", [0.3, 2.0, 50.0])
@pytest.mark.parametrize("t", [0.1, 1.0, 8.0])
def test_laplace_prox_solves_the_cubic(lam, t):
    # t eta^3 - v eta^2 - (2 + t lam) eta + v lam = 0, prox = 2 eta/(lam - eta^2)
    for v in (-3.0, 0.2, 1.0, 12.0):
        roots = np.roots([t, -v, -(2 + t * lam), v * lam])
        inside = roots[np.abs(roots) < np.sqrt(lam)].real
        assert inside.size == 1
        eta = inside[0]
        x = LaplacePrior(lam).prox_conjugate(np.array([v]), t)[0]
        assert x == pytest.approx(2 * eta / (lam - eta**2), rel=1e-9)
        assert (v - x) / t == pytest.approx(eta, rel=1e-8)


@pytest.mark.parametrize("lam", [0.7, 4.0])
@pytest.mark.parametrize("share", [-0.8, 0.0, 0.3])
def test_laplace_is_the_cumulant_of_the_prior(lam, share):
    # V(r) = K(-r) = log E exp(w eta), eta = -r, under the density sqrt(lam)/2 exp(-sqrt(lam)|w|)
    rate = np.sqrt(lam)
    eta = share * rate

    def moment(k):
        def density(w):
            return w**k * rate / 2 * np.exp(-rate * abs(w) + eta * w)

        halves = [integrate.quad(density, *ends, epsabs=1e-13) for ends in ((-INF, 0), (0, INF))]
        return sum(h[0] for h in halves)

    mass = moment(0)
    mean = moment(1) / mass
    variance = moment(2) / mass - mean**2
    prior, r = LaplacePrior(lam), np.array([-eta])
    assert prior.value(r) == pytest.approx(np.log(mass), abs=1e-9)
    assert prior.posterior_mean(r)[0] == pytest.approx(mean, abs=1e-8)
    assert prior.posterior_variance(r)[0] == pytest.approx(variance, rel=1e-7)
    # the penalty is the KL divergence of the tilted prior, E[eta w] - K(eta)
    assert prior.conjugate(-prior.posterior_mean(r)) == pytest.approx(
        eta * mean - np.log(mass), abs=1e-8
    )


# -- limits and identities -------------------------------------------------------------------------

V_POINTS = [_POINT, -3 * _POINT, np.array([0.0, 0.5, -0.5, 1e-3]), np.zeros(SIZE)]


def assert_same(a: Potential, b: Potential, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    close = {"rtol": rtol, "atol": atol}
    for v in V_POINTS:
        np.testing.assert_allclose(a.conjugate(v), b.conjugate(v), **close)
        np.testing.assert_allclose(a.value(v), b.value(v), **close)
        np.testing.assert_allclose(a.value(v / 10), b.value(v / 10), **close)
        np.testing.assert_allclose(a.gauge(v), b.gauge(v), **close)
        np.testing.assert_allclose(a.critical_multiplier(v), b.critical_multiplier(v), **close)
        for step in (0.3, 2.0):
            np.testing.assert_allclose(
                a.prox_conjugate(v, step), b.prox_conjugate(v, step), **close
            )
            steps = [p.coordinate_step(1, v / 10, 0.7, 1 / step) for p in (a, b)]
            if np.isfinite(a.conjugate(-v / 10)):
                np.testing.assert_allclose(*steps, rtol=rtol, atol=max(atol, 1e-6))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (NormBall(0.5, INF), Box(0.5)),
        (NormBall(0.5, 2), Ball(0.5)),
        (Box(0.0), Equality()),
        (ElasticNet(0.0, 0.7), Quadratic(0.7)),
        (QuadraticForm(np.diag([1.0, 2.0, 3.0, 4.0])), Quadratic([1.0, 2.0, 3.0, 4.0])),
        (SquaredNormPotential(0.7, 2), Quadratic(0.7)),
        (NormPlusSquare(0.3, 0.7, INF), ElasticNet(0.3, 0.7)),
        (NormPlusSquare(0.0, 0.7, 3), Quadratic(0.7)),
        (NormPlusSquare(0.0, 0.7, 3, 1.5), SquaredNormPotential(0.7, 1.5)),
        (ScaledPotential(Box(0.5), 3.0), Box(1.5)),
        (ScaledPotential(Quadratic(0.5), 3.0), Quadratic(1.5)),
        (ScaledPotential(DualBall(0.5), 3.0), DualBall(0.5)),
        (Families([Box(0.1), Box(0.2)], [1, 3]), Box([0.1, 0.2, 0.2, 0.2])),
        (Families([SmoothBox(0.5, 0.1)] * 2, [2, 2]), SmoothBox(0.5, 0.1)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_two_names_of_one_potential(a, b):
    if isinstance(b, DualBall):  # c V(r/c) = V for a norm; only the path start differs
        for v in V_POINTS:
            assert a.value(v) == pytest.approx(b.value(v))
            np.testing.assert_allclose(a.prox_conjugate(v, 1.0), b.prox_conjugate(v, 1.0))
        return
    assert_same(a, b)


@pytest.mark.parametrize("p", ORDERS)
def test_squared_norms_near_the_ends_are_continuous_in_p(p):
    near = p * (1 - 1e-9) if p > 1 else p * (1 + 1e-9)
    near = 1e9 if np.isinf(p) else near
    for cls in (lambda q: NormBall(0.7, q), lambda q: SquaredNormPotential(0.6, q)):
        a, b = cls(p).prox_conjugate(_POINT, 1.0), cls(near).prox_conjugate(_POINT, 1.0)
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_smooth_box_tends_to_box():
    box = Box(0.5)
    for v in V_POINTS:
        for smoothing in (1e-3, 1e-6, 1e-9, 1e-300):
            smooth = SmoothBox(0.5, smoothing)
            bound = smoothing * 0.5 * np.log(2) * SIZE
            assert 0 <= box.conjugate(v) - smooth.conjugate(v) + 1e-12 <= bound + 2e-12
            # a zero of the soft threshold is of the order of the smoothing
            np.testing.assert_allclose(
                smooth.prox_conjugate(v, 1.0),
                box.prox_conjugate(v, 1.0),
                atol=20 * smoothing + 1e-12,
            )
    assert SmoothBox(0.5, 1e-9).value(np.full(SIZE, 0.5)) <= 1e-8


def test_laplace_with_large_lam_is_an_absolute_value():
    v = np.array([0.3, -2.0])
    for lam in (1e8, 1e12):
        expected = np.sqrt(lam) * np.abs(v).sum()
        assert LaplacePrior(lam).conjugate(v) == pytest.approx(expected, rel=40 / np.sqrt(lam))


@pytest.mark.parametrize("lam", [0.5, 36.0])
def test_the_kl_norm_grows_from_its_value_at_0(lam):
    # discrimination paper, footnotes 2 and 3: a share of ||w||_KL as printed, and its dual
    prior, w = LaplacePrior(lam), np.linspace(0, 5, 101)
    root = np.sqrt(lam * w**2 + 1)
    norm = np.sqrt(w**2 + 1 / lam) - np.log((root + 1) / 2) / np.sqrt(lam)
    ours = np.array([prior.conjugate(np.array([x])) for x in w]) / np.sqrt(lam)
    np.testing.assert_allclose(ours + 1 / np.sqrt(lam), norm, atol=1e-12)
    assert (np.diff(ours) > 0).all()
    assert norm[0] == pytest.approx(1 / np.sqrt(lam))
    assert abs(ours[80] - 2 * ours[40]) > 1e-3  # no norm: 4.0 is twice 2.0
    eta = np.linspace(-0.99, 0.99, 101) * np.sqrt(lam)
    assert (np.diff([prior.value(np.array([x])) for x in eta], 2) > 0).all()


@pytest.mark.parametrize("lam", [0.5, 3.0])
def test_laplace_scaling_of_the_variational_solution(lam):
    # V*_lam(2 w) = V*_{4 lam}(w), discrimination paper §3.3 (docs/differences.md)
    for w in V_POINTS:
        assert LaplacePrior(lam).conjugate(2 * w) == pytest.approx(
            LaplacePrior(4 * lam).conjugate(w)
        )


def test_laplace_near_zero_is_quadratic():
    w = np.array([1e-8])
    assert LaplacePrior(3.0).conjugate(w) == pytest.approx(3.0 / 4 * 1e-16, rel=1e-9)
    assert SmoothBox(0.5, 0.2).conjugate(w) == pytest.approx(0.5 / 0.2 / 2 * 1e-16, rel=1e-9)


@pytest.mark.parametrize("name", BASIC)
def test_shifting_twice_gives_the_potential_back(name):
    potential = BASIC[name]
    twice = ShiftedPotential(ShiftedPotential(potential, REFERENCE), REFERENCE)
    for v in V_POINTS:
        assert twice.conjugate(v) == pytest.approx(potential.conjugate(v), abs=1e-12)
        x = potential.prox_conjugate(v, 1.0)
        np.testing.assert_allclose(twice.prox_conjugate(v, 1.0), x, atol=1e-12)
        r = 0.9 * (v - x)
        assert twice.value(r) == pytest.approx(potential.value(r), rel=1e-9, abs=1e-12)
        if np.abs(v).all():
            assert twice.gauge(v) == pytest.approx(potential.gauge(v), rel=1e-9)
            c = potential.critical_multiplier(v)
            assert twice.critical_multiplier(v) == pytest.approx(c, rel=1e-9)


def test_table_1_of_the_density_paper():
    # pi = the sample's moments, r = another distribution's; U is absolute, U_r relative to r
    pi, other = np.array([0.5, 0.2, 0.7]), np.array([0.4, 0.3, 0.1])
    beta, alpha = np.array([0.1, 0.2, 0.3]), 0.7
    lam, u = np.array([1.0, -2.0, 0.5]), np.array([0.55, 0.1, 0.9])
    rows = [  # U_pi, its potential at x, its conjugate
        (Equality(), lambda x: 0.0 if not x.any() else INF, lambda v: 0.0),
        (Box(beta), lambda x: 0.0 if (abs(x) <= beta).all() else INF, lambda v: beta @ abs(v)),
        (Quadratic(alpha), lambda x: x @ x / (2 * alpha), lambda v: alpha * v @ v / 2),
    ]
    for relative, value, conjugate in rows:
        absolute = ShiftedPotential(relative, pi)
        to_other = ShiftedPotential(absolute, other)
        for point in (u, pi, pi + 0.05):
            assert absolute.value(point) == pytest.approx(value(pi - point))
        assert absolute.conjugate(lam) == pytest.approx(lam @ pi + conjugate(lam))
        for point in (u, other - pi):
            assert to_other.value(point) == pytest.approx(value(point - (other - pi)))
        assert to_other.conjugate(lam) == pytest.approx(lam @ (other - pi) + conjugate(lam))
        assert relative.conjugate(lam) == pytest.approx(conjugate(lam))


def test_shifted_gauge_and_critical_multiplier():
    near, far = ShiftedPotential(Box(1.0), [0.5]), ShiftedPotential(Box(0.1), [0.5])
    assert near.gauge(np.array([3.0])) == pytest.approx(2.0)  # dom = [-0.5, 1.5]
    assert near.gauge(np.array([-3.0])) == pytest.approx(6.0)
    assert near.critical_multiplier(np.array([3.0])) == pytest.approx(2.0)
    assert far.gauge(np.array([0.1])) == pytest.approx(1 / 6)  # dom = [0.4, 0.6]
    assert far.gauge(np.array([-0.1])) == INF
    assert far.critical_multiplier(np.array([0.5])) == INF
    assert ShiftedPotential(Quadratic(1.0), [0.5]).gauge(np.array([7.0])) == 0
    assert ShiftedPotential(Equality(), [0.5]).gauge(np.array([0.5])) == pytest.approx(1)
    assert near.gauge(np.array([0.0])) == 0
    assert far.gauge(np.array([0.0])) == INF


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(-1.0), "beta must be a finite number >= 0"),
        (lambda: Box(np.nan), "beta must be a finite number >= 0"),
        (lambda: Box([0.1, INF]), "beta must be a finite number >= 0"),
        (lambda: Box([]), "beta must be"),
        (lambda: Box([[1.0]]), "beta must be"),
        (lambda: Quadratic(0.0), "strength must be a finite number > 0"),
        (lambda: Quadratic([1.0, -1.0]), "strength must be"),
        (lambda: ElasticNet(-0.1, 1.0), "beta must be"),
        (lambda: ElasticNet(0.1, 0.0), "strength must be"),
        (lambda: ElasticNet([0.1, 0.2], [1.0, 1.0, 1.0]), r"different lengths: \[2, 3\]"),
        (lambda: SmoothBox(0.1, 0.0), "smoothing must be"),
        (lambda: SmoothBox(-0.1, 1.0), "beta must be"),
        (lambda: SmoothBox([0.1, 0.2], [1.0, 1.0, 1.0]), "different lengths"),
        (lambda: LaplacePrior(0.0), "lam must be a finite number > 0"),
        (lambda: LaplacePrior([1.0, -2.0]), "lam must be"),
        (lambda: LaplacePrior(np.nan), "lam must be"),
        (lambda: Ball(-1.0), "radius must be"),
        (lambda: Ball([1.0, 2.0]), "radius must be a single number"),
        (lambda: NormBall(1.0, 0.5), r"order p of a norm must lie in \[1, inf\], got 0.5"),
        (lambda: NormBall(1.0, np.nan), "order p"),
        (lambda: NormBall(INF, 2), "radius must be"),
        (lambda: SquaredNormPotential(0.0, 2), "strength must be"),
        (lambda: SquaredNormPotential(1.0, 0), "order p"),
        (lambda: NormPlusSquare(1.0, 0.0, 2), "strength must be"),
        (lambda: NormPlusSquare(-1.0, 1.0, 2), "radius must be"),
        (lambda: NormPlusSquare(1.0, 1.0, 0.9), "order p"),
        (lambda: NormPlusSquare(1.0, 1.0, 2, 0.5), "order p"),
        (lambda: DualBall(0.0), "radius must be a finite number > 0"),
        (lambda: DualBall(1.0, -2), "order p"),
        (lambda: QuadraticForm([[1.0, 0.0]]), "finite square matrix"),
        (lambda: QuadraticForm([[np.nan]]), "finite square matrix"),
        (lambda: QuadraticForm(np.zeros((0, 0))), "finite square matrix"),
        (lambda: QuadraticForm([[1.0, 0.5], [0.0, 1.0]]), "must be symmetric"),
        (lambda: QuadraticForm([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite.*eigenvalue -1"),
        (lambda: Families([], []), "one size per potential"),
        (lambda: Families([Box(1.0)], [1, 2]), "1 potentials and 2 sizes"),
        (lambda: Families([Box(1.0)], [0]), "integers >= 1"),
        (lambda: Families([Box(1.0)], [1.5]), "integers >= 1"),
        (lambda: Families([Box([1.0, 2.0])], [3]), "made for 2 features, there are 3"),
        (lambda: ScaledPotential(Box(1.0), 0.0), "multiplier must be"),
        (lambda: ScaledPotential(Box(1.0), -1.0), "multiplier must be"),
        (lambda: ScaledPotential(Box(1.0), INF), "multiplier must be"),
        (lambda: ShiftedPotential(Box(1.0), 0.5), "must be a finite vector"),
        (lambda: ShiftedPotential(Box(1.0), [np.nan]), "must be a finite vector"),
        (lambda: ShiftedPotential(Box([1.0, 2.0]), [0.5]), "made for 2 features, there are 1"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types():
    with pytest.raises(TypeError, match="expected a Potential"):
        Families([3.0], [1])  # type: ignore[list-item]
    for wrap in (lambda p: ScaledPotential(p, 1.0), lambda p: ShiftedPotential(p, [1.0])):
        with pytest.raises(TypeError, match="expected a Potential"):
            wrap(3.0)


@pytest.mark.parametrize(
    "name", ["box-vector", "elastic-net-vector", "laplace-vector", "box+laplace"]
)
def test_check_size(name):
    ALL[name].check_size(SIZE)
    with pytest.raises(ValueError, match="made for 4 features, there are 5"):
        ALL[name].check_size(5)
    with pytest.raises(ValueError, match="made for 4 features, there are 5"):
        ScaledPotential(ALL[name], 2.0).check_size(5)


@pytest.mark.parametrize("name", ALL)
def test_curvature_must_be_positive(name):
    for curvature in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="curvature > 0"):
            ALL[name].coordinate_step(0, np.zeros(SIZE), 1.0, curvature)


@pytest.mark.parametrize("name", ALL)
def test_missing_gradients_say_so(name):
    potential = ALL[name]
    if not potential.smooth:
        with pytest.raises(TypeError, match="has no gradient: V is an indicator or has kinks"):
            potential.grad(np.ones(SIZE))
    if not potential.smooth_conjugate:
        with pytest.raises(TypeError, match="has no gradient everywhere"):
            potential.conjugate_gradient(np.ones(SIZE))


def test_parameters_are_copied_and_read_only():
    beta = np.array([1.0, 2.0])
    box = Box(beta)
    beta[0] = 5
    assert box.conjugate(np.array([1.0, 0.0])) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        box.beta[0] = 3


# -- extreme scales --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e160, 1e300])
@pytest.mark.parametrize("name", {**BASIC, **FAMILIES})
def test_extreme_scales(name, size):
    potential = ALL[name]
    v = size * np.array([1.0, -0.5, 1e-3, 0.0])
    for step in (1e-3, 1.0, 1e3):
        x = potential.prox_conjugate(v, step)
        assert np.isfinite(x).all()
        assert np.abs(x).max() <= np.abs(v).max() * (1 + 1e-9) * SIZE
    conjugate, value = potential.conjugate(v), potential.value(v)
    assert conjugate >= 0
    assert value >= 0
    assert potential.gauge(v) >= 0
    assert potential.critical_multiplier(v) >= 0
    linear = (Box, Ball, NormBall, SmoothBox, LaplacePrior, Equality)
    if size <= 1e20 and not isinstance(potential, (DualBall, Families)):
        assert np.isfinite(conjugate)
    if isinstance(potential, linear):
        assert np.isfinite(conjugate)
    if potential.smooth_conjugate:
        gradient = potential.conjugate_gradient(v)
        assert not np.isnan(gradient).any()
    if potential.smooth and np.isfinite(value):
        assert np.isfinite(potential.grad(v)).all()


@pytest.mark.parametrize("step", [1e-310, 1e-20, 1e16, 1e100, 1e300])
@pytest.mark.parametrize("name", {**BASIC, **FAMILIES})
def test_extreme_steps(name, step):
    potential = ALL[name]
    for v in ([3.0, -1.0, 0.0, 0.5], [1.0, 1.0, 1.0, 1.0], [1e-200, 0.0, 0.0, 2e-200]):
        x = potential.prox_conjugate(np.array(v), step)
        assert np.isfinite(x).all()
        assert np.abs(x).max() <= np.abs(v).max() * (1 + 1e-9) * SIZE


@pytest.mark.parametrize("p", ORDERS)
def test_proximity_operators_of_squared_norms_tend_to_0_as_one_over_the_step(p):
    potential = SquaredNormPotential(1.0, p)
    v = np.array([3.0, -1.0, 0.0, 2.5])
    x = [potential.prox_conjugate(v, step) * step for step in (1e6, 1e9, 1e12)]
    np.testing.assert_allclose(x[1], x[0], atol=1e-4)
    if p >= 2:  # below, v less a projection is known to rounding of v
        far = potential.prox_conjugate(v, 1e200) * 1e200
        np.testing.assert_allclose(far, x[2], atol=1e-9)


@pytest.mark.parametrize("p", ORDERS)
def test_projection_of_very_different_entries(p):
    v = np.array([1e300, 1e200, 1.0, -1e-200])
    x = DualBall(1.3, p).prox_conjugate(v, 1.0)
    assert x[0] == pytest.approx(1.3, rel=1e-12)
    assert np.linalg.norm(x, ord=p) <= 1.3 * (1 + 1e-9)
    if p <= 2:  # nothing is left for the others
        assert x[1] == pytest.approx(0, abs=1e-40)


@pytest.mark.parametrize("name", {**BASIC, **FAMILIES})
def test_coordinate_step_at_extreme_scales(name):
    w = -ALL[name].prox_conjugate(_POINT, 1.0)
    for gradient in (1e-20, 1e20):
        for curvature in (1e-6, 1.0, 1e6):
            step = ALL[name].coordinate_step(1, w, gradient, curvature)
            assert np.isfinite(step)
            # never past both 0 and the unpenalized optimum
            reach = max(abs(w[1]), gradient / curvature + np.abs(w).sum() + np.abs(FULL).sum())
            assert abs(step) <= reach * (1 + 1e-9) * max(1, 1 / curvature)


def test_smooth_box_near_zero_keeps_its_digits():
    s = np.array([1e-9])
    assert SmoothBox(2.0, 0.3).value(2 * s) == pytest.approx(0.6 * 1e-18 / 2, rel=1e-9)
    values = [SmoothBox(1.0, 1.0).value(np.array([x])) for x in (0.5 - 1e-12, 0.5)]
    assert values[0] == pytest.approx(values[1], rel=1e-10)
    assert SmoothBox(1.0, 1.0).value(np.array([1.0])) == pytest.approx(np.log(2))


def test_scaling_down_and_up_is_exact():
    v = _POINT * 1e200
    tiny = Ball(0.8).prox_conjugate(_POINT, 1.0)
    np.testing.assert_allclose(
        ScaledPotential(Ball(0.8), 1e200).prox_conjugate(v, 1.0), 1e200 * tiny
    )


def test_huge_weights_keep_the_laplace_and_smooth_penalties_linear():
    v = np.array([1e300])
    assert LaplacePrior(4.0).conjugate(v) == pytest.approx(2e300)
    assert SmoothBox(0.5, 1e-10).conjugate(v) == pytest.approx(0.5e300)
    assert LaplacePrior(4.0).conjugate_gradient(v)[0] == pytest.approx(2.0)
    assert SmoothBox(0.5, 1e-10).conjugate_gradient(-v)[0] == pytest.approx(-0.5)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("kind", [NormBall, SquaredNormPotential])
def test_small_steps_beside_a_large_weight_have_all_their_digits(kind, p):
    V, w, gradient, curvature = kind(0.033, p), np.array([0.0, -0.967]), 1.6e-4, 5.0
    d = V.coordinate_step(0, w, gradient, curvature)
    if p == 1:  # V* sees the larger weight alone
        assert d == pytest.approx(-gradient / curvature, rel=1e-14)
    q = np.inf if p == 1 else p / (p - 1) if p < np.inf else 1.0
    x, norm = abs(d), np.linalg.norm([d, 0.967], q)
    rise = float(q == 1) if q in (1, np.inf) else (x / norm) ** (q - 1)
    slope = 0.033 * rise * (norm if kind is SquaredNormPotential else 1.0)
    left = curvature * x - gradient + slope  # the slope of the objective, > 0 if x = 0 is best
    assert left == pytest.approx(0, abs=1e-15) or (x == 0 and left > 0)


# -- matrices of weights ---------------------------------------------------------------------------


def test_coupled_is_the_trace_form_and_the_spectral_one_is_its_best():
    W = np.random.default_rng(3).standard_normal((5, 3))
    A = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 1.0]])
    expected = 0.35 * np.trace(W @ np.linalg.inv(A) @ W.T)
    assert Coupled(A, Quadratic(0.7)).conjugate(W.ravel()) == pytest.approx(expected, rel=1e-12)
    # min over A of 1/2 tr(W A^-1 W') + c^2/2 tr(A) is c times the nuclear norm, at A = |W| / c
    c = 0.7
    _, s, right = np.linalg.svd(W, full_matrices=False)
    best = (right.T * s) @ right / c
    price = Coupled(best, Quadratic(1.0)).conjugate(W.ravel()) + c**2 / 2 * np.trace(best)
    assert price == pytest.approx(Spectral(3, c).conjugate(W.ravel()), rel=1e-10)
    for other in (1.3 * best, best + 0.2 * A):
        more = Coupled(other, Quadratic(1.0)).conjugate(W.ravel()) + c**2 / 2 * np.trace(other)
        assert more > price


def test_a_spiked_matrix_is_the_array_it_stands_for():
    rng = np.random.default_rng(0)
    G, X = rng.standard_normal((3, 8)), rng.standard_normal((4, 8))
    A = 0.5 * np.eye(8) + G.T @ G
    few, full = Spiked.from_factor(0.5, G), Spiked.from_matrix(A)
    assert few.basis.shape == (8, 3)
    for power in (-1.0, -0.5, 0.5, 1.0):
        assert np.allclose(few.times(X, power), full.times(X, power), rtol=1e-11, atol=1e-12)
        assert np.allclose(few.diagonal(power), np.diag(full.dense(power)), rtol=1e-11)
    assert np.allclose(few.dense(), A, atol=1e-12)
    assert np.allclose(few.extremes, full.extremes)
    assert np.array_equal(Spiked.identity(8).times(X, -1.0), X)
    more_rows = Spiked.from_factor(0.5, rng.standard_normal((9, 8)))
    assert more_rows.basis.shape == (8, 8)
    collinear = Spiked.from_factor(0.5, np.vstack([G[0], 2 * G[0]]))
    assert collinear.basis.shape == (8, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Coupled([[1.0, 1.0], [1.0, 1.0]]), "positive definite.*multiple of the identity"),
        (lambda: Coupled([[1.0, 0.5], [0.4, 1.0]]), "symmetric"),
        (lambda: Coupled([[1.0, np.nan], [np.nan, 1.0]]), "finite square matrix"),
        (lambda: Coupled(np.eye(2), "quadratic"), "expected a Potential"),
        (lambda: Coupled(np.eye(2)).check_size(5), "5 weights are no multiple"),
        (lambda: Spectral(2, 0.1).check_size(5), "5 weights are no multiple"),
        (lambda: Spectral(0, 0.1), "columns must be an integer >= 1"),
        (lambda: Spectral(2, -0.1), "radius"),
        (lambda: Spiked(0.5, np.ones((3, 1)), [1.0]), "orthonormal"),
        (lambda: Spiked(0.5, np.ones((3, 2)), [1.0]), "got shapes"),
    ],
)
def test_bad_matrices_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()

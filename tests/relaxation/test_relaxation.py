"""The relaxation path against fractions, single-nu solvers, certificates and brute force."""

from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from relaxation_reference import Exact, linear_gap, violation
from scipy.optimize import minimize_scalar

import maxent as mx
from maxent.relaxation.kernels import homotopy, single_path
from tools import needs

TOL = 1e-12
WAYS = {"local": ("local", 32), "hull": ("hull", 32), "blocks": ("hull", 2), "all": ("global", 32)}


def fit(way, *given, **settings):
    """A path by one of the ways; "blocks" are hulls of two rows."""
    method, block = WAYS.get(way, (way, 32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maxent.relaxation.path._BLOCK", block)
        return mx.RelaxationPath(*given, **settings).fit(method)


def rational(rng):
    return Fraction(int(rng.integers(1, 400)), int(rng.integers(1, 40)))


def random_problem(rng, kind="positive"):
    """1 to 8 rows of small counts, with ties; the prior is positive, has zeros or is constant."""
    n, top = rng.integers(1, 9), rng.choice([2, 3, 5, 30, 1000])
    prior = rng.integers(kind == "positive", top + 1, n)
    prior = np.ones(n, int) if kind == "constant" else prior
    observed, m = rng.integers(0, top + 1, n), rng.integers(1, rng.choice([4, 30]), n)
    if kind == "zeros":  # in many symbols, of which the others can take the mass for a while
        none = rng.random(n) < 0.3
        prior[none], m[none] = 0, 3 * m[none]
        observed[none] = np.minimum(observed[none], 1)
    prior[rng.integers(n)] += not prior.any()
    observed[rng.integers(n)] += not observed.any()
    return Exact(*(tuple(int(a) for a in row) for row in (prior, observed, m)))


@cache
def random_problems(kind, count=60, seed=0):
    """Problems with their solutions at a few nu, knots among them."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        exact = random_problem(rng, kind)
        nus = [rational(rng) for _ in range(4)] + [nu for nu, _ in exact.path[0][1:3]]
        found.append(
            (exact, [(float(nu), exact.distribution_at(nu)) for nu in nus if nu <= exact.stop])
        )
    return found


def zipf(n, draws, seed=0):
    """A Zipf prior of offset 2 and a sample of the one without (§8)."""
    rank = np.arange(1.0, n + 1)
    prior, mother = 1 / (rank + 2), 1 / rank
    sample = np.random.default_rng(seed).multinomial(int(draws), mother / mother.sum())
    return prior / prior.sum(), sample


def normal(values):
    return values / values.sum()


def sizes(rng, n):
    """Values between 1e-12 and 1."""
    return 10.0 ** rng.uniform(-12, 0, n)


def spread(path, rng, count=320):
    """Values of nu all along a path, at its knots and just beside them."""
    knots = path.nu[1:]
    free = np.exp(
        rng.uniform(np.log(knots[0] / 2), np.log(2 * knots[-1]), count - 3 * (count // 8))
    )
    beside = [rng.choice(knots, count // 8) * (1 + shift) for shift in (0, 1e-9, -1e-9)]
    return np.minimum(np.concatenate([free, *beside]), path.nu_stop)


def assert_same_path(path, other, rtol=TOL):
    assert path.segments == other.segments
    np.testing.assert_allclose(path.nu, other.nu, rtol=rtol)
    np.testing.assert_allclose([path.nu_end, path.nu_stop], [other.nu_end, other.nu_stop], rtol)
    nu = np.linspace(0.0, min(2 * other.nu[-1] + 1, other.nu_stop), 30)[1:]
    np.testing.assert_allclose(
        path.distribution_at(nu), other.distribution_at(nu), atol=TOL, rtol=0
    )


# -- the knots -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "kind"),
    [(way, kind) for kind in ("positive", "zeros", "constant") for way in WAYS]
    + [("uniform", "constant"), ("auto", "constant"), ("auto", "zeros")],
)
def test_knots_and_solutions_equal_those_in_fractions(way, kind):
    for exact, solutions in random_problems(kind):
        path = fit(way, *exact.given)
        knots, end = exact.path
        assert path.segments == len(knots), exact  # ties are one knot
        nu, mu = (np.array([float(value) for value in axis]) for axis in zip(*knots, strict=True))
        np.testing.assert_allclose(path.nu, nu, rtol=TOL, err_msg=str(exact))
        np.testing.assert_allclose(path.mu, mu, rtol=TOL, err_msg=str(exact))
        ends = [float(end), float(exact.stop)]
        np.testing.assert_allclose([path.nu_end, path.nu_stop], ends, rtol=TOL, err_msg=str(exact))
        for nu, p in solutions:
            np.testing.assert_allclose(
                path.distribution_at(nu), p, atol=TOL, rtol=0, err_msg=str(exact)
            )


@pytest.mark.parametrize("way", WAYS)
def test_no_knots_are_invented_after_all_observed_rows_have_left(way):
    rng = np.random.default_rng(0)
    u = rng.dirichlet(np.ones(300))
    # of so many sizes that no sum is exact; Q of the rows left is 0 all the same
    q = normal(10.0 ** rng.uniform(-20, 0, 300) * (rng.random(300) < 0.2))
    path = fit(way, u, q)
    assert path.nu_end == inf
    assert path.nu[-1] * q[q > 0].min() <= 1 + u.max() * path.mu.max()
    assert (np.diff(path.mu) >= 0).all()
    np.testing.assert_array_equal(path.distribution_at(inf), q)
    active = path.active(inf)
    np.testing.assert_array_equal(active.minus, np.flatnonzero(q))
    assert active.zero.size > active.plus.size > 0


@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
@pytest.mark.parametrize("method", ["sort", "select"])
def test_one_nu_equals_that_in_fractions(method, divergence):
    rng = np.random.default_rng(1)
    for exact, solutions in random_problems("zeros"):
        prior, observed, m = exact.given
        if divergence == "euclidean":
            nus = [rational(rng) for _ in range(4)]
            solutions = [(float(nu), exact.euclidean_at(nu)) for nu in nus]
        for nu, expected in solutions:
            p = mx.solve_relaxed(prior, observed, nu, m, divergence=divergence, method=method)
            np.testing.assert_allclose(p, expected, atol=TOL, rtol=0, err_msg=f"{exact} at {nu}")


SEVERAL_HUNDRED = {
    "ties": lambda rng, n: (rng.integers(1, 6, n), rng.integers(0, 6, n)),
    "blocked": lambda rng, n: (rng.integers(0, 6, n), rng.integers(0, 1000, n)),
    "sparse": lambda rng, n: (rng.integers(1, 1000, n), rng.poisson(0.1, n)),
    "both sparse": lambda rng, n: (rng.poisson(0.1, n), rng.poisson(0.1, n)),
    "distinct": lambda rng, n: rng.integers(1, 10**6, (2, n)),
    "sizes": lambda rng, n: (normal(sizes(rng, n)), normal(sizes(rng, n))),
    "powers": lambda rng, n: 2 ** rng.integers(0, 20, (2, n)),
    "zipf": lambda rng, n: zipf(n, 8 * n),
}


@pytest.mark.parametrize("name", SEVERAL_HUNDRED)
def test_all_ways_find_the_same_knots_of_several_hundred_rows(name):
    rng = np.random.default_rng(2)
    for n in (65, 400):
        given = SEVERAL_HUNDRED[name](rng, n)
        reference = fit("local", *given)
        for way in ("hull", "blocks", "all", "auto"):
            assert_same_path(fit(way, *given), reference, rtol=1e-9)


def test_hulls_follow_the_jumps_of_mu():
    rng = np.random.default_rng(12)
    for _ in range(400):
        n, top = rng.integers(5, 30), rng.choice([3, 5, 30, 1000])
        prior, observed, m = rng.integers([[1], [0], [1]], [[top + 1], [top + 1], [4]], (3, n))
        many = np.append(prior, 0), np.append(observed, 1), np.append(m, rng.integers(10, 200))
        reference, path = fit("local", *many), fit("blocks", *many)
        assert path.segments == reference.segments, many
        np.testing.assert_allclose(path.nu, reference.nu, rtol=1e-9)
        np.testing.assert_allclose(path.mu, reference.mu, rtol=1e-9)


@pytest.mark.parametrize("method", ["sort", "select"])
def test_one_newton_step_from_the_corners_is_enough(method, monkeypatch):
    for module in (single_path, homotopy):
        for name, kernel in list(vars(module).items()):
            if hasattr(kernel, "py_func"):
                monkeypatch.setattr(module, name, kernel.py_func)
    monkeypatch.setattr(single_path, "_POLISH", 1)
    for exact, solutions in random_problems("positive", 40, seed=13):
        prior, observed, m = exact.given
        for nu, expected in solutions[::2]:
            with np.errstate(over="ignore"):  # of random words
                p = mx.solve_relaxed(prior, observed, nu, m, method=method)
            np.testing.assert_allclose(p, expected, atol=TOL, rtol=0, err_msg=f"{exact} at {nu}")


@pytest.mark.parametrize("seed", range(10))
def test_one_nu_is_exact_beside_the_knots_of_rows_of_all_sizes(seed):
    rng = np.random.default_rng(seed)
    prior, observed = normal(sizes(rng, 300)), normal(sizes(rng, 300))
    path = mx.RelaxationPath(prior, observed).fit()
    for nu in rng.choice(path.nu[1:], 200) * (1 + rng.choice([0, 1e-9, -1e-9], 200)):
        for method in ("sort", "select"):
            p = mx.solve_relaxed(prior, observed, nu, method=method)
            np.testing.assert_allclose(p, path.distribution_at(nu), atol=1e-14, rtol=0)


# -- along the path ------------------------------------------------------------------------------


def near(rng, n):
    """A prior that differs from the observation by one part in 10^9."""
    u = rng.dirichlet(np.ones(n))
    return u, normal(u * (1 + 1e-9 * rng.normal(size=n)))


ALONG = {
    "zipf n/8": lambda rng: zipf(2000, 250),
    "zipf n": lambda rng: zipf(2000, 2000),
    "zipf 8n": lambda rng: zipf(2000, 16_000),
    "uniform": lambda rng: (np.full(2000, 1 / 2000), zipf(2000, 2000)[1]),
    "dirichlet": lambda rng: rng.dirichlet(np.ones(500), 2),
    "sparse dirichlet": lambda rng: rng.dirichlet(np.full(500, 0.1), 2),
    "words": lambda rng: (rng.integers(1, 5, 1000), rng.poisson(1.0, 1000)),
    "near": lambda rng: near(rng, 500),
    "one row differs": lambda rng: (np.arange(1, 301), np.arange(1, 301) + (np.arange(300) == 7)),
    "sizes": lambda rng: (normal(sizes(rng, 300)), normal(sizes(rng, 300))),
    "sizes reversed": lambda rng: normal(np.geomspace(1e-12, 1, 300)) * np.ones((2, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONG)
def test_every_p_along_the_path_is_optimal(name):
    rng = np.random.default_rng(3)
    prior, observed = ALONG[name](rng)
    observed = observed[::-1] if name == "sizes reversed" else observed
    path = mx.RelaxationPath(prior, observed).fit()
    u, q, one = prior / prior.sum(), observed / observed.sum(), np.ones(len(prior))
    assert path.gap_ <= TOL
    for nu in spread(path, rng):
        p, t = path.distribution_at(nu), 1 / nu
        for method in ("sort", "select"):
            single = mx.solve_relaxed(prior, observed, nu, method=method)
            np.testing.assert_allclose(p, single, atol=TOL, rtol=0)
        assert abs(p.sum() - 1) <= TOL
        assert violation(u, q, t, p) <= TOL
        assert path.gap(nu) <= TOL
        assert linear_gap(np.log(p / u), np.maximum(q - t, 0), q + t, one, p) <= TOL


def test_the_core_certifies_a_path_with_multiplicities():
    rng = np.random.default_rng(4)
    prior, observed, m = rng.integers(1, 50, 200), rng.poisson(3, 200), rng.integers(1, 4, 200)
    path = mx.RelaxationPath(prior, observed, m).fit()
    copies = np.repeat(np.arange(200), m)
    u, q = (normal(counts[copies]) for counts in (prior, observed))
    for nu in np.geomspace(path.nu[1] / 2, 0.999 * path.nu[-1], 12):
        p = path.distribution_at(nu)
        w = np.log(p[copies] / u)
        w -= w[np.isin(copies, path.active(nu).zero)][0]
        entropy, box = mx.Relative(mx.Shannon(), u), mx.Box((1 + 1e-12) / nu)
        problem = mx.Problem(entropy, mx.IdentityMap(len(copies)), box, observed=q)
        assert problem.gap(w, p[copies]) < 1e-10


@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
@pytest.mark.parametrize("shift", [-0.1, 0.1])
def test_a_path_on_a_wrong_line_has_a_gap(shift, divergence):
    path = mx.RelaxationPath([5, 3, 2, 1], [1, 3, 6, 8], divergence=divergence).fit()
    nu = (path.nu[1] + path.nu[2]) / 2
    assert path.gap(nu) <= TOL
    path._segments[1, 5] += shift
    assert path.gap(nu) > 1e-6


# -- how many segments ---------------------------------------------------------------------------


def test_segments_are_at_most_the_square_of_the_rows():
    for exact, _ in random_problems("positive"):
        path = mx.RelaxationPath(*exact.given).fit()
        assert path.segments <= len(exact.m) ** 2
        assert (np.diff(path.mu) >= 0).all()


@pytest.mark.parametrize("draws", [100, 1000, 100_000])
def test_a_uniform_prior_has_at_most_one_segment_more_than_rows(draws):
    observed = zipf(1000, draws)[1]
    path = mx.RelaxationPath(None, observed).fit()
    assert path.segments <= len(np.unique(observed)) + 1
    assert (np.diff(path.mu) >= 0).all()
    assert_same_path(path, fit("local", np.ones(1000), observed))


@pytest.mark.parametrize(("draws", "share"), [(0.125, 0.07), (8, 1.0)])
def test_zipf_samples_have_as_many_segments_as_in_figure_6(draws, share):
    n, segments = 5000, []
    for seed in range(5):
        prior, sample = zipf(n, draws * n, seed)
        path = mx.RelaxationPath(prior, sample).fit()
        segments.append(path.segments)
        assert (np.diff(path.nu) > 0).all()
        assert (np.diff(path.mu) >= -TOL * path.mu[1:]).all()
        # sums of counts are exact by themselves, those of probabilities are not
        assert_same_path(mx.RelaxationPath(prior, normal(sample)).fit(), path, rtol=1e-9)
    assert np.mean(segments) == pytest.approx(share * n, rel=0.1)


# -- rows without prior mass ---------------------------------------------------------------------

STOPS = {  # prior, observed, the largest nu, the row named
    "one symbol": ([0, 1, 1, 1], [2, 1, 1, 0], 2.0, 0),
    "the larger of two": ([1, 0, 3, 0, 2], [2, 1, 1, 3, 3], 10 / 3, 3),
    "no room in the others": ([0, 0, 0, 1], [1, 1, 1, 1], 4 / 3, 0),
    "no room in two others": ([2, 0, 2, 0, 0], [0, 2, 1, 2, 2], 7 / 3, 1),
    "mu jumps at 5": ([1, 3, 3, 3, 0, 0, 0, 0], [6, 0, 0, 0, 1, 1, 1, 1], 10.0, 4),
}


@pytest.mark.parametrize("way", [*WAYS, "auto"])
@pytest.mark.parametrize("name", STOPS)
def test_the_path_stops_where_a_row_without_prior_mass_needs_some(name, way):
    prior, observed, stop, row = STOPS[name]
    path = fit(way, prior, observed)
    assert path.nu_stop == pytest.approx(stop, rel=1e-15)
    assert path.nu_end == inf
    for nu in np.linspace(0, path.nu_stop, 40)[1:]:
        p = path.distribution_at(nu)
        np.testing.assert_allclose(p, mx.solve_relaxed(prior, observed, nu), atol=TOL, rtol=0)
        assert not p[np.array(prior) == 0].any()
        assert path.gap(nu) <= TOL
    beyond = rf"nu={1.01 * stop:g} is past {stop:g}: row {row} has prior 0"
    with pytest.raises(ValueError, match=beyond):
        path.distribution_at([1.0, 1.01 * stop])
    with pytest.raises(ValueError, match=beyond + ".*give it a positive prior"):
        mx.solve_relaxed(prior, observed, 1.01 * stop)


def test_mu_jumps_where_only_rows_without_prior_mass_are_free():
    """Lemma 4.1 needs a positive prior: mu is neither continuous nor unique at nu = 5."""
    prior, observed = [1, 3, 3, 3, 0, 0, 0, 0], [6, 0, 0, 0, 1, 1, 1, 1]
    path = mx.RelaxationPath(prior, observed).fit()
    u, q = np.array(prior) / 10, np.array(observed) / 10
    assert path.nu[-1] == pytest.approx(5, rel=TOL)
    assert path.mu[-1] == pytest.approx(20, rel=TOL)
    before = (path.active(4.999).zero[:, None] == np.arange(8)).any(axis=0)
    left = (5 * q[before].sum() + 1) / u[before].sum()  # (10) with M = -1
    assert left == pytest.approx(10 / 3)
    for mu in np.linspace(left, 20, 7):
        assert np.clip(mu * u - 5 * q, -1, 1).sum() == pytest.approx(0, abs=TOL)
    near, at, beyond = path.distribution_at([5 - 1e-9, 5.0, 5 + 1e-9])
    np.testing.assert_allclose([near, beyond], [at, at], atol=1e-9)


def test_rows_with_neither_prior_nor_observation_have_no_probability():
    path = mx.RelaxationPath([1, 0, 2], [2, 0, 1]).fit()
    assert path.nu_stop == inf
    nu, short = [0.1, 5.0, inf], mx.RelaxationPath([1, 2], [2, 1]).fit()
    np.testing.assert_array_equal(path.distribution_at(nu, 1), 0)
    np.testing.assert_allclose(
        path.distribution_at(nu, [0, 2]), short.distribution_at(nu), atol=TOL
    )
    assert path.select([1, 0, 1]) == pytest.approx(short.select([1, 1]))


# -- prior and observation exchanged ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["positive", "zeros"])
def test_swapped_small_paths_are_those_of_the_swapped_problems(kind):
    for exact, _ in random_problems(kind):
        prior, observed, m = exact.given
        swapped = mx.RelaxationPath(prior, observed, m).fit().swap()
        assert_same_path(swapped, mx.RelaxationPath(observed, prior, m).fit())


@pytest.mark.parametrize(("draws", "added"), [(1000, 0), (1000, 1), (8000, 0), (8000, 1)])
def test_swapped_zipf_paths_are_those_of_the_swapped_problems(draws, added):
    prior, sample = zipf(1000, draws)
    path = mx.RelaxationPath(prior, sample + added).fit()
    assert_same_path(path.swap(), mx.RelaxationPath(sample + added, prior).fit(), rtol=1e-9)
    if added:
        assert_same_path(path.swap().swap(), path, rtol=1e-9)


def test_a_uniform_prior_can_be_swapped_and_a_euclidean_path_cannot():
    swapped = mx.RelaxationPath(None, [1, 2, 4]).fit().swap()
    assert_same_path(swapped, mx.RelaxationPath([1, 2, 4], [1, 1, 1]).fit())
    with pytest.raises(ValueError, match="only the path of relative entropy is symmetric"):
        mx.RelaxationPath([1, 2], [2, 1], divergence="euclidean").fit().swap()


# -- half the squared distance ---------------------------------------------------------------------


def assert_euclidean_optimum(prior, observed, m, nu, p):
    u, q = (counts / np.dot(m, counts) for counts in map(np.asarray, (prior, observed)))
    low, high = np.maximum(q - 1 / nu, 0), q + 1 / nu
    assert (p >= low - 1e-15).all()
    assert (p <= high + 1e-15).all()
    assert abs(np.dot(m, p) - 1) <= TOL
    assert linear_gap(p - u, low, high, np.asarray(m, float), p) <= TOL


def test_euclidean_paths_equal_those_in_fractions():
    rng = np.random.default_rng(5)
    for exact, _ in random_problems("zeros"):
        path = mx.RelaxationPath(*exact.given, divergence="euclidean").fit()
        assert path.gap_ <= TOL
        assert path.nu[-1] < 1e9, exact  # no knots of rounding
        for nu in [rational(rng) for _ in range(3)] + [Fraction(nu) for nu in path.nu[1:5]]:
            p = path.distribution_at(float(nu))
            np.testing.assert_allclose(p, exact.euclidean_at(nu), atol=TOL, err_msg=str(exact))
            assert path.gap(float(nu)) <= TOL
            assert_euclidean_optimum(*exact.given, float(nu), p)


def test_euclidean_solutions_stay_at_zero_where_the_shift_would_take_them_below():
    prior, observed, m, nu = [8, 1, 1], [0, 0, 10], [1, 1, 1], 5.0
    path = mx.RelaxationPath(prior, observed, divergence="euclidean").fit()
    np.testing.assert_allclose(path.distribution_at(nu), [0.2, 0.0, 0.8], atol=TOL)
    assert_euclidean_optimum(prior, observed, m, nu, path.distribution_at(nu))
    np.testing.assert_array_equal(path.distribution_at(inf), [0, 0, 1])


@pytest.mark.parametrize("name", ["words", "dirichlet", "sizes", "near", "zipf n/8"])
def test_euclidean_paths_of_many_rows_agree_with_one_nu(name):
    rng = np.random.default_rng(6)
    prior, observed = ALONG[name](rng)
    path = mx.RelaxationPath(prior, observed, divergence="euclidean").fit()
    m = np.ones(len(prior))
    for nu in spread(path, rng, 200):
        p = path.distribution_at(nu)
        for method in ("sort", "select"):
            single = mx.solve_relaxed(prior, observed, nu, divergence="euclidean", method=method)
            np.testing.assert_allclose(p, single, atol=TOL, rtol=0)
        assert_euclidean_optimum(prior, observed, m, nu, p)
        assert path.gap(nu) <= TOL


# -- counts, symbols and multiplicities ------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "rest"), [(None, 1.0), ({"b": 3, "z": 2}, 1), ({"a": 0.25, "z": 0.5}, 0.125)]
)
def test_counts_over_an_alphabet_equal_the_problem_written_out(prior, rest):
    counts, n = {"a": 5, "b": 2, "c": 1}, 12
    path = mx.RelaxationPath.from_counts(counts, n, prior, rest).fit()
    letters = "abcz" + "".join(str(k) for k in range(n - 4))
    weights = np.array([(prior or {}).get(letter, rest) for letter in letters])
    written = mx.RelaxationPath(normal(weights), [counts.get(c, 0) for c in letters]).fit()
    np.testing.assert_allclose(path.nu, written.nu, rtol=TOL)
    nu = np.geomspace(0.1, 1000, 20)
    rows = [path.row(letter) for letter in letters]
    np.testing.assert_allclose(
        path.distribution_at(nu, rows), written.distribution_at(nu), atol=TOL
    )
    np.testing.assert_allclose(path.kl(nu), written.kl(nu), atol=TOL)


def test_a_billion_symbols():
    path = mx.RelaxationPath.from_counts({"the": 6, "of": 4, "a": 2}, 10**9).fit()
    assert path.symbols == ("the", "of", "a")
    m = np.array([1, 1, 1, 10**9 - 3])
    direct = mx.RelaxationPath([1, 1, 1, 1], [6, 4, 2, 0], m).fit()
    assert_same_path(path, direct)
    for nu in spread(path, np.random.default_rng(0), 50):
        assert abs(m @ path.distribution_at(nu) - 1) <= TOL
        assert path.gap(nu) <= TOL
    assert path.row("of") == 1
    assert path.row("never seen") == 3
    with pytest.raises(ValueError, match="rows have names only in a path made by from_counts"):
        direct.row("of")


def test_an_alphabet_that_is_listed_in_full_has_no_other_row():
    path = mx.RelaxationPath.from_counts({"a": 1, "b": 2}, 2).fit()
    assert_same_path(path, mx.RelaxationPath(None, [1, 2]).fit())
    with pytest.raises(ValueError, match="'z' is not among the 2 symbols"):
        path.row("z")
    with pytest.raises(ValueError, match="n_symbols=1, and counts and prior list 2: give the size"):
        mx.RelaxationPath.from_counts({"a": 1, "b": 2}, 1)


@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
def test_a_row_of_three_symbols_equals_three_rows(divergence):
    for exact, _ in random_problems("zeros", 60, seed=7):
        prior, observed, m = exact.given
        copies = np.repeat(np.arange(len(m)), np.array(m, int))
        joined = mx.RelaxationPath(prior, observed, m, divergence=divergence).fit()
        written = mx.RelaxationPath(
            np.array(prior)[copies], np.array(observed)[copies], divergence=divergence
        ).fit()
        np.testing.assert_allclose(joined.nu, written.nu, rtol=TOL)
        nu = np.linspace(0, min(2 * joined.nu[-1] + 1, joined.nu_stop), 9)[1:]
        np.testing.assert_allclose(
            joined.distribution_at(nu)[:, copies], written.distribution_at(nu), atol=TOL
        )


@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
def test_counts_and_their_probabilities_give_the_same_path(divergence):
    rng = np.random.default_rng(8)
    prior, observed = rng.integers(1, 9, 100), rng.integers(0, 9, 100)
    by_counts = mx.RelaxationPath(prior, observed, divergence=divergence).fit()
    other = mx.RelaxationPath(normal(prior), normal(observed), divergence=divergence).fit()
    assert_same_path(other, by_counts)


def test_probabilities_that_nearly_sum_to_one_are_normalised():
    path = mx.RelaxationPath([0.5, 0.5 + 5e-9], [0.3, 0.7 - 5e-9]).fit()
    np.testing.assert_allclose(path.distribution_at([0.1, 3.0, inf]).sum(axis=1), 1, rtol=1e-15)
    assert path.gap_ <= TOL


# -- the held-out likelihood -----------------------------------------------------------------------


def largest_likelihood(path, counts):
    """Bounded minimisation in 1/nu on every segment, and every knot."""
    ends = np.append(path.nu[1:], path.nu_stop)

    def loss(t):
        return -float(path.log_likelihood(counts, 1 / t if t else inf))

    values = [loss(1 / nu) for nu in ends]
    for first, last in pairwise(ends):
        bounds, options = (1 / last, 1 / first), {"xatol": 1e-10 / first}
        values.append(minimize_scalar(loss, bounds=bounds, method="bounded", options=options).fun)
    return -min(values)


def assert_largest(path, counts, nu):
    value, best = path.log_likelihood(counts, nu), largest_likelihood(path, counts)
    assert value == pytest.approx(best, rel=1e-9)
    assert value >= best - TOL * abs(best)


@pytest.mark.parametrize("kind", ["positive", "zeros"])
def test_select_finds_the_largest_likelihood_of_all_segments(kind):
    rng, places = np.random.default_rng(9), set()
    for exact, _ in random_problems(kind):
        path = mx.RelaxationPath(*exact.given).fit()
        counts = rng.integers(0, 6, len(exact.m)) * (np.array(exact.prior) > 0)
        if counts.any():
            nu = path.select(counts)
            assert_largest(path, counts, nu)
            places.add("end" if nu == path.nu_stop else "knot" if nu in path.nu else "inside")
    assert places == {"end", "knot", "inside"}


@pytest.mark.parametrize("draws", [40, 300, 3000])
def test_select_is_better_than_any_of_ten_thousand_values(draws):
    prior, sample = zipf(300, draws)
    counts = zipf(300, draws, seed=1)[1]
    path = mx.RelaxationPath(prior, sample).fit()
    nu = path.select(counts)
    assert path.nu[1] < nu < path.nu[-1]
    assert_largest(path, counts, nu)
    grid = np.geomspace(path.nu[1] / 2, 2 * path.nu[-1], 10_000)
    best = path.log_likelihood(counts, nu)
    assert best >= path.log_likelihood(counts, grid).max() - TOL * abs(best)


def test_the_prior_or_the_observation_can_be_the_best():
    prior, observed = [5, 3, 2], [1, 3, 6]
    path = mx.RelaxationPath(prior, observed).fit()
    assert path.select(prior) == path.nu[1]  # p is the prior up to there
    np.testing.assert_allclose(path.distribution_at(path.nu[1]), normal(np.array(prior)), atol=TOL)
    assert path.select(observed) > 1e6
    assert path.select([0, 0, 1]) == inf
    assert mx.RelaxationPath([1, 1], [2, 2]).fit().select([1, 3]) == inf
    # the maximum is the observation itself, to rounding: no division by 0
    assert mx.RelaxationPath([2, 2, 2, 2], [3, 3, 5, 1], [3, 1, 1, 1]).fit().select([4, 4, 5, 1])


def test_select_refuses_counts_that_have_no_likelihood():
    path = mx.RelaxationPath([0, 1, 1, 1], [2, 1, 1, 0]).fit()
    with pytest.raises(ValueError, match=r"1 rows with held-out counts have prior 0.*positive"):
        path.select([1, 1, 1, 1])
    with pytest.raises(ValueError, match="counts has 2 values for 4 rows"):
        path.select([1, 1])
    with pytest.raises(ValueError, match="counts is all zero: give held-out counts"):
        path.select([0, 0, 0, 0])
    with pytest.raises(ValueError, match="counts has negative values"):
        path.select([1, -1, 0, 0])
    euclidean = mx.RelaxationPath([1, 1], [2, 1], divergence="euclidean").fit()
    with pytest.raises(ValueError, match="select is for the path of relative entropy"):
        euclidean.select([1, 1])


# -- what a path says ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def path():
    rng = np.random.default_rng(10)
    given = rng.integers(1, 9, 30), rng.poisson(2, 30), rng.integers(1, 4, 30)
    return mx.RelaxationPath(*given).fit()


@pytest.mark.parametrize("nu", [3.0, [3.0, 40.0, inf], [[1.0, 2.0], [30.0, 4000.0]]])
@pytest.mark.parametrize("index", [5, [4, 1, 1], slice(3, 20, 2), np.arange(30) < 4])
def test_shapes_are_those_of_nu_then_of_the_rows(path, nu, index):
    every, some = path.distribution_at(nu), path.distribution_at(nu, index)
    assert every.shape == (*np.shape(nu), 30)
    np.testing.assert_array_equal(some, every[..., index])
    for name in ("entropy", "kl"):
        assert np.shape(getattr(path, name)(nu)) == np.shape(nu)


def test_from_the_prior_to_the_observation(path):
    prior, observed = (c / (path.multiplicity @ c) for c in (path.prior, path.observed))
    np.testing.assert_allclose(path.distribution_at([1e-300, path.nu[1]]), [prior, prior], rtol=TOL)
    np.testing.assert_array_equal(path.distribution_at(inf), observed)
    np.testing.assert_allclose(path.distribution_at(1e300), observed, atol=1e-15)
    np.testing.assert_array_equal(
        mx.solve_relaxed(path.prior, path.observed, inf, path.multiplicity), observed
    )
    assert path.gap(inf) <= TOL


def test_entropy_and_divergence_are_their_sums(path):
    m, u = path.multiplicity, path.prior / (path.multiplicity @ path.prior)
    for nu in (0.1, 50.0, 300.0):
        p = path.distribution_at(nu)
        assert path.entropy(nu) == pytest.approx(-sum(m * p * np.log(p)), rel=TOL)
        assert path.kl(nu) == pytest.approx(sum(m * p * np.log(p / u)), rel=TOL, abs=1e-15)
        counts = path.observed
        assert path.log_likelihood(counts, nu) == pytest.approx(sum(counts * np.log(p)), rel=TOL)
    assert path.log_likelihood(np.ones(30), inf) == -inf  # some rows were never observed
    assert path.kl([0.1, 1e5])[0] == pytest.approx(0, abs=1e-15)
    assert (np.diff(path.kl(np.geomspace(1, 1e5, 50))) >= -TOL).all()


@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
def test_active_rows_are_where_p_is_at_its_bounds(divergence, path):
    given = path.prior, path.observed, path.multiplicity
    path = mx.RelaxationPath(*given, divergence=divergence).fit()
    q = path.observed / (path.multiplicity @ path.observed)
    for nu in [*spread(path, np.random.default_rng(11), 100), 1e6, 1e12, 1e20, inf]:
        active = path.active(nu)
        assert sorted(np.concatenate(active)) == list(range(30))
        p, t = path.distribution_at(nu), 1 / nu
        np.testing.assert_allclose(p[active.minus], q[active.minus] - t, atol=TOL)
        np.testing.assert_allclose(p[active.plus], q[active.plus] + t, atol=TOL)
        if nu < 1e6:
            assert (np.abs(p - q)[active.zero] < t).all()
        if divergence == "kl":
            assert (active.zero.size == 0) == (np.isfinite(path.nu_end) and nu >= path.nu_end)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        (([5, 3, 2], [1, 3, 6]), {}),
        ((None, [4, 1, 1, 0]), {}),
        (([0, 1, 1, 1], [2, 1, 1, 0]), {}),
        (([1, 2], [2, 4]), {}),
        (([8, 1, 1], [0, 0, 10]), {"divergence": "euclidean"}),
        (zipf(100, 800), {}),
    ],
)
def test_the_picture_has_a_curve_through_the_knots(given, settings):
    needs("matplotlib").use("Agg")
    plt = needs("matplotlib.pyplot")
    path = mx.RelaxationPath(*given, **settings).fit()
    ax = path.plot()
    (curve,) = [line for line in ax.get_lines() if line.get_color() == "tab:green"]
    nu, mu = curve.get_data()
    np.testing.assert_array_equal(nu[:-1], path.nu)
    np.testing.assert_array_equal(mu[:-1], path.mu)
    ax.figure.canvas.draw()
    assert path.plot(ax=ax, lines=3) is ax
    plt.close(ax.figure)


# -- what is given ---------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [([1], [5]), ([0.3, 0.7], [3, 7]), ([1, 2], [2, 4], [3, 1])])
@pytest.mark.parametrize("divergence", ["kl", "euclidean"])
def test_one_row_and_a_prior_that_was_observed_are_one_segment(given, divergence):
    path = mx.RelaxationPath(*given, divergence=divergence).fit()
    assert path.segments == 1
    assert (path.nu_end, path.gap_) == (inf, 0)
    q = np.array(given[1]) / np.dot(
        given[1], given[2] if len(given) > 2 else np.ones(len(given[1]))
    )
    np.testing.assert_allclose(path.distribution_at([0.5, 100.0, inf]), [q] * 3, rtol=1e-15)
    np.testing.assert_array_equal(path.active(1e9).zero, np.arange(len(q)))


BAD_ROWS = [
    (([1, -2], [1, 2]), ValueError, r"prior has negative values \(the least is -2\)"),
    (([1, np.nan], [1, 2]), ValueError, "prior has 1 values that are NaN or infinite: replace"),
    (([1, 2], [1, inf]), ValueError, "observed has 1 values that are NaN or infinite"),
    (([0, 0], [1, 2]), ValueError, "prior is all zero: give at least one positive"),
    (([1, 2], [0, 0]), ValueError, "observed is all zero: give at least one positive"),
    (([0.5, 0.6], [1, 2]), ValueError, "prior sums to 1.1 .*: give probabilities that sum to 1"),
    (([1, 2], [0.5, 0.6]), ValueError, "observed sums to 1.1 .*or counts"),
    (([[1, 2]], [1, 2]), ValueError, r"prior must be one row of values, got .* \(1, 2\)"),
    (([1, 2], [[1, 2]]), ValueError, r"observed must be one row of values, got .* \(1, 2\)"),
    (([], []), ValueError, r"observed must be one row of values, got .* \(0,\)"),
    ((1, 2), ValueError, r"observed must be one row of values, got .* \(\)"),
    ((["a", "b"], [1, 2]), TypeError, "prior must hold numbers, got an array of type <U1"),
    (([1, 2], [None, 2]), TypeError, "observed must hold numbers, got an array of type object"),
    (([1, 2, 3], [1, 2]), ValueError, r"prior has shape \(3,\) and observed \(2,\): give both"),
    (([1, 2], [1, 2], [1]), ValueError, "multiplicity has 1 values for 2 rows: give the number"),
    (([1, 2], [1, 2], [1, 0]), ValueError, "multiplicity must be positive, .* leave them out"),
    (([1, 2], [1, 2], [1, -1]), ValueError, "multiplicity has negative values"),
]


@pytest.mark.parametrize(("given", "error", "message"), BAD_ROWS)
def test_bad_rows_are_refused_by_the_path_and_by_one_nu(given, error, message):
    with pytest.raises(error, match=message):
        mx.RelaxationPath(*given)
    prior, observed, *m = given
    with pytest.raises(error, match=message):
        mx.solve_relaxed(prior, observed, 2.0, *m)


@pytest.mark.parametrize("nu", [0, -1.0, np.nan, [1.0, 0.0], None])
def test_nu_must_be_positive(path, nu):
    message = r"nu must be positive \(1/nu is the largest difference.*\), got"
    for ask in (path.distribution_at, path.kl, path.entropy):
        with pytest.raises(ValueError, match=message):
            ask(nu)
    with pytest.raises(ValueError, match=message):
        mx.solve_relaxed([1, 2], [2, 1], nu)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mx.RelaxationPath([1, 2]), "observed is missing: give counts or probabilities"),
        (
            lambda: mx.RelaxationPath([1, 2], [2, 1], divergence="l2"),
            "divergence must be one of kl, euclidean, got 'l2'",
        ),
        (
            lambda: mx.RelaxationPath([1, 2], [2, 1]).fit("fast"),
            "method must be one of auto, local, global, uniform, hull, got 'fast'",
        ),
        (
            lambda: mx.RelaxationPath([1, 2], [2, 1]).fit("uniform"),
            'method="uniform" needs the same positive prior for all rows; use "auto"',
        ),
        (
            lambda: mx.RelaxationPath([1, 1, 0], [2, 1, 1]).fit("uniform"),
            'method="uniform" needs the same positive prior',
        ),
        (
            lambda: mx.RelaxationPath([1, 2], [2, 1], divergence="euclidean").fit("hull"),
            "the euclidean path has method \"local\" alone, not 'hull'",
        ),
        (
            lambda: mx.solve_relaxed([1, 2], [2, 1], 1.0, method="fast"),
            "method must be one of sort, select, got 'fast'",
        ),
        (
            lambda: mx.solve_relaxed([1, 2], [2, 1], [1.0, 2.0]),
            "nu must be one number here; RelaxationPath gives many",
        ),
    ],
)
def test_choices_are_named_where_they_do_not_exist(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "ask", ["distribution_at", "active", "kl", "entropy", "gap", "swap", "select", "plot"]
)
def test_nothing_can_be_asked_before_the_fit(ask):
    path = mx.RelaxationPath([1, 2], [2, 1])
    given = {"swap": (), "plot": (), "select": ([1, 2],)}.get(ask, (1.0,))
    with pytest.raises(ValueError, match="this RelaxationPath has no knots yet: call fit first"):
        getattr(path, ask)(*given)


@pytest.mark.parametrize("method", ["local", "hull", "global"])
@pytest.mark.parametrize("small", [1e-9, 1e-12, 1e-14, 1e-18])
def test_one_large_prior_entry_among_tiny_ones(small, method):
    """Segments are steep once the large entry has left I_0: mu has few digits on them."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = int(rng.integers(3, 7))
        u, q = small * rng.random(n), rng.dirichlet(np.ones(n))
        u[rng.integers(n)] = 1 - u.sum()
        path = mx.RelaxationPath(u / u.sum(), q).fit(method)
        knots = path.nu[1:]
        nu = np.concatenate([knots, knots * (1 + 1e-7), knots * 1.01, 2 * knots[-1:]])
        np.testing.assert_allclose(path.distribution_at(nu).sum(axis=1), 1, atol=1e-10)
        assert path.gap_ < 1e-10


def test_a_ratio_beyond_double_doubles_is_refused():
    with pytest.raises(ValueError, match=r"prior have the ratio 1.0e\+40.*solve_relaxed"):
        mx.RelaxationPath([1.0, 1e-40, 1e-40], [0.2, 0.3, 0.5]).fit()


@pytest.mark.parametrize("seed", range(3))
def test_multipliers_are_those_of_the_dual(seed):
    """(3), complementary slackness of section 3, and the value of (4) that closes the gap."""
    rng = np.random.default_rng(seed)
    u, q = rng.dirichlet(np.ones(40)), rng.dirichlet(np.full(40, 0.3))
    path = mx.RelaxationPath(u, q).fit()
    for nu in np.geomspace(path.nu[1] / 2, path.nu[-1] * 2, 9):
        p, alpha, sets = path.distribution_at(nu), path.multipliers(nu), path.active(nu)
        z = np.sum(u * np.exp(alpha))
        np.testing.assert_allclose(p, u * np.exp(alpha) / z, rtol=1e-9)
        np.testing.assert_allclose(alpha[sets[1]], 0, atol=1e-9)
        assert (alpha[sets[0]] >= -1e-9).all()
        assert (alpha[sets[2]] <= 1e-9).all()
        dual = -(np.log(z) - q @ alpha + np.abs(alpha).sum() / nu)
        assert dual == pytest.approx(path.kl(nu), abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_sets_of_a_uniform_prior_only_grow(seed):
    """Theorem 7.1: I_- and I_+ never lose a row as nu grows, I_0 never gains one."""
    rng = np.random.default_rng(seed)
    q = rng.multinomial(400, rng.dirichlet(np.full(60, 0.5))) / 400
    path = mx.RelaxationPath(np.full(60, 1 / 60), q).fit()
    between = (path.nu[1:-1] + path.nu[2:]) / 2
    before = (set(), set(range(60)), set())
    for nu in between:
        now = tuple(set(rows.tolist()) for rows in path.active(float(nu)))
        assert before[0] <= now[0]
        assert before[1] >= now[1]
        assert before[2] <= now[2]
        before = now
    assert before[0]
    assert before[2]

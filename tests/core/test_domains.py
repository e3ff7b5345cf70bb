"""Domains: every oracle against enumeration and differences, and what each refuses."""

import itertools

import numpy as np
import pytest
from scipy import special

from maxent.core.domains import (
    Cube,
    Domain,
    Euclidean,
    KSubset,
    NonNegative,
    Product,
    ScaledDomain,
    Simplex,
    SumProductDomain,
)
from maxent.core.domains.active_set import project_by_argmax
from maxent.core.domains.kl_by_argmax import project_kl_jvp_row
from maxent.rows.arrays import Ragged
from maxent.structured.chain.domain import Chain
from maxent.structured.paths.automaton import Automaton
from maxent.testing.domains import check_domain
from maxent.testing.inside import check_inside

CASES = [
    (Simplex(), [1, 2, 5]),
    (Cube(), [1, 4]),
    (NonNegative(), [1, 4]),
    (Euclidean(), [3]),
    (KSubset(1), [1, 4]),
    (KSubset(2), [2, 3, 5]),
    (ScaledDomain(KSubset(2), 0.5), [2, 4]),
    (Product(Simplex(), 2), [2, 6]),
    (Product(Cube(), 2), [4]),
    (Product(NonNegative(), 2), [4]),
    (Product(Chain(2), 2), [16]),
    (Chain(1), [1, 5]),
    (Chain(2), [2, 8, 14, 20]),
    (Chain(3), [3, 15, 27]),
]
BOUNDED = [(domain, sizes[-1]) for domain, sizes in CASES if domain.bounded]


@pytest.mark.parametrize(
    ("domain", "size"), [(domain, size) for domain, sizes in CASES for size in sizes], ids=str
)
@pytest.mark.parametrize("seed", [0, 2])
def test_oracles(domain: Domain, size: int, seed: int) -> None:
    check_domain(domain, size, random_state=seed)


class WrongProjection(Simplex):
    def _project(self, theta):
        return np.full_like(theta, 1 / theta.shape[-1])


class WrongMarginals(Chain):
    def _softmax(self, theta):
        log_partition, mean = super()._softmax(theta)
        return log_partition, 0.5 * mean + 0.5 * self._argmax(theta)


class OneRoundingTooMuch(Simplex):
    def _softmax(self, theta):
        log_partition, mean = super()._softmax(theta)
        return log_partition, mean * (1 + np.finfo(mean.dtype).eps)


class LostMass(Simplex):
    def _softmax(self, theta):
        log_partition, mean = super()._softmax(theta)
        return log_partition, mean * (1 - 64 * np.finfo(mean.dtype).eps)


class WrongScale(Cube):
    def _argmax(self, theta):
        return (theta > 0.5).astype(theta.dtype)


class WrongEntropy(KSubset):
    def _entropy(self, theta):
        return super()._entropy(theta) + 0.1


class WrongDivergence(KSubset):
    def _kl(self, theta, other):
        return super()._kl(theta, other) + 0.1


class WrongSupport(KSubset):
    def _project_support(self, theta, start):
        return super()._project_support(np.where(np.isneginf(theta), theta, -theta), start)


class WrongKL(KSubset):
    def _project_kl(self, theta):
        return self._project(theta)


class WrongKLSlope(KSubset):
    def project_kl_jvp(self, theta, p, v):
        return 0 * v


class WrongBound(KSubset):
    largest_entry = 0.5


class DrawsWhatIsForbidden(KSubset):
    def _sample(self, theta, n, rng):
        return super()._sample(np.where(np.isneginf(theta), 0, theta), n, rng)


@pytest.mark.parametrize(
    ("domain", "size", "message"),
    [
        (WrongProjection(), 3, "not nearest"),
        (WrongMarginals(2), 8, "marginals"),
        (WrongEntropy(2), 4, "entropy of row"),
        (WrongDivergence(2), 4, "kl of row|cross-entropy of row"),
        (WrongSupport(2), 4, "project_support"),
        (WrongKL(2), 4, "project_kl"),
        (WrongKLSlope(2), 4, "project_kl_jvp"),
        (WrongBound(2), 4, "largest_entry is 0.5"),
        (DrawsWhatIsForbidden(2), 4, "do not follow the law"),
        (WrongScale(), 3, "value of argmax|support"),
        (OneRoundingTooMuch(), 3, "softmax in float64 leaves its set .* 1.0000000000000002 is not"),
        (LostMass(), 3, "the sums of softmax in float64 are off"),
    ],
)
def test_check_domain_finds_the_mistake(domain: Domain, size: int, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_domain(domain, size)


# --- chains -------------------------------------------------------------------------------


def _ragged(chain: Chain, lengths: list[int], seed: int = 0) -> Ragged:
    rng = np.random.default_rng(seed)
    return Ragged.from_rows([2 * rng.normal(size=chain.size(length)) for length in lengths])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ragged_chain_is_its_rows_one_by_one(dtype: type) -> None:
    chain = Chain(3)
    theta = _ragged(chain, [4, 1, 7, 2, 4])
    theta = Ragged(theta.values.astype(dtype), theta.offsets)
    v = Ragged(np.cos(theta.values), theta.offsets)
    log_partition, mean = chain.softmax(theta)
    point = chain.project(theta)
    together = {
        "argmax": chain.argmax(theta),
        "marginals": mean,
        "projection": point,
        "softmax_jvp": chain.softmax_jvp(theta, mean, v),
        "project_jvp": chain.project_jvp(theta, point, v),
    }
    negentropy, inside = chain.negentropy(mean), chain.contains(point)
    assert inside.all()
    for i, row in enumerate(theta.rows()):
        alone_mean, alone_point = chain.softmax(row)[1], chain.project(row)
        one = {
            "argmax": chain.argmax(row),
            "marginals": alone_mean,
            "projection": alone_point,
            "softmax_jvp": chain.softmax_jvp(row, alone_mean, v.rows()[i]),
            "project_jvp": chain.project_jvp(row, alone_point, v.rows()[i]),
        }
        for name, batch in together.items():
            assert batch.dtype == dtype, name
            np.testing.assert_allclose(batch.rows()[i], one[name], atol=1e-6, err_msg=name)
        assert log_partition[i] == pytest.approx(float(chain.softmax(row)[0]), rel=1e-12)
        assert negentropy[i] == pytest.approx(float(chain.negentropy(alone_mean)), abs=1e-9)


def test_long_ragged_projection_is_nearest() -> None:
    chain = Chain(5)
    theta = _ragged(chain, [20, 1, 13, 30])
    p = chain.project(theta)
    direction = theta - p
    best = chain.argmax(direction)
    for g, v, x in zip(direction.rows(), best.rows(), p.rows(), strict=True):
        assert g @ (v - x) <= 1e-10


def test_chain_without_transitions_is_independent_rows() -> None:
    chain, length, k = Chain(4), 6, 4
    unary = np.random.default_rng(0).normal(size=(5, length, k))
    theta = np.concatenate([unary.reshape(5, -1), np.zeros((5, (length - 1) * k * k))], axis=1)
    log_partition, mean = chain.softmax(theta)
    expected, each = Product(Simplex(), length).softmax(unary.reshape(5, -1))
    np.testing.assert_allclose(log_partition, expected, rtol=1e-13)
    np.testing.assert_allclose(mean[:, : length * k], each, rtol=1e-12)
    pairs = np.einsum(
        "bti,btj->btij", each.reshape(unary.shape)[:, :-1], each.reshape(unary.shape)[:, 1:]
    )
    np.testing.assert_allclose(mean[:, length * k :], pairs.reshape(5, -1), rtol=1e-12)
    negentropy = Product(Simplex(), length).negentropy(each)
    np.testing.assert_allclose(chain.negentropy(mean), negentropy, rtol=1e-12)


def test_repeated_transitions_change_nothing() -> None:
    """The kernel exponentiates a repeated block once: same result as with blocks that differ."""
    chain, length, k = Chain(3), 5, 3
    theta = np.random.default_rng(0).normal(size=chain.size(length))
    theta[length * k :] = np.tile(theta[-k * k :], length - 1)
    nearly = theta.copy()
    nearly[length * k :: k * k] += 1e-13 * np.arange(length - 1)
    for same, other in zip(chain.softmax(theta), chain.softmax(nearly), strict=True):
        np.testing.assert_allclose(same, other, rtol=1e-11)


def test_encode_and_decode() -> None:
    chain = Chain(3)
    paths = [np.array([0, 2, 1]), np.array([1]), np.array([2, 2])]
    vertices = chain.encode(paths)
    assert isinstance(vertices, Ragged)
    assert chain.contains(vertices).all()
    for path, back in zip(paths, chain.decode(vertices), strict=True):
        np.testing.assert_array_equal(path, back)
    table = np.array(list(itertools.product(range(3), repeat=3)))
    rows = chain.encode(table)
    np.testing.assert_array_equal(rows, chain.vertices(rows.shape[1]))
    np.testing.assert_array_equal(np.array(chain.decode(rows)), table)
    assert chain.length(chain.size(7)) == 7


def _enumerated(chain: Chain, theta: np.ndarray) -> tuple[float, np.ndarray]:
    vertices = chain.vertices(theta.size)
    scores = np.array([theta[v > 0].sum() for v in vertices])
    return special.logsumexp(scores), special.softmax(scores) @ vertices


@pytest.mark.parametrize("scale", [1e-300, 300.0, 1e3, 1e5, 1e10, 1e300])
def test_chain_at_extreme_scales(scale: float) -> None:
    chain = Chain(3)
    theta = np.random.default_rng(0).normal(size=(20, chain.size(4))) * scale
    log_partition, mean = chain.softmax(theta)
    for row, value, p in zip(theta, log_partition, mean, strict=True):
        expected, marginals = _enumerated(chain, row)
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(p, marginals, atol=1e-15 * max(1e3, min(scale, 1e8)))
    jvp = chain.softmax_jvp(theta, mean, np.sign(theta))
    assert np.isfinite(jvp).all()
    p = chain.project(theta)
    assert chain.contains(p).all()
    assert chain.contains(mean).all()
    if scale > 1:
        np.testing.assert_array_equal(p, chain.argmax(theta))


def test_scores_whose_scaled_weights_underflow() -> None:
    """The best start leads nowhere good: only the path from the far worse start survives."""
    chain = Chain(2)
    for depth in (100.0, 400.0, 1000.0, 1e6):
        theta = np.zeros((1, chain.size(3)))
        theta[0, :2] = 0.0, -depth  # state 0 first ...
        theta[0, 6:10] = -2 * depth, -np.inf, -np.inf, 1.0  # ... but staying there costs more
        log_partition, mean = chain.softmax(theta)
        expected, marginals = _enumerated(chain, theta[0])
        assert log_partition[0] == pytest.approx(expected, rel=1e-14)
        np.testing.assert_allclose(mean[0], marginals, atol=1e-14)


def test_forbidden_states_and_transitions() -> None:
    chain, rng = Chain(3), np.random.default_rng(0)
    theta = rng.normal(size=(30, chain.size(4)))
    path = chain.encode(rng.integers(0, 3, size=(30, 4)))
    theta[(rng.random(theta.shape) < 0.4) & (path == 0)] = -np.inf  # one path is left at least
    log_partition, mean = chain.softmax(theta)
    best, p = chain.argmax(theta), chain.project(theta)
    for i, row in enumerate(theta):
        expected, marginals = _enumerated(chain, row)
        assert log_partition[i] == pytest.approx(expected, rel=1e-13)
        np.testing.assert_allclose(mean[i], marginals, atol=1e-14)
        assert row[best[i] > 0].sum() == pytest.approx(
            max(row[v > 0].sum() for v in chain.vertices(row.size))
        )
    assert (p[np.isneginf(theta)] == 0).all()
    assert chain.contains(p).all()


def test_chain_negentropy_outside_is_infinite() -> None:
    assert Chain(2).negentropy(np.array([[1.1, -0.1]]))[0] == np.inf


# --- projection by argmax alone -----------------------------------------------------------


@pytest.mark.parametrize(("domain", "size"), BOUNDED, ids=str)
def test_active_set_agrees_with_closed_forms(domain: Domain, size: int) -> None:
    theta = np.random.default_rng(0).normal(size=(20, size)) * 2
    theta[:3] = np.round(theta[:3])
    np.testing.assert_allclose(
        project_by_argmax(domain._argmax, theta), domain.project(theta), atol=1e-12
    )


def test_active_set_that_never_settles_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxent.core.domains.active_set._MAX_STEPS", 2)
    with pytest.raises(RuntimeError, match="did not settle in 2 steps"):
        Chain(3).project(np.random.default_rng(0).normal(size=Chain(3).size(5)))


# --- all domains --------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [Simplex(), Cube(), KSubset(2), Product(Simplex(), 2)], ids=str)
@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_extreme_scales(domain: Domain, scale: float) -> None:
    ties = np.array([1.0, 1.0, 1.0, -1.0]) * scale
    spread = np.array([1.0, -1.0, 0.5, 0.0]) * scale
    for theta in (ties, spread, np.array([0.0, -np.inf, 1.0, 2.0])):
        assert domain.contains(domain.argmax(theta))
        assert domain.contains(domain.project(theta))
        log_partition, mean = domain.softmax(theta)
        assert np.isfinite(log_partition)
        assert domain.contains(mean)


def test_minus_infinity_keeps_an_entry_out_of_a_subset() -> None:
    np.testing.assert_array_equal(KSubset(2).project([10.0, -20.0, -np.inf]), [1, 1, 0])


@pytest.mark.parametrize("domain", [NonNegative(), Euclidean()], ids=str)
def test_argmax_on_unbounded_domains(domain: Domain) -> None:
    with pytest.raises(ValueError, match=r"unbounded.*SquaredNorm"):
        domain.argmax([1.0, -1.0])
    np.testing.assert_array_equal(domain.argmax([0.0, 0.0]), [0.0, 0.0])


BAD = [
    (lambda: Chain(0), "n_states >= 1, got 0"),
    (lambda: Chain(2.5), "n_states >= 1, got 2.5"),
    (lambda: Chain(2).softmax(np.zeros(9)), "size 9 .* n_states=2 .* 8 for T=2 and 14 for T=3"),
    (lambda: Chain(3).length(2), "size 2 .* 3 for T=1"),
    (lambda: Chain(2).argmax(Ragged.from_rows([np.zeros(8), np.zeros(7)])), "size 7"),
    (lambda: Chain(2).encode([[0, 2]]), "from 0 to 1"),
    (lambda: Chain(2).encode([[0, -1]]), "from 0 to 1"),
    (lambda: Chain(2).encode([[0.5]]), "integer states"),
    (lambda: Chain(2).encode([[]]), "non-empty"),
    (lambda: Chain(2).encode(np.zeros((2, 2, 2), int)), "2-D array"),
    (lambda: Chain(1).softmax([[1.0], [np.nan]]), "NaN"),
    (lambda: Chain(1).softmax([np.inf]), r"\+inf"),
    (lambda: KSubset(0), "k >= 1, got 0"),
    (lambda: KSubset(3).argmax([1.0, 2.0]), "at least 3 finite scores"),
    (lambda: KSubset(2).project([1.0, -np.inf, -np.inf]), "at least 2 finite scores"),
    (lambda: ScaledDomain(Cube(), 0.0), "scale > 0, got 0.0"),
    (lambda: Product(Simplex(), 0), "copies >= 1, got 0"),
    (lambda: Product(Simplex(), 2).project([1.0, 2.0, 3.0]), "size 3 .* 2 equal parts"),
    (lambda: Simplex().project([]), "empty row"),
    (lambda: Simplex().project(1.0), "at least one axis"),
    (lambda: Simplex().argmax(["a"]), "expected numbers"),
    (lambda: Simplex().argmax([[0.0, 1.0], [-np.inf, -np.inf]]), "row 1 .* -inf everywhere"),
    (lambda: Euclidean().project([-np.inf, 0.0]), "finite"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_explained(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("oracle", ["argmax", "softmax", "project"])
def test_a_row_without_a_path_is_named(oracle: str) -> None:
    chain = Chain(2)
    theta = np.zeros((3, chain.size(2)))
    theta[1, 4:] = -np.inf
    with pytest.raises(ValueError, match="row 1 has no path"):
        getattr(chain, oracle)(theta)


def test_chances_of_entries_to_be_chosen_stay_within_one() -> None:
    """Sums over the numbers taken so far came to 1.0000000000000002."""
    check_inside(KSubset(4), 5, lambda theta: KSubset(4).softmax(theta)[1], "softmax", 305)


@pytest.mark.parametrize(("size", "k"), [(1, 1), (4, 4), (5, 2), (7, 3)])
@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0])
def test_the_derivative_of_subsets_is_their_covariance(size, k, scale):
    rng = np.random.default_rng(size)
    theta, v = scale * rng.normal(size=(3, size)), rng.normal(size=(3, size))
    domain = KSubset(k)
    vertices = domain.vertices(size)
    chances = special.softmax(theta @ vertices.T, axis=1)
    mean = chances @ vertices
    expected = np.einsum("rn,ni,nj,rj->ri", chances, vertices, vertices, v)
    expected -= mean * np.sum(mean * v, axis=1, keepdims=True)
    assert np.allclose(domain.softmax_jvp(theta, mean, v), expected, rtol=0, atol=1e-13)


class RoughSubsets(KSubset):
    """Subsets whose derivative is taken by differences, as is a user's who writes none."""

    softmax_jvp = SumProductDomain.softmax_jvp


def test_negentropies_end_where_products_with_the_hessian_are_rough():
    rare = np.array([3.63554122e-12, 1.22406479e-11, 8.04171268e-20])
    p = np.array([[rare[0], 1.0, rare[1], rare[2], 1.0, 1.0 - rare.sum()]])
    for domain in (RoughSubsets(3), KSubset(3)):  # scipy's inner steps had no end there
        assert domain.negentropy(p)[0] == pytest.approx(0.0, abs=1e-8)
    theta = np.array([[7.2, 0.8, -5.9, -7.4, -3.7, 1.8]])
    log_partition, p = KSubset(3).softmax(theta)
    exact = (theta @ p[0] - log_partition)[0]
    for domain in (RoughSubsets(3), KSubset(3)):
        assert domain.negentropy(p)[0] == pytest.approx(exact, abs=1e-8)


def test_the_best_of_many_subsets_and_draws_of_them():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2, 40))
    theta[1] = np.round(theta[1])
    theta[:, :3] = -np.inf
    scores, batches = KSubset(30).kbest(theta, 200)
    steps = [(j, 0, j) for j in range(31)] + [(j, 1, j + 1) for j in range(30)]
    words = Automaton(2, steps, final=(30,))
    for i, row in enumerate(theta):
        own = np.stack([np.zeros(40), row], 1).ravel()
        np.testing.assert_allclose(scores[i], words.kbest(own, 200)[0], atol=1e-12)
        listed = np.array([batch[i] for batch in batches])
        assert len(np.unique(listed, axis=0)) == 200
        assert (listed.sum(axis=1) == 30).all()
        assert not listed[:, :3].any()
    drawn = np.array(KSubset(30).sample(theta, 3000, random_state=2))
    p = KSubset(30).softmax(theta)[1]
    assert (np.abs(drawn.mean(axis=0) - p) <= 6 * np.sqrt(p * (1 - p) / 3000) + 1e-9).all()
    assert (drawn.sum(axis=2) == 30).all()
    both = drawn[:, 0, 5] * drawn[:, 0, 6]  # entries of a subset keep one another out
    rows = np.vstack([theta[0]] * 2)
    rows[1, 5] = -np.inf
    partition = KSubset(30).softmax(rows)[0]
    with_one = KSubset(29).softmax(np.delete(theta[0], 5))[1][5]
    right = -np.expm1(partition[1] - partition[0]) * with_one
    assert abs(both.mean() - right) <= 6 * np.sqrt(right * (1 - right) / 3000)


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e14])
def test_draws_of_subsets_at_any_scale(scale):
    theta = scale * np.array([[3.0, -1.0, 2.0, 0.5, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    theta[1] += np.arange(5)
    for k in (1, 2, 3, 4, 5):
        drawn = np.array(KSubset(k).sample(theta, 2000, random_state=0))
        p = KSubset(k).softmax(theta)[1]
        assert (np.abs(drawn.mean(axis=0) - p) <= 6 * np.sqrt(p * (1 - p) / 2000) + 1e-9).all()
    ties = KSubset(300).sample(scale * np.ones((1, 100_000)), random_state=0)[0]
    assert ties.sum() == 300


def test_subsets_of_very_many_entries():
    theta = np.random.default_rng(1).normal(size=20_000).astype(np.float32)
    scores, batches = KSubset(100).kbest(theta, 4)
    falling = -np.sort(-theta.astype(np.float64))
    losses = [0, falling[99] - falling[100]]
    np.testing.assert_allclose(scores[0] - scores[:2], losses, atol=1e-9)
    assert batches[3].sum() == 100
    (drawn,) = KSubset(100).sample(theta, random_state=0)
    assert drawn.sum() == 100
    every = KSubset(20_000).sample(theta, random_state=0)[0]
    assert every.all()
    with pytest.raises(ValueError, match="at least 2 finite scores"):
        KSubset(2).kbest([1.0, -np.inf], 1)
    with pytest.raises(ValueError, match="at least 2 finite scores"):
        KSubset(2).sample([1.0, -np.inf])


@pytest.mark.parametrize(
    ("domain", "size"), [(Chain(2), 14), (KSubset(2), 5), (Product(Simplex(), 2), 6)], ids=str
)
def test_kl_derivative_where_scores_are_tied(domain: Domain, size: int) -> None:
    """At scores of 0, where every fit begins, few vertices mix a point with all directions."""
    p = domain.project_kl(np.zeros(size))
    v = np.random.default_rng(0).normal(size=size)
    vertices = domain.vertices(size)
    directions = np.linalg.svd((vertices - vertices.mean(0)).T, full_matrices=False)
    basis = directions[0][:, directions[1] > 1e-9]
    slope = basis @ np.linalg.solve(basis.T @ (basis / p[:, None]), basis.T @ v)
    by_search = project_kl_jvp_row(domain._argmax, np.zeros(size), p, v)
    np.testing.assert_allclose(by_search, slope, atol=1e-8)

"""What the tests of entmax check, and what its users reported, on this API.

deep-spin/entmax: its test files for losses, masks, root finding and top-k; issues 16, 17 and 30.
"""

import itertools
import math

import pytest

from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402

LOSSES = ["shannon", "entmax15", "sparsemax", 1.25, 2.25, mt.NormEntropy(2.0)]
each_loss = pytest.mark.parametrize("entropy", LOSSES, ids=str)
each_backend = pytest.mark.parametrize("backend", ["plain", "numba"])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def scores(*shape, grad=False):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=grad)


# Losses


@each_loss
def test_losses_are_not_negative(entropy):
    for scale in (1e-3, 1.0, 30.0):
        x = scale * scores(200, 10)
        loss = mt.fenchel_young_loss(x, torch.randint(10, (200,)), entropy, reduction="none")
        assert (loss >= 0).all()
        assert (loss > 0).any()


@each_loss
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("ignore", [False, True])
def test_losses_are_differentiable(entropy, reduction, ignore):
    x, y = scores(4, 10, grad=True), torch.randint(10, (4,))
    criterion = mt.FenchelYoungLoss(entropy, reduction, int(y[0]) if ignore else -100)
    assert torch.autograd.gradcheck(lambda t: criterion(t, y), x)


@each_loss
def test_ignoring_the_worst_row_lowers_the_sum(entropy):
    x, y = scores(20, 6), torch.randint(6, (20,))
    rows = mt.fenchel_young_loss(x, y, entropy, reduction="none")
    worst = int(y[rows.argmax()])
    less = mt.fenchel_young_loss(x, y, entropy, "sum", ignore_index=worst)
    torch.testing.assert_close(less, rows[y != worst].sum())
    assert less < rows.sum()


# Masks


@each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 1.75, 2.0, 2.25])
def test_a_score_of_minus_infinity_is_not_there(alpha, dtype, backend):
    x = torch.randn(2, 6, dtype=dtype)
    cut = x.clone()
    cut[:, 3:] = -math.inf
    with mt.backend(backend):
        p, q = mt.entmax(cut, alpha), mt.entmax(x[:, :3], alpha)
    torch.testing.assert_close(p[:, :3], q)
    assert (p[:, 3:] == 0).all()


# Exact solutions


def test_special_cases_are_members_of_the_family():
    x = 0.5 * torch.randn(4, 6)
    near = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(mt.sparsemax(x), mt.entmax(x, 2.0), **near)
    torch.testing.assert_close(mt.entmax15(x), mt.entmax(x, 1.5), **near)
    for alpha, p in ((1.5, mt.entmax15(x)), (2.0, mt.sparsemax(x))):
        for h in (1e-6, -1e-6):  # the root finder next to the exact solution
            torch.testing.assert_close(mt.entmax(x, alpha + h), p, rtol=0, atol=1e-5)


LADDER = torch.linspace(0, 1, 5, dtype=torch.float64)


def test_normmax_on_a_ladder():
    for q, k in ((2.0, 2.0), (3.0, 1.5), (1000.0, 1000 / 999)):
        p = mt.normmax(LADDER, q)
        ratio = p / p.max()
        z = (ratio / ratio.pow(q).sum() ** (1 / q)) ** (q - 1)  # (x - tau)_+ at the maximiser
        torch.testing.assert_close(z.pow(k).sum(), torch.tensor(1.0, dtype=torch.float64))
        tau = (LADDER - z)[p > 0]
        torch.testing.assert_close(tau, tau[:1].expand_as(tau), rtol=0, atol=1e-9)
        assert (LADDER[p == 0] <= tau[0] + 1e-9).all()
    # by hand: q = 2 keeps x - tau, four of them, with squares that sum to 1
    tau = LADDER[1:].mean() - math.sqrt(0.25 - LADDER[1:].var(unbiased=False))
    expected = (LADDER - tau).clamp_min(0)
    torch.testing.assert_close(mt.normmax(LADDER), expected / expected.sum())


def test_budget_on_a_ladder():
    # by hand: clip(x - 1/8) sums to 2; twice the ladder: clip(2 x - 1/4) sums to 3
    torch.testing.assert_close(mt.budget(LADDER, 2), (LADDER - 0.125).clamp(0, 1))
    torch.testing.assert_close(mt.budget(2 * LADDER, 3), (2 * LADDER - 0.25).clamp(0, 1))
    for scale in range(1, 6):
        torch.testing.assert_close(mt.budget(scale * LADDER, 1), mt.sparsemax(scale * LADDER))
    assert (mt.budget(LADDER, 0) == 0).all()
    assert (mt.budget(LADDER, 5) == 1).all()


@each_backend
@pytest.mark.parametrize("coefficient", [1e-5, 0.5, 1e4])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_scale(coefficient, dim, backend):
    x = coefficient * torch.randn(3, 4, 5)
    with mt.backend(backend):
        for alpha in (1.0, 1.3, 1.5, 2.0, 2.5):
            p = mt.entmax(x, alpha, dim)
            torch.testing.assert_close(p.sum(dim), torch.ones(p.sum(dim).shape))
            torch.testing.assert_close(
                p, mt.entmax(x.double(), alpha, dim).float(), rtol=0, atol=1e-6
            )


# Derivatives


@pytest.mark.parametrize("alpha", [1.2, 1.5, 1.75, 2.25])
def test_derivatives_in_scores_and_alpha(alpha):
    alpha = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(mt.entmax, (scores(4, 6, grad=True), alpha))


@pytest.mark.parametrize("q", [1.2, 1.5, 2, 5, 10])
def test_derivatives_of_normmax(q):
    assert torch.autograd.gradcheck(lambda x: mt.normmax(x, q), scores(4, 6, grad=True))


@pytest.mark.parametrize("k", range(7))
def test_derivatives_of_budget(k):
    assert torch.autograd.gradcheck(lambda x: mt.budget(x, k), scores(4, 6, grad=True))


def test_a_parameter_for_each_row():
    x = scores(4, 6, grad=True)
    alpha = (1 + 1.5 * torch.rand(4, 1, dtype=torch.float64)).requires_grad_()
    p = mt.entmax(x, alpha)
    for i in range(4):
        torch.testing.assert_close(p[i], mt.entmax(x[i], alpha[i].item()))
    assert torch.autograd.gradcheck(mt.entmax, (x, alpha))
    q, k = 1.1 + 2.5 * torch.rand(4, 1).double(), 6 * torch.rand(4, 1).double()
    assert torch.autograd.gradcheck(lambda t: mt.normmax(t, q), x)
    assert torch.autograd.gradcheck(lambda t: mt.budget(t, k), x)
    torch.testing.assert_close(mt.budget(x, k).sum(1, keepdim=True), k)


@pytest.mark.slow
@each_backend
@pytest.mark.parametrize("dim", range(4))
def test_a_parameter_for_each_slice_of_any_dimension(dim, backend):
    shape = [2, 3, 2, 4]
    x = scores(*shape, grad=True)
    shape[dim] = 1
    alpha = (1 + 1.5 * torch.rand(shape, dtype=torch.float64)).requires_grad_()
    with mt.backend(backend):
        p = mt.entmax(x, alpha, dim)
        for place in itertools.product(*map(range, shape)):
            index = tuple(slice(None) if d == dim else i for d, i in enumerate(place))
            torch.testing.assert_close(p[index], mt.entmax(x[index], alpha[place].item()))
        assert torch.autograd.gradcheck(lambda *t: mt.entmax(*t, dim), (x, alpha))


# What users reported


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 1.75, 2.0])
def test_issue_30_shifted_half_precision_scores(alpha, dtype):
    x = torch.randn(8, 32).to(dtype)
    for shift in (10.0, 100.0, -100.0, 3e4, -6e4):
        p = mt.entmax(x + shift, alpha)
        assert p.isfinite().all()
        assert ((p.double().sum(1) - 1).abs() < 0.02).all()


@each_backend
@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0, 3.0])
def test_issues_16_and_17_fully_masked_rows_in_attention(alpha, backend):
    query, key = scores(2, 5, 4, grad=True), scores(2, 7, 4)
    mask = torch.ones(2, 1, 7, dtype=torch.bool)
    mask[1] = False  # a padded sentence
    with mt.backend(backend):
        p = mt.entmax(query @ key.transpose(1, 2), alpha, mask=mask)
        (p @ key).square().sum().backward()
    assert (p[1] == 0).all()
    assert (query.grad[1] == 0).all()
    assert query.grad[0].isfinite().all()
    assert query.grad[0].abs().sum() > 0


@each_loss
def test_minus_100_is_ignored_by_default(entropy):
    x = scores(5, 4)
    y = torch.tensor([0, -100, 2, -100, 3])
    keep = y >= 0
    torch.testing.assert_close(
        mt.fenchel_young_loss(x, y, entropy), mt.fenchel_young_loss(x[keep], y[keep], entropy)
    )


@each_backend
def test_alpha_one_is_softmax(backend):
    x = scores(4, 6)
    one = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    with mt.backend(backend):
        torch.testing.assert_close(mt.entmax(x, 1.0), torch.softmax(x, -1))
        p = mt.entmax(x, one)
        torch.testing.assert_close(p, torch.softmax(x, -1))
        p[:, 0].sum().backward()
    assert one.grad.isfinite().all()
    assert (one.grad != 0).all()


@each_loss
def test_probabilities_as_targets(entropy):
    x, y = scores(5, 4), torch.randint(4, (5,))
    one_hot = torch.nn.functional.one_hot(y, 4).double()
    torch.testing.assert_close(
        mt.fenchel_young_loss(x, one_hot, entropy), mt.fenchel_young_loss(x, y, entropy)
    )
    # the loss vanishes where the prediction is the target
    own = mt.FenchelYoungLoss(entropy).predict(x)
    assert mt.fenchel_young_loss(x, own, entropy).abs() < 1e-12


@each_backend
def test_scores_that_lead_by_the_margin(backend):
    for alpha in torch.linspace(2.05, 6, 100).tolist():
        for size in (2, 6, 7):
            x = torch.zeros(3, size, dtype=torch.float64)
            x[:, 1] = 1 / (alpha - 1)
            with mt.backend(backend):
                p = mt.entmax(x, alpha)
            assert torch.allclose(p[:, 1], torch.ones(3, dtype=torch.float64), atol=1e-14)

"""Soft ranks and sorting for torch: the core's numbers, derivatives of both orders, any dim."""

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")
from maxent.torch import structured as ts  # noqa: E402

OPERATIONS = {
    "soft_rank": (ts.soft_rank, mx.soft_rank),
    "soft_sort": (ts.soft_sort, mx.soft_sort),
    "soft_topk": (
        lambda x, *a, **k: ts.soft_topk(x, 2, *a, **k),
        lambda x, *a, **k: mx.soft_topk(x, 2, *a, **k),
    ),
    "soft_partial_rank": (
        lambda x, *a, **k: ts.soft_partial_rank(x, 3, *a, **k),
        lambda x, *a, **k: mx.soft_partial_rank(x, 3, *a, **k),
    ),
}
CASES = [(s, r) for s in (None, 0.3, 3.0) for r in ("l2", "kl")]


def scores(shape=(5, 7), seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("strength", "regularization"), [*CASES, (0, "l2")])
def test_the_numbers_are_those_of_the_core(name, strength, regularization):
    ours, core = OPERATIONS[name]
    x = scores()
    expected = core(x.numpy(), strength, regularization)
    np.testing.assert_allclose(ours(x, strength, regularization), expected, atol=1e-12)
    for dtype, atol in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        low = ours(x.to(dtype), strength, regularization)
        assert low.dtype == dtype
        exact = core(x.to(dtype).double().numpy(), strength, regularization)
        np.testing.assert_allclose(low.double(), exact, atol=atol)
    y = scores((2, 7, 3))
    along = core(y.numpy(), strength, regularization, axis=1)
    np.testing.assert_allclose(ours(y, strength, regularization, dim=1), along, atol=1e-12)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("strength", "regularization"), CASES)
def test_derivatives_of_both_orders(name, strength, regularization):
    operation = OPERATIONS[name][0]
    x = scores((2, 6), seed=3).requires_grad_()

    def function(x):
        return operation(x, strength, regularization)

    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_hard_operations(name):
    operation = OPERATIONS[name][0]
    x = scores().requires_grad_()
    g = scores(seed=1)
    operation(x, 0).backward(g)
    if name == "soft_sort":  # a permutation
        np.testing.assert_allclose(x.grad.sort(1)[0], g.sort(1)[0])
    else:
        assert not x.grad.any()


@pytest.mark.parametrize("regularization", ["l2", "kl"])
def test_the_kernel_and_plain_operations_give_one_gradient(regularization):
    x, g = scores((3, 200)).requires_grad_(), scores((3, 200), seed=1)
    for function in (ts.soft_rank, ts.soft_sort):
        p = function(x, 0.01, regularization)
        (compiled,) = torch.autograd.grad(p, x, g, retain_graph=True)
        (plain,) = torch.autograd.grad(p, x, g, create_graph=True)
        np.testing.assert_allclose(compiled, plain.detach(), atol=1e-11)
        single = x.detach().float().requires_grad_()
        (low,) = torch.autograd.grad(function(single, 0.01, regularization), single, g.float())
        assert low.dtype == torch.float32
        np.testing.assert_allclose(low, compiled, atol=2e-4 * float(compiled.abs().max()))


def test_forbidden_and_bad_rows():
    x = torch.tensor([[1.0, -torch.inf, 0.5, 0.7], [1.0, torch.nan, 0.5, 0.7]], requires_grad=True)
    p = ts.soft_topk(x, 2, strength=1.0)
    assert p[0, 1] == 0
    assert p[0].sum() == 2
    assert p[1].isnan().all()
    worse = torch.tensor([2.0, 1.0, -torch.inf, -torch.nan]).copysign(
        torch.tensor([1, 1, -1, -1.0])
    )
    assert ts.soft_topk(worse, 1, strength=1.0).isnan().all()
    p[0].square().sum().backward()
    assert x.grad[0, 1] == 0
    assert x.grad[0].isfinite().all()
    usual = ts.soft_topk(x[:1], 2)
    assert usual[0, 1] == 0
    assert float(usual.sum().detach()) == pytest.approx(2)
    (g,) = torch.autograd.grad(usual.square().sum(), x)
    assert g.isfinite().all()
    assert g[0, [0, 2, 3]].any()
    assert ts.soft_rank(torch.zeros(0, 3)).shape == (0, 3)


def test_constant_rows_have_a_gradient():
    x = torch.full((1, 4), 3.0, dtype=torch.float64, requires_grad=True)
    for operation in (ts.soft_rank, ts.soft_sort):
        (g,) = torch.autograd.grad(operation(x), x, torch.arange(4.0).double()[None])
        assert g.isfinite().all()


def test_modules():
    x = scores()
    torch.testing.assert_close(ts.SoftRank(0.5)(x), ts.soft_rank(x, 0.5))
    torch.testing.assert_close(ts.SoftSort(0.5, "kl", dim=0)(x), ts.soft_sort(x, 0.5, "kl", dim=0))
    torch.testing.assert_close(ts.SoftTopK(2)(x), ts.soft_topk(x, 2))
    assert "dim=-1" in repr(ts.SoftTopK(2))


def test_float32_sums_are_exact():
    x = scores((4, 10_000), dtype=torch.float32)
    total = 10_000 * 10_001 / 2
    for regularization in ("l2", "kl"):
        ranks = ts.soft_rank(x, 1.0, regularization)
        np.testing.assert_allclose(ranks.sum(1, dtype=torch.float64), total, rtol=1e-6)


BAD = [
    (lambda: ts.soft_rank([1.0]), TypeError, "needs a tensor, got list"),
    (lambda: ts.soft_rank(torch.zeros(3).long()), TypeError, "floating scores"),
    (lambda: ts.soft_rank(torch.tensor(1.0)), ValueError, "at least one dimension"),
    (lambda: ts.soft_rank(torch.zeros(3), dim=1), IndexError, "dim 1 of scores"),
    (lambda: ts.soft_sort(torch.zeros(2, 0)), ValueError, "size 0"),
    (lambda: ts.soft_sort(torch.zeros(2), strength=-1.0), ValueError, "number >= 0"),
    (lambda: ts.SoftSort(regularization="l1"), ValueError, '"l2" or "kl"'),
    (lambda: ts.soft_topk(torch.zeros(2), 3), ValueError, "k from 1 to 2"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD, ids=[m for _, _, m in BAD])
def test_bad_input_is_explained(call, kind, message):
    with pytest.raises(kind, match=message):
        call()

"""Unbalanced transport beside CVXPY, scipy and balanced transport, with its own certificate."""

import numpy as np
import pytest
from scipy.optimize import linprog

from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402

A, B = torch.tensor([0.5, 1.0, 0.7]), torch.tensor([0.9, 0.4, 0.6, 0.3])
KINDS, DIVERGENCES = ["l2", "kl"], ["kl", "l1", "l2"]
INF = float("inf")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_divergence = pytest.mark.parametrize("divergence", DIVERGENCES)


def scores(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def masses(*shape, seed=0):
    return 0.1 + torch.rand(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def solved(x, a, b, penalty, strength, kind, divergence):
    """The best value, by the solvers of CVXPY."""
    cp = needs("cvxpy")
    p = cp.Variable(x.shape, nonneg=True)
    spread = cp.sum_squares(p) / 2 if kind == "l2" else -cp.sum(cp.entr(p)) - cp.sum(p)
    gain, limits = cp.sum(cp.multiply(x, p)) - strength * spread, []
    for r, mass, factor in ((cp.sum(p, 1), a, penalty[0]), (cp.sum(p, 0), b, penalty[1])):
        distance = {
            "kl": lambda r, mass: cp.sum(cp.kl_div(r, mass)),
            "l1": lambda r, mass: cp.norm1(r - mass),
            "l2": lambda r, mass: cp.sum_squares(r - mass) / 2,
        }[divergence](r, mass)
        if factor == INF:
            limits.append(r == mass)
        else:
            gain -= factor * distance
    return cp.Problem(cp.Maximize(gain), limits).solve()


@each_kind
@each_divergence
@pytest.mark.parametrize("penalty", [(0.3, 0.3), (2.0, 0.5), (INF, 0.4), (0.4, INF)], ids=str)
def test_plans_are_those_of_cvxpy(kind, divergence, penalty) -> None:
    x = scores(3, 4)
    found = (x, A, B, penalty, 0.5, kind, divergence)
    plan, gap = ms.unbalanced_transport(*found, return_gap=True)
    value = float(ms.unbalanced_transport_value(*found))
    best = solved(*(v.double().numpy() for v in (x, A, B)), penalty, 0.5, kind, divergence)
    assert value == pytest.approx(best, abs=2e-6)
    assert gap < 1e-12
    assert plan.min() >= 0
    for i, mass in enumerate((A, B)):
        if penalty[i] == INF:
            torch.testing.assert_close(plan.sum(1 - i), mass.double(), atol=1e-12, rtol=0)


@each_kind
@each_divergence
@pytest.mark.parametrize("strength", [1.0, 0.05, 1e-3])
@pytest.mark.parametrize("penalty", [0.02, 0.5, (3.0, 1.0), (INF, 0.7), (50.0, 50.0)], ids=str)
def test_no_gap_is_left(kind, divergence, strength, penalty) -> None:
    x = -scores(4, 15, 11).abs()
    given = (x, masses(4, 15), masses(11, seed=1), penalty, strength, kind, divergence)
    plan, gap = ms.unbalanced_transport(*given, return_gap=True)
    value = ms.unbalanced_transport_value(*given)
    assert (gap / (1 + value.abs())).max() < 1e-10
    # the same with rows and columns exchanged, and alone
    flipped = penalty[::-1] if isinstance(penalty, tuple) else penalty
    other = ms.unbalanced_transport(x[2].mT, given[2], given[1][2], flipped, *given[4:])
    torch.testing.assert_close(other.mT, plan[2], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("penalty", [(0.5, 0.5), (2.0, 0.3), (INF, 0.4), (0.3, INF)], ids=str)
def test_the_hard_plan_solves_the_linear_programme(penalty) -> None:
    for seed in range(4):
        x = scores(3, 4, seed=seed) - 1
        plan, gap = ms.unbalanced_transport(
            x, A, B, penalty, strength=0, divergence="l1", return_gap=True
        )
        value = ms.unbalanced_transport_value(x, A, B, penalty, 0, divergence="l1")
        sums = np.vstack([np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))])
        price = np.repeat([min(each, 1e3) for each in penalty], (3, 4))
        best = linprog(
            np.concatenate([-x.numpy().ravel(), price, price]),
            A_eq=np.hstack([sums, -np.eye(7), np.eye(7)]),
            b_eq=torch.cat([A, B]).double().numpy(),
        )
        assert float(value) == pytest.approx(-best.fun, abs=1e-6)
        off = (plan.sum(1) - A).abs().sum(), (plan.sum(0) - B).abs().sum()
        lost = sum(f * d for f, d in zip(penalty, off, strict=True) if f < INF)
        assert float((x * plan).sum() - lost) == pytest.approx(float(value), abs=1e-9)
        assert gap < 1e-12


def test_the_hard_plan_is_the_limit_of_soft_ones() -> None:
    x, a, b = -scores(5, 6, 6).abs(), masses(6), masses(6, seed=1)
    hard = ms.unbalanced_transport(x, a, b, (0.8, 0.5), 0, divergence="l1")
    for kind in KINDS:
        soft = ms.unbalanced_transport(x, a, b, (0.8, 0.5), 1e-5, kind, "l1")
        torch.testing.assert_close(soft, hard, atol=1e-3, rtol=0)


@each_kind
@each_divergence
def test_large_penalties_keep_the_sums_and_small_ones_do_not_count(kind, divergence) -> None:
    x, a = scores(2, 4, 5), masses(4)
    b = masses(5, seed=1)
    b = b * (a.sum() / b.sum())
    kept = ms.transport(x, a, b, 0.7, kind)
    for penalty in (1e6, INF):
        plan = ms.unbalanced_transport(x, a, b, penalty, 0.7, kind, divergence)
        torch.testing.assert_close(plan, kept, atol=1e-5, rtol=0)
    free = (x / 0.7).exp() if kind == "kl" else x.clamp(min=0) / 0.7
    plan = ms.unbalanced_transport(x, a, b, 1e-6, 0.7, kind, divergence)
    torch.testing.assert_close(plan, free, atol=1e-4, rtol=1e-3)


@each_kind
@each_divergence
@pytest.mark.parametrize("penalty", [0.6, (INF, 0.5)], ids=str)
def test_gradients(kind, divergence, penalty) -> None:
    given = [scores(2, 2, 3), masses(2), masses(2, 3, seed=1)]
    given = [each.requires_grad_() for each in given]

    def plan(x, a, b):
        return ms.unbalanced_transport(x, a, b, penalty, 0.4, kind, divergence)

    def value(x, a, b):
        return ms.unbalanced_transport_value(x, a, b, penalty, 0.4, kind, divergence)

    for function in (plan, value):
        assert torch.autograd.gradcheck(function, given, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, given, fast_mode=True)


def test_the_value_of_a_hard_plan_has_the_plan_as_its_gradient() -> None:
    x, a, b = (scores(3, 4) - 1).requires_grad_(), masses(3), masses(4, seed=1)
    value = ms.unbalanced_transport_value(x, a, b, 0.5, 0, divergence="l1")
    plan = ms.unbalanced_transport(x, a, b, 0.5, 0, divergence="l1")
    assert not plan.requires_grad
    torch.testing.assert_close(torch.autograd.grad(value, x)[0], plan)


@each_kind
@each_divergence
def test_what_cannot_be_is_0(kind, divergence) -> None:
    x = scores(3, 4)
    x[1], x[:, 2], x[0, 0] = -INF, -INF, -INF
    a, b = A.double().requires_grad_(), B.double().requires_grad_()
    x.requires_grad_()
    plan, gap = ms.unbalanced_transport(x, a, b, 0.5, 0.3, kind, divergence, return_gap=True)
    assert gap < 1e-12
    assert not plan[1].any()
    assert not plan[:, 2].any()
    rest = ms.unbalanced_transport(
        x[[0, 2]][:, [0, 1, 3]], a[[0, 2]], b[[0, 1, 3]], 0.5, 0.3, kind, divergence
    )
    torch.testing.assert_close(plan[[0, 2]][:, [0, 1, 3]], rest)
    for gradient in torch.autograd.grad((plan * scores(3, 4, seed=5)).sum(), (x, a, b)):
        assert gradient.isfinite().all()
    empty = ms.unbalanced_transport(scores(3, 4), torch.zeros(3), B, 0.5, 0.3, kind, divergence)
    assert bool(empty.any()) == (divergence != "kl")


@each_divergence
@pytest.mark.parametrize("penalty", [0.3, (2.0, INF)], ids=str)
@pytest.mark.parametrize("strength", [0.5, 0.01])
def test_compiled_turns_find_the_plan_of_tensor_operations(divergence, penalty, strength) -> None:
    x, a, b = -scores(2, 13, 10).abs(), masses(2, 13), masses(10, seed=1)
    x[0, 2:5, 1], x[1, 3], a[0, 6] = -INF, -INF, 0.0
    given = (x, a, b, penalty, strength, "kl", divergence)
    found = []
    for backend in ("numba", "plain"):
        with mt.backend(backend):
            plan, gap = ms.unbalanced_transport(*given, return_gap=True)
            assert gap.max() < 1e-11
            found.append(plan)
    torch.testing.assert_close(*found, atol=1e-10, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_and_shapes(dtype) -> None:
    x = scores(2, 3, 4, 5).to(dtype).requires_grad_()
    a = masses(3, 4).to(dtype)
    with pytest.raises(ValueError, match=r"masses a of shape \(4,\) or \(2, 3, 4\)"):
        ms.unbalanced_transport(x, a, masses(5), 0.5)
    a = masses(2, 3, 4).float().requires_grad_()
    plan, gap = ms.unbalanced_transport(x, a, masses(5), 0.5, return_gap=True)
    value = ms.unbalanced_transport_value(x, a, masses(5), 0.5)
    assert (plan.shape, plan.dtype) == (x.shape, dtype)
    wide = torch.promote_types(dtype, torch.float32)  # 16 bits hold no sums
    assert (value.shape, value.dtype) == ((2, 3), wide)
    assert (gap.shape, gap.dtype) == ((2, 3), torch.float64)
    (plan.sum() + value.sum()).backward()
    assert (x.grad.dtype, a.grad.dtype) == (dtype, torch.float32)
    assert ms.unbalanced_transport(x[:0], a[:0], masses(5), 0.5).shape == (0, 3, 4, 5)


X = torch.zeros(3, 4)
BAD = [
    ((X.long(), A, B, 1.0), TypeError, "floating tensor"),
    ((X[0], A, B, 1.0), ValueError, r"needs matrices .* got shape \(4,\)"),
    ((X, B, A, 1.0), ValueError, r"masses a of shape \(3,\)"),
    ((X, -A, B, 1.0), ValueError, "got -0.5 in a of matrix 0"),
    ((X, A, B * torch.nan, 1.0), ValueError, "got nan in b of matrix 0"),
    ((X * torch.nan, A, B, 1.0), ValueError, "must not be NaN"),
    ((X, A, B, 0.0), ValueError, "penalty must be a number > 0 or a pair"),
    ((X, A, B, (1.0, -1.0)), ValueError, "penalty must be a number > 0 or a pair"),
    ((X, A, B, (1.0, 1.0, 1.0)), ValueError, "penalty must be a number > 0 or a pair"),
    ((X, A, B, 1.0, -1.0), ValueError, "strength must be a finite number >= 0"),
    ((X, A, B, 1.0, 1.0, "l1"), ValueError, "regularization must be one of 'l2', 'kl'"),
    ((X, A, B, 1.0, 1.0, "l2", "tv"), ValueError, "divergence must be one of 'kl', 'l1', 'l2'"),
    ((X, A, B, 1.0, 0), ValueError, "'l1' alone, got 'kl'"),
    ((X + 3, A, B, 1.0, 0, "l2", "l1"), ValueError, "the best plan is infinite"),
    ((X, A, 2 * B, INF), ValueError, "one total, got 2.2 and 4.4"),
    ((X - INF, A, B, (INF, 1.0)), ValueError, r"keeps the mass a\[0\]"),
    ((X + 1e4, A, B, 1e-3, 1.0, "kl"), ValueError, "beyond the largest numbers"),
]


@pytest.mark.parametrize(("given", "error", "message"), BAD, ids=[m for *_, m in BAD])
def test_bad_input_is_explained(given, error, message) -> None:
    for function in (ms.unbalanced_transport, ms.unbalanced_transport_value):
        with pytest.raises(error, match=message):
            function(*given)


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@cuda
@each_kind
@each_divergence
def test_cuda(kind, divergence) -> None:
    given = [scores(8, 20, 16), masses(20), masses(16, seed=1)]
    here = [each.clone().requires_grad_() for each in given]
    there = [each.cuda().requires_grad_() for each in given]
    p, q = (ms.unbalanced_transport(*each, 0.5, 0.3, kind, divergence) for each in (here, there))
    torch.testing.assert_close(q.cpu(), p, atol=1e-9, rtol=0)
    v = scores(8, 20, 16, seed=3)
    for mine, right in zip(
        torch.autograd.grad(q, there, v.cuda()), torch.autograd.grad(p, here, v), strict=True
    ):
        torch.testing.assert_close(mine.cpu(), right, atol=1e-7, rtol=0)

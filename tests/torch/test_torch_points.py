"""Sinkhorn on clouds of points: beside the plan of the written-out costs, with certificates."""

import tracemalloc

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from maxent.torch.structured import _points_solver as solver  # noqa: E402

DOUBLE = torch.float64


def clouds(n=40, m=50, d=3, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.random((n, d)), rng.random((m, d)) + 0.3
    a, b = rng.random(n) + 0.1, rng.random(m) + 0.1
    return [torch.from_numpy(each) for each in (x, y, 2 * a / a.sum(), 2 * b / b.sum())]


def costs(x, y):
    return (x[:, None] - y).square().sum(2) / 2


def primal(plan, x, y, a, b, strength):
    """Cost and KL(P || a b' / M) of a plan that is written out."""
    inside = torch.special.xlogy(plan, plan * a.sum() / (a[:, None] * b))
    return float((plan * costs(x, y)).sum() + strength * inside.sum())


@pytest.mark.parametrize("backend", ["numba", "plain"])
@pytest.mark.parametrize("strength", [1.0, 0.1, 0.01, 1e-3])
def test_the_plan_is_that_of_the_written_out_costs(strength, backend) -> None:
    x, y, a, b = clouds()
    right = ms.sinkhorn(-costs(x, y), a, b, strength)
    with mt.backend(backend):
        plan = ms.sinkhorn_points(x, y, a, b, strength)
        assert float((plan.dense() - right).abs().max()) < 1e-8
        assert float(plan.value) == pytest.approx(primal(right, x, y, a, b, strength), abs=1e-8)
        v, u = torch.randn(50, 2, dtype=DOUBLE), torch.randn(40, dtype=DOUBLE)
        torch.testing.assert_close(plan.apply(v), right @ v, atol=1e-8, rtol=0)
        torch.testing.assert_close(plan.apply_transpose(u), right.T @ u, atol=1e-8, rtol=0)
        mean = right @ y / a[:, None]
        torch.testing.assert_close(plan.barycentres(), mean, atol=1e-7, rtol=0)
        torch.testing.assert_close(
            plan.rows(torch.tensor([3, 7])), right[[3, 7]], atol=1e-8, rtol=0
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_cuda_agrees_with_the_cpu(strength) -> None:
    here = [x.requires_grad_() for x in clouds()]
    there = [x.detach().cuda().requires_grad_() for x in here]
    plans = [ms.sinkhorn_points(*each, strength) for each in (here, there)]
    torch.testing.assert_close(plans[1].dense().cpu(), plans[0].dense(), atol=1e-9, rtol=0)
    losses = [ms.sinkhorn_divergence(*each, strength) for each in (here, there)]
    torch.testing.assert_close(losses[1].cpu(), losses[0], atol=1e-9, rtol=0)
    slopes = [torch.autograd.grad(x, own) for x, own in zip(losses, (here, there), strict=True)]
    for x, y in zip(*slopes, strict=True):
        torch.testing.assert_close(y.cpu(), x, atol=1e-7, rtol=0)


@pytest.mark.parametrize("limit", [3, 5, 9])
def test_the_certificate_holds_wherever_the_search_stops(limit) -> None:
    x, y, a, b = clouds()
    best = float(ms.sinkhorn_points(x, y, a, b, 0.01, tolerance=1e-12).value)
    with pytest.warns(mx.ConvergenceWarning, match=f"max_iter={limit}"):
        plan = ms.sinkhorn_points(x, y, a, b, 0.01, max_iter=limit)
    off = (plan.row_sums() - a).abs().sum() + (plan.column_sums() - b).abs().sum()
    assert float(off) / 2 == pytest.approx(float(plan.violation), rel=1e-6)
    assert 0 < best - float(plan.value) <= float(plan.gap)


def test_the_gap_is_that_of_a_plan_with_the_right_sums() -> None:
    x, y, a, b = clouds(12, 9)
    a, b = a / 2, b / 2
    found = solver.Found(*(torch.randn(n, dtype=DOUBLE) / 50 for n in (12, 9)), 0.0, 0.0, 0)
    search = solver._Search(x, y, a, b, 1, solver.Progress("test", 0))
    search.at(0.2)
    search.g = found.g
    search.f = search._fitted(found.f, found.g)
    search._measured(search.columns(search.f, search.g))
    plan = a[:, None] * b * ((search.f[:, None] + search.g - costs(x, y)) / 0.2).exp()
    plan = plan * (b / plan.sum(0)).clamp(max=1)
    plan = plan * (a / plan.sum(1)).clamp(max=1)[:, None]
    left, right = a - plan.sum(1), b - plan.sum(0)
    plan = plan + left[:, None] * right / left.sum()
    torch.testing.assert_close(plan.sum(1), a)
    least = primal(plan, x, y, a, b, 0.2) - float(a @ search.f + b @ search.g)
    assert 0 < least <= search.gap() < 3 * least


@pytest.mark.parametrize("strength", [0.3, 0.02])
def test_small_strengths_and_hard_clouds_converge(strength) -> None:
    rng = np.random.default_rng(1)
    places = 3 * rng.normal(size=(5, 2))
    x, y = (torch.from_numpy(places[rng.integers(5, size=300)]) for _ in range(2))
    x, y = (z + 0.1 * torch.from_numpy(rng.normal(size=(300, 2))) for z in (x, y))
    plan = ms.sinkhorn_points(x, y, strength=strength)
    assert float(plan.violation) <= 1e-9
    assert float(plan.gap) < 1e-6
    a = torch.full((300,), 1 / 300, dtype=DOUBLE)
    right = ms.sinkhorn(-costs(x, y), a, a, strength)
    assert float((plan.dense() - right).abs().max()) < 1e-8


@pytest.mark.parametrize("backend", ["numba", "plain"])
def test_derivatives(backend) -> None:
    x, y, a, b = clouds(4, 3, 2)
    given = [t.clone().requires_grad_() for t in (x, y, a.log(), b.log())]
    index = torch.arange(6.0, dtype=DOUBLE).reshape(3, 2)

    def plan(x, y, left, right):
        masses = 2 * left.softmax(-1), 2 * right.softmax(-1)
        return ms.sinkhorn_points(x, y, *masses, 0.2, tolerance=1e-13)

    def value(*t):
        return plan(*t).value

    assert torch.autograd.gradcheck(value, given)
    assert torch.autograd.gradgradcheck(value, given)
    for what in (
        lambda p: p.barycentres(),
        lambda p: p.f,
        lambda p: p.g,
        lambda p: p.apply(index),
        lambda p: p.apply_transpose(torch.arange(4.0, dtype=DOUBLE)),
    ):
        assert torch.autograd.gradcheck(lambda *t, what=what: what(plan(*t)), given)


def test_derivatives_that_are_not_there_say_so() -> None:
    x, y, *_ = clouds(4, 3, 2)
    x.requires_grad_()
    (slope,) = torch.autograd.grad(
        ms.sinkhorn_points(x, y).barycentres().square().sum(), x, create_graph=True
    )
    with pytest.raises(NotImplementedError, match="second derivatives of a plan of points"):
        slope.sum().backward()


def test_the_divergence() -> None:
    x, y, a, b = clouds()
    for strength in (1.0, 0.1, 0.01):
        across, left, right = (
            float(ms.sinkhorn_points(*each, strength).value)
            for each in ((x, y, a, b), (x, x.clone(), a, a), (y, y.clone(), b, b))
        )
        found = float(ms.sinkhorn_divergence(x, y, a, b, strength))
        assert found == pytest.approx(across - (left + right) / 2, abs=1e-8)
        for seed in range(3):
            z, _, c, _ = clouds(40, seed=seed)
            assert float(ms.sinkhorn_divergence(x, z, a, c, strength)) >= -1e-9
        assert abs(float(ms.sinkhorn_divergence(x, x.clone(), a, a, strength))) < 1e-9
    # a shift costs what it costs, whatever the strength
    moved = x + torch.tensor([3.0, 0.0, 4.0])
    assert float(ms.sinkhorn_divergence(x, moved, a, a, 0.1)) == pytest.approx(25.0, abs=1e-8)
    given = [t[:4].clone().requires_grad_() for t in (x, y)]
    assert torch.autograd.gradcheck(lambda x, y: ms.sinkhorn_divergence(x, y, strength=0.2), given)


def test_batches_masses_of_zero_and_types() -> None:
    x, y = torch.rand(2, 3, 5, 2), torch.rand(2, 3, 4, 2, dtype=DOUBLE)
    b = torch.tensor([0.5, 0.5, 0.0, 0.0])
    plan = ms.sinkhorn_points(x, y, None, b, 0.1)
    assert plan.value.shape == plan.violation.shape == (2, 3)
    assert plan.value.dtype == DOUBLE
    assert plan.barycentres().shape == (2, 3, 5, 2)
    assert plan.f.shape == (2, 3, 5)
    some = ms.sinkhorn_points(x[1, 2], y[1, 2, :2], strength=0.1)
    torch.testing.assert_close(plan.value[1, 2], some.value)
    torch.testing.assert_close(plan.barycentres()[1, 2], some.barycentres())
    assert plan.g.isfinite().all()
    assert not plan.column_sums()[..., 2:].any()
    single = ms.sinkhorn_points(x, y.float(), None, b, 0.1)
    assert single.value.dtype == torch.float32
    torch.testing.assert_close(single.value, plan.value.float())


def test_one_point_equal_points_and_points_far_away() -> None:
    x, y, a, _ = clouds()
    one = ms.sinkhorn_points(x, y[:1], a, torch.tensor([2.0]), 0.1)
    torch.testing.assert_close(one.barycentres(), y[:1].expand(40, 3))
    assert float(one.value) == pytest.approx(float(a @ costs(x, y[:1])[:, 0]))
    same = torch.ones(6, 2, dtype=DOUBLE)
    assert float(ms.sinkhorn_points(same, same.clone(), strength=1e-6).value) == 0.0
    twice = ms.sinkhorn_points(x.repeat(2, 1), y, strength=0.05)
    torch.testing.assert_close(twice.value, ms.sinkhorn_points(x, y, strength=0.05).value)
    far = ms.sinkhorn_points(x + 1e6, y - 1e6, strength=0.05)
    torch.testing.assert_close(far.dense(), ms.sinkhorn_points(x, y, strength=0.05).dense())
    x, y = torch.cat([x, x + 1e6]), torch.cat([y[:40], y[:40] + 1e6])
    outlying = ms.sinkhorn_points(x, y, strength=0.05)
    near = ms.sinkhorn_points(x[:40], y[:40], strength=0.05)
    # knowing which of two places a point is at is worth log 2
    torch.testing.assert_close(outlying.value, near.value + 0.05 * np.log(2), atol=1e-4, rtol=0)


def test_bad_input_is_refused_in_words() -> None:
    x, y, a, b = (t.float() for t in clouds())
    for wrong, message in (
        ((x.long(), y), "floating tensors"),
        ((x[0], y), "x\\[:, None\\]"),
        ((x, y[:, :2]), "same dimensions and batch"),
        ((x, y[:0]), "a point and a dimension at least"),
        ((x, y, a[:3]), r"masses a of shape \(40,\) or \(40,\), got \(3,\)"),
        ((x, y, a, 2 * b), "must have one sum, got 2 and 4"),
        ((x, y, a - 0.1, b), "finite numbers >= 0, not all 0"),
        ((x, y, a, b, 0.0), "finite number > 0, got 0.0; for a plan without entropy use transport"),
        ((x, y, a, b, float("nan")), "finite number > 0, got nan"),
        ((x / 0, y), "the points x of sinkhorn_points must be finite"),
        ((x, y * float("nan")), "the points y of sinkhorn_points must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            ms.sinkhorn_points(*wrong)
    with pytest.raises(ValueError, match="the tolerance of sinkhorn_divergence"):
        ms.sinkhorn_divergence(x, y, tolerance=0)
    with pytest.raises(ValueError, match="max_iter of sinkhorn_divergence"):
        ms.sinkhorn_divergence(x, y, max_iter=0)
    plan = ms.sinkhorn_points(x, y, strength=0.5)
    with pytest.raises(ValueError, match=r"apply needs .* \(50,\) first, got the shape \(40,\)"):
        plan.apply(torch.ones(40))


@pytest.mark.parametrize(("backend", "n", "m"), [("numba", 6000, 5000), ("plain", 3000, 2500)])
def test_memory_grows_with_points_not_with_pairs(backend, n, m) -> None:
    """All pairs are 240 and 60 MB."""
    x, y = torch.rand(n, 2), torch.rand(m, 2)
    with mt.backend(backend):
        ms.sinkhorn_points(x[:50], y[:50])  # compiled
        tracemalloc.start()
        with pytest.warns(mx.ConvergenceWarning, match="max_iter=4"):
            ms.sinkhorn_points(x, y, strength=1e-4, max_iter=4)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 1090 * (n + m)


def test_entries_that_are_too_many_are_not_kept() -> None:
    from maxent.torch.structured import _points_compiled as engine

    cloud, level = engine.Cloud(torch.rand(3000, 2, dtype=DOUBLE)), torch.zeros(3000, dtype=DOUBLE)
    plan = engine.Plan(cloud, cloud, 1.0)
    assert plan.entries(level[:], level, -0.01, 10**6).nnz < 10**6
    tracemalloc.start()
    assert plan.entries(level, level, -9.0, 200_000) is None  # 9 million, 108 MB
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16e6

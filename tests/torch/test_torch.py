"""maxent.torch: the same numbers as the core, derivatives of any order, and no bad rows."""

import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402

INF = math.inf
NAN = math.nan
BACKENDS = ["plain", "numba"]
ALPHAS = [1.0, 1.0001, 1.2, 1.5, 1.8, 2.0, 2.5, 4.0]
EXPONENTS = [1.2, 2.0, 5.0, INF]
ENTROPIES = {
    "shannon": ("shannon", mx.Shannon()),
    "entmax15": ("entmax15", mx.Tsallis(1.5)),
    "sparsemax": ("sparsemax", mx.Tsallis(2.0)),
    "alpha 1.3": (1.3, mx.Tsallis(1.3)),
    "alpha 3": (mt.Tsallis(3), mx.Tsallis(3.0)),
    "norm 1.5": (mt.NormEntropy(1.5), mx.NormEntropy(1.5)),
    "norm 4": (mt.NormEntropy(4.0), mx.NormEntropy(4.0)),
    "norm inf": (mt.NormEntropy(INF), mx.NormEntropy(INF)),
}
MAPS = {
    "softmax": mt.softmax,
    "sparsemax": mt.sparsemax,
    "entmax15": mt.entmax15,
    "entmax 1.3": lambda x, **kw: mt.entmax(x, 1.3, **kw),
    "entmax 2.5": lambda x, **kw: mt.entmax(x, 2.5, **kw),
    "normmax": mt.normmax,
    "normmax 1.4": lambda x, **kw: mt.normmax(x, 1.4, **kw),
    "budget 2": lambda x, **kw: mt.budget(x, 2, **kw),
    "budget 1.5": lambda x, **kw: mt.budget(x, 1.5, **kw),
}
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}

each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_map = pytest.mark.parametrize("name", MAPS)
each_type = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
each_entropy = pytest.mark.parametrize("name", ENTROPIES)
# torch.compile's own tracing of autograd functions warns, its guards do under Python 3.13.0, and
# torch 2.11 imports what it calls deprecated
tracing_warns = pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated",
    "ignore:Guards may run slower:RuntimeWarning",
    "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
)


def normal(*shape, dtype=torch.float64, scale=1.5, grad=False):
    return (scale * torch.randn(*shape, dtype=dtype)).requires_grad_(grad)


def close(actual, expected, tolerance):
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


# The numbers of the core


@each_backend
@each_type
@pytest.mark.parametrize("size", [1, 5, 90])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_entmax_is_the_core_map(alpha, size, dtype, backend):
    x = normal(9, size, dtype=dtype, scale=2.0)
    expected = mx.Tsallis(alpha).conjugate(x.numpy())[1]
    with mt.backend(backend):
        close(mt.entmax(x, alpha), expected, TOLERANCE[dtype])


@each_backend
@each_type
@pytest.mark.parametrize("q", EXPONENTS)
def test_normmax_is_the_core_map(q, dtype, backend):
    x = normal(9, 70, dtype=dtype, scale=2.0)
    with mt.backend(backend):
        close(mt.normmax(x, q), mx.NormEntropy(q).conjugate(x.numpy())[1], TOLERANCE[dtype])


@each_backend
@each_type
@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_budget_is_the_core_projection(k, dtype, backend):
    x = normal(9, 40, dtype=dtype)
    expected = mx.KSubset(k).project(x.numpy()) if k < 40 else np.ones((9, 40))
    with mt.backend(backend):
        close(mt.budget(x, k), expected, TOLERANCE[dtype])


@pytest.mark.parametrize("scale", [1e-3, 0.3, 3.0, 1e8])
@pytest.mark.parametrize("size", [1, 2, 33, 500])
def test_the_compiled_budget_is_the_plain_one(size, scale):
    x = (scale * normal(60, size)).round(decimals=1 if scale == 3 else 9)  # ties at 3
    x[:20] += 1e12
    budgets = torch.linspace(0, size, 60, dtype=torch.float64)[:, None]
    for k in (0, 0.3, size / 2, size, budgets):
        found = []
        for backend in BACKENDS:
            with mt.backend(backend):
                found.append(mt.budget(x, k))
        close(found[1], found[0].numpy(), 1e-12)
        total = torch.as_tensor(k, dtype=torch.float64).expand(60, 1)[:, 0]
        close(found[1].sum(1), total.numpy(), 1e-11)


def test_sparse_sigmoid_and_plus_are_the_core_map():
    x = torch.linspace(-3, 3, 50, dtype=torch.float64)[:, None].requires_grad_()
    values, p = mx.BinaryGini().conjugate(x.detach().numpy())
    close(mt.sparse_sigmoid(x), p, 1e-12)
    plus = mt.sparse_plus(x)
    close(plus[:, 0], values, 1e-12)
    (slope,) = torch.autograd.grad(plus.sum(), x)
    close(slope, p, 1e-12)


@each_backend
@each_type
@each_entropy
def test_loss_of_labels_is_the_core_loss(name, dtype, backend):
    entropy, core = ENTROPIES[name]
    x = normal(9, 40, dtype=dtype, scale=3.0).requires_grad_()
    y = torch.randint(40, (9,))
    value, gradient = mx.FenchelYoungLoss(core).value_and_gradient(x.detach().numpy(), y.numpy())
    with mt.backend(backend):
        loss = mt.fenchel_young_loss(x, y, entropy, reduction="none")
        loss.sum().backward()
    close(loss, value, TOLERANCE[dtype])
    close(x.grad, gradient, TOLERANCE[dtype])


@each_backend
@each_type
@each_entropy
def test_loss_of_probabilities_is_the_core_loss(name, dtype, backend):
    entropy, core = ENTROPIES[name]
    x = normal(9, 12, dtype=dtype, scale=2.0).requires_grad_()
    y = mt.sparsemax(normal(9, 12, dtype=dtype))
    value, gradient = mx.FenchelYoungLoss(core).value_and_gradient(x.detach().numpy(), y.numpy())
    with mt.backend(backend):
        loss = mt.fenchel_young_loss(x, y, entropy, reduction="none")
        loss.sum().backward()
    close(loss, value, 4 * TOLERANCE[dtype])
    close(x.grad, gradient, 4 * TOLERANCE[dtype])


def test_the_shannon_loss_is_cross_entropy():
    x, y = normal(6, 5, grad=True), torch.tensor([0, 4, -100, 2, 1, -100])
    weight = torch.rand(5, dtype=torch.float64)
    for w in (None, weight):
        for reduction in ("mean", "sum", "none"):
            ours = mt.fenchel_young_loss(x, y, "shannon", reduction, weight=w)
            close(
                ours,
                torch.nn.functional.cross_entropy(x, y, w, reduction=reduction).detach(),
                1e-12,
            )


# Derivatives


@pytest.mark.slow
@each_backend
@each_map
def test_gradients_of_maps(name, backend):
    x = normal(3, 5, grad=True)
    with mt.backend(backend):
        assert torch.autograd.gradcheck(MAPS[name], x)
        assert torch.autograd.gradgradcheck(MAPS[name], x)


@each_map
def test_batched_gradients(name):
    x = normal(3, 5, grad=True)
    assert torch.autograd.gradcheck(MAPS[name], x, check_batched_grad=True)


@pytest.mark.slow
@each_backend
@pytest.mark.parametrize("targets", ["labels", "probabilities"])
@each_entropy
def test_gradients_of_losses(name, targets, backend):
    entropy = ENTROPIES[name][0]
    x = normal(3, 5, grad=True)
    y = torch.tensor([4, -100, 2])
    if targets == "probabilities":
        y = torch.softmax(normal(3, 5), -1)

    def loss(x):
        return mt.fenchel_young_loss(x, y, entropy)

    with mt.backend(backend):
        assert torch.autograd.gradcheck(loss, x)
        assert torch.autograd.gradgradcheck(loss, x)


@pytest.mark.slow
@each_backend
@pytest.mark.parametrize("alpha", [1.01, 1.3, 1.5, 1.9, 2.0, 2.4])
def test_gradients_of_alpha(alpha, backend):
    x, alphas = normal(3, 5, grad=True), torch.full((3, 1), alpha, dtype=torch.float64)
    with mt.backend(backend):
        assert torch.autograd.gradcheck(mt.entmax, (x, alphas.requires_grad_()))
        assert torch.autograd.gradgradcheck(mt.entmax, (x, alphas))


@each_backend
def test_the_gradient_of_alpha_at_one_is_the_limit(backend):
    x, g = normal(5, 7), normal(5, 7)
    alpha = torch.ones(5, 1, dtype=torch.float64, requires_grad=True)
    with mt.backend(backend):
        (at_one,) = torch.autograd.grad((g * mt.entmax(x, alpha)).sum(), alpha)
        h = 1e-6
        ahead = ((g * (mt.entmax(x, 1 + h) - mt.entmax(x, 1.0))) / h).sum(1, keepdim=True)
    close(at_one, ahead, 1e-4)
    p = mt.softmax(x).numpy()
    close(at_one[:, 0], (g.numpy() * mx.Tsallis(1.0).alpha_gradient(x.numpy(), p)).sum(1), 1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_the_gradient_of_alpha_has_its_type(dtype):
    x, alpha = normal(4, 6).to(dtype), torch.full((4, 1), 1.4, dtype=dtype, requires_grad=True)
    mt.entmax(x, alpha)[:, 0].sum().backward()
    assert alpha.grad.dtype == dtype
    assert alpha.grad.isfinite().all()


def test_the_fused_and_the_plain_jacobian_agree():
    for dtype, tolerance in TOLERANCE.items():
        x, g = normal(6, 100, dtype=dtype, grad=True), normal(6, 100, dtype=dtype)
        alphas = torch.linspace(1, 3, 6, dtype=dtype)[:, None]
        for alpha in (1.3, 1.5, 2.0, 3.0, alphas):
            grads = []
            for backend in BACKENDS:
                with mt.backend(backend):
                    grads += torch.autograd.grad(mt.entmax(x, alpha), x, g)
            close(grads[0], grads[1].numpy(), 20 * tolerance)


@pytest.mark.parametrize("name", ["normmax", "normmax 1.4", "normmax 4", "budget 2", "each"])
def test_fused_and_plain_jacobians_of_norms_and_budgets_agree(name):
    maps = MAPS | {
        "normmax 4": lambda x: mt.normmax(x, 4.0),
        "each": lambda x: mt.normmax(x, torch.tensor([1.2, 2.0, 3.0, INF, 2.0, 1.5])[:, None]),
    }
    for dtype, tolerance in TOLERANCE.items():
        x, g = normal(6, 100, dtype=dtype), normal(6, 100, dtype=dtype)
        x[4] = -INF
        x.requires_grad_()
        grads = []
        for backend in BACKENDS:
            with mt.backend(backend):
                grads += torch.autograd.grad(maps[name](x), x, g)
        close(grads[0], grads[1].numpy(), 100 * tolerance)


# Dimensions, strides, broadcasting


@each_backend
@each_map
@pytest.mark.parametrize("dim", [0, 1, 2, -2])
def test_any_dimension(name, dim, backend):
    x = normal(4, 6, 5, grad=True)
    with mt.backend(backend):
        p = MAPS[name](x, dim=dim)
        moved = MAPS[name](x.movedim(dim, -1).contiguous()).movedim(-1, dim)
        close(p, moved.detach().numpy(), 1e-14)
        g = normal(4, 6, 5)
        first, second = (torch.autograd.grad(q, x, g)[0] for q in (p, moved))
        close(first, second.numpy(), 1e-14)


@each_backend
@each_map
def test_strides_do_not_matter(name, backend):
    wide = normal(6, 20)
    with mt.backend(backend):
        for x in (wide[:, ::2], wide.t(), wide[:1].expand(4, 20), wide.flip(0)[1:]):
            assert torch.equal(MAPS[name](x), MAPS[name](x.contiguous()))
        x = wide[:, ::2].clone().requires_grad_()
        MAPS[name](x)[:, 0].sum().backward()  # an expanded gradient
        assert x.grad.isfinite().all()


@each_backend
def test_parameters_broadcast(backend):
    x = normal(2, 3, 4, 5)
    heads = torch.tensor([1.0, 1.5, 2.2], dtype=torch.float64)
    with mt.backend(backend):
        p = mt.entmax(x, heads[:, None, None])
        for h, alpha in enumerate(heads):
            close(p[:, h], mt.entmax(x[:, h], float(alpha)).numpy(), 1e-12)
        q = mt.normmax(x, heads[:, None, None] + 0.5)
        close(q[:, 1], mt.normmax(x[:, 1], 2.0).numpy(), 1e-12)
        close(mt.budget(x, heads[:, None, None])[:, 2], mt.budget(x[:, 2], 2.2).numpy(), 1e-12)
        close(mt.entmax(x, torch.tensor(2)), mt.sparsemax(x).numpy(), 1e-12)
        close(mt.entmax(x, heads[:, None, None], dim=2).sum(2), 1.0, 1e-12)
    with pytest.raises(ValueError, match=r"does not broadcast to \(2, 3, 4, 1\)"):
        mt.entmax(x, torch.full((5,), 1.5))


def test_classes_along_any_dimension():
    x, y = normal(2, 5, 3, 4), torch.randint(5, (2, 3, 4))
    y[0, 0] = -100
    expected = torch.nn.functional.cross_entropy(x, y)
    close(mt.fenchel_young_loss(x, y, "shannon", dim=1), expected.numpy(), 1e-12)
    none = mt.fenchel_young_loss(x, y, "sparsemax", "none", dim=1)
    assert none.shape == y.shape
    last = mt.fenchel_young_loss(x.movedim(1, -1), y, "sparsemax", "none", dim=-1)
    assert torch.equal(none, last)
    soft = torch.softmax(normal(2, 5, 3, 4), 1)
    assert mt.fenchel_young_loss(x, soft, 1.3, "none", dim=1).shape == y.shape
    one = mt.fenchel_young_loss(x[0, :, 0, 0], y[1, 0, 0], "entmax15")
    assert one.ndim == 0


# Masks and edges


@each_backend
@each_map
def test_masks(name, backend):
    x = normal(5, 8, grad=True)
    mask = torch.rand(5, 8) < 0.7
    mask[:, :3] = True
    mask[4] = False  # nothing to choose from
    with mt.backend(backend):
        p = MAPS[name](x, mask=mask)
        assert (p[~mask] == 0).all()
        for row in range(4):
            kept = MAPS[name](x[row][mask[row]])
            close(p[row][mask[row]], kept.detach().numpy(), 1e-12)
        assert torch.equal(MAPS[name](x.masked_fill(~mask, -INF)), p)
        (p * normal(5, 8)).sum().backward()
        assert x.grad.isfinite().all()
        assert (x.grad[~mask] == 0).all()
        assert (x.grad[4] == 0).all()
        garbage = torch.where(mask, x, NAN)
        assert torch.equal(MAPS[name](garbage, mask=mask), p)
        assert torch.equal(MAPS[name](x[:3], mask=mask[0]), MAPS[name](x[:3], mask=mask[:1]))


@each_backend
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@each_map
def test_fully_masked_rows_are_zero(name, dtype, backend):
    x = normal(3, 6).to(dtype)
    x[1] = -INF
    x.requires_grad_()
    with mt.backend(backend):
        p = MAPS[name](x)
        p[:, 0].sum().backward()
    assert (p[1] == 0).all()
    assert (x.grad[1] == 0).all()
    assert (p[0].sum() - p[2].sum()).abs() < 0.05


@each_backend
@pytest.mark.parametrize("wrong", [NAN, INF])
@each_map
def test_nan_and_infinity_stay_in_their_row(name, wrong, backend):
    x = normal(4, 40, grad=True)
    bad = x.detach().clone()
    bad[2, 17] = wrong
    bad.requires_grad_()
    keep = [0, 1, 3]
    with mt.backend(backend):
        p, q = MAPS[name](x), MAPS[name](bad)
        g = normal(4, 40)
        dx, dbad = (torch.autograd.grad(m, t, g)[0] for m, t in ((p, x), (q, bad)))
    assert q[2].isnan().all()
    assert dbad[2].isnan().all()
    close(q[keep], p[keep].detach().numpy(), 1e-14)
    close(dbad[keep], dx[keep].numpy(), 1e-13)


@each_backend
@each_entropy
def test_bad_scores_in_losses(name, backend):
    entropy = ENTROPIES[name][0]
    x = normal(5, 6).masked_fill(torch.eye(5, 6) > 0, -INF)
    x[1, 3], x[2, 3], x[3] = NAN, NAN, -INF
    x.requires_grad_()
    y = torch.tensor([1, 0, -100, 2, 4])
    with mt.backend(backend):
        loss = mt.fenchel_young_loss(x, y, entropy, "none")
        loss.sum().backward()
    assert loss[0] >= 0
    assert loss[1].isnan()
    assert loss[2] == 0  # ignored, whatever its scores
    assert loss[3] == 0  # nothing to choose from
    assert loss[4] == INF  # the label itself is masked
    assert (x.grad[[2, 3]] == 0).all()
    assert x.grad[[0, 4]].isfinite().all()
    assert x.grad[1].isnan().all()


@each_backend
@each_map
def test_empty_batches(name, backend):
    x = torch.empty(0, 4, requires_grad=True)
    with mt.backend(backend):
        p = MAPS[name](x)
        p.sum().backward()
    assert p.shape == x.grad.shape == (0, 4)
    with pytest.raises(ValueError, match="dim 1 has size 0"):
        MAPS[name](torch.empty(4, 0), dim=1)


def test_losses_of_nothing():
    x = torch.empty(0, 4, requires_grad=True)
    for y in (torch.empty(0, dtype=torch.int64), torch.empty(0, 4)):
        assert mt.fenchel_young_loss(x, y) == 0
    assert mt.fenchel_young_loss(x, torch.empty(0, dtype=torch.int64), reduction="none").shape == (
        0,
    )
    x = torch.randn(3, 4, requires_grad=True)
    for weight in (None, torch.rand(4)):
        loss = mt.fenchel_young_loss(x, torch.full((3,), -100), weight=weight)
        loss.backward()
        assert loss == 0
        assert (x.grad == 0).all()


@pytest.mark.parametrize("ignore_index", [-100, -1, 2, 255])
@each_entropy
def test_ignored_labels_do_not_count(name, ignore_index):
    entropy = ENTROPIES[name][0]
    x, y = normal(8, 5, grad=True), torch.tensor([0, 1, 3, 4, 1, 0, 3, 4])
    weight = torch.rand(5, dtype=torch.float64)
    ignored = torch.tensor([1, 0, 0, 1, 1, 0, 0, 0], dtype=torch.bool)
    z = y.masked_fill(ignored, ignore_index)
    for w in (None, weight):
        part = mt.fenchel_young_loss(x[~ignored], y[~ignored], entropy, weight=w)
        loss = mt.fenchel_young_loss(x, z, entropy, ignore_index=ignore_index, weight=w)
        close(loss, part.detach().numpy(), 1e-12)
        (grad,) = torch.autograd.grad(loss, x)
        assert (grad[ignored] == 0).all()


def test_class_weights_of_probabilities():
    x, y, weight = normal(6, 4), torch.randint(4, (6,)), torch.rand(4, dtype=torch.float64)
    one_hot = torch.nn.functional.one_hot(y, 4).double()
    for reduction in ("mean", "sum", "none"):
        hard, soft = (
            mt.fenchel_young_loss(x, t, 1.3, reduction, -100, weight) for t in (y, one_hot)
        )
        close(hard, soft.numpy(), 1e-12)


@each_backend
@each_entropy
def test_large_shifts_do_not_matter(name, backend):
    entropy = ENTROPIES[name][0]
    x = torch.round(normal(6, 5) * 64) / 64  # exact after the shift
    y = torch.tensor([0, 1, 2, 3, 4, 0])
    with mt.backend(backend):
        for shift in (2.0**30, -(2.0**30)):
            plain, shifted = (mt.fenchel_young_loss(t, y, entropy, "none") for t in (x, x + shift))
            assert torch.equal(plain, shifted)
        assert (plain >= 0).all()
        huge = torch.tensor([[3e38, -3e38, 0.0]])
        assert mt.fenchel_young_loss(huge, torch.tensor([0]), entropy) < 1e-6
        assert mt.FenchelYoungLoss(entropy).predict(huge)[0, 0] == 1


@each_backend
@pytest.mark.parametrize("shift", [6e4, -6e4, 0.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@each_map
def test_half_precision_with_shifted_scores(name, dtype, shift, backend):
    x = (normal(6, 20) + shift).to(dtype).requires_grad_()
    exact = x.detach().double()
    with mt.backend(backend):
        p = MAPS[name](x)
        (p * torch.randn(20, dtype=dtype)).sum().backward()
        expected = MAPS[name](exact)
    assert p.dtype == x.grad.dtype == dtype
    assert x.grad.isfinite().all()
    close(p.double(), expected.numpy(), float(torch.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@each_entropy
def test_half_precision_losses(name, dtype):
    entropy = ENTROPIES[name][0]
    x = (normal(6, 20) - 6e4).to(dtype).requires_grad_()
    y = torch.randint(20, (6,))
    loss = mt.fenchel_young_loss(x, y, entropy)
    loss.backward()
    assert loss.dtype == torch.float32
    assert x.grad.dtype == dtype
    close(loss.double(), mt.fenchel_young_loss(x.detach().double(), y, entropy).numpy(), 1e-6)
    many = mt.fenchel_young_loss(torch.zeros(70_000, 4, dtype=dtype), torch.zeros(70_000).long())
    assert many.isfinite()  # the sum would not fit float16


def test_wrong_input_is_named():
    x, y = normal(3, 4), torch.tensor([0, 1, 2])
    with pytest.raises(TypeError, match=r"floating scores, got torch.int64; convert with x.float"):
        mt.sparsemax(torch.arange(3))
    with pytest.raises(TypeError, match="needs a tensor, got list"):
        mt.softmax([1.0])
    with pytest.raises(TypeError, match="a mask is boolean"):
        mt.softmax(x, mask=torch.ones(3, 4))
    with pytest.raises(ValueError, match="at least one dimension"):
        mt.entmax15(torch.tensor(1.0))
    for alpha in (0.5, INF, NAN):
        with pytest.raises(ValueError, match="alpha >= 1"):
            mt.entmax(x, alpha)
        with pytest.raises(ValueError, match="alpha >= 1"):
            mt.fenchel_young_loss(x, y, alpha)
    with pytest.raises(ValueError, match=r"alpha >= 1, the tensor given has 0\.5"):
        mt.entmax(x, torch.tensor([[1.5], [0.5], [2.0]]))
    with pytest.raises(ValueError, match="q > 1, the tensor given has 1"):
        mt.normmax(x, torch.tensor([[1.5], [1.0], [2.0]]))
    with pytest.raises(ValueError, match="k from 0 to 4, the tensor given has 5"):
        mt.budget(x, torch.tensor([[1], [5], [2]]))
    with pytest.raises(TypeError, match="alpha must be a number or a tensor"):
        mt.entmax(x, "2")
    with pytest.raises(ValueError, match="q > 1"):
        mt.normmax(x, 1.0)
    with pytest.raises(ValueError, match="not differentiated"):
        mt.normmax(x, torch.tensor(2.0, requires_grad=True))
    with pytest.raises(ValueError, match="k from 0 to 4"):
        mt.budget(x, 5)
    with pytest.raises(ValueError, match="q > 1"):
        mt.Normmax(1.0)
    with pytest.raises(ValueError, match="k from 0 to the size of dim, got -1"):
        mt.Budget(-1)
    with pytest.raises(IndexError, match="label 4 is out of range for 4 classes"):
        mt.fenchel_young_loss(x, torch.tensor([0, 4, 1]))
    with pytest.raises(IndexError, match="label -2 is out of range"):
        mt.fenchel_young_loss(x, torch.tensor([0, -2, 1]))
    with pytest.raises(ValueError, match=r"row 1 .* sums to 2; .*check=False"):
        mt.fenchel_young_loss(x, torch.tensor([[1.0, 0, 0, 0], [2, 0, 0, 0], [0, 1, 0, 0]]))
    mt.fenchel_young_loss(x, torch.full((3, 4), 0.3), check=False)
    with pytest.raises(ValueError, match=r"class indices of shape \(3,\)"):
        mt.fenchel_young_loss(x, torch.tensor([[0], [1], [2]]))
    with pytest.raises(ValueError, match=r"shape of the scores \(3, 4\)"):
        mt.fenchel_young_loss(x, torch.zeros(3))
    with pytest.raises(TypeError, match=r"got torch.bool; convert with target.long"):
        mt.fenchel_young_loss(x, torch.tensor([True, False, True]))
    with pytest.raises(ValueError, match=r"target\.detach"):
        mt.fenchel_young_loss(x, torch.softmax(x, -1).requires_grad_())
    with pytest.raises(ValueError, match='reduction must be "none", "mean" or "sum"'):
        mt.fenchel_young_loss(x, y, reduction="average")
    with pytest.raises(ValueError, match="one number for each of 4 classes"):
        mt.fenchel_young_loss(x, y, weight=torch.ones(3))
    with pytest.raises(ValueError, match='one of "shannon", "entmax15", "sparsemax"'):
        mt.fenchel_young_loss(x, y, "entmax")
    with pytest.raises(ValueError, match="starts above 1"):
        mt.Entmax(1.0, learnable=True)


def test_label_minus_one_is_out_of_range_unless_ignored():
    x, y = normal(2, 3), torch.tensor([0, -1])
    with pytest.raises(IndexError, match="label -1 is out of range"):
        mt.fenchel_young_loss(x, y)
    close(
        mt.fenchel_young_loss(x, y, ignore_index=-1), mt.fenchel_young_loss(x[:1], y[:1]).numpy(), 0
    )


# Backends


def test_backends_are_chosen_by_name():
    x = normal(2, 3)
    with pytest.raises(ValueError, match='"plain", "numba" or "triton"'), mt.backend("cuda"):
        pass
    if not torch.cuda.is_available():
        with (
            pytest.raises((ImportError, RuntimeError), match="triton"),
            mt.backend("triton"),
        ):
            mt.sparsemax(x)


def test_it_needs_only_torch_and_numpy():
    code = """
    import sys

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in {"numba", "llvmlite", "scipy", "sklearn", "joblib"}:
                raise ImportError(name)

    sys.meta_path.insert(0, Blocked())
    import torch
    import maxent.torch as mt

    x = torch.tensor([[0.0, 0.6, 1.2]], requires_grad=True)
    print(torch.allclose(mt.sparsemax(x), torch.tensor([[0.0, 0.2, 0.8]])))
    print(torch.allclose(mt.entmax(x, 1.3).sum(), torch.tensor(1.0)))
    mt.fenchel_young_loss(x, torch.tensor([1])).backward()
    try:
        with mt.backend("numba"):
            pass
    except ImportError as error:
        print(error)
    """
    out = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("True\nTrue\n")
    assert "needs numba: pip install numba" in out.stdout


def test_parameters_out_of_range_make_their_rows_nan_where_they_cannot_raise():
    from maxent.torch.maps import _plain  # what CUDA tensors come to, without the check

    x = normal(3, 40)
    for kind, parameters in (("tsallis", [1.5, 0.5, NAN]), ("norm", [2.0, 1.0, NAN])):
        column = torch.tensor(parameters, dtype=torch.float64)[:, None]
        p = _plain.conjugate(x, kind, column)[0]
        close(p[0], _plain.conjugate(x[:1], kind, parameters[0])[0][0].numpy(), 1e-14)
        assert p[1:].isnan().all()
    p = _plain.budget(x, torch.tensor([[2.0], [-1.0], [NAN]], dtype=torch.float64))
    assert p[1:].isnan().all()
    assert p[0].isfinite().all()


# CUDA

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
each_scores_type = pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)


def gpu_close(actual, expected, dtype):
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}.get(dtype, 2 * torch.finfo(dtype).eps)
    close(actual.detach().cpu().double(), expected.detach().double().numpy(), tolerance)


@cuda
@each_scores_type
@each_map
def test_cuda_maps(name, dtype):
    x = normal(40, 70).to(dtype)
    x[3], x[5, 2], x[7, 3], x[8] = -INF, NAN, INF, NAN
    x[9, 5:] = -INF
    x.requires_grad_()
    there = x.detach().cuda().requires_grad_()
    g = torch.randn(40, 70).to(dtype)
    p, q = MAPS[name](x), MAPS[name](there)
    gpu_close(q, p, dtype)
    (dp,) = torch.autograd.grad(p, x, g)
    (dq,) = torch.autograd.grad(q, there, g.cuda())
    # float16 loses members of the support with p near 0: theirs is another Jacobian
    if dtype in TOLERANCE:
        gpu_close(dq, dp, dtype)


@cuda
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size", [1, 33, 5000, 70_000])
def test_cuda_sizes(size, alpha):
    x = normal(6, size, dtype=torch.float32)
    gpu_close(mt.entmax(x.cuda(), alpha), mt.entmax(x, alpha), torch.float32)
    alphas = torch.tensor([[1.0], [1.3], [1.5], [2.0], [2.5], [0.5]])
    p = mt.entmax(x.cuda(), alphas.cuda())
    gpu_close(p[:5], mt.entmax(x[:5], alphas[:5]), torch.float32)
    assert p[5].isnan().all()


@cuda
@each_scores_type
@pytest.mark.parametrize("targets", ["labels", "probabilities"])
@each_entropy
def test_cuda_losses(name, targets, dtype):
    entropy = ENTROPIES[name][0]
    x = normal(40, 20, scale=3.0).to(dtype)
    x[3], x[5, 2], x[7, 4], x[8] = -INF, NAN, -INF, NAN
    x.requires_grad_()
    there = x.detach().cuda().requires_grad_()
    y = torch.randint(20, (40,))
    y[5:8] = torch.tensor([-100, 0, 4])
    if targets == "probabilities":
        y = torch.softmax(normal(40, 20), -1)
    a, b = (mt.fenchel_young_loss(t, y.to(t.device), entropy, "none") for t in (x, there))
    gpu_close(b, a, dtype)
    keep = a.isfinite()
    (da,), (db,) = (
        torch.autograd.grad(t[keep.to(t.device)].sum(), s) for t, s in ((a, x), (b, there))
    )
    gpu_close(db[keep.cuda()], da[keep], dtype)


@cuda
@tracing_warns
def test_cuda_compiled():
    x, y = normal(30, 20, dtype=torch.float32, grad=True), torch.randint(20, (30,))

    def step(t):
        return mt.fenchel_young_loss(mt.entmax15(t) * 3, y.to(t.device), "sparsemax")

    there = x.detach().cuda().requires_grad_()
    (a,) = torch.autograd.grad(step(x), x)
    (b,) = torch.autograd.grad(_compiled(step, backend="aot_eager")(there), there)
    gpu_close(b, a, torch.float32)


# Transforms, compilation, autocast


@each_map
def test_vmap(name):
    x = normal(3, 4, 6)
    f = MAPS[name]
    close(torch.func.vmap(f)(x), f(x).numpy(), 1e-12)
    close(torch.func.vmap(f, in_dims=1, out_dims=1)(x), f(x).numpy(), 1e-12)
    grad = torch.func.vmap(torch.func.grad(lambda t: (f(t) ** 2).sum()))(x)
    leaf = x.clone().requires_grad_()
    (f(leaf) ** 2).sum().backward()
    close(grad, leaf.grad.numpy(), 1e-12)


def test_vmap_over_alpha_and_losses():
    x, alphas = normal(4, 6), torch.linspace(1, 2, 5, dtype=torch.float64)
    p = torch.func.vmap(lambda a: mt.entmax(x, a))(alphas)
    for alpha, part in zip(alphas, p, strict=True):
        close(part, mt.entmax(x, float(alpha)).numpy(), 1e-12)
    y = torch.tensor([0, 5, 2, 1])
    rows = torch.func.vmap(lambda t, label: mt.fenchel_young_loss(t, label, "sparsemax"))(x, y)
    close(rows, mt.fenchel_young_loss(x, y, "sparsemax", "none").numpy(), 1e-12)
    hessian = torch.func.jacrev(torch.func.grad(lambda t: mt.fenchel_young_loss(t, y, 1.5, "sum")))(
        x
    )
    jacobian = torch.func.jacrev(mt.entmax15)(x)
    close(hessian, jacobian.numpy(), 1e-12)


def _compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, **options)


@tracing_warns
@each_map
def test_compiled_graphs_are_whole(name):
    x, mask = normal(4, 6, grad=True), torch.rand(4, 6) < 0.8
    mask[:, :2] = True
    f = _compiled(lambda t: MAPS[name](t, mask=mask), backend="aot_eager")
    p, q = f(x), MAPS[name](x, mask=mask)
    close(p, q.detach().numpy(), 1e-12)
    g = normal(4, 6)
    (dp,), (dq,) = (torch.autograd.grad(t, x, g) for t in (p, q))
    close(dp, dq.numpy(), 1e-12)


@tracing_warns
@pytest.mark.parametrize("entropy", ["shannon", "entmax15", mt.NormEntropy(2.0)], ids=str)
def test_compiled_losses(entropy):
    x, y = normal(4, 6, grad=True), torch.tensor([0, -100, 5, 2])
    soft = torch.softmax(normal(4, 6), -1)
    layer = mt.FenchelYoungLoss(entropy, weight=torch.rand(6, dtype=torch.float64))
    f = _compiled(layer, backend="aot_eager")
    for target in (y, soft):
        a, b = f(x, target), layer(x, target)
        close(a, b.detach().numpy(), 1e-12)
        (da,), (db,) = (torch.autograd.grad(t, x) for t in (a, b))
        close(da, db.numpy(), 1e-12)


@tracing_warns
def test_compiled_with_learnable_alpha():
    x = normal(2, 3, 4, 5, dtype=torch.float32)
    layer = mt.Entmax(torch.full((3, 1, 1), 1.5), learnable=True)
    f = _compiled(lambda t: layer(t).square().sum(), backend="aot_eager")
    (a,) = torch.autograd.grad(f(x), layer.raw_alpha)
    (b,) = torch.autograd.grad(layer(x).square().sum(), layer.raw_alpha)
    close(a, b.numpy(), 1e-5)


def test_autocast():
    layer = torch.nn.Linear(8, 5)
    alpha = torch.tensor(1.3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = layer(torch.randn(6, 8))
        assert scores.dtype == torch.bfloat16
        p = mt.entmax(scores, alpha)
        loss = mt.fenchel_young_loss(scores, torch.arange(6) % 5) + p.square().sum()
        for f in MAPS.values():
            loss = loss + f(scores)[:, 0].sum()
    loss.backward()
    assert p.dtype == torch.bfloat16
    assert layer.weight.grad.isfinite().all()
    assert alpha.grad.isfinite()


# Modules and training


def test_modules_are_the_functions():
    x, mask = normal(3, 4, 5), torch.rand(3, 4, 5) < 0.8
    modules = {
        mt.Softmax(1): mt.softmax,
        mt.Sparsemax(1): mt.sparsemax,
        mt.Entmax15(1): mt.entmax15,
        mt.Entmax(1.7, 1): lambda *a: mt.entmax(a[0], 1.7, *a[1:]),
        mt.Normmax(3.0, 1): lambda *a: mt.normmax(a[0], 3.0, *a[1:]),
        mt.Budget(2, 1): lambda *a: mt.budget(a[0], 2, *a[1:]),
    }
    for module, function in modules.items():
        assert torch.equal(module(x, mask), function(x, 1, mask))
        assert "dim=1" in repr(module)
    assert torch.equal(mt.SparseSigmoid()(x), mt.sparse_sigmoid(x))
    assert torch.equal(mt.SparsePlus()(x), mt.sparse_plus(x))
    assert "alpha=1.7" in repr(mt.Entmax(1.7))
    assert "Tsallis(alpha=1.5)" in repr(mt.FenchelYoungLoss())
    close(mt.FenchelYoungLoss(mt.NormEntropy(3.0), dim=1).predict(x), mt.normmax(x, 3.0, 1), 0)


def test_alpha_is_saved_and_learnt():
    layer = mt.Entmax(torch.full((3, 1, 1), 1.5), learnable=True)
    close(layer.alpha, 1.5, 1e-6)
    again = mt.Entmax(torch.full((3, 1, 1), 1.2), learnable=True)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.alpha, layer.alpha)
    fixed = mt.Entmax(torch.tensor([[1.2], [1.8]]))
    assert list(fixed.state_dict()) == ["fixed_alpha"]
    assert not mt.Entmax(1.5).state_dict()  # takes the place of a softmax in a saved model

    # rows made by alpha = 1.2: learning it from 1.5 brings the error down and alpha back
    x = normal(4, 3, 6, 10, dtype=torch.float32)
    goal = mt.entmax(x, 1.2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    errors = []
    for _ in range(60):
        optimizer.zero_grad()
        error = (layer(x) - goal).square().sum()
        error.backward()
        optimizer.step()
        errors.append(float(error.detach()))
    assert errors[1] < errors[0]
    assert errors[-1] < 0.01 * errors[0]
    close(layer.alpha, 1.2, 0.02)


@each_entropy
def test_training_reaches_a_separating_model(name):
    entropy = ENTROPIES[name][0]
    y = torch.arange(60) % 3
    x = torch.nn.functional.one_hot(y, 3).float() + 0.1 * torch.randn(60, 3)
    model = torch.nn.Linear(3, 3)
    criterion = mt.FenchelYoungLoss(entropy)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.2 * losses[0]
    assert (criterion.predict(model(x)).argmax(1) == y).all()


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "softmax"])
def test_a_dimension_that_is_not_there(name):
    with pytest.raises(IndexError, match=r"dim 9 of scores of shape \(2, 3\).* -2 to 1"):
        getattr(mt, name)(torch.zeros(2, 3), dim=9)


def test_lists_are_no_targets_or_weights():
    x = torch.zeros(2, 3)
    with pytest.raises(TypeError, match="targets must be a tensor, got list"):
        mt.fenchel_young_loss(x, [0, 1])
    with pytest.raises(TypeError, match="weight must be a tensor, got list"):
        mt.fenchel_young_loss(x, torch.tensor([0, 1]), weight=[1.0, 1.0, 1.0])


def test_settings_are_refused_when_they_are_given():
    with pytest.raises(ValueError, match='"none", "mean" or "sum"'):
        mt.FenchelYoungLoss(reduction="all")


def test_meta_tensors_have_shapes():
    x = torch.empty(2, 4, device="meta")
    assert mt.sparsemax(x).shape == mt.entmax(x, 1.3, dim=0).shape == (2, 4)


def test_a_fixed_alpha_keeps_its_digits():
    layer = mt.Entmax(1.3).bfloat16()
    assert "alpha=1.3," in repr(layer)
    x = torch.randn(3, 5, dtype=torch.float64)
    assert torch.equal(layer(x), mt.entmax(x, 1.3))


# -- programs made of recorded operations ----------------------------------------------------------

ALPHAS = torch.tensor([[1.0], [1.5], [2.0], [3.0]], dtype=torch.float64)
RECORDED = {
    "softmax": mt.softmax,
    "sparsemax": mt.sparsemax,
    "entmax15": mt.entmax15,
    "entmax 1.2": lambda x: mt.entmax(x, 1.2),
    "entmax 3": lambda x: mt.entmax(x, 3.0),
    "entmax of a tensor": lambda x: mt.entmax(x, ALPHAS),
    "normmax": lambda x: mt.normmax(x, 3.0),
    "normmax inf": lambda x: mt.normmax(x, float("inf")),
    "budget": lambda x: mt.budget(x, 2.0),
}


# torch's own use of it in forward mode included
JIT_IS_OLD = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def recorded_scores(seed):
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(4, 6, dtype=torch.float64, generator=generator)
    x[1, 2] = -torch.inf
    return x


@JIT_IS_OLD
@pytest.mark.parametrize("name", RECORDED)
def test_a_traced_map_is_a_function_of_its_input(name):
    run = RECORDED[name]
    traced = torch.jit.trace(run, recorded_scores(0))
    x = recorded_scores(1).requires_grad_()
    again = x.detach().clone().requires_grad_()
    p, q = run(x), traced(again)
    torch.testing.assert_close(q, p, atol=1e-9, rtol=1e-9)
    g = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    p.backward(g)
    q.backward(g)
    torch.testing.assert_close(again.grad, x.grad, atol=1e-7, rtol=1e-7)


@JIT_IS_OLD
@pytest.mark.parametrize("entropy", ["shannon", "sparsemax", "entmax15", 1.2, mt.NormEntropy(2.0)])
@pytest.mark.parametrize("soft", [False, True])
def test_a_traced_loss_is_a_function_of_its_input(entropy, soft):
    y = torch.tensor([0, 3, -100, 5])
    other = torch.tensor([1, -100, 2, 2])
    if soft:
        y, other = (torch.softmax(torch.randn(4, 6, dtype=torch.float64), 1) for _ in range(2))
    criterion = mt.FenchelYoungLoss(entropy)
    scores = recorded_scores(0).nan_to_num(neginf=-1.0)
    traced = torch.jit.trace(criterion, (scores, y))
    x = recorded_scores(1).nan_to_num(neginf=-1.0).requires_grad_()
    again = x.detach().clone().requires_grad_()
    value, traced_value = criterion(x, other), traced(again, other)
    torch.testing.assert_close(traced_value, value, atol=1e-9, rtol=1e-9)
    value.backward()
    traced_value.backward()
    torch.testing.assert_close(again.grad, x.grad, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "entmax 1.2", "budget"])
def test_an_exported_map_is_a_function_of_its_input(name):
    class Model(torch.nn.Module):
        def forward(self, x):
            return RECORDED[name](x)

    exported = torch.export.export(Model(), (recorded_scores(0),)).module()
    x = recorded_scores(1)
    torch.testing.assert_close(exported(x), RECORDED[name](x), atol=1e-9, rtol=1e-9)


@JIT_IS_OLD
@pytest.mark.parametrize("entropy", ["shannon", "sparsemax", "entmax15", 1.2, mt.NormEntropy(2.0)])
def test_forward_mode_gives_the_hessian(entropy):
    y = torch.tensor([0, 3, -100, 5])
    x = recorded_scores(0).nan_to_num(neginf=-1.0)

    def loss(x):
        return mt.fenchel_young_loss(x, y, entropy)

    expected = torch.func.jacrev(torch.func.jacrev(loss))(x)
    torch.testing.assert_close(torch.func.hessian(loss)(x), expected, atol=1e-9, rtol=1e-9)
    with pytest.raises(NotImplementedError, match=r"use torch\.func\.hessian"):
        torch.func.jacfwd(torch.func.jacfwd(loss))(x)


@JIT_IS_OLD
def test_forward_mode_of_alpha_is_backward():
    x = recorded_scores(0)
    forward, backward = (
        mode(lambda alpha: mt.entmax(x, alpha))(ALPHAS)
        for mode in (torch.func.jacfwd, torch.func.jacrev)
    )
    torch.testing.assert_close(forward, backward, atol=1e-9, rtol=1e-9)


@JIT_IS_OLD
@pytest.mark.parametrize("name", [name for name in RECORDED if name != "normmax inf"])
def test_forward_mode_of_a_map_is_backward(name):
    x = recorded_scores(0).nan_to_num(neginf=-1.0)
    forward, backward = (mode(RECORDED[name])(x) for mode in (torch.func.jacfwd, torch.func.jacrev))
    torch.testing.assert_close(forward, backward, atol=1e-9, rtol=1e-9)


def test_parameters_that_are_tensors_move_with_their_module():
    for module, name in (
        (mt.Normmax(torch.tensor([2.0])), "q"),
        (mt.Budget(torch.tensor([1.0])), "k"),
    ):
        assert list(module.state_dict()) == [name]
        assert getattr(module.double(), name).dtype == torch.float64

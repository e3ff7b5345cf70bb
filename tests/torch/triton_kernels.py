"""The Triton kernels in Triton's CPU interpreter against float64: run by test_torch_triton.py.

The interpreter is chosen when Triton is imported, so that these tests have a process of their own.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from triton.runtime import interpreter

import maxent as mx
import maxent.torch as mt
import torch
from maxent.torch.maps import _derivatives, _dispatch, _triton, _triton_backward
from maxent.torch.structured import (
    _chain_compiled,
    _chain_triton,
    _ctc_compiled,
    _ctc_plain,
    _ctc_triton,
    _segments_compiled,
    _segments_triton,
    _spans,
    _spans_triton,
)
from tools import skip_without_interpreter

skip_without_interpreter()

ALPHAS = (1.0, 1.001, 1.05, 1.1, 1.25, 1.5, 1.75, 2.0, 2.01, 3.0, 5.0)
ONE_OF_EACH_KIND = (1.05, 1.25, 1.5, 2.0, 3.0)  # of the ways to compute entries
INF = float("inf")


class PatchOnce:
    """The interpreter patches the language at every call of a function; once per launch will do.

    It finds the language in the globals of the function, so that they say what has been patched.
    """

    def __init__(self, patch):
        self.patch, self.scopes = patch, {}

    def __call__(self, fn):
        if id(fn.__globals__) not in self.scopes:
            self.scopes[id(fn.__globals__)] = self.patch(fn)
        return self

    def restore(self):
        for scope in reversed(self.scopes.values()):
            scope.restore()
        self.scopes.clear()


def by_element(numpy_type):
    """The interpreter writes its table of types out at every call."""
    known = cache(numpy_type)

    def found(dtype):
        element = dtype.scalar  # pointers have no hash, and need no table
        return (numpy_type if element.is_ptr() else known)(element)

    return found


@pytest.fixture(autouse=True, scope="module")
def _half_the_time():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", PatchOnce(interpreter._patch_lang))
        patch.setattr(interpreter, "_get_np_dtype", by_element(interpreter._get_np_dtype))
        # whether whole numbers overflow is found out at each sum, and told in debugging alone
        options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
        patch.setattr(interpreter.interpreter_builder, "options", options)
        yield


PLACES = {  # few and some are kept in registers, else the whole row is read
    "long, few places": (16, 32),
    "long, some places": (1, 16),
    "long, all of the row": (1, 2),
}


@pytest.fixture(params=["resident", *PLACES])
def plan(request, monkeypatch):
    """Each way through the kernels, at small sizes."""
    if request.param != "resident":
        few, some = PLACES[request.param]
        settings = {"_FEW": few, "_SOME": some}
        for name, value in ({"_RESIDENT": 4, "_LONG": (2, 4, 1)} | settings).items():
            monkeypatch.setattr(_triton, name, value)
    return request.param


def scores(d, dtype=torch.float32):
    """Normal scores; a row with masked entries, one that is all masked, one far from 0."""
    generator = torch.Generator().manual_seed(d)
    x = torch.randn(4, d, generator=generator)
    x[1, : d // 2] = -INF
    x[2] = -INF
    x[3] += 300.0
    return x.to(dtype)


def exact(x, alpha):
    """p in float64 by the core; zeros for rows without a finite score."""
    p = np.zeros(x.shape)
    some = ~torch.isinf(x).all(dim=1).numpy()
    p[some] = mx.Tsallis(alpha).conjugate(x.double().numpy()[some])[1]
    return torch.from_numpy(p)


EVERY_WAY = [
    *(("resident", 27, alpha) for alpha in ALPHAS),
    *((plan, 27, alpha) for plan in PLACES for alpha in ONE_OF_EACH_KIND),
    *((plan, *small) for plan in ("resident", *PLACES) for small in ((1, 1.5), (5, 1.25))),
]


@pytest.mark.parametrize(("plan", "d", "alpha"), EVERY_WAY, indirect=["plan"])
def test_maps(plan, d, alpha):
    x = scores(d)
    p = _triton.tsallis_map(x, alpha)
    assert (p.double() - exact(x, alpha)).abs().max() < 1e-6


@pytest.mark.parametrize("alpha", ONE_OF_EACH_KIND)
def test_losses_and_gradients(plan, alpha):
    x = scores(27)
    target = torch.tensor([3, 20, 20, -100])
    loss, gradient = _triton.tsallis_loss(x, target, alpha)
    rows = [0, 1]
    core = mx.FenchelYoungLoss(mx.Tsallis(alpha))
    values = core.value(x.double().numpy()[rows], target.numpy()[rows])
    assert np.abs(loss.numpy()[rows] - values).max() < 2e-6
    expected = exact(x, alpha)
    expected[rows, target[rows]] -= 1
    assert (gradient.double() - expected)[rows].abs().max() < 1e-6
    assert not loss[2:].any()  # a row without scores, and a label to ignore
    assert not gradient[2:].any()
    same, there = _triton.tsallis_loss(x, target, alpha, in_place=True)
    assert there is x
    assert torch.equal(same, loss)
    assert torch.equal(there, gradient)


def test_losses_of_broken_rows_are_nan(plan):
    x = scores(27)[[0, 0]]
    x[0, 7] = float("nan")
    loss, gradient = _triton.tsallis_loss(x, torch.tensor([3, 99]), 1.5)
    assert loss.isnan().all()
    assert gradient[0].isnan().all()
    assert _triton.tsallis_loss(scores(27)[:1], torch.tensor([-1]), 1.5)[0].isnan().all()


def test_a_sure_label_has_a_loss_of_zero():
    x = torch.tensor([[0.0, 9.0, 1.0], [0.0, 0.0, 9.0]])
    loss, gradient = _triton.tsallis_loss(x, torch.tensor([1, 2]), 2.0)
    assert not loss.any()
    assert not gradient.any()


@pytest.mark.parametrize("bad", [float("nan"), INF])
def test_nan_and_infinity_fill_their_own_row(plan, bad):
    x = scores(27)
    x[0, 7] = bad
    p = _triton.tsallis_map(x, 1.5)
    assert p[0].isnan().all()
    assert (p[1:].double() - exact(x[1:], 1.5)).abs().max() < 1e-6


@pytest.mark.parametrize("alphas", [(1.0, 1.25, 1.5, 2.0), (3.0, 5.0, 1.1, 1.05)])
def test_an_alpha_for_each_row(plan, alphas):
    alphas = torch.tensor(alphas)
    x = scores(27)
    p = _triton.tsallis_map(x, alphas)
    for row, alpha in enumerate(alphas.tolist()):
        assert (p[row].double() - exact(x[row : row + 1], alpha)[0]).abs().max() < 1e-6


GAPS = [(3.0, 0.2), (7.0, 0.16), (8.0, 0.13), (10.0, 0.1), (12.0, 1e-3)]


@pytest.mark.parametrize(
    ("plan", "alpha", "gap"),
    [
        *(("resident", *gap) for gap in GAPS),
        *((plan, *gap) for plan in PLACES for gap in (GAPS[1], GAPS[-1])),
    ],
    indirect=["plan"],
)
def test_a_small_share_is_known_to_all_digits(plan, alpha, gap):
    # two scores: z + (z^m + m gap)^(1/m) = 1, where thresholds in float64 have too few digits
    m, gap = alpha - 1, float(np.float32(gap))
    low, high = 0.0, 1.0
    for _ in range(60):
        z = (low + high) / 2
        low, high = (z, high) if z + (z**m + m * gap) ** (1 / m) < 1 else (low, z)
    p = _triton.tsallis_map(torch.tensor([[0.0, -gap, *[-9.0] * 25]]), alpha)
    tolerance = 1e-6 if alpha <= 7 else 5e-6
    assert abs(float(p[0, 1]) - z) < tolerance
    assert abs(float(p.sum()) - 1) < tolerance


@pytest.mark.parametrize(("dtype", "digits"), [(torch.bfloat16, 8), (torch.float16, 11)])
def test_short_types_are_right_to_their_last_place(plan, dtype, digits):
    x = scores(27, dtype)
    p, right = _triton.tsallis_map(x, 1.5), exact(x, 1.5)
    assert p.dtype is dtype
    # two units in the last place, and the smallest number of the type
    assert ((p.double() - right).abs() <= 2 * right * 2.0**-digits + 6e-8).all()


MEANS = [("mean", False), ("sum", False), ("mean", True), ("sum", True)]


@pytest.fixture
def on_device(monkeypatch):
    """The fused losses for CPU tensors."""
    monkeypatch.setattr(_dispatch, "_module", lambda name, x: _triton if name == "triton" else None)


@pytest.mark.parametrize(
    ("plan", "reduction", "weighted"),
    [
        *(("resident", reduction, weighted) for reduction, weighted in MEANS),
        *((plan, *mean) for plan in PLACES for mean in (MEANS[0], MEANS[-1])),
    ],
    indirect=["plan"],
)
def test_the_fused_loss_is_the_plain_one(plan, on_device, reduction, weighted):
    target = torch.tensor([3, 20, 5, -100])
    weight = torch.linspace(0.5, 2.0, 27) if weighted else None
    loss = mt.FenchelYoungLoss("entmax15", reduction, weight=weight)
    found = []
    for x in (scores(27), scores(27).double()):  # float64 takes the plain way
        x.requires_grad_()
        value = loss(x, target)
        (3 * value).backward(retain_graph=True)
        once = x.grad.clone()
        value.backward()  # again, from a gradient that has been given away
        found.append((value.double(), once.double(), x.grad.double() - once))
    for ours, plain in zip(*found, strict=True):
        assert (ours - plain).abs().max() < 1e-5


def test_the_fused_loss_has_second_derivatives(on_device):
    x = scores(9)[:2].requires_grad_()
    value = mt.fenchel_young_loss(x, torch.tensor([3, 6]), 1.5)
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x)
    y = x.detach().double().requires_grad_()
    plain = mt.fenchel_young_loss(y, torch.tensor([3, 6]), 1.5)
    (first,) = torch.autograd.grad(plain, y, create_graph=True)
    (expected,) = torch.autograd.grad((first**2).sum(), y)
    assert (second.double() - expected).abs().max() < 1e-6


def test_shapes_at_the_edge():
    assert _triton.tsallis_map(torch.empty(0, 5), 1.5).shape == (0, 5)
    assert _triton.supported(torch.empty(2, 5))
    assert not _triton.supported(torch.empty(2, 5, dtype=torch.float64))
    assert not _triton.supported(torch.empty(2, 0))


@pytest.mark.parametrize(  # a row at once, and in pieces
    ("columns", "dtype", "tolerance"), [(64, torch.bfloat16, 2**-7), (8, torch.float32, 1e-6)]
)
@pytest.mark.parametrize("alpha", [*ALPHAS, (1.0, 1.3, 2.0, 3.0)])
def test_backward_is_the_plain_one(alpha, dtype, tolerance, columns, monkeypatch):
    monkeypatch.setattr(_triton_backward, "_RESIDENT", columns)
    alphas = torch.tensor(alpha).expand(4)
    rows = [exact(row[None], a)[0] for row, a in zip(scores(27), alphas.tolist(), strict=True)]
    p = torch.stack(rows).to(dtype)
    g = torch.randn(4, 27, generator=torch.Generator().manual_seed(0)).to(dtype)
    given = alphas if isinstance(alpha, tuple) else alpha
    product = _triton_backward.tsallis_vjp(p, g, given)
    right = _derivatives.vjp("tsallis", p.double(), g.double(), alphas.double()[:, None])
    assert product.dtype is dtype
    # beyond alpha = 2 weights are large where p is small, and their products cancel
    weights = torch.where(p > 0, p.double(), 1) ** (2 - alphas[:, None].double()).clamp(max=0)
    assert ((product.double() - right).abs() <= tolerance * weights * (1 + right.abs())).all()
    assert not product[2].any()  # a row without scores


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0, 3.0])
def test_backward_keeps_a_nan_in_its_row(alpha):
    p = exact(scores(27), 1.5).float()
    p[0] = float("nan")
    product = _triton_backward.tsallis_vjp(p, torch.ones_like(p), alpha)
    assert product[0].isnan().all()
    assert product[1:].isfinite().all()


def test_maps_go_back_through_the_kernel(on_device):
    x = scores(27)[[0, 1, 3]].requires_grad_()
    g = torch.randn(3, 27, generator=torch.Generator().manual_seed(0))
    (there,) = torch.autograd.grad(mt.entmax(x, 1.3), x, g)
    with mt.backend("plain"):
        p = mt.entmax(x.detach().double(), 1.3)
    right = _derivatives.vjp("tsallis", p, g.double(), 1.3)
    assert (there.double() - right).abs().max() < 1e-5
    batch = torch.eye(27).repeat(3, 1).reshape(3, 27, 27)
    (many,) = torch.autograd.grad(mt.entmax(x, 1.3), x, batch.movedim(1, 0), is_grads_batched=True)
    assert many.shape == (27, 3, 27)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 5), (3, 5, 5), (3, 3, 5, 5)])
def test_chains(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    nodes = 3 * torch.randn(3, 4, 5, generator=generator).to(dtype)
    edges = 3 * torch.randn(shape, generator=generator).to(dtype)
    nodes[0, 1, 2] = edges.view(-1)[7] = -INF
    nodes[2] *= 3e3
    lengths = torch.tensor([4, 1, 3])
    ours = _chain_triton.softmax(nodes, edges, lengths)
    right = _chain_compiled.softmax(nodes, edges, lengths)
    for a, b in zip(ours, right, strict=True):
        assert a.dtype is dtype
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_chain_without_a_path():
    nodes = torch.zeros(2, 3, 2)
    nodes[1, 1] = -INF
    value, mean, counts = _chain_triton.softmax(nodes, torch.zeros(2, 2), torch.tensor([3, 3]))
    assert value[1] == -INF
    assert mean[0].sum() == 3
    assert not counts[1].any()


@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (1, 2, 6, 1), (2, 1, 5, 9)])
def test_segments(shape, monkeypatch):
    """Blocks of four positions, so that there are some before and behind; scores that forbid."""
    monkeypatch.setattr(_segments_triton, "_BLOCK", 4)
    monkeypatch.setattr(_segments_triton, "_STRETCH", 4)
    batch, labels, length, longest = shape
    generator = torch.Generator().manual_seed(0)
    sizes = (length, length, longest, labels)
    scores = [
        30 * torch.randn(batch, labels, n, generator=generator, dtype=torch.float64) for n in sizes
    ]
    scores[0][0, 0, 3] = scores[1][0, 0, 4] = scores[2][-1, 0, longest // 2] = -INF
    scores[3][0, 0, labels - 1] = -INF if labels > 1 else 0.0
    lengths = torch.tensor([length, 1][:batch])
    ours = _segments_triton.softmax(*scores, lengths)
    right = _segments_compiled.softmax(*scores, lengths)
    for x, y in zip(ours, right, strict=True):
        torch.testing.assert_close(x, y, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "n", "labels"), [("single", 5, 1), ("multi", 4, 1), ("binary", 5, 2), ("binary", 1, 1)]
)
def test_trees_over_spans(kind, n, labels, monkeypatch):
    """Tiles of two, so that there are several; the second tree is shorter, the last has none."""
    monkeypatch.setattr(_spans_triton, "_SPANS", 2)
    monkeypatch.setattr(_spans_triton, "_SPLITS", 2)
    generator = torch.Generator().manual_seed(0)
    rows = 30 * torch.randn(3, n, n, labels, generator=generator, dtype=torch.float64)
    rows[0, 1:2, 2:3] = rows[2] = -INF
    lengths = torch.tensor([n, max(1, n - 2), n])
    ours, right = (f(rows, lengths, kind) for f in (_spans._by_triton, _spans._by_autograd))
    for x, y in zip(ours, right, strict=True):
        torch.testing.assert_close(x, y, atol=1e-12, rtol=1e-12, equal_nan=True)


def ctc_case(dtype):
    """A repeat, an empty target, no alignment by a score and by a length, and far scores."""
    generator = torch.Generator().manual_seed(0)
    x = 3 * torch.randn(4, 4, 4, generator=generator).to(dtype)
    x[0, 1, 3] = -INF
    x[1] *= 3e3
    x[2, 1] = -INF
    targets = torch.tensor([[1, 2, 1], [3, 3, 1], [2, 1, 3], [1, 2, 3]])
    return x, targets, torch.tensor([4, 4, 3, 2]), torch.tensor([3, 2, 0, 3]), 0


@pytest.mark.parametrize(
    ("name", "dtype"), [("sums", torch.float64), ("loss", torch.float32), ("loss", torch.float64)]
)
def test_ctc(name, dtype):
    ours = getattr(_ctc_triton, name)(*ctc_case(dtype))
    right = getattr(_ctc_compiled, name)(*ctc_case(dtype))
    assert ours[0][2:].isinf().all()
    for a, b in zip(ours, right, strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(
            a, b, rtol=1e-14, atol=1e-7 if a.dtype != torch.float64 else 1e-15
        )


def test_ctc_of_broken_scores_is_nan():
    x, targets, lengths, sizes, blank = ctc_case(torch.float64)
    x[0, 2, 0], x[1, 1, 3], x[3, 2:] = INF, float("nan"), float("nan")
    value, _ = _ctc_triton.sums(x, targets, lengths, sizes, blank)
    assert value.isnan().tolist() == [True, True, False, False]


def test_long_targets_of_ctc_take_the_plain_way(monkeypatch):
    monkeypatch.setattr(_ctc_triton, "_MOST_LANES", 3)
    for name in ("sums", "loss"):
        ours = getattr(_ctc_triton, name)(*ctc_case(torch.float32))
        for a, b in zip(ours, getattr(_ctc_plain, name)(*ctc_case(torch.float32)), strict=True):
            assert torch.equal(a, b)

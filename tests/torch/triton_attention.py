"""The kernels of attention in Triton's CPU interpreter: run by test_torch_triton.py."""

import numpy as np
import pytest
from attention_cases import assert_right, drawn, far_apart
from triton import language as tl
from triton_kernels import _half_the_time  # noqa: F401

import maxent.torch as mt
import torch
from maxent.torch.attention import _autograd, _inputs, _plain_attention, _triton_attention


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    """CPU tensors take the kernels, with several tiles at small sizes."""
    torch.manual_seed(0)
    monkeypatch.setattr(_inputs, "KEEPING_DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(_autograd._dispatch, "backend_of", lambda x: "triton")
    for name, value in {"_ROWS": 16, "_HEADS": 16, "_KEPT": 8, "_PROGRAMS": 2}.items():
        monkeypatch.setattr(_triton_attention, name, value)


@pytest.fixture
def no_dense(monkeypatch):
    """The way of torch's own operations is not taken."""
    monkeypatch.setattr(_plain_attention, "forward", None)


def attend(alpha, **seen):
    return lambda q, k, v: mt.entmax_attention(q, k, v, alpha, enable_gqa=True, **seen)


@pytest.mark.usefixtures("no_dense")
@pytest.mark.parametrize(
    ("alpha", "given", "seen"),
    [
        (1.5, (1, 1, 1, 20, 150, 16, 16), {}),
        (2.0, (2, 2, 1, 9, 20, 20, 8), {}),  # heads share keys; widths that are not powers of 2
        (1.33, (1, 1, 1, 18, 18, 16, 24), {"is_causal": True}),
        (1.5, (1, 1, 1, 20, 150, 16, 16), {"window": 7}),
    ],
)
def test_output_and_gradients(alpha, given, seen):
    assert_right(attend(alpha, **seen), drawn(*given), alpha, 3e-6, **seen)


@pytest.mark.usefixtures("no_dense")
def test_lengths_packed_sequences_and_slopes():
    given = drawn(2, 1, 1, 6, 9, 16, 16)
    lengths = [4, 0]
    made = assert_right(
        attend(1.5, lengths=torch.tensor(lengths)), given, 1.5, 3e-6, lengths=lengths
    )
    assert not made[0][1].any()  # nothing to see
    given = drawn(1, 2, 2, 12, 12, 16, 16)
    slopes = torch.tensor([0.5, 0.1])
    away = -np.abs(np.arange(12)[:, None] - np.arange(12)) * slopes.double().numpy()[:, None, None]
    bounds = [0, 5, 5, 12]
    assert_right(
        attend(1.5, is_causal=True, cu_seqlens=torch.tensor(bounds), slopes=slopes),
        given, 1.5, 3e-6, is_causal=True, bounds=bounds, added=away,
    )  # fmt: skip


@pytest.mark.usefixtures("no_dense")
def test_the_order_of_programs_changes_no_bit(monkeypatch):
    """Lists of keys in another order: short ones are sorted, sums of long ones whole numbers."""
    monkeypatch.setattr(_triton_attention, "_LIGHT", tl.constexpr(32))
    q, k, v, g = drawn(1, 2, 1, 24, 4, 16, 16, spread=0.5)
    k[..., 1, :], q[..., 0] = 0.5, 3.0
    made = assert_right(attend(1.5), (q, k, v, g), 1.5, 3e-6)
    plain = _triton_attention.Plan.launch

    def shuffled(plan, kernel, grid, arguments, *rest):
        plain(plan, kernel, grid, arguments, *rest)
        if kernel is _triton_attention._place:
            entries, stop = arguments[5], arguments[3][0].tolist()
            for a, b in zip([0, *stop], stop, strict=False):
                entries[a:b] = entries[a:b][torch.randperm(b - a)]
            assert max(np.diff([0, *stop])) > 32 > min(np.diff([0, *stop]))

    monkeypatch.setattr(_triton_attention.Plan, "launch", shuffled)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    again = torch.autograd.grad(attend(1.5)(*leaves), leaves, g)
    for mine, other in zip(made[1:], again, strict=True):
        assert mine.equal(other)


@pytest.mark.usefixtures("no_dense")
def test_alphas_that_learn_and_the_support():
    q, k, v, g = drawn(1, 2, 2, 5, 12, 16, 16)
    alphas = torch.tensor([1.3, 1.8], requires_grad=True)
    assert_right(lambda *x: attend(alphas)(*x), (q, k, v, g), alphas.tolist(), 3e-6)
    (mine,) = torch.autograd.grad(attend(alphas)(q, k, v), alphas, g)
    wide = torch.tensor([1.3, 1.8], dtype=torch.float64, requires_grad=True)
    p = mt.entmax((q @ k.mT / 4).double(), wide[:, None, None])
    (right,) = torch.autograd.grad(p @ v.double(), wide, g.double())
    torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-5)
    _, support = mt.entmax_attention(q, k, v, alphas, return_support=True)
    torch.testing.assert_close(support.to_dense().double(), p.detach(), rtol=1e-5, atol=1e-6)
    assert support.counts.equal((p > 0).sum(-1))


@pytest.mark.usefixtures("no_dense")
def test_marks_held_in_parts(monkeypatch):
    monkeypatch.setattr(_triton_attention, "_BITS", 16 * 128)
    assert_right(attend(1.5), drawn(1, 2, 2, 20, 30, 16, 16), 1.5, 3e-6)


@pytest.mark.usefixtures("no_dense")
def test_the_weakest_bound():
    assert_right(attend(1.5), far_apart(3, 320, 16), 1.5, 3e-6)


def test_wide_supports_and_bad_numbers_take_the_dense_way(monkeypatch):
    q, k, v, g = drawn(1, 1, 1, 4, 20, 16, 16, spread=0.01)
    monkeypatch.setattr(_triton_attention, "_DENSE", 8)
    assert_right(attend(1.5), (q, k, v, g), 1.5, 3e-6)
    q[0, 0, 1, 3] = float("nan")
    out = attend(1.5)(q, k, v)
    assert out[0, 0, 1].isnan().all()
    assert out[0, 0, [0, 2, 3]].isfinite().all()
    alphas = torch.tensor([2.5], requires_grad=True)
    assert_right(attend(alphas), drawn(1, 1, 1, 4, 20, 16, 16), 2.5, 1e-5)

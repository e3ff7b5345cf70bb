"""The kernels of attention in Triton's CPU interpreter: run by test_torch_triton.py."""

from itertools import pairwise

import numpy as np
import pytest
from attention_cases import assert_right, drawn, far_apart
from triton import language as tl
from triton_kernels import _half_the_time  # noqa: F401

import maxent.torch as mt
import torch
from maxent.torch.attention import (
    _autograd,
    _kept,
    _plain_attention,
    _triton_candidates,
    _triton_gradients,
    _triton_turned,
)
from maxent.torch.attention import _triton_attention as _lists
from maxent.torch.attention import _triton_tiles as _tiles


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    """CPU tensors take the kernels, with several tiles at small sizes."""
    torch.manual_seed(0)
    monkeypatch.setattr(_kept, "KEEPING_DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(_autograd._dispatch, "backend_of", lambda x: "triton")
    small = {"_ROWS": 16, "_HEADS": 16, "_KEPT": 8, "_PROGRAMS": 2}
    small |= {"_SHORT": 0, "_SHORT_POWERS": 0}
    for name, value in small.items():
        monkeypatch.setattr(_lists, name, value)
    sizes = dict.fromkeys(("forward", "queries", "keys"), (16, 16, 1, 1))
    monkeypatch.setattr(_tiles, "blocks", lambda width, dtype: sizes)


@pytest.fixture
def lists_alone(monkeypatch):
    """No other way is taken."""
    monkeypatch.setattr(_plain_attention, "forward", None)
    monkeypatch.setattr(_tiles, "forward", None)


@pytest.fixture(params=["lists", "tiles"])
def way(request, monkeypatch):
    """Lists of keys, or tiles; never torch's own operations."""
    monkeypatch.setattr(_plain_attention, "forward", None)
    if request.param == "tiles":
        for name in ("_SHORT", "_SHORT_POWERS"):
            monkeypatch.setattr(_lists, name, 1 << 30)
        monkeypatch.setattr(_lists, "_by_lists", None)
    else:
        monkeypatch.setattr(_tiles, "forward", None)
    return request.param


def attend(alpha, **seen):
    return lambda q, k, v: mt.entmax_attention(q, k, v, alpha, enable_gqa=True, **seen)


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("way")
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


@pytest.mark.usefixtures("lists_alone")
def test_the_order_of_programs_changes_no_bit(monkeypatch):
    """Lists of keys in another order: short ones are sorted, sums of long ones whole numbers."""
    for module in (_triton_turned, _triton_gradients):
        monkeypatch.setattr(module, "LIGHT", tl.constexpr(32))
    for module in (_triton_turned, _triton_candidates):
        monkeypatch.setattr(module, "BLOCKS", tl.constexpr(4))
    q, k, v, g = drawn(1, 2, 1, 24, 4, 16, 16, spread=0.5)
    k[..., 1, :], q[..., 0] = 0.5, 3.0
    made = assert_right(attend(1.5), (q, k, v, g), 1.5, 3e-6)
    plain = _lists.Plan.launch

    def shuffled(plan, kernel, grid, arguments, *rest):
        plain(plan, kernel, grid, arguments, *rest)
        if kernel is _triton_turned.turn_kernel:
            begins, turned = arguments[4], arguments[5]
            for a, b in pairwise(begins.tolist()):
                turned[a:b] = turned[a:b][torch.randperm(b - a)]
            many = begins[:: _triton_turned.BLOCKS.value].diff()
            assert many.max() > 32 > many.min()

    monkeypatch.setattr(_lists.Plan, "launch", shuffled)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    again = torch.autograd.grad(attend(1.5)(*leaves), leaves, g)
    for mine, other in zip(made[1:], again, strict=True):
        assert mine.equal(other)


@pytest.mark.parametrize("short", [0, 1 << 30], ids=["lists", "tiles"])
def test_alphas_that_learn_and_the_support(short, monkeypatch):
    monkeypatch.setattr(_lists, "_SHORT_POWERS", short)
    monkeypatch.setattr(_plain_attention, "forward", None)
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


@pytest.mark.usefixtures("lists_alone")
def test_marks_held_in_parts(monkeypatch):
    monkeypatch.setattr(_lists, "_HELD", 16 * 32)  # one tile
    assert_right(attend(1.5), drawn(1, 2, 2, 20, 30, 16, 16), 1.5, 3e-6)


@pytest.mark.usefixtures("lists_alone")
@pytest.mark.parametrize("little", ["_WORDS", "_EXPECTED"])
def test_what_did_not_fit_is_done_again(little, monkeypatch):
    monkeypatch.setattr(_lists, little, 1)
    given = drawn(1, 1, 1, 20, 700, 16, 16)
    given[0][0, 0, 3] = 0.0  # a query that sees all keys alike
    assert_right(attend(1.5), given, 1.5, 3e-6)
    known = [x for x in _lists._shapes.values() if x.keys == 700]
    assert max(x.held for x in known) == (8 if little == "_WORDS" else 16)  # of six tiles
    if little == "_EXPECTED":
        assert min(x.entries for x in known) == 20 < max(x.entries for x in known)


@pytest.mark.usefixtures("way")
def test_the_weakest_bound():
    assert_right(attend(1.5), far_apart(3, 320, 16), 1.5, 3e-6)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_wide_supports_and_bad_numbers_take_tiles(wrong, monkeypatch):
    q, k, v, g = drawn(1, 1, 1, 4, 20, 16, 16, spread=0.01)
    monkeypatch.setattr(_lists, "_DENSE", 8)
    monkeypatch.setattr(_plain_attention, "forward", None)
    for _ in range(2):  # at first by what was needed before, then looking first
        assert_right(attend(1.5), (q, k, v, g), 1.5, 3e-6)
    assert_right(attend(1.5), drawn(1, 1, 1, 4, 20, 16, 16, spread=3.0), 1.5, 3e-6)
    q[0, 0, 1, 3] = wrong
    out = attend(1.5)(q, k, v)
    assert out[0, 0, 1].isnan().all()
    assert out[0, 0, [0, 2, 3]].isfinite().all()


def test_alphas_beyond_two_take_torchs_operations():
    alphas = torch.tensor([2.5], requires_grad=True)
    assert_right(attend(alphas), drawn(1, 1, 1, 4, 20, 16, 16), 2.5, 1e-5)

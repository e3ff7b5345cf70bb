"""The head's kernels in Triton's CPU interpreter: run by test_torch_triton.py."""

import pytest
from test_torch_head import (
    assert_same,
    layer,
    proportions,
    reference,
    shards_have_the_whole_solution,
)
from test_torch_head_statistics import compare, dense, labels
from torch.nn.functional import linear
from triton_kernels import _half_the_time  # noqa: F401

import maxent.torch as mt
import torch
from maxent.torch.head import _dense, _rows, _sparse, _triton_head, _triton_products
from maxent.torch.head._aligned import aligned
from maxent.torch.maps import _dispatch, _triton

SMALL = {"_ROOM": 6 * 64 * 4, "_CLASSES": 16, "_SHORT": 32, "KEPT": 32, "_TILE": (4, 8, 1)}


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    """CPU tensors take the kernels, with several chunks, tiles and parts at small sizes."""
    torch.manual_seed(0)

    def kernels(hidden, classes, kind, alpha):
        fits = kind == "tsallis" and _triton_head.supported(hidden, classes, alpha)
        return _triton_head if fits else None

    def shares(index, ignore, mean):
        portion, share = _triton_head.label_shares(index, ignore, mean)
        return _sparse.Targets(index, portion[:, None], share)

    monkeypatch.setattr(_rows, "kernels", kernels)
    monkeypatch.setattr("maxent.torch.head.loss.label_shares", shares)
    monkeypatch.setattr("maxent.torch.head.distribution.kernels", kernels)
    for name, value in SMALL.items():
        monkeypatch.setattr(_triton_head, name, value)
    monkeypatch.setattr(_triton_products, "_PART", 4)


@pytest.mark.parametrize(
    ("alpha", "dtype", "spread"),
    [
        (1.5, torch.float32, 3.0),
        (2.0, torch.float16, 3.0),
        (1.33, torch.float32, 3.0),
        (3.0, torch.float32, 5.0),
        (1.5, torch.float32, 0.8),  # lists overflow, and are compressed
        (1.5, torch.float32, 0.02),  # supports are large
    ],
)
def test_labels(alpha, dtype, spread):
    given = layer(6, 20, 300, spread, dtype)
    target = torch.randint(300, (6,))
    target[1] = -100
    loss = mt.linear_fenchel_young_loss(*given[:2], target, alpha, given[2])
    right, wide = reference(given, target, alpha)
    assert_same(loss, given, right, wide, dtype)


@pytest.mark.parametrize("sparse_grad", [False, True])
def test_proportions_one_by_one(sparse_grad):
    given = layer(6, 20, 150)
    target = proportions(6, 150, 3)
    loss = mt.linear_fenchel_young_loss(
        *given[:2], target, 1.5, given[2], reduction="none", sparse_grad=sparse_grad
    )
    right, wide = reference(given, target, 1.5, reduction="none")
    assert_same(loss, given, right, wide, torch.float32)


@pytest.fixture
def _whole_rows_in_place(monkeypatch):
    """Residuals of whole rows take the place of their scores, as on CUDA."""

    def shared_loss(x, target, share, kind, parameter, ignore, check, in_place):
        assert in_place
        return _triton.tsallis_loss(x, target, parameter, ignore, share, in_place)

    monkeypatch.setattr(_dispatch, "shared_loss", shared_loss)
    monkeypatch.setattr(_dispatch, "fuses", lambda x, kind, parameter: x.dtype != torch.float64)
    monkeypatch.setattr(_dense, "_room", lambda h, classes, _: h.new_empty(1, aligned(classes)))
    monkeypatch.setattr(_dense, "ROOM_ON_CPU", 3 * 43 * 4)
    monkeypatch.setattr(_dense, "FEWEST", 1)


@pytest.mark.usefixtures("_whole_rows_in_place")
@pytest.mark.parametrize(("alpha", "spread"), [(1.5, 0.02), (1.0, 3.0), (2.0, 0.02)])
@pytest.mark.parametrize("bias", [True, False])
def test_whole_rows_in_place(alpha, spread, bias):
    given = layer(8, 20, 43, spread)[: 2 + bias]
    target = torch.randint(43, (8,))
    target[1] = -100
    settings = {"bias": given[2] if bias else None}
    loss = mt.linear_fenchel_young_loss(*given[:2], target, alpha, **settings)
    right, wide = reference(given, target, alpha)
    assert_same(loss, given, right, wide, torch.float32)
    target[2:4] = torch.tensor([43, 47])  # just beyond the classes, and among the columns to spare
    settings |= {"reduction": "none", "check": False}
    each = mt.linear_fenchel_young_loss(*given[:2], target, alpha, **settings)
    assert each.isnan().nonzero()[:, 0].tolist() == [2, 3]


@pytest.mark.parametrize("used", [2, 0])
def test_rows_that_do_not_count(used):
    given = layer(6, 20, 150)
    target = torch.full((6,), -100)
    target[:used] = torch.randint(150, (used,))
    loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2])
    right, wide = reference(given, target, 1.5)
    assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize(
    ("settings", "dtype", "spread"),
    [
        ({"temperature": 0.5}, torch.bfloat16, 3.0),
        ({"soft_cap": 2.5, "temperature": 0.4}, torch.float16, 4.0),
        ({"soft_cap": 2.5, "temperature": 0.4, "z_loss": 0.02}, torch.float32, 4.0),
        ({"soft_cap": 2.5, "temperature": 0.4, "z_loss": 0.02}, torch.float32, 0.02),
        ({"label_smoothing": 0.2, "temperature": 0.7, "z_loss": 0.02}, torch.float32, 3.0),
    ],
)
def test_settings(settings, dtype, spread):
    given = layer(6, 20, 150, spread, dtype)
    target = torch.randint(150, (6,))
    target[1] = -100
    loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2], **settings)
    right, wide = reference(given, target, 1.5, **settings)
    assert_same(loss, given, right, wide, dtype)


def test_scores_that_overflow_end_at_the_cap():
    hidden, weight = torch.full((2, 4), 300.0).half(), torch.eye(4)[:3].half() * 300
    target = torch.tensor([1, 2])
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 2.0, soft_cap=5.0)
    torch.testing.assert_close(loss, torch.tensor(1 / 3))


def test_statistics():
    given = layer(6, 20, 150)
    settings = {"soft_cap": 2.5, "temperature": 0.4}
    target = labels(given, 1.5, settings)
    found = mt.linear_statistics(*given[:2], target, 1.5, given[2], top_k=2, **settings)
    compare(found, given, *dense(given, target, 1.5, settings), target, 1e-4)


def test_a_class_of_all_rows():
    """Its gradient has several parts."""
    hidden, weight, bias = layer(30, 12, 60)
    with torch.no_grad():
        bias[7] += 20
    given, target = (hidden, weight, bias), torch.randint(60, (30,))
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 2.0, bias)
    right, wide = reference(given, target, 2.0)
    assert_same(loss, given, right, wide, torch.float32)


def test_bad_rows_and_labels():
    hidden, weight, bias = layer(6, 20, 100)
    target = torch.tensor([0, 1, 2, 3, 100, -7])
    with torch.no_grad():
        hidden[1, 0], hidden[2, 3] = float("nan"), float("inf")
    loss = mt.linear_fenchel_young_loss(
        hidden, weight, target, 1.5, bias, reduction="none", check=False
    )
    assert loss.isnan().tolist() == [False, True, True, False, True, True]
    loss[[0, 3]].sum().backward()
    assert weight.grad.shape == weight.shape


def test_distributions():
    hidden, weight, bias = layer(6, 20, 150)
    found = mt.linear_entmax(hidden, weight, 1.5, bias)
    p = mt.entmax(linear(hidden, weight, bias).detach().double(), 1.5)
    dense = torch.zeros_like(p).scatter_add_(1, found.indices, found.probabilities.double())
    torch.testing.assert_close(dense, p, rtol=0, atol=3e-6)


def test_shards_of_the_classes():
    shards_have_the_whole_solution("cpu")

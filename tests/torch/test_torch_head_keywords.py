"""Smoothing, temperature, soft cap and z-loss: the same in the head and in the unfused losses."""

import math

import pytest
from test_torch_head import ROUNDING, assert_same, device, layer, proportions, reference  # noqa: F401

from tools import needs

torch = needs("torch")

from torch.nn.functional import cross_entropy, linear  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.head import _dense, _rows  # noqa: E402

SETTINGS = [
    {"label_smoothing": 0.2},
    {"temperature": 0.6},
    {"soft_cap": 2.5},
    {"z_loss": 0.01},
    {"label_smoothing": 0.2, "temperature": 1.7, "z_loss": 0.02},
    {"soft_cap": 2.5, "temperature": 0.4, "z_loss": 0.02},
    {"label_smoothing": 0.2, "soft_cap": 2.5, "temperature": 0.6, "z_loss": 0.02},
]
each = pytest.mark.parametrize("settings", SETTINGS, ids=lambda given: "+".join(given))


# -- the unfused losses ----------------------------------------------------------------------------


@each
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_unfused_shannon_is_cross_entropy(settings, reduction):
    x = (3 * torch.randn(6, 5, dtype=torch.float64)).requires_grad_()
    y = torch.tensor([0, 4, -100, 2, 2, 1])
    criterion = mt.FenchelYoungLoss("shannon", reduction, **settings)
    given = dict(settings)
    cap = given.pop("soft_cap", math.inf)
    z, scores = given.pop("z_loss", 0.0), x if cap == math.inf else cap * torch.tanh(x / cap)
    scores = scores / given.pop("temperature", 1.0)
    right = cross_entropy(scores, y, reduction="none", **given)
    right = right + z * scores.logsumexp(1).square() * (y >= 0)
    right = right if reduction == "none" else right.sum() / 5
    loss = criterion(x, y)
    torch.testing.assert_close(loss, right, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        *(torch.autograd.grad(value.sum(), x) for value in (loss, right)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(criterion.predict(x), scores.softmax(1))


@each
def test_unfused_gradients(settings):
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([1, 5, -100, 0])
    weight = torch.rand(6, dtype=torch.float64)

    def loss(x):
        return mt.fenchel_young_loss(x, y, 1.5, "none", weight=weight, **settings)

    assert torch.autograd.gradcheck(loss, x)


# -- the head --------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("entropy", [1.0, 1.05, 1.5, 3.0, mt.NormEntropy(2.0)], ids=str)
@pytest.mark.parametrize(("reduction", "width"), [("mean", 1), ("none", 3)])
def test_as_a_layer_and_a_loss(settings, entropy, reduction, width, device):  # noqa: F811
    given = layer(device=device)
    weights = torch.rand(50) + 0.5
    if width > 1:
        target = proportions(20, 50, width, device)
    else:
        target = torch.randint(50, (20,), device=device)
        target[3] = -100
    loss = mt.linear_fenchel_young_loss(
        *given[:2], target, entropy, given[2], reduction=reduction,
        label_weight=weights.to(device), **settings,
    )  # fmt: skip
    right, wide = reference(
        given, target, entropy, reduction=reduction, weight=weights.double(), **settings
    )
    assert_same(loss, given, right, wide, torch.float32)


@each
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_types_and_rows_of_large_support(settings, dtype, device):  # noqa: F811
    hidden, weight, bias = layer(12, 16, 600, spread=4.0, dtype=dtype, device=device)
    with torch.no_grad():
        hidden[:5] *= 1e-3
        bias.zero_()
    given, target = (hidden, weight, bias), torch.randint(600, (12,), device=device)
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, bias, **settings)
    assert loss.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    right, wide = reference(given, target, 1.5, **settings)
    assert_same(loss, given, right, wide, dtype)


@pytest.mark.parametrize("settings", SETTINGS[-3:], ids=lambda given: "+".join(given))
def test_gradcheck(settings):
    given = layer(4, 3, 7, spread=1.0, dtype=torch.float64)
    target = torch.tensor([1, -100, 6, 0])

    def loss(*given):
        return mt.linear_fenchel_young_loss(
            *given[:2], target, 1.5, given[2], reduction="none", **settings
        )

    assert torch.autograd.gradcheck(loss, given)


def test_in_blocks(monkeypatch, device):  # noqa: F811
    monkeypatch.setattr(_rows, "ROWS", 7)
    for name, value in {"ROOM": 7 * 600, "ROOM_ON_CPU": 7 * 600, "FEWEST": 2}.items():
        monkeypatch.setattr(_dense, name, value)
    for spread in (4.0, 1e-3):
        given = layer(20, 8, 600, spread=spread, device=device)
        target = torch.randint(600, (20,), device=device)
        for settings in SETTINGS[-3:]:
            for x in given:
                x.grad = None
            loss = mt.linear_fenchel_young_loss(*given[:2], target, 1.5, given[2], **settings)
            right, wide = reference(given, target, 1.5, **settings)
            assert_same(loss, given, right, wide, torch.float32)


@pytest.mark.parametrize("settings", SETTINGS[-3:], ids=lambda given: "+".join(given))
def test_edges(settings, device):  # noqa: F811
    """Masked classes, bad and ignored rows, labels that are none, and nothing at all."""
    hidden, weight, bias = layer(6, 8, 300, device=device)
    target = torch.tensor([20, 299, -100, 40, 77, 50], device=device)
    with torch.no_grad():
        hidden[1, 0], hidden[2, 3] = math.nan, math.nan
        bias[:10] = -math.inf
    check = {"reduction": "none", "bias": bias} | settings
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, **check)
    wide = linear(hidden, weight, bias).double()
    right = mt.fenchel_young_loss(wide, target, 1.5, "none", **settings)
    torch.testing.assert_close(loss.double(), right, rtol=1e-5, atol=1e-5, equal_nan=True)
    assert loss.isnan().tolist() == [False, True, False, False, False, False]
    assert loss[2] == 0
    used = mt.linear_fenchel_young_loss(hidden[3:], weight, target[3:], 1.5, **check)
    torch.testing.assert_close(used, loss[3:])
    if used.isfinite().all():
        used.sum().backward()
        assert not weight.grad[:10].any()
        assert weight.grad.isfinite().all()
    else:  # every class has a part of smoothed labels, masked ones too
        assert settings["label_smoothing"]
    target[0] = 300
    loss = mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, check=False, **check)
    assert loss.isnan().tolist() == [True, True, False, False, False, False]
    check["bias"] = torch.full_like(bias, -math.inf)
    assert not mt.linear_fenchel_young_loss(hidden[3:], weight, target[3:], 1.5, **check).any()
    empty = mt.linear_fenchel_young_loss(hidden[:0], weight, target[:0], 1.5, **settings)
    assert empty == 0


def test_a_cap_keeps_what_would_overflow():
    """Scores beyond float16 are computed in float32 and end at the cap."""
    hidden, weight = torch.full((1, 4), 300.0).half(), torch.eye(4)[:3].half() * 300
    p = mt.linear_entmax(hidden, weight, 2.0, soft_cap=5.0)
    torch.testing.assert_close(p.probabilities, torch.full((1, 3), 1 / 3))
    loss = mt.linear_fenchel_young_loss(hidden, weight, torch.tensor([1]), 2.0, soft_cap=5.0)
    torch.testing.assert_close(loss, torch.tensor(1 / 3))


def test_the_gradient_of_smoothed_labels_is_sparse_and_of_rank_one(device):  # noqa: F811
    hidden, weight, _ = layer(20, 8, 3000, spread=6.0, dtype=torch.float64, device=device)
    target = torch.randint(3000, (20,), device=device)
    mt.linear_fenchel_young_loss(hidden, weight, target, 1.5, label_smoothing=0.3).backward()
    rank_one = torch.outer(weight.new_full((3000,), 0.3 / 3000), hidden.detach().mean(0))
    rest = (weight.grad + rank_one).abs().amax(1) > 1e-15
    assert rest.sum() < 500


@each
def test_modules(settings):
    head = mt.LinearFenchelYoungLoss(8, 50, 1.5, **settings)
    unfused = mt.FenchelYoungLoss(1.5, **settings)
    hidden, target = 20 * torch.randn(6, 8), torch.randint(50, (6,))
    scores = linear(hidden, head.weight)
    torch.testing.assert_close(head(hidden, target), unfused(scores, target), rtol=1e-5, atol=1e-6)
    p, right = head.predict(hidden), unfused.predict(scores).detach()
    torch.testing.assert_close(p.to_dense(), right, rtol=0, atol=2e-6)
    for name, value in settings.items():
        assert f", {name}={value}" in repr(head)
        assert f", {name}={value}" in repr(unfused)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"temperature": 0}, "a finite temperature > 0, got 0"),
        ({"temperature": -1.0}, "a finite temperature > 0"),
        ({"temperature": math.nan}, "a finite temperature > 0"),
        ({"soft_cap": 0.0}, "a finite soft_cap > 0, or None"),
        ({"soft_cap": -3}, "a finite soft_cap > 0, or None"),
        ({"soft_cap": 1e5}, "no score of torch.float16 reaches soft_cap=100000"),
        ({"label_smoothing": 1.5}, "label_smoothing must be a number from 0 to 1"),
        ({"label_smoothing": -0.1}, "label_smoothing must be a number from 0 to 1"),
        ({"z_loss": -1e-4}, "z_loss must be a finite number >= 0"),
    ],
)
def test_bad_settings(settings, said):
    hidden, weight, target = torch.zeros(2, 8).half(), torch.zeros(50, 8).half(), torch.ones(2)
    with pytest.raises(ValueError, match=said):
        mt.linear_fenchel_young_loss(hidden, weight, target.long(), **settings)
    with pytest.raises(ValueError, match=said):
        mt.fenchel_young_loss(hidden, target.long(), **settings)
    with pytest.raises(ValueError, match=said):
        mt.LinearFenchelYoungLoss(8, 50, dtype=torch.float16, **settings)
    if {"temperature", "soft_cap"} & set(settings):
        with pytest.raises(ValueError, match=said):
            mt.linear_entmax(hidden, weight, **settings)


def test_smoothing_and_sparse_gradients_do_not_go_together():
    with pytest.raises(ValueError, match="leave one of them out"):
        mt.linear_fenchel_young_loss(
            torch.zeros(2, 8), torch.zeros(50, 8), torch.tensor([0, 1]),
            label_smoothing=0.1, sparse_grad=True,
        )  # fmt: skip

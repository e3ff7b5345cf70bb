"""The kernels of decoding in Triton's CPU interpreter: run by test_torch_triton.py."""

import math

import pytest
from decode_cases import (
    ADVERSARIAL,
    adversarial,
    assert_right,
    drawn,
    filled,
    hidden_by_a_channel,
    queries,
)
from triton_kernels import _half_the_time  # noqa: F401

import torch
from maxent.torch.attention import _pages, _triton_decode, cache


@pytest.fixture(autouse=True)
def _on_device(monkeypatch):
    """CPU tensors take the kernels, with several programs and rounds at small sizes."""
    torch.manual_seed(0)
    monkeypatch.setattr(
        cache, "_kernels", lambda there, *widths: cache._found(there.dtype, *widths)
    )
    monkeypatch.setattr(cache._dispatch, "backend_of", lambda x: "triton")
    monkeypatch.setattr(_triton_decode, "_splits", lambda *_: 2)
    small = {"_PARTS": 2, "_KEPT": 16, "_REFINING": (4, 16), "_FINISHING": (4, 16)}
    for name, value in small.items():
        monkeypatch.setattr(_triton_decode, name, value)


@pytest.fixture(params=[True, False], ids=["8-bit copies", "full keys"])
def eight_bit(request):
    return request.param


@pytest.mark.parametrize(
    ("alpha", "heads", "tokens", "lengths", "seen"),
    [
        (1.5, 4, 1, [150, 40], {}),
        (2.0, 2, 3, [130, 1], {}),  # fewer tokens than queries
        ([1.2, 1.5, 1.9, 2.0], 4, 1, [70, 65], {"scale": 0.5}),
        (1.5, 2, 2, [190, 20], {"window": 60}),
    ],
)
def test_steps(alpha, heads, tokens, lengths, seen, eight_bit):
    keys, values = drawn(lengths, heads=2)
    made = filled(keys, values, eight_bit=eight_bit)
    assert made.eight_bit == eight_bit
    assert_right(made, queries(2, heads, tokens), keys, values, alpha, **seen)


def test_the_same_without_weights(eight_bit):
    keys, values = drawn([80])
    made, q = filled(keys, values, eight_bit=eight_bit), queries(1, 1, 1)
    assert made.attend(q).equal(made.attend(q, return_support=True)[0])


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_scores(name, eight_bit):
    q, keys, values = adversarial(name)
    assert_right(filled(keys, values, eight_bit=eight_bit), q, keys, values, tolerance=2e-5)


@pytest.mark.parametrize("name", ["one_place", "outlier_channels", "very_different_norms", "large"])
def test_bounds_hold_and_are_near(name, eight_bit, monkeypatch):
    """Upper bounds of eight keys, lower bounds at 64 places, beside scores in float64."""
    q, keys, values = adversarial(name)
    made = filled(keys, values, eight_bit=eight_bit)
    bounds = []
    launch = _triton_decode.Plan.launch

    def seen(plan, kernel, grid, arguments, *rest):
        launch(plan, kernel, grid, arguments, *rest)
        if kernel is _triton_decode._scan:
            bounds.extend(x.clone().reshape(2, -1).double() for x in arguments[6:8])

    monkeypatch.setattr(_triton_decode.Plan, "launch", seen)
    made.attend(q)
    high, low = bounds
    k, q = keys[0][0].double(), q[0, :, 0].double()
    z = torch.full((2, 192), -math.inf, dtype=torch.float64)
    z[:, :140] = q @ k.T * (0.5 / math.sqrt(32))
    places = torch.arange(192).reshape(3, 4, 2, 2, 4).transpose(2, 3).reshape(-1, 8)
    best = z[:, places].amax(2)
    assert (high >= best).all()
    rounding = 1 / 254 if eight_bit else 2.0**-8
    reach = q.norm(dim=1)[:, None] * (k.abs().amax(1) if eight_bit else k.norm(dim=1)).max()
    near = 0.5 / math.sqrt(32) * reach * rounding * (math.sqrt(32) if eight_bit else 1)
    on = best > -math.inf
    assert ((high - best)[on] <= (2.1 * near).expand_as(best)[on]).all()
    top = low.reshape(2, 2, 64).amax(2)  # of the first two tiles, and of the last
    parts = z[:, :128], z[:, 128:]
    for split, part in enumerate(parts):
        assert (top[:, split] <= part.amax(1)).all()
        assert (top[:, split] >= part.amax(1) - 2.1 * near[:, 0]).all()


def test_the_certificate_is_needed():
    """Without the norms of the rounding errors a key of the support is lost."""
    q, keys, values = hidden_by_a_channel()
    made = filled(keys, values)
    _, support = assert_right(made, q, keys, values)
    assert 77 in support.col.tolist()
    made._pages.notes &= 0x7FFF0000
    _, support = made.attend(q, return_support=True)
    assert 77 not in support.col.tolist()


def test_widths_types_and_larger_pages(eight_bit):
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float16, 1e-3)):
        keys, values = drawn([150], width=20, wide=24, dtype=dtype)
        made = filled(keys, values, eight_bit=eight_bit, page=128)
        q = queries(1, 1, 1, width=20, dtype=dtype)
        assert_right(made, q, keys, values, tolerance=tolerance)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_bad_numbers_stay_with_their_queries(wrong, eight_bit):
    keys, values = drawn([70, 70])
    keys[0][0, 33, 4] = wrong
    values[1][0, 5] = math.nan  # matters where its key is in the support alone
    q = queries(2, 2, 1)
    q[0, 0, 0, 4], q[0, 1, 0, 4] = 1.0, -1.0  # inf is the largest score, or the smallest
    q[1] = 30 * keys[1][0, 44]
    out, _ = assert_right(filled(keys, values, eight_bit=eight_bit), q, keys, values)
    assert out[1].isfinite().all()
    assert out[0, 0].isnan().all() == (wrong != -math.inf)
    q[1, 0, 0, 0] = wrong
    keys, values = keys[1:], [values[1].nan_to_num()]
    assert_right(filled(keys, values, eight_bit=eight_bit), q[1:], keys, values)


def test_growth_truncation_and_parts_of_the_heads(eight_bit, monkeypatch):
    """Tokens come and go over the ends of pages; lists are made for one head at a time."""
    monkeypatch.setattr(_triton_decode, "_SCRATCH", 1)
    keys, values = drawn([62, 3], heads=2)
    made = filled(keys, values, eight_bit=eight_bit)
    for tokens in (1, 3):
        new = drawn([tokens, tokens], heads=2)
        made.append(*map(torch.stack, new))
        for held, more in zip((keys, values), new, strict=True):
            held[:] = [torch.cat((x, y), 1) for x, y in zip(held, more, strict=True)]
        assert_right(made, queries(2, 2, tokens), keys, values)
    made.truncate([64, 5])
    keys, values = ([x[0][:, :64], x[1][:, :5]] for x in (keys, values))
    assert_right(made, queries(2, 2, 1), keys, values)


def test_a_graph_beyond_the_capacity_gives_nan(monkeypatch):
    """Replays append without being asked."""
    keys, values = drawn([64])
    made = filled(keys, values, capacity=64)
    q = queries(1, 1, 1)
    right = made.attend(q)
    monkeypatch.setattr(_pages.Pages, "capturing", True)
    assert made.attend(q).equal(right)
    made.append(keys[0][None, :, :1], values[0][None, :, :1])
    assert made.attend(q).isnan().all()


def test_a_large_head_in_rows_of_their_own(monkeypatch):
    monkeypatch.setattr(_triton_decode, "_MOST_ROWS", 8)
    keys, values = drawn([70])
    assert_right(filled(keys, values), queries(1, 5, 2), keys, values)

"""Attention with exactly sparse weights: every option on every engine beside float64."""

import math

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

from attention_cases import assert_right, drawn, far_apart, reference  # noqa: E402
from test_torch import tracing_warns  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.attention import _inputs  # noqa: E402

PLACES = ["plain", "numba", "cuda"]
ALIBI = [0.5, 0.1, 0.25, 0.0]
CASES = {
    "all": {},
    "causal": {"is_causal": True},
    "window": {"window": 5},
    "causal window": {"window": 5, "is_causal": True},
    "lengths": {"lengths": [7, 0]},
    "packed": {"bounds": [0, 5, 5, 33]},
    "packed causal": {"bounds": [0, 5, 5, 33], "is_causal": True},
    "scale": {"scale": 0.7},
}


@pytest.fixture(params=PLACES)
def place(request):
    """Tensors move to the device; on the CPU one engine is chosen."""
    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
        yield "cuda"
        return
    with mt.backend(request.param):
        yield "cpu"


def moved(given, place):
    return [x.to(place) for x in given]


def attend(alpha, place, bounds=None, lengths=None, **seen):
    if bounds is not None:
        seen["cu_seqlens"] = torch.tensor(bounds, device=place)
    if lengths is not None:
        seen["lengths"] = torch.tensor(lengths, device=place)
    return lambda q, k, v: mt.entmax_attention(q, k, v, alpha, enable_gqa=True, **seen)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alpha", [1.5, 2.0, 1.2])
def test_what_queries_see(place, name, alpha):
    seen = CASES[name]
    given = moved(drawn(2, 4, 2, 33, 33, 24, 8), place)
    assert_right(attend(alpha, place, **seen), given, alpha, 4e-6, **seen)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-13), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)],
    ids=str,
)
def test_types(place, dtype, tolerance):
    given = moved(drawn(1, 2, 2, 20, 50, 32, 16, dtype), place)
    made = assert_right(attend(1.5, place), given, 1.5, tolerance)
    assert {x.dtype for x in made} == {dtype}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3)])
def test_leading_dimensions(place, shape):
    q, k, v, g = (torch.randn(*shape, 6, 16, device=place) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = mt.entmax_attention(*leaves)
    made = [out, *torch.autograd.grad(out, leaves, g)]
    right = reference(*(x.reshape(1, -1, 6, 16) for x in (q, k, v, g)), 1.5)
    for mine, theirs in zip(made, right, strict=False):
        assert mine.shape == q.shape
        np.testing.assert_allclose(
            mine.detach().cpu().reshape(1, -1, 6, 16), theirs, rtol=1e-4, atol=1e-5
        )


def test_biases_and_masks(place):
    given = moved(drawn(2, 4, 2, 9, 12, 16, 16), place)
    bias = torch.randn(4, 9, 12)
    keep = torch.rand(2, 1, 9, 12) > 0.4
    keep[1, 0, 3] = False  # a query that sees nothing
    for mask, added in ((bias, bias.numpy()), (keep, np.where(keep.numpy(), 0.0, -np.inf))):
        right = attend(1.5, place, attn_mask=mask.to(place))
        made = assert_right(right, given, 1.5, 4e-6, added=added)
    assert not made[0][1, :, 3].any()
    slopes = torch.tensor(ALIBI)
    away = -np.abs(np.arange(9)[:, None] - np.arange(12)) * np.array(ALIBI)[:, None, None]
    assert_right(attend(1.5, place, slopes=slopes.to(place)), given, 1.5, 4e-6, added=away)


def test_a_bias_learns(place):
    q, k, v, _ = moved(drawn(1, 1, 1, 4, 6, 8, 8, torch.float64), place)
    bias = torch.zeros(4, 6, dtype=q.dtype, device=place, requires_grad=True)
    assert torch.autograd.gradcheck(lambda b: mt.entmax_attention(q, k, v, attn_mask=b), bias)


@pytest.mark.parametrize("inner", [False, True])
def test_padding(place, inner):
    given = moved(drawn(2, 2, 2, 5, 9, 16, 16), place)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[0, :3] = padding[1, 7:] = True
    padding[1, 2] = inner
    added = np.where(padding[:, None, None].numpy(), -np.inf, 0.0)
    assert_right(attend(1.5, place, key_padding=padding.to(place)), given, 1.5, 4e-6, added=added)


def test_alphas_that_learn(place):
    q, k, v, g = moved(drawn(2, 4, 2, 7, 12, 16, 16), place)
    values = [1.2, 1.5, 1.9, 2.0]
    alphas = torch.tensor(values, device=place, requires_grad=True)
    assert_right(attend(alphas, place), (q, k, v, g), values, 4e-6)
    (mine,) = torch.autograd.grad(attend(alphas, place)(q, k, v), alphas, g)
    step = 1e-5
    for h in range(4):
        both = []
        for sign in (1, -1):
            near = list(values)
            near[h] += sign * step
            both.append((reference(q, k, v, g, near)[0] * g.cpu().double().numpy()).sum())
        assert float(mine[h]) == pytest.approx((both[0] - both[1]) / (2 * step), rel=2e-4)


def test_support(place):
    q, k, v, g = moved(drawn(2, 4, 2, 7, 40, 16, 16), place)
    out, support = mt.entmax_attention(q, k, v, enable_gqa=True, return_support=True)
    p = reference(q, k, v, g, 1.5)[4]
    assert support.shape == (2, 4, 7, 40)
    np.testing.assert_allclose(support.to_dense().cpu(), p, atol=1e-6)
    assert support.counts.cpu().equal(torch.from_numpy((p > 0).sum(-1)))
    for r in range(2 * 4 * 7):
        row = support.col[support.crow[r] : support.crow[r + 1]]
        assert bool((row.diff() > 0).all())
    assert out.shape == q.shape


def test_softmax_is_torchs_own(place):
    q, k, v, _ = moved(drawn(2, 4, 2, 7, 12, 16, 16), place)
    torch_own = torch.nn.functional.scaled_dot_product_attention
    mine = mt.entmax_attention(q, k, v, alpha=1, enable_gqa=True)
    assert mine.equal(torch_own(q, k, v, enable_gqa=True))
    mine = mt.entmax_attention(q, k, v, alpha=1, is_causal=True, enable_gqa=True)
    assert mine.equal(torch_own(q, k, v, is_causal=True, enable_gqa=True))
    out = mt.entmax_attention(q, k, v, 1, enable_gqa=True, lengths=torch.tensor([5, 0]).to(place))
    torch.testing.assert_close(out[0], torch_own(q, k[:, :, :5], v[:, :, :5], enable_gqa=True)[0])
    assert not out[1].any()


def test_ties_and_flat_rows(place):
    """All keys alike: each has the same weight; two alike: they share."""
    q, v = torch.randn(1, 1, 3, 16, device=place), torch.randn(1, 1, 300, 16, device=place)
    k = torch.ones(1, 1, 300, 16, device=place)
    out = mt.entmax_attention(q, k, v)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand(1, 1, 3, 16), atol=1e-6, rtol=0)
    k[..., 7:9, :] += 10 * q[..., :1, :]
    _, support = mt.entmax_attention(q[..., :1, :], k, v, return_support=True)
    assert support.col.tolist() == [7, 8]
    assert support.value.tolist() == pytest.approx([0.5, 0.5], abs=1e-6)


def test_the_weakest_bound(place):
    assert_right(attend(1.5, place), moved(far_apart(40, 640, 32), place), 1.5, 5e-6)


def test_a_key_that_all_attend_to(place):
    q, k, v, g = drawn(1, 2, 1, 700, 9, 16, 16)
    q[..., 0], k[..., 1, 0] = 3.0, 4.0
    assert_right(attend(1.5, place), moved((q, k, v, g), place), 1.5, 4e-6)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_bad_numbers_stay_in_their_rows(place, wrong):
    q, k, v, _ = moved(drawn(1, 1, 1, 5, 9, 16, 16), place)
    right = mt.entmax_attention(q, k, v)
    q[0, 0, 2, 0] = wrong
    out = mt.entmax_attention(q, k, v)
    assert out[0, 0, 2].isnan().all()
    kept = [0, 1, 3, 4]
    torch.testing.assert_close(out[:, :, kept], right[:, :, kept])


@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_nothing_to_attend(place, queries, keys):
    q = torch.randn(2, queries, 16, device=place, requires_grad=True)
    k, v = (torch.randn(2, keys, 16, device=place, requires_grad=True) for _ in range(2))
    out = mt.entmax_attention(q, k, v)
    assert out.shape == (2, queries, 16)
    assert not out.any()
    for x, grad in zip((q, k, v), torch.autograd.grad(out.sum(), (q, k, v)), strict=True):
        assert grad.shape == x.shape
        assert not grad.any()


def test_the_same_in_every_run(place):
    q, k, v, g = moved(drawn(2, 4, 2, 300, 300, 32, 32), place)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    runs = []
    for _ in range(2):
        out = mt.entmax_attention(*leaves, is_causal=True, enable_gqa=True)
        runs.append([out, *torch.autograd.grad(out, leaves, g)])
    assert all(a.equal(b) for a, b in zip(*runs, strict=True))


def test_strided_tensors(place):
    """As layers make them: (batch, tokens, heads, width), turned."""
    q, k, v, g = (torch.randn(2, 9, 3, 16, device=place).transpose(1, 2) for _ in range(4))
    assert_right(attend(1.5, place), (q, k, v, g), 1.5, 4e-6)


@tracing_warns
def test_compiled_without_a_break(place):
    given = moved(drawn(1, 2, 2, 20, 20, 16, 16), place)
    alphas = torch.tensor([1.3, 1.7], device=place)
    for alpha, theirs in ((1.5, 1.5), (alphas, alphas.tolist())):
        work = torch.compile(attend(alpha, place, is_causal=True), fullgraph=True)
        assert_right(work, given, theirs, 4e-6, is_causal=True)


def test_checkpoints_and_autocast(place):
    q, k, v, g = moved(drawn(1, 2, 2, 20, 20, 16, 16), place)

    def work(q, k, v):
        return torch.utils.checkpoint.checkpoint(mt.entmax_attention, q, k, v, use_reentrant=False)

    assert_right(work, (q, k, v, g), 1.5, 4e-6)
    with torch.autocast(place, torch.bfloat16):
        out = mt.entmax_attention(q @ torch.eye(16, device=place), k, v)
    assert out.dtype == torch.bfloat16
    right = mt.entmax_attention(*(x.bfloat16() for x in (q, k, v)))
    torch.testing.assert_close(out, right)


def test_after_inference_mode(place):
    """What is kept from there must not be part of a later graph."""
    given = moved(drawn(1, 2, 2, 21, 21, 16, 16), place)
    with torch.inference_mode():
        mt.entmax_attention(*given[:3], is_causal=True)
    assert_right(attend(1.5, place, is_causal=True), given, 1.5, 4e-6, is_causal=True)


def test_torch_func(place):
    q, k, v, g = moved(drawn(1, 1, 1, 4, 6, 8, 8, torch.float64), place)
    grad = torch.func.grad(lambda q: (mt.entmax_attention(q, k, v) * g).sum())(q)
    right = reference(q, k, v, g, 1.5)[1]
    np.testing.assert_allclose(grad.cpu(), right, atol=1e-12)


def test_no_second_derivative():
    q, k, v, _ = drawn(1, 1, 1, 4, 6, 8, 8)
    out = mt.entmax_attention(q.requires_grad_(), k, v)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(out.sum(), q, create_graph=True)


def test_engines_that_change_between_the_passes():
    """Backward follows the lists that forward kept, whatever is chosen by then."""
    given = drawn(1, 2, 2, 7, 9, 16, 16)

    def work(q, k, v):
        with mt.backend("plain"):
            return mt.entmax_attention(q, k, v)

    assert_right(work, given, 1.5, 4e-6)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"alpha": 0.9}, ValueError, "finite alpha >= 1, got 0.9"),
        ({"alpha": "x"}, TypeError, "alpha must be a number, got 'x'"),
        ({"alpha": torch.ones(3)}, ValueError, "one for each of 2 heads"),
        ({"alpha": torch.tensor([0.5, 2.0])}, ValueError, r"finite alphas >= 1, got \[0.5, 2.0\]"),
        ({"window": 0}, ValueError, "from 1 on, got 0"),
        ({"window": 2.5}, TypeError, "a number of keys, got 2.5"),
        ({"lengths": torch.ones(3, dtype=torch.int64)}, ValueError, "one for each of 1 sequences"),
        ({"lengths": torch.ones(1)}, TypeError, "whole numbers, got torch.float32"),
        ({"cu_seqlens": torch.tensor([0, 3])}, ValueError, "must rise from 0 to 6"),
        ({"key_padding": torch.zeros(1, 6)}, ValueError, r"boolean .* of shape \(1, 6\)"),
        ({"attn_mask": torch.zeros(5, 5)}, ValueError, r"\(5, 5\) does not broadcast"),
        ({"attn_mask": torch.zeros(6, 6), "is_causal": True}, ValueError, "not both"),
        ({"slopes": torch.zeros(3)}, ValueError, "slopes .* one for each of 2 heads"),
        ({"scale": math.nan}, TypeError, "scale must be a number, got nan"),
    ],
)
def test_refusals(options, error, words):
    x = torch.zeros(1, 2, 6, 8)
    with pytest.raises(error, match=words):
        mt.entmax_attention(x, x, x, **options)


def test_what_rises_with_the_queries():
    """Kernels look for the queries of a key by halves."""
    first, stop = (
        torch.tensor([[0, 0, 2, 0], [3, 0, 4, 0]]),
        torch.tensor([[0, 3, 5, 0], [5, 0, 9, 0]]),
    )
    mended = [x[:1] for x in _inputs.rising(first[:1], stop[:1])[:2]]
    assert [x.tolist() for x in mended] == [[[0, 0, 2, 5]], [[0, 3, 5, 5]]]
    assert bool(_inputs.rising(first[:1], stop[:1])[2])
    assert not bool(_inputs.rising(first, stop)[2])  # a query in between that sees nothing


def test_refused_shapes():
    x = torch.zeros(1, 2, 6, 8)
    for given, words in (
        ((x, x[..., :4], x), "query has width 8, key 4"),
        ((x, x, x[:, :, :5]), "6 keys but 5 values"),
        ((x, x.double(), x), "one type on one device"),
        ((x.long(), x, x), "needs floating scores"),
        ((x[0, 0, 0], x, x), r"\(..., tokens, width\) is needed"),
        ((x, torch.zeros(1, 3, 6, 8), torch.zeros(1, 3, 6, 8)), "enable_gqa=True"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            mt.entmax_attention(*given)
    three = torch.zeros(1, 3, 6, 8)
    with pytest.raises(ValueError, match="2 heads of queries, 3 of keys"):
        mt.entmax_attention(x, three, three, enable_gqa=True)

"""A key-value cache whose attention is exactly sparse: every engine beside float64."""

import math

import pytest

from tools import needs

torch = needs("torch")

from decode_cases import (  # noqa: E402
    ADVERSARIAL,
    adversarial,
    assert_right,
    drawn,
    filled,
    hidden_by_a_channel,
    queries,
)

import maxent.torch as mt  # noqa: E402

PLACES = ["plain", "numba", "cuda", "cuda without copies"]


@pytest.fixture(params=PLACES)
def place(request):
    """Tensors move to the device; on the CPU one engine is chosen."""
    torch.manual_seed(0)
    if request.param.startswith("cuda"):
        if not torch.cuda.is_available():
            pytest.skip("there is no CUDA device")
        yield {"place": "cuda"}, {} if request.param == "cuda" else {"eight_bit": False}
        return
    with mt.backend(request.param):
        yield {"place": "cpu"}, {}


def exact(there):
    """The kernels find scores and threshold in float64; the CPU has scores of the cache's type."""
    return there["place"] == "cuda"


@pytest.mark.parametrize(
    ("alpha", "seen"),
    [
        (1.5, {}),
        (2.0, {"scale": 0.4}),
        (1.2, {"window": 33}),
        ([1.2, 1.5, 1.9, 2.0], {}),
    ],
)
def test_tokens_one_after_the_other(place, alpha, seen):
    """Heads share keys; lengths differ and pass the ends of pages."""
    there, options = place
    keys, values = drawn([60, 126, 0], heads=2, **there)
    cache = filled(keys, values, **options)
    for tokens in (3, 1, 1, 2):
        new = drawn([tokens] * 3, heads=2, **there)
        cache.append(*map(torch.stack, new))
        for held, more in zip((keys, values), new, strict=True):
            held[:] = [torch.cat((x, y), 1) for x, y in zip(held, more, strict=True)]
        q = queries(3, 4, tokens, **there)
        assert_right(cache, q, keys, values, alpha, exact=exact(there), **seen)
    assert cache.lengths.tolist() == [67, 133, 7]


def test_as_entmax_attention(place):
    """All tokens at once are causal attention; one is attention to all."""
    there, options = place
    q, k, v = (torch.randn(2, 4, 150, 32, device=there["place"]) for _ in range(3))
    k, v = k[:, :2], v[:, :2]
    cache = mt.AttentionCache(2, 2, 32, device=q.device, **options)
    cache.append(k, v)
    right = mt.entmax_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(cache.attend(q), right, rtol=1e-5, atol=1e-5)
    last = mt.entmax_attention(q[:, :, -1:], k, v, enable_gqa=True)
    torch.testing.assert_close(cache.attend(q[:, :, -1:]), last, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)],
    ids=str,
)
def test_types(place, dtype, tolerance):
    there, options = place
    keys, values = drawn([70, 9], width=64, dtype=dtype, **there)
    if dtype == torch.float64:
        options = {}
    cache = filled(keys, values, **options)
    q = queries(2, 2, 1, width=64, dtype=dtype, **there)
    assert_right(cache, q, keys, values, tolerance=tolerance, exact=exact(there))


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_scores(place, name):
    there, options = place
    if name == "large" and there["place"] == "cpu":
        pytest.skip("scores of 1e5 in float32 are off by more than the threshold's place")
    q, keys, values = adversarial(name, **there)
    cache = filled(keys, values, **options)
    assert_right(cache, q, keys, values, tolerance=2e-5, exact=exact(there))


def test_a_key_whose_copy_is_useless(place):
    there, options = place
    q, keys, values = hidden_by_a_channel(**there)
    _, support = assert_right(filled(keys, values, **options), q, keys, values, exact=False)
    assert 77 in support.col.tolist()


def test_many_keys(place):
    """Several programs share them; some attend to one key, some to all."""
    there, options = place
    keys, values = drawn([3000, 700], heads=2, width=64, **there)
    q = (
        queries(2, 8, 1, width=64, **there)
        * torch.logspace(-3, 1, 8).to(there["place"])[:, None, None]
    )
    cache = filled(keys, values, **options)
    _, support = assert_right(cache, q, keys, values, tolerance=1e-5, exact=exact(there))
    assert support.counts.min() <= 2
    assert support.counts.max() > 500
    assert cache.attend(q).equal(cache.attend(q))


def test_different_numbers_of_new_tokens(place):
    there, options = place
    keys, values = drawn([5, 64, 1], **there)
    cache = filled(keys, values, **options)
    key, value = (torch.randn(3, 1, 4, width, device=there["place"]) for width in (32, 16))
    for counts in ([0, 4, 2], torch.tensor([1, 0, 3], device=there["place"])):
        cache.append(key, value, counts)
        for b, n in enumerate([int(n) for n in counts]):
            keys[b] = torch.cat((keys[b], key[b, :, 4 - n :]), 1)
            values[b] = torch.cat((values[b], value[b, :, 4 - n :]), 1)
        assert cache.lengths.tolist() == [x.shape[1] for x in keys]
        q = queries(3, 1, 2, **there)
        assert_right(cache, q, keys, values, exact=exact(there))


def test_rejected_tokens_and_dropped_sequences(place):
    """Pages are free again, and what they held does not matter."""
    there, options = place
    keys, values = drawn([130, 200], **there)
    cache = filled(keys, values, **options)
    held = cache.nbytes
    wrong = torch.full((2, 1, 3, 32), math.nan, device=there["place"])
    cache.append(wrong, wrong[..., :16])
    cache.truncate([130, 200])
    q = queries(2, 1, 1, **there)
    assert_right(cache, q, keys, values, exact=exact(there))
    cache.truncate(torch.tensor([60, 200]))
    cache.truncate(150)
    keys, values = ([x[0][:, :60], x[1][:, :150]] for x in (keys, values))
    assert_right(cache, q, keys, values, exact=exact(there))
    cache.reset(1)
    assert cache.lengths.tolist() == [60, 0]
    assert not cache.attend(q)[1].any()
    more = drawn([0, 250], **there)
    cache.append(*(torch.stack([x[1]] * 2) for x in more), counts=[0, 250])
    keys[1], values[1] = more[0][1], more[1][1]
    assert_right(cache, q, keys, values, exact=exact(there))
    assert cache.nbytes <= 1.6 * held
    cache.reset()
    assert not cache.lengths.any()


def test_nothing_to_attend(place):
    there, options = place
    cache = mt.AttentionCache(2, 1, 32, 16, device=there["place"], **options)
    q = queries(2, 2, 1, **there)
    out, support = cache.attend(q, return_support=True)
    assert out.shape == (2, 2, 1, 16)
    assert not out.any()
    assert support.shape == (2, 2, 1, 0)
    cache.append(torch.randn(2, 1, 1, 32).to(q), torch.randn(2, 1, 1, 16).to(q), [1, 0])
    out, support = cache.attend(queries(2, 2, 3, **there), return_support=True)
    assert support.counts.tolist() == [[[0, 0, 1]] * 2, [[0, 0, 0]] * 2]  # one key has all weight
    assert not out[1].any()
    assert cache.attend(q[:, :, :0]).shape == (2, 2, 0, 16)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_bad_numbers_stay_with_their_sequence(place, wrong):
    there, options = place
    keys, values = drawn([70, 70], **there)
    keys[0][0, 33, 4] = wrong
    q = queries(2, 2, 1, **there)
    q[..., 4] = 1.0
    out = filled(keys, values, **options).attend(q)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()


def test_a_capacity(place):
    there, options = place
    keys, values = drawn([100, 90], **there)
    cache = filled(keys, values, capacity=130, **options)
    held = cache.nbytes
    q = queries(2, 2, 1, **there)
    assert_right(cache, q, keys, values, exact=exact(there))
    new = (torch.randn(2, 1, 31, width, device=there["place"]) for width in (32, 16))
    with pytest.raises(ValueError, match="sequence 0 would have 131 tokens, its capacity is 130"):
        cache.append(*new)
    assert cache.lengths.tolist() == [100, 90]
    assert cache.nbytes == held == sum(x.nbytes for x in cache._pages.tensors)


def test_inference_mode_and_after(place):
    there, options = place
    with torch.inference_mode():
        keys, values = drawn([60], **there)
        cache = filled(keys, values, **options)
    more = drawn([80], **there)
    with torch.no_grad():
        cache.append(*map(torch.stack, more))
    with torch.inference_mode():
        cache.append(*map(torch.stack, more))
    keys, values = (
        [torch.cat((x[0], y[0], y[0]), 1)] for x, y in zip((keys, values), more, strict=True)
    )
    assert_right(cache, queries(1, 1, 1, **there), keys, values, exact=exact(there))


def test_strided_tokens(place):
    """As layers make them: (batch, tokens, heads, width), turned."""
    there, options = place
    k, v = (torch.randn(2, 70, 2, 32, device=there["place"]).transpose(1, 2) for _ in range(2))
    cache = mt.AttentionCache(2, 2, 32, device=k.device, **options)
    cache.append(k, v)
    q = torch.randn(2, 3, 4, 32, device=there["place"]).transpose(1, 2)
    assert_right(cache, q, list(k), list(v), exact=exact(there))


def test_a_captured_step():
    """Replays append and attend with lengths that only the device knows."""
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    keys, values = drawn([120, 7], place="cuda")
    cache = filled(keys, values, capacity=140)
    key, value = torch.randn(2, 1, 1, 32).cuda(), torch.randn(2, 1, 1, 16).cuda()
    q = queries(2, 2, 1, place="cuda")
    cache.append(key, value)
    cache.attend(q)
    cache.truncate([120, 7])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.append(key, value)
        out = cache.attend(q)
    for _ in range(12):
        key.normal_()
        value.normal_()
        graph.replay()
        keys = [torch.cat((x, y), 1) for x, y in zip(keys, key, strict=True)]
        values = [torch.cat((x, y), 1) for x, y in zip(values, value, strict=True)]
    assert cache.lengths.tolist() == [132, 19]
    assert out.equal(assert_right(cache, q, keys, values)[0])
    for _ in range(9):
        graph.replay()
    assert out[0].isnan().all()
    assert out[1].isfinite().all()
    with pytest.raises(ValueError, match="sequence 0 would have 142 tokens"):
        cache.append(key, value)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch": 0}, ValueError, "batch is a whole number from 1 on, got 0"),
        ({"width": 2.5}, TypeError, "width is a whole number, got 2.5"),
        ({"page": 96}, ValueError, "power of two from 64 on, got 96"),
        ({"page": 32}, ValueError, "power of two from 64 on, got 32"),
        ({"capacity": -1}, ValueError, "capacity is a whole number from 1 on"),
        ({"dtype": torch.int32}, TypeError, "a floating type of torch, got torch.int32"),
        ({"eight_bit": 1}, TypeError, "True, False or None, got 1"),
        ({"eight_bit": True}, ValueError, "is for the kernels on CUDA .* got float32 on cpu"),
    ],
)
def test_refused_caches(options, error, words):
    with pytest.raises(error, match=words):
        mt.AttentionCache(**{"batch": 1, "heads": 2, "width": 8, "device": "cpu"} | options)


def test_refusals():
    cache = mt.AttentionCache(2, 2, 8, 4)
    k, v, q = torch.zeros(2, 2, 3, 8), torch.zeros(2, 2, 3, 4), torch.zeros(2, 4, 1, 8)
    assert not cache.eight_bit  # there are no kernels to read it
    for given, error, words in (
        ((k.double(), v), ValueError, "key is float64 on cpu, the cache float32 on cpu"),
        ((k[..., :4], v), ValueError, r"key has shape \(2, 2, 3, 4\); .* 8\) is needed"),
        ((k, k), ValueError, r"value has shape \(2, 2, 3, 8\); .* 4\) is needed"),
        ((k, v[:, :, :2]), ValueError, "with a value for each key"),
        ((k[:1], v[:1]), ValueError, "for 2 sequences and 2 heads"),
        ((k, None), TypeError, "value is a tensor, got NoneType"),
        ((k, v, [1]), ValueError, "one for each of 2 sequences is needed, got 1"),
        ((k, v, [1, 4]), ValueError, r"counts must be from 0 to 3, .* got \[1, 4\]"),
        ((k, v, [1.0, 2]), TypeError, "counts are whole numbers"),
        ((k, v, torch.ones(2)), TypeError, "whole numbers, got torch.float32"),
        ((k.clone().requires_grad_(), v), ValueError, "there is none through a cache"),
    ):
        with pytest.raises(error, match=words):
            cache.append(*given)
    cache.append(k, v)
    for options, error, words in (
        ({"query": q[:, :3]}, ValueError, "2 sequences and a multiple of 2 heads"),
        ({"query": q[0]}, ValueError, r"shape \(4, 1, 8\)"),
        ({"alpha": 1}, ValueError, "above 1 and up to 2, got 1.0; at 1, softmax"),
        ({"alpha": 2.5}, ValueError, "above 1 and up to 2, got 2.5"),
        ({"alpha": torch.tensor([1.5, 1.5, 1.5, 3.0])}, ValueError, "alphas are above 1 and up"),
        ({"alpha": torch.ones(3)}, ValueError, "one for each of 4 heads"),
        ({"window": 0}, ValueError, "from 1 on, got 0"),
        ({"window": 1.5}, TypeError, "number of tokens, got 1.5"),
        ({"scale": math.nan}, TypeError, "scale must be a number, got nan"),
        ({"query": q.clone().requires_grad_()}, ValueError, "entmax_attention for training"),
    ):
        with pytest.raises(error, match=words):
            cache.attend(**{"query": q} | options)
    with pytest.raises(ValueError, match=r"from 0 to those held, \[3, 3\], got \[4, 0\]"):
        cache.truncate([4, 0])
    with pytest.raises(ValueError, match="there is no sequence 2, the batch has 2"):
        cache.reset([2])
    with pytest.raises(TypeError, match=r"sequences are whole numbers, got 0\.5"):
        cache.reset([0.5])
    assert cache.lengths.tolist() == [3, 3]

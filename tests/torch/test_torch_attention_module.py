"""EntmaxAttention beside torch.nn.MultiheadAttention, and beside entmax of scores in float64."""

import copy
import io
import math

import numpy as np
import pytest

from tools import needs

torch = needs("torch")

from attention_cases import weights  # noqa: E402
from test_torch import tracing_warns  # noqa: E402

import maxent.torch as mt  # noqa: E402

INF = math.inf
BATCH, QUERIES, KEYS, WIDTH, HEADS = 2, 7, 9, 16, 4
CONSTRUCTORS = {
    "plain": {},
    "no bias": {"bias": False},
    "widths": {"kdim": 10, "vdim": 6},
    "widths, no bias": {"kdim": 10, "vdim": 6, "bias": False},
    "one width": {"vdim": 6},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True, "kdim": 10},
    "double": {"dtype": torch.float64},
}


def padding_of(dtype=torch.bool):
    """The first sequence is padded on the left, the second on the right."""
    hidden = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    hidden[0, :2] = hidden[1, 6:] = True
    if dtype == torch.bool:
        return hidden
    return torch.zeros(BATCH, KEYS).masked_fill(hidden, -INF)


def holes():
    """Padding between keys that count."""
    hidden = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    hidden[:, 3] = hidden[0, 5] = True
    return hidden


def masks(seed=0):
    """What forward may be given, as arguments by name."""
    draw = torch.Generator().manual_seed(seed)
    two = torch.rand(QUERIES, KEYS, generator=draw) > 0.6
    two[:, 0] = two[:, 4] = False  # every query sees a key that is never padding
    three = torch.rand(BATCH * HEADS, QUERIES, KEYS, generator=draw) > 0.6
    three[..., 4] = False
    bias = torch.randn(QUERIES, KEYS, generator=draw)
    biases = torch.randn(BATCH * HEADS, QUERIES, KEYS, generator=draw)
    return {
        "none": {},
        "two dimensions": {"attn_mask": two},
        "three dimensions": {"attn_mask": three},
        "bias": {"attn_mask": bias},
        "biases": {"attn_mask": biases.masked_fill(three, -INF)},
        "padding": {"key_padding_mask": padding_of()},
        "padding in floats": {"key_padding_mask": padding_of(torch.float32)},
        "padding inside": {"key_padding_mask": holes()},
        "padding that biases": {"key_padding_mask": torch.randn(BATCH, KEYS, generator=draw)},
        "padding and mask": {"key_padding_mask": padding_of(), "attn_mask": two},
        "padding and masks": {"key_padding_mask": padding_of(), "attn_mask": three},
        "padding and bias": {"key_padding_mask": padding_of(torch.float32), "attn_mask": bias},
        "biases of both": {
            "key_padding_mask": torch.randn(BATCH, KEYS, generator=draw), "attn_mask": biases,
        },
    }  # fmt: skip


MASKS = masks()


def both(alpha=1.0, **options):
    """Torch's module with random biases, and ours with its state."""
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, **options)
    with torch.no_grad():
        for name, x in theirs.named_parameters():
            if "bias" in name:
                x.normal_()
    mine = mt.EntmaxAttention(WIDTH, HEADS, alpha=alpha, **options)
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine


def drawn(module, batch_first=False, batch=BATCH):
    """Query, key and value for a module."""
    sizes = (QUERIES, KEYS, KEYS)
    widths = (module.embed_dim, module.kdim, module.vdim)
    dtype = module.out_proj.weight.dtype
    given = [torch.randn(batch, n, w, dtype=dtype) for n, w in zip(sizes, widths, strict=True)]
    return given if batch_first else [x.transpose(0, 1) for x in given]


def cast(options, dtype):
    return {
        name: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        for name, x in options.items()
    }


def assert_same(theirs, mine, given, **options):
    """Output, weights, and gradients of inputs and parameters."""
    made = []
    for module in (theirs, mine):
        leaves = [x.detach().clone().requires_grad_() for x in given]
        out, p = module(*leaves, **options)
        parameters = dict(module.named_parameters())
        generator = torch.Generator().manual_seed(5)
        loss = (out * torch.randn(out.shape, generator=generator, dtype=out.dtype)).sum()
        if p is not None:
            loss = loss + (p * torch.randn(p.shape, generator=generator, dtype=p.dtype)).sum()
        loss.backward()
        grads = {name: x.grad for name, x in parameters.items()}
        made.append((out, p, [x.grad for x in leaves], grads))
        module.zero_grad()
    for one, other in zip(*made, strict=True):
        torch.testing.assert_close(other, one, rtol=2e-4, atol=2e-5)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("options", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
@pytest.mark.parametrize("name", MASKS)
def test_softmax_is_torchs_module(options, name):
    theirs, mine = both(**options)
    given = drawn(mine)
    asked = cast(MASKS[name], options.get("dtype", torch.float32))
    assert_same(theirs, mine, given, need_weights=False, **asked)
    assert_same(theirs, mine, given, average_attn_weights=False, **asked)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_layouts(batch_first, need_weights):
    theirs, mine = both(batch_first=batch_first)
    given = drawn(mine, batch_first)
    assert_same(theirs, mine, given, need_weights=need_weights)
    x = given[0]
    assert_same(theirs, mine, [x, x, x], need_weights=need_weights)
    unbatched = [torch.randn(n, WIDTH) for n in (QUERIES, KEYS, KEYS)]
    assert_same(theirs, mine, unbatched, need_weights=need_weights)
    options = {"attn_mask": MASKS["three dimensions"]["attn_mask"][:HEADS]}
    options["key_padding_mask"] = padding_of()[1]
    assert_same(theirs, mine, unbatched, need_weights=need_weights, **options)
    assert_same(
        theirs, mine, unbatched, need_weights=need_weights, average_attn_weights=False, **options
    )


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_the_causal_hint(floats, padded, need_weights, monkeypatch):
    theirs, mine = both(batch_first=True)
    given = drawn(mine, True)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    options = {"key_padding_mask": padding_of()} if padded else {}
    if padded:
        options["key_padding_mask"][0] = False
    if floats:
        mask = torch.zeros(mask.shape).masked_fill(mask, -INF)
    options |= {"attn_mask": mask, "need_weights": need_weights}
    seen = []
    function = mt.attention.modules.entmax_attention

    def watched(q, k, v, alpha, attn_mask, is_causal, **rest):
        seen.append((attn_mask, is_causal))
        return function(q, k, v, alpha, attn_mask, is_causal, **rest)

    monkeypatch.setattr(mt.attention.modules, "entmax_attention", watched)
    assert_same(theirs, mine, given, is_causal=True, **options)
    assert seen == ([] if need_weights else [(None, True)])  # no mask is read


def test_appended_keys_are_seen_with_the_hint():
    """Torch's fast path hides them; its others, and ours, do not."""
    theirs, mine = both(add_bias_kv=True, add_zero_attn=True)
    given = drawn(mine)
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    right, _ = theirs(*given, attn_mask=mask, need_weights=False)
    for need_weights in (False, True):
        out, _ = mine(*given, attn_mask=mask, need_weights=need_weights, is_causal=True)
        torch.testing.assert_close(out, right, rtol=1e-4, atol=1e-5)


def test_the_hint_beside_padding_that_biases():
    theirs, mine = both()
    mask = torch.zeros(QUERIES, KEYS).masked_fill(
        torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1), -INF
    )
    options = {"attn_mask": mask, "key_padding_mask": torch.randn(BATCH, KEYS)}
    for need_weights in (False, True):
        asked = {"is_causal": True, "need_weights": need_weights, **options}
        assert_same(theirs, mine, drawn(mine), **asked)


def written_out(module, given, alphas, added):
    """The module in float64: output and weights of each head."""
    state = {name: x.double().numpy() for name, x in module.state_dict().items()}
    q, k, v = (x.detach().double().numpy() for x in given)  # (batch, tokens, width)
    sizes = np.cumsum([module.embed_dim, module.num_key_heads * module.head_dim])
    parts = zip(
        (q, k, v), np.split(state["in_proj_weight"], sizes),
        np.split(state["in_proj_bias"], sizes), strict=True,
    )  # fmt: skip
    heads = []
    for x, w, b in parts:
        made = (x @ w.T + b).reshape(*x.shape[:2], -1, module.head_dim).swapaxes(1, 2)
        heads.append(np.repeat(made, module.num_heads // made.shape[1], 1))
    scores = heads[0] @ heads[1].swapaxes(-1, -2) / math.sqrt(module.head_dim) + added
    p = np.stack([weights(scores[:, h], alphas[h]) for h in range(module.num_heads)], 1)
    out = (p @ heads[2]).swapaxes(1, 2).reshape(len(q), q.shape[1], -1)
    return out @ state["out_proj.weight"].T + state["out_proj.bias"], p


@pytest.mark.parametrize("alpha", [1.5, 2.0, "learned"])
@pytest.mark.parametrize("key_heads", [None, 2, 1])
def test_beside_float64(alpha, key_heads):
    module = mt.EntmaxAttention(
        WIDTH, HEADS, batch_first=True, alpha=alpha, num_key_heads=key_heads
    )
    alphas = [alpha] * HEADS
    with torch.no_grad():
        module.in_proj_weight *= 3
        module.in_proj_bias.normal_()
        if alpha == "learned":
            module.raw_alpha.copy_(torch.tensor([-1.0, 0.0, 1.0, 3.0]))
            alphas = (1 + 1 / (1 + np.exp(-module.raw_alpha.double().numpy()))).tolist()
    given = drawn(module, True)
    hidden = padding_of().numpy()
    added = np.where(hidden[:, None, None], -np.inf, 0.0)
    bias = torch.randn(QUERIES, KEYS)
    for options, more in (({}, 0.0), ({"attn_mask": bias}, bias.double().numpy())):
        right, p = written_out(module, given, alphas, added + more)
        options = {"key_padding_mask": padding_of(), **options}
        out, mine = module(*given, average_attn_weights=False, **options)
        fast, none = module(*given, need_weights=False, **options)
        assert none is None
        np.testing.assert_allclose(out.detach(), right, atol=2e-5)
        np.testing.assert_allclose(fast.detach(), right, atol=2e-5)
        np.testing.assert_allclose(mine.detach(), p, atol=1e-5)
        assert bool((mine == 0).any())
        _, averaged = module(*given, **options)
        np.testing.assert_allclose(averaged.detach(), p.mean(1), atol=1e-5)


def test_windows():
    module = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, window=3)
    given = drawn(module, True)
    away = np.arange(QUERIES)[:, None] - np.arange(KEYS)
    causal = torch.from_numpy(away < 0)
    for hidden, options in (
        (np.abs(away) >= 3, {}),
        ((away < 0) | (away >= 3), {"attn_mask": causal, "is_causal": True}),
        ((away < 0) | (away >= 3), {"attn_mask": causal}),
    ):
        added = np.where(hidden, -np.inf, 0.0)
        right, p = written_out(module, given, [1.5] * HEADS, added)
        out, mine = module(*given, average_attn_weights=False, **options)
        np.testing.assert_allclose(out.detach(), right, atol=1e-5)
        np.testing.assert_allclose(mine.detach(), p, atol=1e-5)
        fast, _ = module(*given, need_weights=False, **options)
        np.testing.assert_allclose(fast.detach(), right, atol=1e-5)


def test_both_paths_have_the_same_gradients():
    torch.manual_seed(0)
    module = mt.EntmaxAttention(WIDTH, HEADS, alpha="learned", num_key_heads=2).double()
    bias = torch.randn(QUERIES, KEYS, dtype=torch.float64, requires_grad=True)
    given = [x.requires_grad_() for x in drawn(module)]
    leaves = [*given, *module.parameters(), bias]
    made = []
    for need_weights in (False, True):
        out, _ = module(*given, attn_mask=bias, need_weights=need_weights)
        made.append(torch.autograd.grad((out**2).sum(), leaves))
    for one, other in zip(*made, strict=True):
        torch.testing.assert_close(one, other)
    assert float(made[0][-2].abs().sum()) > 0


def test_alpha_learns():
    module = mt.EntmaxAttention(WIDTH, HEADS, alpha="learned").double()
    assert module.alpha.tolist() == [1.5] * HEADS
    given = drawn(module)

    def loss(raw):
        values = {"raw_alpha": raw}
        out, _ = torch.func.functional_call(module, values, (*given, None, False))
        return out.square().sum()

    raw = torch.randn(HEADS, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss, raw)
    assert bool(((module.alpha > 1) & (module.alpha < 2)).all())


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_that_sees_nothing(need_weights):
    module = mt.EntmaxAttention(WIDTH, HEADS, alpha=1.0)
    hidden = torch.ones(BATCH, KEYS, dtype=torch.bool)
    out, _ = module(*drawn(module), key_padding_mask=hidden, need_weights=need_weights)
    torch.testing.assert_close(out, module.out_proj.bias.expand(out.shape))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 4, 4), (2, 0, 4), (2, 4, 0)])
def test_nothing_given(need_weights, batch, queries, keys):
    module = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True)
    q, k = torch.randn(batch, queries, WIDTH), torch.randn(batch, keys, WIDTH)
    out, p = module(q, k, k, need_weights=need_weights)
    assert out.shape == (batch, queries, WIDTH)
    if keys == 0:
        torch.testing.assert_close(out, module.out_proj.bias.expand(out.shape))
    assert (p is not None) == need_weights
    assert p is None or p.shape == (batch, queries, keys)


@pytest.mark.parametrize("options", CONSTRUCTORS.values(), ids=CONSTRUCTORS)
def test_the_same_start(options):
    """With a seed, parameters are drawn as torch draws them."""
    torch.manual_seed(3)
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, **options).state_dict()
    torch.manual_seed(3)
    mine = mt.EntmaxAttention(WIDTH, HEADS, **options)
    torch.testing.assert_close(mine.state_dict(), theirs, rtol=0, atol=0)
    torch.manual_seed(4)
    mine._reset_parameters()
    assert list(mine.state_dict()) == list(theirs)
    assert not mine.out_proj.weight.isnan().any()


@pytest.mark.parametrize("options", [{}, {"kdim": 10, "vdim": 6}, {"add_bias_kv": True}])
def test_shared_heads_have_narrow_projections(options):
    module = mt.EntmaxAttention(WIDTH, HEADS, num_key_heads=2, **options)
    out, p = module(*drawn(module))
    assert out.shape == (QUERIES, BATCH, WIDTH)
    assert p.shape == (BATCH, QUERIES, KEYS + bool(module.bias_k is not None))
    narrow = WIDTH // 2
    if options.get("kdim"):
        assert module.k_proj_weight.shape == (narrow, 10)
        assert module.v_proj_weight.shape == (narrow, 6)
    else:
        assert module.in_proj_weight.shape == (WIDTH + 2 * narrow, WIDTH)
    assert not any(x.isnan().any() for x in module.parameters())
    twin = mt.EntmaxAttention(WIDTH, HEADS, num_key_heads=2, **options)
    twin.load_state_dict(module.state_dict())
    given = drawn(module)
    torch.testing.assert_close(twin(*given)[0], module(*given)[0], rtol=0, atol=0)


@pytest.mark.parametrize("alpha", [1.5, "learned"])
def test_copies(alpha):
    module = mt.EntmaxAttention(WIDTH, HEADS, alpha=alpha, window=4, batch_first=True)
    given = drawn(module, True)
    right = module(*given)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    twin = mt.EntmaxAttention(WIDTH, HEADS, alpha=alpha, window=4, batch_first=True)
    twin.load_state_dict(module.state_dict())
    for other in (copy.deepcopy(module), torch.load(file, weights_only=False), twin):
        torch.testing.assert_close(other(*given), right, rtol=0, atol=0)
    if alpha == "learned":
        softmax = torch.nn.MultiheadAttention(WIDTH, HEADS)
        found = twin.load_state_dict(softmax.state_dict(), strict=False)
        assert found.missing_keys == ["raw_alpha"]


def test_shown():
    assert repr(mt.EntmaxAttention(16, 4)).startswith(
        "EntmaxAttention(\n  embed_dim=16, num_heads=4, alpha=1.5, batch_first=False\n"
    )
    module = mt.EntmaxAttention(16, 4, alpha="learned", window=3, num_key_heads=2)
    assert module.extra_repr() == (
        "embed_dim=16, num_heads=4, alpha='learned', num_key_heads=2, window=3, batch_first=False"
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_inside_torchs_encoder_layer(training, norm_first):
    """Its fast path would compute softmax by itself, from the parameters."""
    layer = torch.nn.TransformerEncoderLayer(
        WIDTH, HEADS, 32, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    softmax = copy.deepcopy(layer).train(training)
    layer.self_attn = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, alpha=2.0)
    layer.self_attn.load_state_dict(softmax.self_attn.state_dict())
    layer.train(training)
    x = torch.randn(BATCH, KEYS, WIDTH)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(KEYS)
    options = {"src_key_padding_mask": padding_of(torch.float32)}
    options["src_key_padding_mask"][0] = 0
    for asked in ({}, options, {"src_mask": mask, "is_causal": True}):
        with torch.set_grad_enabled(training):
            out = layer(x, **asked)
        names = {"src_key_padding_mask": "key_padding_mask", "src_mask": "attn_mask"}
        given = {names.get(name, name): value for name, value in asked.items()}

        def block(y, given=given):
            return layer.self_attn(y, y, y, need_weights=False, **given)[0]

        if norm_first:
            y = x + block(layer.norm1(x))
            right = y + layer._ff_block(layer.norm2(y))
        else:
            y = layer.norm1(x + block(x))
            right = layer.norm2(y + layer._ff_block(y))
        torch.testing.assert_close(out, right)
        assert float((softmax(x, **asked) - out).detach().abs().max()) > 1e-3
    layer.self_attn = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, alpha=1.0)
    layer.self_attn.load_state_dict(softmax.self_attn.state_dict())
    with torch.set_grad_enabled(training):
        torch.testing.assert_close(layer.train(training)(x), softmax(x), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_inside_torchs_encoder():
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
    late = torch.nn.TransformerEncoder(layer, 2).eval()
    softmax = late.layers[0].self_attn
    layer.self_attn = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, alpha=1.0)
    layer.self_attn.load_state_dict(softmax.state_dict())
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(BATCH, KEYS, WIDTH)
    hidden = padding_of()
    hidden[0] = False
    with torch.no_grad():
        right = late(x, src_key_padding_mask=hidden)
        out = encoder(x, src_key_padding_mask=hidden)
        torch.testing.assert_close(out[~hidden], right[~hidden], rtol=1e-4, atol=1e-5)
        late.layers[0].self_attn = layer.self_attn
        with pytest.raises(ValueError, match="enable_nested_tensor=False"):
            late(x, src_key_padding_mask=hidden)


@tracing_warns
def test_compiled_without_a_break():
    module = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, alpha="learned", num_key_heads=2)
    x = torch.randn(BATCH, KEYS, WIDTH)
    mask = torch.ones(KEYS, KEYS, dtype=torch.bool).triu(1)

    def work(x, hidden):
        options = {"attn_mask": mask, "is_causal": True, "key_padding_mask": hidden}
        return module(x, x, x, need_weights=False, **options)[0]

    right = work(x, padding_of())
    compiled = torch.compile(work, fullgraph=True, backend="aot_eager")
    for hidden in (padding_of(), padding_of(torch.float32)):
        torch.testing.assert_close(compiled(x, hidden), right, rtol=1e-4, atol=1e-5)
    leaves = list(module.parameters())
    mine = torch.autograd.grad(compiled(x, padding_of()).sum(), leaves)
    theirs = torch.autograd.grad(right.sum(), leaves)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_the_same_on_cuda(name, need_weights):
    module = mt.EntmaxAttention(WIDTH, HEADS, alpha="learned", num_key_heads=2)
    given, options = drawn(module), MASKS[name]
    right, _ = module(*given, need_weights=need_weights, **options)
    there = {option: x.cuda() for option, x in options.items()}
    moved = copy.deepcopy(module).cuda()
    out, _ = moved(*(x.cuda() for x in given), need_weights=need_weights, **there)
    torch.testing.assert_close(out.cpu(), right, rtol=1e-4, atol=1e-4)
    mine = torch.autograd.grad(out.square().sum(), list(moved.parameters()))
    theirs = torch.autograd.grad(right.square().sum(), list(module.parameters()))
    torch.testing.assert_close([x.cpu() for x in mine], list(theirs), rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # no bfloat16 on this processor
@pytest.mark.parametrize("need_weights", [False, True])
def test_autocast(need_weights):
    module = mt.EntmaxAttention(WIDTH, HEADS, batch_first=True, add_bias_kv=True)
    given = drawn(module, True)
    right, _ = module(*given)
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = module(*given, need_weights=need_weights, attn_mask=torch.zeros(QUERIES, KEYS))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), right, rtol=0.05, atol=0.05)
    low = copy.deepcopy(module).bfloat16()
    out, p = low(*(x.bfloat16() for x in given), need_weights=need_weights)
    assert out.dtype == torch.bfloat16
    assert p is None or p.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dropout": 0.1}, ValueError, "no dropout .* got dropout=0.1"),
        ({"num_heads": 3}, ValueError, "multiple of num_heads, .* 16 and 3"),
        ({"num_key_heads": 3}, ValueError, "multiple of num_key_heads, got 4 and 3"),
        ({"alpha": "learn"}, ValueError, "a number or 'learned', got 'learn'"),
        ({"alpha": 0.5}, ValueError, "finite alpha >= 1, got 0.5"),
        ({"alpha": None}, TypeError, "alpha must be a number, got None"),
        ({"window": 3, "add_zero_attn": True}, ValueError, "no place in a window"),
        ({"window": 0}, ValueError, "window is a number of keys from 1 on, got 0"),
        ({"window": 2.5}, TypeError, "window is a number of keys, got 2.5"),
    ],
)
def test_refused_settings(options, error, words):
    with pytest.raises(error, match=words):
        mt.EntmaxAttention(WIDTH, **{"num_heads": HEADS, **options})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"is_causal": True}, ValueError, "says of attn_mask that it is causal"),
        (
            {"is_causal": True, "attn_mask": torch.zeros(QUERIES, KEYS)},
            ValueError,
            "leave is_causal out",
        ),
        (
            {
                "is_causal": True,
                "attn_mask": torch.randn(QUERIES, KEYS).masked_fill(
                    torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1), -INF
                ),
            },
            ValueError,
            "leave is_causal out",
        ),
        ({"attn_mask": torch.zeros(QUERIES, KEYS, dtype=torch.int64)}, TypeError, "torch.int64"),
        ({"attn_mask": torch.zeros(KEYS, QUERIES)}, ValueError, r"attn_mask has shape \(9, 7\)"),
        ({"attn_mask": torch.zeros(2, QUERIES, KEYS)}, ValueError, r"or \(8, 7, 9\)"),
        ({"key_padding_mask": torch.zeros(KEYS)}, ValueError, r"\(2, 9\) is needed"),
        ({"key_padding_mask": torch.zeros(2, 9, dtype=torch.uint8)}, TypeError, "torch.uint8"),
    ],
)
def test_refused_masks(options, error, words):
    module = mt.EntmaxAttention(WIDTH, HEADS)
    with pytest.raises(error, match=words):
        module(*drawn(module), **options)


def test_refused_shapes():
    module = mt.EntmaxAttention(WIDTH, HEADS)
    q, k, v = drawn(module)
    for given, words in (
        ((q, k[0], v), "two dimensions, or of three with a batch"),
        ((q[None], k[None], v[None]), "two dimensions, or of three with a batch"),
        ((q[..., :8], k, v), r"widths \(16, 16, 16\)"),
        ((q, k, v[:3]), r"a value for each key.*\(tokens, batch, width\)"),
        ((q[:, :1], k, v), "one batch"),
    ):
        with pytest.raises(ValueError, match=words):
            module(*given)

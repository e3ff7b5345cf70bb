"""Models of transformers that attend by entmax, beside attention written out in float64."""

import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tools import needs

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
torch = needs("torch")
transformers = needs("transformers")

from attention_cases import weights  # noqa: E402
from test_torch import tracing_warns  # noqa: E402

import maxent.torch as mt  # noqa: E402
from maxent.torch.attention import hugging_face  # noqa: E402

WORDS, TOKENS, WINDOW = 40, 12, 4
SIZES = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


@pytest.fixture(autouse=True)
def registered():
    mt.register_attention()
    mt.register_attention("entmax_softmax", alpha=1)


def llama(attention="entmax", **options):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**{**SIZES, **options})
    made = transformers.LlamaForCausalLM._from_config(config, attn_implementation=attention)
    return sharpened(made).eval()


def mistral(attention="entmax", **options):
    torch.manual_seed(1)
    config = transformers.MistralConfig(**SIZES, sliding_window=WINDOW, **options)
    made = transformers.MistralForCausalLM._from_config(config, attn_implementation=attention)
    return sharpened(made).eval()


def sharpened(model):
    """Scores that are spread, so that supports are small."""
    with torch.no_grad():
        for name, x in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                x.mul_(20)
            if "embed" in name:
                x.mul_(50)
    return model


MODELS = {"llama": (llama, None), "mistral": (mistral, WINDOW)}
each_model = pytest.mark.parametrize("kind", MODELS)


def ids(batch=2, tokens=TOKENS, seed=0):
    return torch.randint(1, WORDS, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def padded(side):
    """1 where there is a token."""
    mask = torch.ones(2, TOKENS, dtype=torch.int64)
    if side == "left":
        mask[1, :5] = 0
    elif side == "right":
        mask[0, 8:] = 0
    elif side == "inside":
        mask[0, 3:5] = mask[1, 6] = 0
    return mask


class WrittenOut(torch.autograd.Function):
    """Weights by bisection, their derivatives by the formula, in float64."""

    @staticmethod
    def forward(ctx, scores, alphas):
        z = scores.detach().double().numpy()
        p = np.stack([weights(z[:, h], alphas[h]) for h in range(z.shape[1])], 1)
        p = torch.from_numpy(p)
        ctx.save_for_backward(p)
        ctx.alphas = alphas
        return p

    @staticmethod
    def backward(ctx, dp):
        (p,) = ctx.saved_tensors
        power = 2 - torch.tensor(ctx.alphas, dtype=p.dtype)[:, None, None]
        w = torch.where(p > 0, p.clamp(min=1e-300) ** power, 0)
        mean = (w * dp).sum(-1, keepdim=True) / w.sum(-1, keepdim=True).clamp(min=1e-300)
        return w * (dp - mean), None


def written_out(model, window=None, mask=None, own=None, alphas=None):
    """The model with another attention, which decides by itself what a query sees."""

    def attention(module, query, key, value, attention_mask, scaling, **rest):
        queries, keys, heads = query.shape[2], key.shape[2], query.shape[1]
        i, j = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
        seen = (j <= i) & (window is None or i - j < window)
        seen = np.broadcast_to(seen, (len(query), queries, keys)).copy()
        if mask is not None:
            seen &= mask.numpy()[:, None, :keys] == 1
        if own is not None:
            seen &= own[:, :, None] == own[:, None]
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
        scores = (query @ key.mT * scaling).masked_fill(~torch.from_numpy(seen)[:, None], -math.inf)
        used = [1.5] * heads if alphas is None else alphas[module.layer_idx]
        p = WrittenOut.apply(scores, used)
        return (p.to(value.dtype) @ value).transpose(1, 2).contiguous(), None

    transformers.AttentionInterface.register("written_out", attention)
    model.set_attn_implementation("written_out")
    return model.double()


@each_model
@pytest.mark.parametrize("side", ["none", "left", "right", "inside"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_logits_and_gradients(kind, side, dtype):
    make, window = MODELS[kind]
    mask, words = padded(side), ids()
    kept = mask.bool()
    model = make().to(dtype)
    reference = written_out(make(), window, mask)
    made = []
    for one in (model, reference):
        logits = one(words, attention_mask=mask, use_cache=False).logits[kept]
        loss = torch.nn.functional.cross_entropy(logits, words[kept])
        made.append((logits, torch.autograd.grad(loss, list(one.parameters()))))
    tolerance = 1e-10 if dtype == torch.float64 else 1e-3
    assert_near(made[0][0], made[1][0], tolerance)
    for mine, theirs in zip(made[0][1], made[1][1], strict=True):
        assert_near(mine, theirs, tolerance)


def assert_near(mine, theirs, tolerance):
    """By norms."""
    error = float((mine.double() - theirs).detach().norm())
    assert error <= tolerance * max(float(theirs.detach().norm()), 1e-6)


@each_model
@pytest.mark.parametrize("side", ["none", "left", "right", "inside"])
def test_softmax_is_transformers_own(kind, side):
    make, _ = MODELS[kind]
    mask, words = padded(side), ids()
    logits = [
        make(name)(words, attention_mask=mask).logits[mask.bool()]
        for name in ("entmax_softmax", "sdpa")
    ]
    torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-4)


@each_model
@pytest.mark.parametrize("side", ["none", "left"])
def test_generation_with_a_cache(kind, side):
    make, _ = MODELS[kind]
    model = make().double()
    options = {"max_new_tokens": 7, "do_sample": False, "output_logits": True}
    options |= {"return_dict_in_generate": True, "attention_mask": padded(side)}
    with_cache = model.generate(ids(), use_cache=True, **options)
    without = model.generate(ids(), use_cache=False, **options)
    assert with_cache.sequences.equal(without.sequences)
    for one, other in zip(with_cache.logits, without.logits, strict=True):
        torch.testing.assert_close(one, other)
    static = model.generate(ids(), cache_implementation="static", **options)
    assert static.sequences.equal(without.sequences)


@each_model
@pytest.mark.parametrize("side", ["none", "left"])
def test_several_new_tokens_after_a_prefix(kind, side):
    """New queries are the last rows: a causal mask from the top left would be wrong."""
    make, window = MODELS[kind]
    words, mask = ids(), padded(side)
    model = make().double()
    right = written_out(make(), window, mask)(words, attention_mask=mask, use_cache=False).logits
    for cut in (2, 7, 11):
        before = model(words[:, :cut], attention_mask=mask[:, :cut], use_cache=True)
        after = model(
            words[:, cut:], attention_mask=mask, past_key_values=before.past_key_values
        ).logits
        kept = mask[:, cut:].bool()
        torch.testing.assert_close(after[kept], right[:, cut:][kept])


@each_model
def test_packed_sequences(kind):
    make, window = MODELS[kind]
    places = torch.tensor([[*range(5), *range(7)], [*range(9), *range(3)]])
    options = {"position_ids": places, "use_cache": False}
    own = np.cumsum(places.numpy() == 0, 1)
    right = written_out(make(), window, own=own)(ids(), **options).logits
    torch.testing.assert_close(make().double()(ids(), **options).logits, right)
    alone = make().double()(ids()[:1, 5:]).logits
    torch.testing.assert_close(alone, right[:1, 5:])


def seen_masks(model, *args, monkeypatch, **options):
    """What the attention of each layer was given as mask and as causal."""
    seen = []
    run = hugging_face.attend

    def watched(given, leading, causal, support):
        seen.append((given, causal))
        return run(given, leading, causal, support)

    monkeypatch.setattr(hugging_face, "attend", watched)
    model(*args, **options)
    return seen


@pytest.mark.parametrize(
    ("kind", "side", "spans", "biased"),
    [
        ("llama", "none", 1, False),
        ("llama", "left", 2, False),
        ("llama", "right", 2, False),
        ("mistral", "none", 2, False),
        ("mistral", "left", 2, False),
        ("llama", "inside", None, True),
    ],
)
def test_no_mask_is_read_where_spans_say_it_all(kind, side, spans, biased, monkeypatch):
    model = MODELS[kind][0]()
    seen = seen_masks(model, ids(), attention_mask=padded(side), monkeypatch=monkeypatch)
    for given, causal in seen:
        assert (given.bias is not None) == biased
        assert causal == (spans == 1)
        assert given.first is None if spans is None else len(given.first) == spans


def test_blocks_of_a_mask(monkeypatch):
    """Long sequences have their masks looked at a few queries at a time."""
    words, mask = ids(), padded("left")
    right = mistral()(words, attention_mask=mask).logits
    monkeypatch.setattr(hugging_face, "_ENTRIES", 3 * 2 * TOKENS)
    torch.testing.assert_close(mistral()(words, attention_mask=mask).logits, right)


def test_span_masks_are_dense_for_others():
    first, stop = torch.tensor([[0, 1, 2]]), torch.tensor([[1, 3, 2]])
    mask = hugging_face.SpanMask(first, stop, 4)
    dense = torch.tensor([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()[None, None]
    assert mask.shape == (1, 1, 3, 4)
    assert mask.dtype == torch.bool
    assert (~mask).equal(~dense)
    assert mask[..., :2].equal(dense[..., :2])
    assert torch.zeros(1, 2, 3, 4).masked_fill(mask, 1.0).sum() == 6
    assert torch.where(mask, 0.0, -1.0).equal(torch.where(dense, 0.0, -1.0))
    assert type(mask | mask) is torch.Tensor


def test_masks_of_ones_own():
    """Four dimensions, boolean (True = attend) or added."""
    model, words = llama().double(), ids()
    keep = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril() & (torch.rand(TOKENS, TOKENS) > 0.3)
    keep |= torch.eye(TOKENS, dtype=torch.bool)
    keep = keep.expand(2, 1, TOKENS, TOKENS)
    added = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf)
    one = model(words, attention_mask=keep, use_cache=False).logits
    other = model(words, attention_mask=added, use_cache=False).logits
    torch.testing.assert_close(one, other)
    assert not torch.allclose(one, model(words).logits)


def test_an_encoder():
    """Every token sees all others but padding."""
    torch.manual_seed(1)
    sizes = {name: SIZES[name] for name in SIZES if "key_value" not in name}
    config = transformers.BertConfig(**sizes)
    mask = padded("right")
    made = []
    for name in ("entmax_softmax", "sdpa", "entmax"):
        torch.manual_seed(2)
        model = transformers.BertModel._from_config(config, attn_implementation=name).eval()
        made.append(model(ids(), attention_mask=mask).last_hidden_state[mask.bool()])
    torch.testing.assert_close(made[0], made[1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(made[0], made[2])


def test_weights():
    model = llama()
    out = model(ids(), attention_mask=padded("left"), output_attentions=True)
    for p in out.attentions:
        assert p.shape == (2, 4, TOKENS, TOKENS)
        assert bool((p[0].sum(-1) - 1).abs().max() < 1e-5)
        assert not p[1, :, :, :5].any()
        assert int((p[0, :, -1] > 0).sum(-1).max()) < TOKENS


@pytest.mark.parametrize(
    ("alpha", "each"),
    [
        (2.0, [[2.0] * 4] * 2),
        ([1.5, 2], [[1.5] * 4, [2.0] * 4]),
        ([[1.2, 1.5, 1.7, 2], 1.5], [[1.2, 1.5, 1.7, 2.0], [1.5] * 4]),
    ],
)
def test_alphas_of_a_model(alpha, each, tmp_path):
    model = llama(entmax_alpha=alpha)
    right = written_out(llama(), alphas=each)(ids(), use_cache=False).logits
    mine = model(ids()).logits
    assert_near(mine, right, 1e-3)
    model.save_pretrained(tmp_path)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path, attn_implementation="entmax")
    assert again.config.entmax_alpha == alpha
    torch.testing.assert_close(again.eval()(ids()).logits, mine)


def test_alphas_that_learn():
    model = llama(entmax_alpha=2.0).double()
    for layer in model.model.layers:
        layer.self_attn.entmax_alpha = torch.nn.Parameter(torch.full((4,), 1.4).double())
    loss = model(ids(), labels=ids()).loss
    loss.backward()
    loss = loss.detach()
    for layer in model.model.layers:
        assert float(layer.self_attn.entmax_alpha.grad.abs().min()) > 0
    each = [[1.4] * 4] * 2
    right = written_out(llama(), alphas=each)(ids(), labels=ids(), use_cache=False).loss
    torch.testing.assert_close(loss, right.detach())


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # no bfloat16 on this processor
def test_checkpoints_and_autocast():
    mask, words = padded("left"), ids()
    model = llama().train()
    plain = model(words, attention_mask=mask, labels=words, use_cache=False).loss
    leaves = list(model.parameters())
    right = torch.autograd.grad(plain, leaves)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the name that old versions know
        model.gradient_checkpointing_enable()
    again = model(words, attention_mask=mask, labels=words, use_cache=False).loss
    torch.testing.assert_close(torch.autograd.grad(again, leaves), right)
    with torch.autocast("cpu", torch.bfloat16):
        low = llama()(words, attention_mask=mask, labels=words).loss
    torch.testing.assert_close(low.detach(), plain.detach(), rtol=0.05, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@each_model
@pytest.mark.parametrize("side", ["none", "left", "right", "inside"])
def test_the_same_on_cuda(kind, side):
    model, mask = MODELS[kind][0](), padded(side)
    right = model(ids(), attention_mask=mask).logits[mask.bool()]
    there = MODELS[kind][0]().cuda()
    logits = there(ids().cuda(), attention_mask=mask.cuda()).logits.cpu()[mask.bool()]
    assert_near(logits, right.double(), 5e-3)
    cut, words, seen = 7, ids().cuda(), mask.cuda()
    before = there(words[:, :cut], attention_mask=seen[:, :cut], use_cache=True).past_key_values
    after = there(words[:, cut:], attention_mask=seen, past_key_values=before).logits
    whole = model(ids(), attention_mask=mask).logits
    kept = mask[:, cut:].bool()
    assert_near(after.cpu()[kept], whole[:, cut:][kept].double(), 5e-3)


@tracing_warns
def test_compiled():
    model, mask = llama(num_hidden_layers=1), padded("left")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        right = model(ids(), attention_mask=mask, use_cache=False).logits
        mine = compiled(ids(), attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(mine[mask.bool()], right[mask.bool()], rtol=1e-3, atol=1e-3)


def test_dropout_is_refused():
    model = llama(attention_dropout=0.1)
    model(ids())
    with pytest.raises(ValueError, match=r"LlamaAttention asks for dropout=0\.1"):
        model.train()(ids())


def test_what_a_model_asks_for_in_vain():
    config = transformers.Gemma2Config(
        **{**SIZES, "head_dim": 8}, attn_logit_softcapping=30.0, sliding_window=WINDOW
    )
    model = transformers.Gemma2ForCausalLM._from_config(config, attn_implementation="entmax")
    with pytest.raises(ValueError, match="Gemma2Attention asks for softcap"):
        model.eval()(ids())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"s_aux": torch.zeros(4)}, "asks for s_aux, which entmax has not"),
        ({"position_bias": torch.zeros(1, 4, 6, 6)}, "asks for position_bias"),
        ({"cache": object()}, "asks for cache"),
        ({"cu_seq_lens_q": torch.tensor([0, 3, 6])}, "give position_ids"),
        ({"sliding_window": 3}, "a sliding window of 3 of 6 keys but gives no mask"),
    ],
)
def test_refused_arguments(options, words):
    attention = transformers.AttentionInterface()["entmax"]
    x = torch.randn(1, 4, 6, 8)
    with pytest.raises(ValueError, match=words):
        attention(torch.nn.Module(), x, x, x, None, **options)
    mask = hugging_face.SpanMask(torch.zeros(1, 5), torch.ones(1, 5), 6)
    with pytest.raises(ValueError, match="for 6 queries and 6 keys"):
        attention(torch.nn.Module(), x, x, x, mask)


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        ([1.5] * 3, "3 entries, one for each of the 2 layers"),
        ([[1.5] * 3, 2], "one for each of 4 heads"),
        (0.5, "finite alpha >= 1, got 0.5"),
    ],
)
def test_refused_alphas(alpha, words):
    with pytest.raises(ValueError, match=words):
        llama(entmax_alpha=alpha)(ids())


def test_names():
    assert mt.register_attention("mine", alpha=2.0) == "mine"
    assert mt.register_attention("mine", alpha=1.2) == "mine"
    for name in ("sdpa", "my_flash", "a/b", "", 3):
        with pytest.raises(ValueError, match="the name must be an identifier"):
            mt.register_attention(name)
    transformers.AttentionInterface.register("theirs", lambda *_: None)
    with pytest.raises(ValueError, match="'theirs' is another's attention"):
        mt.register_attention("theirs")
    with pytest.raises(ValueError, match="finite alpha >= 1"):
        mt.register_attention("mine", alpha=0.2)


def test_transformers_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"pip install maxent\[transformers\]"):
        mt.register_attention()
    code = "import sys, maxent, maxent.torch; assert 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

"""Decoding in float64, written out, and cases that the cache must get right on every engine."""

import math

import numpy as np
from attention_cases import weights

import maxent.torch as mt
import torch


def drawn(lengths, heads=1, width=32, wide=16, dtype=torch.float32, place="cpu"):
    """Keys and values of sequences, each (heads, length, width)."""
    keys = [torch.randn(heads, n, width).to(place, dtype) for n in lengths]
    return keys, [torch.randn(heads, n, wide).to(place, dtype) for n in lengths]


def queries(batch, heads, tokens, width=32, spread=2.0, dtype=torch.float32, place="cpu"):
    return (spread * torch.randn(batch, heads, tokens, width)).to(place, dtype)


def padded(parts):
    """Sequences of different lengths as one tensor, padding first; NaN, as it must not matter."""
    most = max(x.shape[1] for x in parts)
    made = parts[0].new_full((len(parts), len(parts[0]), most, parts[0].shape[2]), math.nan)
    for x, part in zip(made, parts, strict=True):
        x[:, most - part.shape[1] :] = part
    return made


def filled(keys, values, **options):
    """A cache with these tokens."""
    k = keys[0]
    cache = mt.AttentionCache(
        len(keys), len(k), k.shape[2], values[0].shape[2], dtype=k.dtype, device=k.device,
        **{"page": 64} | options,
    )  # fmt: skip
    cache.append(padded(keys), padded(values), [x.shape[1] for x in keys])
    return cache


def reference(q, keys, values, alpha, scale=None, window=None):
    """Outputs and weights of every query, one at a time."""
    batch, heads, tokens, width = q.shape
    group = heads // len(keys[0])
    alphas = np.broadcast_to(np.asarray(alpha, float), heads)
    scale = 1 / math.sqrt(width) if scale is None else scale
    out = np.zeros((batch, heads, tokens, values[0].shape[2]))
    longest = max(x.shape[1] for x in keys)
    p = np.zeros((batch, heads, tokens, longest))
    for b, h, t in np.ndindex(batch, heads, tokens):
        stop = keys[b].shape[1] - (tokens - 1 - t)
        first = 0 if window is None else max(stop - window, 0)
        if stop <= 0:
            continue
        k = keys[b][h // group, first:stop].double().cpu().numpy()
        v = values[b][h // group, first:stop].double().cpu().numpy()
        z = scale * (k * q[b, h, t].double().cpu().numpy()).sum(1)
        if np.isnan(z).any() or np.isposinf(z).any():
            out[b, h, t] = np.nan
            continue
        own = weights(z[None], alphas[h])[0]
        p[b, h, t, first:stop] = own
        out[b, h, t] = own[own > 0] @ v[own > 0]
    return out, p


def assert_right(cache, q, keys, values, alpha=1.5, tolerance=2e-6, exact=True, **seen):
    """Output and weights beside float64; the support too, key by key, where it is exact.

    Otherwise scores are those of float32, and the output is off by more.
    """
    tolerance *= 1 if exact else 20
    given = torch.tensor(alpha, device=q.device) if isinstance(alpha, list) else alpha
    out, support = cache.attend(q, given, **seen, return_support=True)
    right, p = reference(q, keys, values, alpha, **seen)
    assert out.dtype == q.dtype
    np.testing.assert_allclose(out.double().cpu(), right, rtol=tolerance, atol=tolerance)
    assert support.shape == p.shape
    bad = np.isnan(right).any(-1)
    if not bad.any():
        assert abs(support.to_dense().double().cpu().numpy() - p).max(initial=0) <= 1e-5
    if exact:
        rows = p.reshape(-1, p.shape[-1])
        for r in np.flatnonzero(~bad.reshape(-1)):
            mine = support.col[support.crow[r] : support.crow[r + 1]]
            assert mine.tolist() == np.flatnonzero(rows[r]).tolist(), r
    return out, support


def _one_place(q, k):
    """All large scores at one place of the tiles, where lower bounds tell least."""
    k[..., 5::64, :] += q[0, :1]


def _outlier_channels(q, k):
    """Two channels take all of the 8 bits."""
    k[..., 3] *= 200
    k[..., 11] += 60
    q[..., 3] *= 0.02


def _very_different_norms(q, k):
    k *= torch.logspace(-4, 2, k.shape[-2]).to(k.dtype)[:, None]


def _flat(q, k):
    """All keys are in the support."""
    k *= 1e-3


def _ties(q, k):
    k[..., 10:90, :] = k[..., 10:11, :]


def _equal_keys(q, k):
    k[:] = k[..., :1, :]


def _zero_queries(q, k):
    q[:] = 0


def _large(q, k):
    """Scores far beyond what float32 tells apart."""
    k *= 3e4


def _tiny_and_huge(q, k):
    k *= 1e-22
    q *= 1e21


ADVERSARIAL = {
    f.__name__[1:]: f
    for f in (
        _one_place, _outlier_channels, _very_different_norms, _flat, _ties, _equal_keys,
        _zero_queries, _large, _tiny_and_huge,
    )
}  # fmt: skip


def adversarial(name, place="cpu"):
    """A query of two heads that share their keys."""
    keys, values = drawn([140])
    q = queries(1, 2, 1)
    ADVERSARIAL[name](q, keys[0])
    return q.to(place), [x.to(place) for x in keys], [x.to(place) for x in values]


def hidden_by_a_channel(place="cpu"):
    """A key that the query loves, with all 8 bits spent on a channel that it does not look at."""
    keys, values = drawn([150])
    q = queries(1, 1, 1, spread=1.0)
    q[..., 0] = 0
    keys[0][0, 77] = 2.0 * q[0, 0, 0]
    keys[0][0, 77, 0] = 4000.0
    return q.to(place), [x.to(place) for x in keys], [x.to(place) for x in values]

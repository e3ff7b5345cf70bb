"""Attention in float64, written out, and cases that every engine must get right."""

import math

import numpy as np

import torch

INF = float("inf")


def hidden(queries, keys, is_causal=False, window=None, stop=None, bounds=None):
    """Which keys a query does not see, entry by entry."""
    i, j = np.indices((queries, keys))
    no = np.zeros((queries, keys), bool)
    if is_causal:
        no |= j > i
    if window is not None:
        no |= (i - j >= window) | ((j - i >= window) & (not is_causal))
    if stop is not None:
        no |= j >= stop
    if bounds is not None:
        own = np.searchsorted(bounds, np.arange(max(queries, keys)), side="right")
        no |= own[:queries, None] != own[None, :keys]
    return no


def weights(scores, alpha):
    """Rows of entmax by bisection, in float64; rows that see nothing are zeros."""
    z = (alpha - 1) * scores
    top = np.where(np.isfinite(z.max(-1, keepdims=True)), z.max(-1, keepdims=True), 0.0)
    low, high = top - 1, top

    def powers(tau):
        return np.maximum(z - tau, 0) ** (1 / (alpha - 1))

    for _ in range(80):
        middle = (low + high) / 2
        above = powers(middle).sum(-1, keepdims=True) >= 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    p = powers(low)
    total = p.sum(-1, keepdims=True)
    return p / np.where(total == 0, 1, total)


def reference(q, k, v, g, alpha, scale=None, added=0.0, **seen):
    """Output and gradients by the formulas, in float64: (out, dq, dk, dv, weights)."""
    q, k, v, g = (x.detach().double().cpu().numpy() for x in (q, k, v, g))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, group, 1) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * q @ k.swapaxes(-1, -2) + added
    lengths = seen.pop("lengths", None)
    for b in range(len(q)):
        stop = None if lengths is None else lengths[b]
        scores[b][:, hidden(*scores.shape[-2:], stop=stop, **seen)] = -np.inf
    alphas = np.broadcast_to(np.asarray(alpha, float), q.shape[1])
    p = np.stack([weights(scores[:, h], alphas[h]) for h in range(q.shape[1])], 1)
    w = np.where(p > 0, np.where(p > 0, p, 1) ** (2 - alphas[:, None, None]), 0)
    dp = g @ v.swapaxes(-1, -2)
    mass = w.sum(-1, keepdims=True)
    ds = w * (dp - (w * dp).sum(-1, keepdims=True) / np.where(mass == 0, 1, mass)) * scale
    dk, dv = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g
    together = (x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(2) for x in (dk, dv))
    return p @ v, ds @ k, *together, p


def drawn(batch, heads, shared, queries, keys, width, wide, dtype=torch.float32, spread=2.0):
    """Queries, keys, values and a gradient."""
    shapes = (
        (batch, heads, queries, width), (batch, shared, keys, width), (batch, shared, keys, wide),
        (batch, heads, queries, wide),
    )  # fmt: skip
    q, k, v, g = (torch.randn(s).to(dtype) for s in shapes)
    return q * spread, k, v, g


def assert_right(attend, given, alpha, tolerance, **seen):
    """The output and gradients of ``attend(q, k, v)`` beside the reference, by norms."""
    *inputs, g = given
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = attend(*leaves)
    made = [out, *torch.autograd.grad(out, leaves, g)]
    right = reference(*inputs, g, alpha, **seen)
    for name, mine, theirs in zip(("out", "dq", "dk", "dv"), made, right, strict=False):
        error = np.linalg.norm(mine.detach().double().cpu().numpy() - theirs)
        assert error <= tolerance * max(np.linalg.norm(theirs), 1e-300), (name, error)
    return made


def far_apart(queries, keys, width):
    """Scores whose largest all lie at one place of a tile of 64 keys, where heads tell least."""
    given = drawn(1, 1, 1, queries, keys, width, width, spread=1.0)
    given[1][..., 5::64, :] += 3 * given[0][..., :1, :]
    return given

"""Attention on CPU, forward and backward: sparse weights beside torch's softmax attention.

python -m benchmarks.run attention; on a CUDA device see benchmarks/gpu/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.peers import entmax
from benchmarks.report import Row, compared, missing
from benchmarks.timing import in_turns

OURS = "maxent"
TORCH = "torch softmax attention"
SHAPE, QUICK = (4, 8, 1024, 64), (1, 2, 128, 64)  # batch, heads, tokens, width
TARGET = ("no slower", 1.0)

Step = Callable[[], np.ndarray]


def step(attend: Callable, given: list, g: object) -> Step:
    """One training step: the gradients of query, key and value."""

    def run() -> np.ndarray:
        for x in given:
            x.grad = None
        attend(*given).backward(g)
        return np.stack([x.grad.numpy() for x in given])

    return run


def run(quick: bool = False) -> list[Row]:
    """A row for each competitor; accuracy: gradients beside those in float64, by norms."""
    from torch.nn.functional import scaled_dot_product_attention

    import maxent.torch as mt
    import torch

    torch.manual_seed(0)
    rows = []
    shape = QUICK if quick else SHAPE
    *given, g = (torch.randn(shape) for _ in range(4))
    given = [x.requires_grad_() for x in given]
    wide = [x.detach().double().requires_grad_() for x in given]
    for causal in (False, True):
        words = ", causal" if causal else ""
        problem = f"attention of {' x '.join(map(str, shape))}{words}, forward and backward"

        def ours(q, k, v, causal=causal):
            return mt.entmax_attention(q, k, v, is_causal=causal)

        def softmax(q, k, v, causal=causal):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)

        competitors = {OURS: step(ours, given, g), TORCH: step(softmax, given, g)}
        try:
            competitors |= {f"{entmax.NAME}, unfused": step(entmax.attention(causal), given, g)}
        except ImportError as error:
            rows.append(missing("attention", problem, entmax.NAME, str(error)))
        times = in_turns(competitors, repeats=7)
        with mt.backend("plain"):
            right = step(ours, wide, g.double())()
        errors = {
            name: float(np.linalg.norm(one() - right) / np.linalg.norm(right))
            for name, one in competitors.items()
        }
        errors[TORCH] = float("nan")  # of another function
        rows += compared("attention", problem, times, OURS, errors, {TORCH: TARGET})
    return rows

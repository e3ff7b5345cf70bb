"""Attention with exactly sparse weights: engines side by side, plain, compiled, triton."""

from __future__ import annotations

from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.attention.cache import AttentionCache
from maxent.torch.attention.functional import entmax_attention
from maxent.torch.attention.hugging_face import register_attention
from maxent.torch.attention.modules import EntmaxAttention

__all__ = [
    "AttentionCache",
    "AttentionSupport",
    "EntmaxAttention",
    "entmax_attention",
    "register_attention",
]

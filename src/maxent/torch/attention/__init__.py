"""Attention with exactly sparse weights: engines side by side, plain, compiled, triton."""

from __future__ import annotations

from maxent.torch.attention._lists import AttentionSupport
from maxent.torch.attention.cache import AttentionCache
from maxent.torch.attention.functional import entmax_attention

__all__ = ["AttentionCache", "AttentionSupport", "entmax_attention"]

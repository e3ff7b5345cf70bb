"""Sums of exponentials in Triton kernels, where -inf stands for what is forbidden."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def finite(x):
    """x, or 0 for -inf: what may be subtracted."""
    return tl.where(x > -float("inf"), x, 0.0)


@triton.jit
def over(x, mass):
    """x over a sum, which is 0 only where x is."""
    return x / tl.where(mass > 0.0, mass, 1.0)


@triton.jit
def parts(scores, top, ratio):
    """The terms exp(scores - top) of sums with their largest term at ``top``, times ``ratio``."""
    return tl.where(ratio > 0.0, tl.exp(scores - finite(top)) * ratio, 0.0)

"""The kernels of decoding in Triton's CPU interpreter: run by test_torch_triton.py."""

import pytest
from decode_cases import Decoding
from triton_kernels import _half_the_time  # noqa: F401

import torch
from maxent.torch.attention import _triton_decode, cache

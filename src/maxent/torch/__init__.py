"""maxent for torch: sparse alternatives to softmax and cross-entropy, layer and loss.

Needs torch and numpy only. On CPU the compiled kernels of the core are used where numba is
installed, on CUDA Triton kernels, else plain torch operations; the numbers are the same.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("maxent.torch needs torch: pip install maxent[torch]") from error

from maxent.torch.attention import (
    AttentionCache,
    AttentionSupport,
    EntmaxAttention,
    entmax_attention,
    register_attention,
)
from maxent.torch.head import (
    CausalLoss,
    ChunkedLoss,
    EntmaxLogitsProcessor,
    LinearFenchelYoungLoss,
    RowStatistics,
    SparseDistribution,
    linear_distillation_loss,
    linear_entmax,
    linear_fenchel_young_loss,
    linear_log_probabilities,
    linear_statistics,
    set_causal_loss,
)
from maxent.torch.maps._dispatch import backend
from maxent.torch.maps.entropies import Entropy, NormEntropy, Shannon, Tsallis
from maxent.torch.maps.functional import (
    budget,
    entmax,
    entmax15,
    normmax,
    softmax,
    sparse_plus,
    sparse_sigmoid,
    sparsemax,
)
from maxent.torch.maps.losses import fenchel_young_loss
from maxent.torch.maps.modules import (
    Budget,
    Entmax,
    Entmax15,
    FenchelYoungLoss,
    Normmax,
    Softmax,
    Sparsemax,
    SparsePlus,
    SparseSigmoid,
)

__all__ = [
    "AttentionCache",
    "AttentionSupport",
    "Budget",
    "CausalLoss",
    "ChunkedLoss",
    "Entmax",
    "Entmax15",
    "EntmaxAttention",
    "EntmaxLogitsProcessor",
    "Entropy",
    "FenchelYoungLoss",
    "LinearFenchelYoungLoss",
    "NormEntropy",
    "Normmax",
    "RowStatistics",
    "Shannon",
    "Softmax",
    "SparseDistribution",
    "SparsePlus",
    "SparseSigmoid",
    "Sparsemax",
    "Tsallis",
    "backend",
    "budget",
    "entmax",
    "entmax15",
    "entmax_attention",
    "fenchel_young_loss",
    "linear_distillation_loss",
    "linear_entmax",
    "linear_fenchel_young_loss",
    "linear_log_probabilities",
    "linear_statistics",
    "normmax",
    "register_attention",
    "set_causal_loss",
    "softmax",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
]

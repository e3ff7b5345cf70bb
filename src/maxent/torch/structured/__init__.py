"""Structured maps and losses for torch: the domains of ``maxent.structured`` as layers."""

from maxent.torch.structured.alignment import (
    alignment_log_partition,
    alignment_marginals,
    soft_dtw,
)
from maxent.torch.structured.chain import (
    chain_argmax,
    chain_hinge_loss,
    chain_kbest,
    chain_log_partition,
    chain_marginals,
    chain_perceptron_loss,
    chain_sample,
    chain_score,
    crf_loss,
)
from maxent.torch.structured.modules import LinearChain, SoftDTW, SparseMAP, SparseMAPLoss
from maxent.torch.structured.oracles import argmax, log_partition, marginals
from maxent.torch.structured.sparsemap import sparsemap, sparsemap_loss, sparsemap_support

__all__ = [
    "LinearChain",
    "SoftDTW",
    "SparseMAP",
    "SparseMAPLoss",
    "alignment_log_partition",
    "alignment_marginals",
    "argmax",
    "chain_argmax",
    "chain_hinge_loss",
    "chain_kbest",
    "chain_log_partition",
    "chain_marginals",
    "chain_perceptron_loss",
    "chain_sample",
    "chain_score",
    "crf_loss",
    "log_partition",
    "marginals",
    "soft_dtw",
    "sparsemap",
    "sparsemap_loss",
    "sparsemap_support",
]

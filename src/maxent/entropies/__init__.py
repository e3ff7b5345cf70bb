"""Entropies: convex regularisers Omega, each with its map, conjugate, derivative and prox."""

from maxent.entropies.base import Entropy, MeasuredEntropy
from maxent.entropies.hinge import PairwiseHinge, Youngized, fenchel_youngize
from maxent.entropies.mean import MeanEntropy
from maxent.entropies.norms import NormEntropy, SquaredNorm
from maxent.entropies.renyi import Renyi
from maxent.entropies.separable import BinaryGini, FermiDirac, OneVsAll
from maxent.entropies.simplex import Shannon, Tsallis
from maxent.entropies.slack import DifferenceCone, Slack
from maxent.entropies.smoothed import SmoothedMax
from maxent.entropies.wrappers import Relative, Scaled, Shifted, Zero, unwrap

__all__ = [
    "BinaryGini",
    "DifferenceCone",
    "Entropy",
    "FermiDirac",
    "MeanEntropy",
    "MeasuredEntropy",
    "NormEntropy",
    "OneVsAll",
    "PairwiseHinge",
    "Relative",
    "Renyi",
    "Scaled",
    "Shannon",
    "Shifted",
    "Slack",
    "SmoothedMax",
    "SquaredNorm",
    "Tsallis",
    "Youngized",
    "Zero",
    "fenchel_youngize",
    "unwrap",
]

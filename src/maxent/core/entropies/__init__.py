"""Entropies: convex regularisers Omega, each with its map, conjugate, derivative and prox."""

from maxent.core.entropies.base import Entropy, MeasuredEntropy
from maxent.core.entropies.bregman import Bregman
from maxent.core.entropies.direct_sum import DirectSum
from maxent.core.entropies.distribution import DistributionEntropy
from maxent.core.entropies.hinge import PairwiseHinge, Youngized, fenchel_youngize
from maxent.core.entropies.mean import MeanEntropy
from maxent.core.entropies.norms import NormEntropy, SquaredNorm
from maxent.core.entropies.records import Detection, OverdispersedCounts
from maxent.core.entropies.renyi import Renyi
from maxent.core.entropies.root_finding import SeparableEntropy
from maxent.core.entropies.separable import BinaryGini, FermiDirac, OneVsAll
from maxent.core.entropies.simplex import Shannon, Tsallis
from maxent.core.entropies.slack import DifferenceCone, Slack
from maxent.core.entropies.smoothed import SmoothedMax
from maxent.core.entropies.unnormalised import UnnormalisedRelativeEntropy
from maxent.core.entropies.wrappers import Relative, Scaled, Shifted, Zero, unwrap

__all__ = [
    "BinaryGini",
    "Bregman",
    "Detection",
    "DifferenceCone",
    "DirectSum",
    "DistributionEntropy",
    "Entropy",
    "FermiDirac",
    "MeanEntropy",
    "MeasuredEntropy",
    "NormEntropy",
    "OneVsAll",
    "OverdispersedCounts",
    "PairwiseHinge",
    "Relative",
    "Renyi",
    "Scaled",
    "SeparableEntropy",
    "Shannon",
    "Shifted",
    "Slack",
    "SmoothedMax",
    "SquaredNorm",
    "Tsallis",
    "UnnormalisedRelativeEntropy",
    "Youngized",
    "Zero",
    "fenchel_youngize",
    "unwrap",
]

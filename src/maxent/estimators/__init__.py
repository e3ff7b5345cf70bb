"""scikit-learn estimators over the one problem."""

from maxent.estimators.aligner import Aligner
from maxent.estimators.chain import ChainClassifier, SeparableWarning
from maxent.estimators.chain_cv import L2CRFCV, M3NCV
from maxent.estimators.density import MaxentDensity
from maxent.estimators.density_cv import MaxentDensityCV
from maxent.estimators.discrimination import CRF, L1CRF, L1M3N, L2CRF, M3N, LaplaceMEDN
from maxent.estimators.fenchel_young import (
    FenchelYoungClassifier,
    FenchelYoungMultilabel,
    FenchelYoungRegressor,
)
from maxent.estimators.fenchel_young_cv import FenchelYoungClassifierCV
from maxent.estimators.label_ranker import LabelRanker
from maxent.estimators.matcher import Matcher
from maxent.estimators.med import MED
from maxent.estimators.structural import StructMaxent
from maxent.estimators.structural_classifier import StructMaxentClassifier
from maxent.estimators.structural_cv import StructMaxentCV
from maxent.estimators.tree import TreeClassifier

__all__ = [
    "CRF",
    "L1CRF",
    "L1M3N",
    "L2CRF",
    "L2CRFCV",
    "M3N",
    "M3NCV",
    "MED",
    "Aligner",
    "ChainClassifier",
    "FenchelYoungClassifier",
    "FenchelYoungClassifierCV",
    "FenchelYoungMultilabel",
    "FenchelYoungRegressor",
    "LabelRanker",
    "LaplaceMEDN",
    "Matcher",
    "MaxentDensity",
    "MaxentDensityCV",
    "SeparableWarning",
    "StructMaxent",
    "StructMaxentCV",
    "StructMaxentClassifier",
    "TreeClassifier",
]

"""scikit-learn estimators over the one problem."""

from maxent.estimators.aligner import Aligner
from maxent.estimators.chain import ChainClassifier, SeparableWarning
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
from maxent.estimators.structural import StructMaxent
from maxent.estimators.structural_classifier import StructMaxentClassifier
from maxent.estimators.structural_cv import StructMaxentCV

__all__ = [
    "Aligner",
    "CRF",
    "ChainClassifier",
    "L1CRF",
    "L1M3N",
    "L2CRF",
    "LaplaceMEDN",
    "M3N",
    "SeparableWarning",
    "FenchelYoungClassifier",
    "FenchelYoungClassifierCV",
    "FenchelYoungMultilabel",
    "FenchelYoungRegressor",
    "LabelRanker",
    "Matcher",
    "MaxentDensity",
    "MaxentDensityCV",
    "StructMaxent",
    "StructMaxentCV",
    "StructMaxentClassifier",
]

"""scikit-learn estimators over the one problem."""

from maxent.learn.density.density import MaxentDensity
from maxent.learn.density.density_cv import MaxentDensityCV
from maxent.learn.density.integrated import IntegratedDensity
from maxent.learn.density.multi import MultiDensity
from maxent.learn.features import FeatureTransformer
from maxent.learn.linear.fenchel_young import (
    FenchelYoungClassifier,
    FenchelYoungMultilabel,
    FenchelYoungRegressor,
)
from maxent.learn.linear.fenchel_young_cv import FenchelYoungClassifierCV
from maxent.learn.linear.med import MED
from maxent.learn.structural.classifier import StructMaxentClassifier
from maxent.learn.structural.density import StructMaxent
from maxent.learn.structural.density_cv import StructMaxentCV
from maxent.learn.structured.aligner import Aligner
from maxent.learn.structured.chain import ChainClassifier, SeparableWarning
from maxent.learn.structured.chain_cv import L2CRFCV, M3NCV
from maxent.learn.structured.discrimination import CRF, L1CRF, L1M3N, L2CRF, M3N, LaplaceMEDN
from maxent.learn.structured.label_ranker import LabelRanker
from maxent.learn.structured.matcher import Matcher
from maxent.learn.structured.segmenter import SegmentClassifier
from maxent.learn.structured.tree import TreeClassifier

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
    "FeatureTransformer",
    "FenchelYoungClassifier",
    "FenchelYoungClassifierCV",
    "FenchelYoungMultilabel",
    "FenchelYoungRegressor",
    "IntegratedDensity",
    "LabelRanker",
    "LaplaceMEDN",
    "Matcher",
    "MaxentDensity",
    "MaxentDensityCV",
    "MultiDensity",
    "SegmentClassifier",
    "SeparableWarning",
    "StructMaxent",
    "StructMaxentCV",
    "StructMaxentClassifier",
    "TreeClassifier",
]

"""scikit-learn estimators over the one problem."""

from maxent.estimators.density import MaxentDensity, Profile
from maxent.estimators.density_cv import MaxentDensityCV
from maxent.estimators.fenchel_young import (
    FenchelYoungClassifier,
    FenchelYoungMultilabel,
    FenchelYoungRegressor,
)
from maxent.estimators.fenchel_young_cv import FenchelYoungClassifierCV
from maxent.estimators.lambdas import read_lambdas, write_lambdas
from maxent.estimators.structural import StructMaxent, StructMaxentCV
from maxent.estimators.structural_classifier import StructMaxentClassifier

__all__ = [
    "FenchelYoungClassifier",
    "FenchelYoungClassifierCV",
    "FenchelYoungMultilabel",
    "FenchelYoungRegressor",
    "MaxentDensity",
    "MaxentDensityCV",
    "Profile",
    "StructMaxent",
    "StructMaxentCV",
    "StructMaxentClassifier",
    "read_lambdas",
    "write_lambdas",
]

"""scikit-learn estimators over the one problem."""

from maxent.estimators.density import MaxentDensity, Profile
from maxent.estimators.density_cv import MaxentDensityCV
from maxent.estimators.lambdas import read_lambdas, write_lambdas

__all__ = ["MaxentDensity", "MaxentDensityCV", "Profile", "read_lambdas", "write_lambdas"]

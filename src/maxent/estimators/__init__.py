"""scikit-learn estimators over the one problem."""

from maxent.estimators.density import MaxentDensity, Profile
from maxent.estimators.density_cv import MaxentDensityCV

__all__ = ["MaxentDensity", "MaxentDensityCV", "Profile"]

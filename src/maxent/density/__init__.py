"""Maximum-entropy densities over cells: points, the task of fitting them, and what is fitted.

``Recipe`` (what a user chooses) and ``Points`` (the data) make a ``DensityTask``, whose fit is a
``FittedDensity``: a value that predicts, explains itself and is the model file.
"""

from maxent.density.evidence import Evidence, RecordWeights
from maxent.density.explanation import Explanation, MeanPlace
from maxent.density.joint import JointDensity
from maxent.density.joint_recipe import JointRecipe, JointTask
from maxent.density.lambdas import read_lambdas, write_lambdas
from maxent.density.link import DensityLink
from maxent.density.model import OUTPUTS, Certificate, FittedDensity, fitted_density
from maxent.density.origin import FromFamilies, Offered
from maxent.density.points import Points, Table
from maxent.density.pool import log_pool
from maxent.density.posterior import Places, Posterior
from maxent.density.profile import Profile
from maxent.density.recipe import Recipe, as_recipe
from maxent.density.sources import FittedIntensity, Source, SourcesTask
from maxent.density.sums import DensitySums
from maxent.density.task import DensityTask, Fit

__all__ = [
    "OUTPUTS",
    "Certificate",
    "DensityLink",
    "DensitySums",
    "DensityTask",
    "Evidence",
    "Explanation",
    "Fit",
    "FittedDensity",
    "FittedIntensity",
    "FromFamilies",
    "JointDensity",
    "JointRecipe",
    "JointTask",
    "MeanPlace",
    "Offered",
    "Places",
    "Points",
    "Posterior",
    "Profile",
    "Recipe",
    "RecordWeights",
    "Source",
    "SourcesTask",
    "Table",
    "as_recipe",
    "fitted_density",
    "log_pool",
    "read_lambdas",
    "write_lambdas",
]

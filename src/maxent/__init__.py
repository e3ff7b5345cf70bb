"""maxent: maximum-entropy learning as one convex problem.

An entropy on a domain plus a potential on moments, and its Fenchel dual. Public names load at
first use, so that ``import maxent`` is fast and pulls in no optional package.
"""

from __future__ import annotations

import importlib
from typing import Any

from maxent._version import __version__

_PUBLIC = {
    "maxent._rows": ["Ragged"],
    "maxent.domains": [
        "Cube",
        "Domain",
        "Euclidean",
        "KSubset",
        "NonNegative",
        "Product",
        "ScaledDomain",
        "Simplex",
        "SumProductDomain",
    ],
    "maxent.structured": ["Chain"],
    "maxent.entropies": [
        "BinaryGini",
        "Entropy",
        "FermiDirac",
        "NormEntropy",
        "OneVsAll",
        "PairwiseHinge",
        "Relative",
        "Renyi",
        "Scaled",
        "Shannon",
        "Shifted",
        "SquaredNorm",
        "Tsallis",
        "Youngized",
        "Zero",
        "fenchel_youngize",
    ],
    "maxent.potentials": [
        "Ball",
        "Box",
        "DualBall",
        "ElasticNet",
        "ElasticPotential",
        "Equality",
        "Families",
        "LaplacePrior",
        "NormBall",
        "NormPlusSquare",
        "Potential",
        "Quadratic",
        "QuadraticForm",
        "ScaledPotential",
        "ShiftedPotential",
        "SmoothBox",
        "SquaredNormPotential",
    ],
    "maxent.losses": ["FenchelYoungLoss"],
    "maxent.maps": [
        "ChainMap",
        "ColumnMap",
        "FeatureMap",
        "IdentityMap",
        "KernelMap",
        "MatrixMap",
        "RowMap",
        "SampleMap",
        "make_map",
    ],
    "maxent.problem": ["Problem", "State"],
    "maxent.solvers": [
        "FISTA",
        "LBFGS",
        "PLUMMET",
        "SUMMET",
        "BallSearch",
        "BlockFrankWolfe",
        "ConvergenceWarning",
        "CoordinateDescent",
        "CuttingPlane",
        "DualCoordinateAscent",
        "Interrupted",
        "NewtonCG",
        "ProxNewton",
        "Solution",
        "Solver",
        "Status",
    ],
    "maxent.evaluation": [
        "BufferedLeaveOneOut",
        "Checkerboard",
        "PresenceKFold",
        "SpatialBlocks",
    ],
    "maxent.features": [
        "Categorical",
        "FeatureClass",
        "Hinge",
        "Interaction",
        "Linear",
        "Operator",
        "OperatorMap",
        "Square",
        "Threshold",
    ],
    "maxent.estimators": [
        "FenchelYoungClassifier",
        "FenchelYoungClassifierCV",
        "FenchelYoungMultilabel",
        "FenchelYoungRegressor",
        "MaxentDensity",
        "MaxentDensityCV",
        "StructMaxent",
        "StructMaxentCV",
        "StructMaxentClassifier",
        "read_lambdas",
        "write_lambdas",
    ],
    "maxent.families": ["Family", "Monomials", "Splines", "Trees"],
    "maxent.path": ["solution_path"],
    "maxent.relaxation": ["RelaxationPath", "solve_relaxed"],
    "maxent.io": ["load", "save"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
_MODULES = {
    "bounds",
    "datasets",
    "species",
    "testing",
    "torch",
    *(m.removeprefix("maxent.") for m in _PUBLIC if "._" not in m),
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"maxent.{name}")
    raise AttributeError(f"module 'maxent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

"""maxent: maximum-entropy learning as one convex problem.

An entropy on a domain plus a potential on moments, and its Fenchel dual. Public names load at
first use, so that ``import maxent`` is fast and pulls in no optional package.
"""

from __future__ import annotations

import importlib
from typing import Any

from maxent._version import __version__

# What is public, by module, in the order of the reference (docs/api).
_PUBLIC = {
    "maxent.rows.arrays": ["Ragged", "Tied"],
    "maxent.core.domains": [
        "Domain",
        "StructuredDomain",
        "SumProductDomain",
        "Simplex",
        "Cube",
        "NonNegative",
        "Euclidean",
        "KSubset",
        "ScaledDomain",
        "Product",
    ],
    "maxent.structured": [
        "Alignment",
        "Arborescence",
        "Birkhoff",
        "Chain",
        "Permutahedron",
        "Transport",
        "HigherOrderChain",
        "Tree",
        "FrankWolfeResult",
        "StructureDistribution",
        "frank_wolfe",
        "kendall_tau",
        "soft_partial_rank",
        "soft_rank",
        "soft_sort",
        "soft_topk",
        "sparse_distribution",
    ],
    "maxent.core.entropies": [
        "Entropy",
        "MeasuredEntropy",
        "Shannon",
        "Tsallis",
        "NormEntropy",
        "SquaredNorm",
        "MeanEntropy",
        "Renyi",
        "PairwiseHinge",
        "FermiDirac",
        "BinaryGini",
        "OneVsAll",
        "Zero",
        "Shifted",
        "Relative",
        "Scaled",
        "SmoothedMax",
        "Slack",
        "DifferenceCone",
        "Youngized",
        "fenchel_youngize",
    ],
    "maxent.core.potentials": [
        "Potential",
        "ElasticPotential",
        "Equality",
        "Box",
        "Ball",
        "NormBall",
        "Quadratic",
        "QuadraticForm",
        "ElasticNet",
        "SquaredNormPotential",
        "NormPlusSquare",
        "SmoothBox",
        "DualBall",
        "LaplacePrior",
        "CumulantPrior",
        "Centred",
        "gaussian_prior",
        "Families",
        "ScaledPotential",
        "ShiftedPotential",
    ],
    "maxent.core.losses": ["FenchelYoungLoss"],
    "maxent.core.maps": [
        "FeatureMap",
        "ColumnMap",
        "MatrixMap",
        "IdentityMap",
        "SampleMap",
        "KernelMap",
        "RowMap",
        "RaggedMap",
        "ChainMap",
        "TreeMap",
        "make_map",
    ],
    "maxent.core.problem": ["Problem", "State"],
    "maxent.core.solvers": [
        "Solver",
        "ProxNewton",
        "NewtonCG",
        "LBFGS",
        "OWLQN",
        "FISTA",
        "Reweighted",
        "Smoothing",
        "CuttingPlane",
        "ColumnGeneration",
        "DualCoordinateAscent",
        "BlockFrankWolfe",
        "ExponentiatedGradient",
        "Subgradient",
        "StochasticGradient",
        "SUMMET",
        "PLUMMET",
        "BallSearch",
        "CoordinateDescent",
        "Solution",
        "Status",
        "Interrupted",
        "ConvergenceWarning",
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
    "maxent.learn": [
        "Aligner",
        "CRF",
        "ChainClassifier",
        "FenchelYoungClassifier",
        "FenchelYoungClassifierCV",
        "FenchelYoungMultilabel",
        "FenchelYoungRegressor",
        "L1CRF",
        "L1M3N",
        "L2CRF",
        "L2CRFCV",
        "LabelRanker",
        "LaplaceMEDN",
        "M3N",
        "M3NCV",
        "MED",
        "Matcher",
        "MaxentDensity",
        "MaxentDensityCV",
        "SeparableWarning",
        "StructMaxent",
        "StructMaxentCV",
        "StructMaxentClassifier",
        "TreeClassifier",
    ],
    "maxent.density": [
        "DensityTask",
        "Explanation",
        "FittedDensity",
        "MeanPlace",
        "Points",
        "Recipe",
        "read_lambdas",
        "write_lambdas",
    ],
    "maxent.families": ["Family", "Monomials", "Splines", "Trees"],
    "maxent.core.path": ["solution_path"],
    "maxent.relaxation": ["RelaxationPath", "solve_relaxed"],
    "maxent.io": ["load", "save"],
}
_HOME = {name: module for module, names in _PUBLIC.items() for name in names}
# modules by the short names that users know: mx.solvers is maxent.core.solvers
_MODULES = {
    module.rpartition(".")[2]: module
    for module in (
        *_PUBLIC,
        "maxent.core.bounds",
        "maxent.datasets",
        "maxent.species",
        "maxent.testing",
        "maxent.torch",
    )
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'maxent' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

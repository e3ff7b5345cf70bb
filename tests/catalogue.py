"""Every public class, with instances to test: a class missing here fails test_catalogue."""

import numpy as np
from scipy import special

import maxent as mx
from maxent.features import Schema, bind, fit_operators

INF = float("inf")
Q0 = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
COST = np.array([0.5, 1.0, 0.0, 2.0, 1.0])


def _hinge_loss(theta):
    """Sum-to-zero hinge of Lee, Lin and Wahba, whose entropy is Prop. 10's first."""
    centred = theta - theta.mean()
    d = theta.size
    active = (centred > -1).astype(float)
    centre = np.eye(d) - 1 / d
    values = np.array([np.delete(np.maximum(1 + centred, 0), k).sum() for k in range(d)])
    rows = [(active * (np.arange(d) != k)) @ centre for k in range(d)]
    return values, np.array(rows)


RIGHT = np.eye(5)[[0, 3, 1, 1, 4, 2]]  # one label per row of a batch of six

# (entropy, row size)
ENTROPIES = [
    (mx.Shannon(), 5),
    (mx.Shannon(domain=mx.Cube()), 3),
    (mx.Shannon(domain=mx.KSubset(2)), 4),
    (mx.Shannon(domain=mx.Product(mx.Simplex(), 2)), 6),
    (mx.Shannon(domain=mx.Chain(2)), 14),
    (mx.Shannon(domain=mx.Alignment(2, 3)), 6),
    (mx.Shannon(domain=mx.Tree([(0, 1), (1, 2)], 2)), 14),
    (mx.Shannon(domain=mx.Arborescence()), 16),
    (mx.Shannon(domain=mx.Arborescence(root="multi")), 9),
    (mx.Shannon(domain=mx.ProjectiveTree()), 16),
    (mx.Shannon(domain=mx.ConstituencyTree(2)), 18),
    *[(mx.Tsallis(alpha), 5) for alpha in (0.1, 0.5, 0.9999, 1.0)],
    *[(mx.Tsallis(alpha), 5) for alpha in (1.0001, 1.33, 1.5, 2.0, 2.7, 6.0)],
    *[(mx.NormEntropy(q), 5) for q in (1.3, 2.0, 4.0, INF)],
    *[(mx.Bregman(mx.Tsallis(a), [0.4, 0.3, 0.15, 0.1, 0.05]), 5) for a in (1.0, 1.5, 2.7)],
    *[(mx.SquaredNorm(q), 5) for q in (1.2, 1.5, 2.0, 3.0, 12.0)],
    (mx.SquaredNorm(domain=mx.Cube()), 4),
    (mx.SquaredNorm(domain=mx.NonNegative()), 4),
    (mx.SquaredNorm(domain=mx.Euclidean()), 4),
    (mx.SquaredNorm(domain=mx.KSubset(2)), 4),
    (mx.SquaredNorm(domain=mx.ScaledDomain(mx.KSubset(2), 0.5)), 4),
    (mx.SquaredNorm(domain=mx.Chain(2)), 14),
    (mx.SquaredNorm(domain=mx.Alignment(2, 3)), 6),
    (mx.SquaredNorm(domain=mx.Tree([(0, 1), (1, 2)], 2)), 14),
    (mx.SquaredNorm(domain=mx.Arborescence()), 16),
    (mx.SquaredNorm(domain=mx.ProjectiveTree()), 16),
    (mx.SquaredNorm(domain=mx.ConstituencyTree()), 16),
    (mx.SquaredNorm(domain=mx.Permutahedron([3, 2, 1, 0])), 4),
    (mx.SquaredNorm(domain=mx.Birkhoff()), 9),
    (mx.SquaredNorm(domain=mx.Transport([0.2, 0.8], [0.5, 0.3, 0.2])), 6),
    (mx.MeanEntropy(), 5),
    (mx.MeanEntropy(mx.Cube()), 4),
    (mx.MeanEntropy(mx.KSubset(2)), 5),
    (mx.MeanEntropy(mx.ScaledDomain(mx.KSubset(2), 0.5)), 4),
    (mx.MeanEntropy(mx.Product(mx.Simplex(), 2)), 6),
    (mx.MeanEntropy(mx.Permutahedron([3, 2, 1, 0])), 4),
    (mx.MeanEntropy(mx.Birkhoff()), 9),
    (mx.MeanEntropy(mx.Transport([0.2, 0.8], [0.5, 0.3, 0.2])), 6),
    *[(mx.Renyi(beta), 5) for beta in (0.3, 0.9, 1.0, 1.5, 3.0, 20.0, INF)],
    *[(mx.PairwiseHinge(kind, 4), 4) for kind in ("hinge", "smooth", "squared")],
    (mx.FermiDirac(), 4),
    (mx.BinaryGini(), 4),
    (mx.OneVsAll(mx.Tsallis(1.5)), 3),
    (mx.UnnormalisedRelativeEntropy(), 4),
    (mx.UnnormalisedRelativeEntropy(10 * Q0), 5),
    (mx.Detection([0, 1, 1, 0], area=[0.3, 2.0, 50.0, 1.0]), 4),
    (mx.OverdispersedCounts([0, 3, 1], size=0.7, area=[1.0, 4.0, 0.2]), 3),
    (
        mx.DirectSum([mx.Shannon(), mx.Detection([0, 1]), mx.FermiDirac()], [3, 2, 1], [2, 0.5, 1]),
        6,
    ),
    (mx.DirectSum([mx.Shannon(), mx.Tsallis(1.5)], [2, 3]), 5),
    (mx.SeparableEntropy(lambda t: 2 * t**0.5 - 2, lambda s: (1 + s / 2) ** 2), 5),
    (mx.SeparableEntropy(np.log, np.exp, lambda t: special.xlogy(t, t) - t), 5),
    (mx.SeparableEntropy(special.logit, special.expit, domain=mx.Cube()), 4),
    (mx.SeparableEntropy(lambda t: t**3, np.cbrt, domain=mx.NonNegative()), 3),
    (mx.Zero(), 5),
    (mx.Zero(domain=mx.Chain(2)), 14),
    (mx.Zero(domain=mx.Arborescence()), 16),
    (mx.Shifted(mx.Zero(domain=mx.Arborescence()), np.arange(16.0) / 10), 16),
    (mx.Zero(domain=mx.Permutahedron([2, 1, 0])), 3),
    (mx.Zero(domain=mx.Birkhoff()), 9),
    (mx.Zero(domain=mx.Transport([0.2, 0.8], [0.5, 0.3, 0.2])), 6),
    (mx.Shifted(mx.Zero(), COST), 5),
    (mx.Shifted(mx.Zero(domain=mx.Permutahedron([4, 3, 2, 1, 0])), COST), 5),
    (mx.Shifted(mx.Zero(domain=mx.Birkhoff()), 1 - np.eye(3).ravel()), 9),
    (mx.Shifted(mx.Shannon(), COST), 5),
    (mx.Shifted(mx.Tsallis(2.0), COST), 5),
    (mx.Shifted(mx.Tsallis(1.5), np.arange(30.0).reshape(6, 5) / 10), 5),
    *[
        (mx.Relative(entropy, Q0), 5)
        for entropy in (
            mx.Shannon(),
            mx.Tsallis(0.5),
            mx.Tsallis(1.5),
            mx.Tsallis(2.0),
            mx.Tsallis(3.0),
            mx.NormEntropy(2.0),
            mx.SquaredNorm(1.5),
            mx.SquaredNorm(2.0),
            mx.SquaredNorm(4.0),
            mx.Renyi(0.5),
            mx.Renyi(3.0),
            mx.Renyi(INF),
        )
    ],
    (mx.SmoothedMax(mx.Shannon(), mx.Chain(2)), 14),
    (mx.SmoothedMax(mx.Tsallis(1.5), mx.Chain(2)), 14),
    (mx.SmoothedMax(mx.Tsallis(1.5), mx.Tree([(0, 1), (0, 2)], (2, 3, 2))), 17),
    (mx.SmoothedMax(mx.Tsallis(1.5), mx.Alignment(2, 3)), 6),
    (mx.DistributionEntropy(mx.Tsallis(2.0), mx.Arborescence()), 9),
    (mx.Scaled(mx.Shannon(), 0.1), 5),
    (mx.Scaled(mx.Tsallis(1.5), 3.0), 5),
    (mx.fenchel_youngize(_hinge_loss, 3), 3),
]

A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]])

# potentials for residuals of length 3
POTENTIALS = [
    mx.Equality(),
    mx.Box(0.3),
    mx.Box([0.1, 0.0, 2.0]),
    mx.Quadratic(0.7),
    mx.Quadratic([0.1, 1.0, 3.0]),
    mx.ElasticNet(0.3, 0.5),
    mx.ElasticNet([0.0, 0.1, 1.0], [0.1, 1.0, 3.0]),
    mx.QuadraticForm(A),
    mx.Ball(0.6),
    *[mx.NormBall(0.6, p) for p in (1, 1.5, 2, 3, INF)],
    *[mx.SquaredNormPotential(0.6, p) for p in (1, 1.5, 2, 3, INF)],
    *[mx.NormPlusSquare(0.3, 0.6, p) for p in (1, 1.5, 2, INF)],
    *[mx.NormPlusSquare(0.3, 0.6, p, s) for p, s in ((1, INF), (2, 1.5), (3, 1.5))],
    *[mx.DualBall(0.6, p) for p in (1, 1.5, 2, 3, INF)],
    mx.SmoothBox(0.4, 0.2),
    mx.SmoothBox([0.1, 0.5, 2.0], [1.0, 0.1, 0.3]),
    mx.LaplacePrior(2.0),
    mx.LaplacePrior([0.1, 1.0, 50.0]),
    mx.Coupled(A, mx.Quadratic(0.7)),
    mx.Coupled(A, mx.Ball(0.6)),
    mx.Coupled(mx.Spiked.from_factor(0.5, A[:1]), mx.ElasticNet(0.3, 0.5)),
    *[mx.Spectral(columns, 0.4, strength) for columns, strength in ((1, 0.0), (3, 0.5))],
    mx.Families([mx.Box(0.2), mx.LaplacePrior(2.0)], [1, 2]),
    mx.Families([mx.Box(0.2), mx.Quadratic(2.0)], [2, 1]),
    mx.ScaledPotential(mx.Box(0.3), 2.5),
    mx.ScaledPotential(mx.SmoothBox(0.4, 0.2), 0.5),
    mx.ShiftedPotential(mx.Box(0.3), [0.1, -0.1, 0.0]),
    mx.ShiftedPotential(mx.Quadratic(0.5), [0.1, -2.0, 0.0]),
    mx.Centred(mx.Quadratic(0.5), [0.1, -2.0, 0.0]),
    mx.Centred(mx.LaplacePrior(2.0), [0.1, -2.0, 0.0]),
    mx.gaussian_prior([1.0, 0.0, -0.5], A),
    mx.CumulantPrior(lambda eta: eta**2 / 2, lambda eta: eta),
    mx.CumulantPrior(
        lambda eta: -np.log1p(-(eta**2) / 2), lambda eta: 2 * eta / (2 - eta**2), 2**0.5
    ),
    mx.CumulantPrior(lambda eta: np.logaddexp(eta, -eta) - np.log(2), np.tanh),
]

# (domain, row size)
DOMAINS = [
    (mx.Simplex(), 4),
    (mx.Cube(), 3),
    (mx.NonNegative(), 4),
    (mx.Euclidean(), 3),
    (mx.KSubset(1), 4),
    (mx.KSubset(2), 5),
    (mx.ScaledDomain(mx.KSubset(2), 0.5), 4),
    (mx.Product(mx.Simplex(), 2), 6),
    (mx.Intervals([1.0, 2.5, 0.5]), 3),
    (mx.Intervals([1.0, INF]), 2),
    (mx.Blocks([mx.Simplex(), mx.ScaledDomain(mx.Cube(), 2.0)], [3, 2]), 5),
    (mx.Chain(2), 14),
    (mx.Chain(3, forbidden=((0, 1),)), 15),
    (mx.Chain(3), 15),
    (mx.Alignment(3, 2), 6),
    (mx.Alignment(3, 4, band=1), 12),
    (mx.Tree([(0, 1), (0, 2), (3, 4)], (2, 3, 2, 1, 2)), 22),
    (mx.Lattice([(0, 1), (0, 2), (1, 2), (2, 3), (1, 3), (0, 1), (0, 3)]), 7),
    (mx.Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1)), 6),
    (mx.Automaton.ctc([1, 1], 2), 8),
    (mx.Automaton(1, [(0, 0, 0), (0, 0, 1), (1, 0, 1)], final=(1,), scores="arcs"), 9),
    (mx.SemiMarkov(2, 3), 26),
    (mx.Arborescence(), 16),
    (mx.Arborescence(3, root="multi"), 9),
    (mx.ProjectiveTree(), 16),
    (mx.ProjectiveTree(3, root="multi"), 9),
    (mx.ConstituencyTree(2), 18),
    (mx.Permutahedron([4, 3, 2, 1]), 4),
    (mx.Permutahedron([2, 2, 0.5, 0, 0]), 5),
    (mx.Birkhoff(), 9),
    (mx.Transport([0.2, 0.8], [0.5, 0.3, 0.2]), 6),
]

SOLVERS = [
    *(mx.FISTA(), mx.LBFGS(), mx.ProxNewton(), mx.CuttingPlane()),
    *(mx.SUMMET(), mx.PLUMMET(), mx.BallSearch(), mx.CoordinateDescent()),
    *(mx.NewtonCG(), mx.DualCoordinateAscent(), mx.BlockFrankWolfe(), mx.Smoothing(tol=1e-3)),
    *(mx.ExponentiatedGradient(tol=1e-3), mx.Subgradient(tol=0.4), mx.StochasticGradient(tol=1e-3)),
    *(mx.Reweighted(tol=5e-3), mx.OWLQN(), mx.ColumnGeneration()),
    mx.JointNewton(),
]

MAPS = [
    mx.MatrixMap(np.arange(6.0).reshape(3, 2)),
    mx.IdentityMap(3),
    mx.SampleMap(np.arange(6.0).reshape(3, 2), 3),
    mx.KernelMap(np.eye(3) + 1, 2),
    mx.JointMap(np.arange(6.0).reshape(3, 2), 4),
    mx.ChainMap([np.ones((2, 3)), np.ones((4, 3))], 2),
    mx.RaggedMap([np.ones((2, 3)), np.ones((4, 3))]),
    mx.TreeMap(np.ones((3, 2)), np.array([0, 1]), 2),
    mx.SegmentMap([np.ones((2, 3)), np.ones((4, 3))], 2, longest=3),
]

OTHERS = [mx.FenchelYoungLoss(mx.Shannon()), mx.Ragged.from_rows([[1.0], [2.0, 3.0]])]
# tested in test_discrimination.py: each row has a cone of its own
OTHERS.append(mx.Slack(mx.Shifted(mx.Zero(), 1 - RIGHT), RIGHT))
OTHERS.append(OTHERS[-1].domain)
OTHERS.append(mx.Spiked.from_matrix(A))  # tested in test_potentials.py
OTHERS.append(mx.Tied(OTHERS[1], np.ones((1, 2))))
OTHERS.append(mx.HigherOrderChain(2, order=2))  # tested in test_structured_higher_order.py

OTHERS.append(mx.FeatureTransformer())  # tested in test_feature_transformer.py

PLACES = np.arange(8.0).reshape(4, 2)

# tested in test_features.py
CELLS = Schema.from_table(PLACES).read(PLACES)
FEATURES = [
    *(mx.Linear(), mx.Square(), mx.Interaction(), mx.Threshold(), mx.Hinge(), mx.Categorical()),
    *(mx.Kernel(), mx.Kernel(spatial=0.3, landmarks=3, choose="cholesky", family="gaussian")),
    bind(fit_operators([mx.Linear(), mx.Interaction()], PLACES), CELLS),
]

# tested in test_density.py, test_density_cv.py, test_fenchel_young_estimators.py ...
ESTIMATORS = [
    mx.Aligner(),
    mx.CRF(),
    mx.ChainClassifier(),
    mx.FenchelYoungClassifier(),
    mx.FenchelYoungClassifierCV(),
    mx.FenchelYoungMultilabel(),
    mx.FenchelYoungRegressor(),
    mx.L1CRF(),
    mx.L1M3N(),
    mx.L2CRF(),
    mx.L2CRFCV(),
    mx.LabelRanker(),
    mx.LaplaceMEDN(),
    mx.M3N(),
    mx.M3NCV(),
    mx.MED(),
    mx.Matcher(),
    mx.MaxentDensity(),
    mx.MaxentDensityCV(),
    mx.MultiDensity(),
    mx.StructMaxent(),
    mx.StructMaxentCV(),
    mx.StructMaxentClassifier(),
    mx.SegmentClassifier(),
    mx.TreeClassifier(),
]

# tested in test_families_monomials.py and test_families_trees.py
FAMILIES = [mx.Monomials(2), mx.Splines(2), mx.Trees(3)]

# tested in test_relaxation.py
PATHS = [mx.RelaxationPath([2, 1], [1, 2])]

# tested in test_evaluation.py
SPLITTERS = [
    mx.PresenceKFold(2),
    mx.SpatialBlocks(PLACES, n_splits=2),
    mx.Checkerboard(PLACES, size=1.0),
    mx.EnvironmentalBlocks(PLACES, n_splits=2),
    mx.BufferedLeaveOneOut(PLACES, radius=1.0),
]

# abstract, or made by solving: tested through the classes above
ABSTRACT = {
    "Domain",
    "KBestDomain",
    "Family",
    "FeatureClass",
    "Operator",
    "StructuredDomain",
    "SumProductDomain",
    "Entropy",
    "MeasuredEntropy",
    "Potential",
    "ElasticPotential",
    "FeatureMap",
    "ColumnMap",
    "RowMap",
    "Solver",
}
# those of several sources are tested in test_sources.py
MADE_BY_SOLVING = {
    "DensityTask",
    "Explanation",
    "FittedDensity",
    "JointDensity",
    "JointRecipe",
    "JointTask",
    "FittedIntensity",
    "IntegratedDensity",
    "Source",
    "SourcesTask",
    "MeanPlace",
    "Points",
    "Recipe",
    "Problem",
    "State",
    "Solution",
    "Status",
    "Interrupted",
    "SeparableWarning",
    "ConvergenceWarning",
    "FrankWolfeResult",
    "StructureDistribution",
}

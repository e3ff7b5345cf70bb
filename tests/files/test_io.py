"""Saving and loading: every class comes back the same, broken files say why, writes are atomic."""

import base64
import errno
import json
import os
import warnings
from functools import cache, partial

import numpy as np
import pytest
from scipy import sparse

import catalogue
import maxent as mx
from maxent import io, tagging
from maxent.core.solvers.checkpoint import Checkpoint
from maxent.density import DensityLink
from maxent.density.evidence import Evidence
from maxent.families.base import Several
from maxent.features import Schema, bind, fit_operators
from maxent.learn.structural.classifier import ChosenFeature, LabelEvidence
from maxent.learn.structured.chain import ChainClassifier, ChainModel
from maxent.structured import SegmentMap
from maxent.structured.chain.observed import TiedPaths
from maxent.tagging import Attributes, InputChainMap, PairChainMap
from maxent.testing.model_files import written

pytestmark = pytest.mark.usefixtures("kernels_alone")  # bits are compared

rng = np.random.default_rng(0)
DENSE = rng.normal(size=(6, 3))
SPARSE = sparse.coo_array(np.where(rng.random((6, 3)) < 0.6, rng.normal(size=(6, 3)), 0.0))
CELLS = rng.dirichlet(np.ones(6))
LABELS = np.eye(3)[[0, 1, 2, 0, 1, 2]]
SEQUENCES = [rng.normal(size=(n, 2)) for n in (1, 3, 2)]
PATHS = mx.Chain(2).encode([[0], [1, 0, 1], [0, 1]])


def density(**more):
    settings = {"potential": mx.Box(0.05), "observed": CELLS} | more
    return mx.Problem(mx.Relative(mx.Shannon(), rng.random(6)), DENSE, **settings)


TABLE = np.column_stack([rng.random((40, 2)), rng.integers(0, 3, 40)])
COUNTS = (np.arange(40) % 5 == 0).astype(int)


@cache
def tagging_problem():
    crf = mx.Shannon(domain=mx.Chain(2))
    return mx.Problem(crf, mx.ChainMap(SEQUENCES, 2), mx.Quadratic(0.1), observed=PATHS)


def operators():
    kernel = mx.Kernel(landmarks=5, spatial=0.2, coordinates=("x0", "x1"))
    features = [mx.Hinge(), mx.Interaction(), mx.Categorical(), kernel]
    return fit_operators(features, TABLE, categorical=[2])


@cache
def grown(family):
    return mx.StructMaxent([family], 0.0, 0.001, categorical=[2], rounds=5).fit(TABLE, COUNTS)


def operators_of(family):
    return grown(family).density_.operators


def parts_of_sources():
    records = mx.Source("presences", TABLE, COUNTS, deviation=0.5)
    sites = mx.Source("survey", TABLE, COUNTS, effort={"road": TABLE[:, 0] ** 2})
    model = mx.IntegratedDensity("lq").fit([records, sites])
    return model, model.intensity_, *model.sources_, model.agreement([records, sites])


def parts_of_densities():
    linear = mx.MaxentDensity("lqc", categorical=[2]).fit(TABLE, COUNTS)
    own, other = linear.density_, grown(FAMILIES[0]).density_
    parts = own.certificate, own.origin, own.mean_place, own.evidence, other.origin
    task = linear.recipe().task(TABLE, COUNTS)
    again = task.fit().density
    bands = task.with_laplace(again).uncertainty, task.with_refits(again, n=2).uncertainty
    return own, other, *parts, *bands, linear.recipe()


FAMILIES = [mx.Monomials(2), mx.Splines(2, knots=5), mx.Trees(3)]


def parts_of_tagging():
    """A tagging model of column files, and what it is made of."""
    sentences, labels = [[("a",), ("b",)], [("b",)]], [["X", "Y"], ["Y"]]
    template = tagging.Template(["w=%x[0,0]", "first: BOS"])
    tokens = tagging.Attributes(hash_bits=5).fit(template.tokens(sentences))
    classifier = ChainClassifier().fit(tokens, labels)
    pairs = tagging.PairChainMap.seen(tokens.X, tokens.lengths, 2, np.array([0, 1, 1]))
    tagger = tagging.Tagger(template, classifier, (0,), 1, 2)
    return [template, tokens.attributes, pairs, classifier, tagger]


MODELS = [
    mx.evaluation.Variogram(
        np.array([1.0, 2.0]), np.array([0.1, 0.3]), np.array([9, 8]), "none", 0.1, 0.2, 0.0, 2.0
    ),
    mx.JointRecipe(mix=0.3),
    mx.Coupled(np.eye(3) + 0.2, mx.Quadratic(0.7)),
    mx.Spectral(3, 0.1, 0.2),
    mx.Spiked.from_factor(0.5, np.ones((1, 3))),
    mx.JointMap(np.eye(3), 2),
    mx.JointNewton(tol=1e-5),
    Checkpoint(3, np.array([1]), np.array([0.5]), [{"seconds": 0.1}], np.array([1.0, 2.0])),
    mx.Linear(),
    mx.Square(),
    mx.Interaction(),
    mx.Threshold(5),
    mx.Hinge(),
    mx.Categorical(occupied=True),
    mx.Kernel(spatial=0.3, coordinates=("x", "y")),
    mx.FeatureTransformer("lq"),
    Schema.from_table(TABLE, [2]),
    DensityLink(0.5, -1.0),
    mx.PresenceKFold(3),
    mx.SpatialBlocks(TABLE[:, :2]),
    mx.Checkerboard(TABLE[:, :2], size=0.2),
    mx.EnvironmentalBlocks(TABLE[:, :2], n_splits=2),
    mx.BufferedLeaveOneOut(TABLE[:, :2], radius=0.1),
    *FAMILIES,
    ChosenFeature("x0", "Monomials", 1, 0, 0.1),
    LabelEvidence(Evidence(3, 3.0, 3.0), 2, np.array([0.1, 0.2]), 0.7),
    mx.Simplex(),
    mx.Cube(),
    mx.NonNegative(),
    mx.Euclidean(),
    mx.KSubset(2),
    mx.Product(mx.Simplex(), 2),
    mx.ScaledDomain(mx.KSubset(2), 0.5),
    mx.Intervals([1.0, 2.0, 0.5, 1.0, 1.0, 3.0]),
    mx.Blocks([mx.Simplex(), mx.Cube()], [4, 2]),
    mx.Chain(np.int64(2)),
    mx.Chain(2, forbidden=((0, 1),)),
    mx.Tree([(0, 1), (1, 2)], (2, 3, 2)),
    mx.HigherOrderChain(2, order=2),
    mx.Alignment(2, 3, band=1),
    mx.Lattice([(0, 1), (0, 2), (1, 2), (2, 3), (1, 3), (0, 3)]),
    mx.Automaton(2, [(0, 0, 0), (0, 1, 1), (1, 0, 0)], final=(0, 1)),
    mx.SemiMarkov(2, 3),
    mx.Arborescence(4, root="multi"),
    mx.ProjectiveTree(4, root="multi"),
    mx.ConstituencyTree(2, n=3),
    mx.Alignment((3, 2), (2, 3)),
    mx.SmoothedMax(mx.Tsallis(1.5), mx.Alignment(2, 3)),
    mx.DistributionEntropy(mx.Tsallis(2.0), mx.Alignment(2, 3)),
    mx.Tied(mx.Ragged.from_rows([[1.0], [2.0, 3.0]]), np.ones((1, 4))),
    TiedPaths(np.array([0, 1, 1]), np.array([2, 1]), 2),
    mx.Permutahedron([3, 2, 1, 1, 0, 0]),
    mx.Birkhoff(),
    mx.Transport([0.25, 0.75], [0.5, 0.25, 0.25]),
    mx.Shannon(),
    mx.Shannon(domain=mx.KSubset(2)),
    mx.Tsallis(1.3),
    mx.NormEntropy(float("inf")),
    mx.SquaredNorm(1.5),
    mx.SquaredNorm(domain=mx.Cube()),
    mx.MeanEntropy(domain=mx.KSubset(2)),
    mx.Renyi(0.5),
    mx.PairwiseHinge("squared", 6),
    mx.Zero(),
    mx.FermiDirac(),
    mx.BinaryGini(),
    mx.OneVsAll(mx.Tsallis(1.5)),
    mx.Shifted(mx.Shannon(), [[0.0, 1.0, 1.0, 0.0, 0.0, 0.3]]),
    mx.Relative(mx.Tsallis(1.5), rng.random(6)),
    mx.Bregman(mx.Tsallis(1.5), [0.3, 0.2, 0.1, 0.1, 0.2, 0.1]),
    mx.UnnormalisedRelativeEntropy([0.5, 1.0, 2.0, 1.0, 0.1, 1.0]),
    mx.Detection([0, 1, 1, 0, 1, 0], area=[0.5, 1.0, 2.0, 1.0, 0.1, 1.0]),
    mx.OverdispersedCounts([0, 4, 1, 0, 1, 2], size=1.5),
    mx.DirectSum([mx.Shannon(), mx.FermiDirac()], [4, 2], [0.5, 2.0]),
    mx.Scaled(mx.Shannon(), 0.3),
    mx.Equality(),
    mx.Box([0.1, 0.2, 1e-300]),
    mx.Ball(0.7),
    mx.NormBall(0.7, p=3),
    mx.NormBall(0.7, p=np.inf),
    mx.Quadratic(0.1),
    mx.QuadraticForm([[2.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.0]]),
    mx.ElasticNet(0.1, [1.0, 2.0, 3.0]),
    mx.SquaredNormPotential(0.3, p=1.5),
    mx.NormPlusSquare(0.3, 0.2, p=1),
    mx.SmoothBox(0.3, [0.1, 0.2, 0.3]),
    mx.DualBall(0.3, p=1),
    mx.LaplacePrior(4.0),
    mx.Families([mx.Box(1.0), mx.Families([mx.Quadratic(2.0), mx.Ball(1.0)], [1, 1])], [1, 2]),
    mx.ScaledPotential(mx.Box(0.1), 3.0),
    mx.ShiftedPotential(mx.Box(0.1), [0.1, 0.2, 0.3]),
    mx.MatrixMap(DENSE),
    mx.MatrixMap(np.asfortranarray(DENSE.astype(np.float32))),
    mx.MatrixMap(SPARSE),
    mx.IdentityMap(6),
    mx.SampleMap(DENSE, 3),
    mx.SampleMap(SPARSE, 3),
    mx.KernelMap(DENSE @ DENSE.T, 2),
    mx.ChainMap(SEQUENCES, 2),
    mx.ChainMap([sparse.csr_array(x) for x in SEQUENCES], 2),
    Attributes(["word=a", "word=b"]),
    PairChainMap(np.concatenate(SEQUENCES), [1, 3, 2], 2, [0, 2, 3], [0, 1, 1]),
    SegmentMap(SEQUENCES, 2, 2),
    mx.RaggedMap(SEQUENCES),
    mx.RaggedMap([sparse.csr_array(x) for x in SEQUENCES]),
    mx.FenchelYoungLoss(mx.Tsallis(1.5)),
    mx.FISTA(tol=1e-9, growth=1.2),
    mx.LBFGS(memory=7),
    mx.OWLQN(memory=7),
    mx.ProxNewton(working_set=3),
    mx.CuttingPlane(max_iter=50),
    mx.SUMMET(sweep=3),
    mx.PLUMMET(tol=1e-5),
    mx.BallSearch(inner=mx.LBFGS(memory=7)),
    mx.CoordinateDescent(rule="line-search"),
    mx.NewtonCG(tol=1e-7),
    mx.DualCoordinateAscent(tol=1e-5),
    mx.BlockFrankWolfe(tol=1e-3),
    mx.BlockFrankWolfe(tol=1e-3, then=mx.ColumnGeneration()),
    mx.ColumnGeneration(tol=1e-3),
    mx.ExponentiatedGradient(tol=1e-3),
    mx.Subgradient(tol=0.1, step=0.1),
    mx.StochasticGradient(first_step=0.5),
    mx.RelaxationPath(observed=np.array([0.2, 0.8]), divergence="euclidean"),
    mx.Status.STALLED,
    mx.Ragged.from_rows([[1.0, np.nan], [-0.0]]),
    density(),
    density(observed=None, target=[0.1, 0.2, -0.1], potential=mx.Quadratic(0.1)),
    mx.Problem(mx.Tsallis(1.5), mx.SampleMap(DENSE, 3), mx.ElasticNet(0.01, 0.1), observed=LABELS),
    mx.Problem(
        mx.Shannon(domain=mx.Chain(2)),
        mx.ChainMap(SEQUENCES, 2),
        mx.Quadratic(0.1),
        observed=PATHS,
        weights=[0.5, 0.2, 0.3],
    ),
]


# what is fitted or solved, when a test asks for it and not when tests are collected
def parts_of_discrimination():
    chains, labels = [TABLE[:4], TABLE[4:6]], [[0, 1, 0, 1], [1, 0]]
    models = [mx.CRF(), mx.L1CRF(), mx.L2CRF(), mx.M3N(), mx.L1M3N(), mx.LaplaceMEDN(lam=4.0)]
    models += [mx.ChainClassifier("hinge"), mx.ChainClassifier(transitions="input")]
    models += [mx.SegmentClassifier(longest=3, max_iter=20)]
    models += [mx.M3NCV([0.1, 1.0], cv=2), mx.L2CRFCV([0.1, 1.0], cv=2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.SeparableWarning)
        fitted = [model.fit(chains, labels) for model in models]
    fitted.append(mx.MED(prior="laplace").fit(TABLE, COUNTS))
    fitted.append(mx.TreeClassifier().fit([(TABLE[:3], [-1, 0, 0])], [[0, 1, 1]]))
    hinge = mx.Shifted(mx.Zero(), 1 - np.eye(2))
    return [
        *fitted,
        *(mx.Slack(hinge, np.eye(2), "kl", 2.0), mx.Slack(hinge, np.eye(2)).domain),
        *(mx.Centred(mx.Quadratic(1.0), [1.0, 0.5, 0.0]), mx.Smoothing(), mx.Reweighted()),
        *(mx.TreeMap(np.ones((3, 2)), np.array([0, 1]), 2), InputChainMap([np.ones((2, 1))], 2)),
    ]


MADE = {
    "operators": operators,
    **{f"grown {family!r}": partial(grown, family) for family in FAMILIES},
    **{f"features of {family!r}": partial(operators_of, family) for family in FAMILIES},
    "several features": lambda: Several(operators_of(FAMILIES[0])),
    "MaxentDensity": lambda: mx.MaxentDensity("lqph", preset="maxnet", categorical=[2]).fit(
        TABLE, COUNTS
    ),
    "MaxentDensity, Tsallis": lambda: mx.MaxentDensity("l", entropy=mx.Tsallis(1.5)).fit(
        TABLE, COUNTS
    ),
    "MultiDensity": lambda: mx.MultiDensity([mx.Linear(), mx.Kernel(landmarks=5)], own=0.25).fit(
        TABLE, np.column_stack([COUNTS, 1 - COUNTS])
    ),
    "joint density": lambda: mx.JointRecipe([mx.Linear()]).fit(
        TABLE, np.column_stack([COUNTS, 1 - COUNTS])
    ),
    "MaxentDensityCV": lambda: mx.MaxentDensityCV(["l"], cv=mx.PresenceKFold(2)).fit(TABLE, COUNTS),
    "densities": parts_of_densities,
    "sources": parts_of_sources,
    "tagging": parts_of_tagging,
    "StructMaxentCV": lambda: mx.StructMaxentCV([mx.Monomials(1)], lams=[0.1], betas=[0.01]).fit(
        TABLE, COUNTS
    ),
    "StructMaxentClassifier": lambda: mx.StructMaxentClassifier([mx.Monomials(1)], rounds=3).fit(
        TABLE, COUNTS
    ),
    "FenchelYoungClassifier": lambda: mx.FenchelYoungClassifier(
        mx.Tsallis(1.3), potential={(0, 1): 0.1, 2: mx.Box(0.1)}
    ).fit(TABLE, COUNTS),
    "FenchelYoungClassifierCV": lambda: mx.FenchelYoungClassifierCV([2], [0.1], cv=2).fit(
        TABLE, COUNTS
    ),
    "FenchelYoungRegressor": lambda: mx.FenchelYoungRegressor(kernel="rbf").fit(
        TABLE, np.column_stack([COUNTS, 1 - COUNTS])
    ),
    "Aligner": lambda: mx.Aligner("squared").fit([(TABLE[:2], TABLE[:2])], [np.eye(2)]),
    "FenchelYoungMultilabel": lambda: mx.FenchelYoungMultilabel("sparse").fit(
        TABLE, COUNTS[:, None]
    ),
    "LabelRanker": lambda: mx.LabelRanker().fit(TABLE, np.column_stack([COUNTS, 1 - COUNTS])),
    "Matcher": lambda: mx.Matcher("kl", pair_features="precomputed").fit(
        [TABLE[:9].reshape(3, 3, -1)], [[1, 2, 0]]
    ),
    "discrimination": parts_of_discrimination,
    "RelaxationPath": lambda: mx.RelaxationPath([3, 2, 1], [1, 2, 0], [1, 2, 1]).fit(),
    "RelaxationPath of counts": lambda: mx.RelaxationPath.from_counts({"a": 3, "b": 1}, 10).fit(),
    "Solution": lambda: density().solve(),
    "Solution of FISTA": lambda: density(potential=mx.Equality()).solve(mx.FISTA()),
}


@cache
def made(name):
    """The objects behind a name, each of which is saved and loaded by itself."""
    objects = MADE[name]()
    return list(objects) if isinstance(objects, list | tuple) else [objects]


@pytest.fixture
def copied(tmp_path):
    def copy(model):
        io.save(model, tmp_path / "model.json")
        return io.load(tmp_path / "model.json")

    return copy


def identical(a, b):
    """Equal in type and in every bit."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, np.ndarray | np.generic):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()
        if a.ndim > 1:
            assert a.flags.f_contiguous == b.flags.f_contiguous
    elif sparse.issparse(a):
        assert a.shape == b.shape
        for name in ("data", "indices", "indptr"):
            identical(getattr(a, name), getattr(b, name))
    elif isinstance(a, float):
        assert np.float64(a).tobytes() == np.float64(b).tobytes()
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            identical(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        identical(list(a.values()), list(b.values()))
    elif hasattr(a, "__dict__") and not isinstance(a, mx.Status):
        unsaved = getattr(type(a), "_unsaved_fields", ())
        identical({k: v for k, v in vars(a).items() if k not in unsaved}, vars(b))
    else:
        assert a == b


def behaviour(model):
    """What the model computes: every bit of it must survive."""
    theta = np.array([[0.3, -1.0, 0.2, 0.25, 0.9, 0.31], [-2.0, -1.5, -3.0, 0.0, -0.1, -0.2]])
    r = np.array([0.05, -0.3, 0.7])
    if isinstance(model, mx.TreeClassifier):
        return model.predict_proba([(TABLE[:2], [-1, 0])])
    if isinstance(model, ChainModel):
        return model.predict_proba([TABLE[:4]] if model.attributes_ is None else [[["w=a"]]])
    if isinstance(model, mx.JointDensity | mx.MultiDensity):
        return model.predict(TABLE, "cloglog")
    if isinstance(model, mx.Spiked):
        return model.times(np.eye(3), -0.5)
    if isinstance(model, mx.JointNewton):
        many = mx.JointMap(np.eye(3), 2)
        return (
            mx.Problem(mx.Shannon(), many, mx.Quadratic(0.1), observed=np.eye(3)[:2]).solve(model).w
        )
    if isinstance(model, mx.MED):
        return model.decision_function(TABLE)
    if isinstance(model, mx.Slack):
        return model.conjugate(np.eye(2) * 3)
    if isinstance(model, mx.DifferenceCone):
        return model.mass(np.eye(2)), model.contains(np.eye(2))
    if isinstance(model, mx.Reweighted | mx.Smoothing | mx.ColumnGeneration):
        perceptron = mx.Zero(domain=mx.Chain(2))
        chains = mx.ChainMap(SEQUENCES, 2)
        prior = mx.LaplacePrior(0.1)
        return mx.Problem(perceptron, chains, prior, observed=PATHS).solve(model, tol=1e-3).w
    if isinstance(model, mx.Chain):
        return model.project(PATHS * 0.3), model.softmax(PATHS * 0.3)[1]
    if isinstance(model, mx.Tree):
        return model.softmax(np.linspace(-1, 1, model.size))
    if isinstance(model, mx.Arborescence):
        return model.softmax(np.linspace(-1, 1, model.n**2))
    if isinstance(model, mx.ProjectiveTree):
        return model.softmax(np.linspace(-1, 1, model.n**2))
    if isinstance(model, mx.ConstituencyTree):
        return model.softmax(np.linspace(-1, 1, model.labels * model.n**2))
    if isinstance(model, mx.Alignment):
        return model.softmax(theta)
    if isinstance(model, mx.Birkhoff):
        return model.project(theta[:, :4]), model.project_kl(theta[:, :4])
    if isinstance(model, mx.Domain):
        return model.project(theta[1]), model.contains(theta)
    if isinstance(model, mx.Entropy):
        prox = model.prox(theta, 0.7) if model.convex else None
        return model.conjugate(theta), prox
    if isinstance(model, mx.MaxentDensity):
        return [model.predict(TABLE, output) for output in ("raw", "cumulative", "logistic")]
    classifiers = mx.FenchelYoungClassifier | mx.FenchelYoungClassifierCV
    if isinstance(model, mx.StructMaxentClassifier | classifiers):
        return model.predict_proba(TABLE)
    if isinstance(model, mx.FenchelYoungRegressor | mx.FenchelYoungMultilabel | mx.LabelRanker):
        return model.predict(TABLE)
    if isinstance(model, mx.Matcher):
        return model.predict_proba([TABLE[:9].reshape(3, 3, -1)])
    if isinstance(model, mx.Aligner):
        return model.predict_marginals([(TABLE[:3], TABLE[:4])])
    if isinstance(model, mx.Operator):
        return bind([model], Schema.from_table(TABLE, [2]).read(TABLE)).columns()
    if isinstance(model, mx.Potential):
        return [
            *(model.value(r), model.conjugate(r), model.gauge(r), model.critical_multiplier(r)),
            *(model.prox_conjugate(r, 0.3), model.smooth, model.elastic(3)),
        ]
    if isinstance(model, mx.FeatureMap):
        scores = model.scores(np.arange(model.n_features) / 3)
        return scores, model.moments(scores)
    if isinstance(model, Attributes):
        return model.names
    if isinstance(model, mx.FenchelYoungLoss):
        return model.value_and_gradient(theta, [0, 3])
    if isinstance(model, mx.Solver):
        if isinstance(model, mx.DualCoordinateAscent | mx.BlockFrankWolfe):
            rows = mx.SampleMap(DENSE, 3)
            problem = mx.Problem(mx.Tsallis(1.5), rows, mx.Quadratic(0.5), observed=LABELS)
            return problem.solve(model).w
        if isinstance(model, mx.ExponentiatedGradient | mx.StochasticGradient):
            return tagging_problem().solve(model).w
        needs_smooth = isinstance(model, mx.LBFGS | mx.CuttingPlane | mx.NewtonCG)
        potential = mx.Quadratic(0.5) if needs_smooth else mx.ElasticNet(0.1, 0.5)
        potential = mx.Ball(0.1) if isinstance(model, mx.BallSearch) else potential
        potential = mx.Box(0.1) if isinstance(model, mx.CoordinateDescent) else potential
        kinked = isinstance(model, mx.CuttingPlane | mx.Subgradient)
        entropy = mx.Zero() if kinked else mx.Shannon()
        solution = mx.Problem(entropy, DENSE, potential, observed=CELLS).solve(model)
        return solution.w, solution.n_iter
    if isinstance(model, mx.Problem):
        solution = model.solve()
        return solution.w, solution.p, solution.gap, solution.n_iter
    return str(model)


LISTED = [
    *(
        entropy
        for entropy, _ in catalogue.ENTROPIES
        if not isinstance(entropy, mx.Youngized | mx.SeparableEntropy)
    ),
    *(domain for domain, _ in catalogue.DOMAINS),
    *(p for p in catalogue.POTENTIALS if not isinstance(p, mx.CumulantPrior)),
    *(catalogue.SOLVERS + catalogue.MAPS + catalogue.OTHERS),
]


@pytest.mark.parametrize("model", LISTED, ids=lambda m: type(m).__name__)
def test_everything_in_the_catalogue_can_be_saved(model, copied):
    identical(model, copied(model))


def assert_same(model, again):
    identical(model, again)
    identical(behaviour(model), behaviour(again))


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_round_trip(model, copied):
    assert_same(model, copied(model))


@pytest.mark.parametrize("name", MADE)
def test_round_trip_of_what_is_fitted(name, copied):
    for model in made(name):
        assert_same(model, copied(model))


def assert_no_field_may_be_missing(model, folder):
    """A file without a digest, as after a change by hand, in which a field was left out."""
    path = folder / "model.json"
    document = written(model, folder)
    del document["digest"]
    instance = document["model"]
    for name in instance.get("state", ()):
        state = {key: value for key, value in instance["state"].items() if key != name}
        path.write_text(json.dumps(document | {"model": instance | {"state": state}}))
        told = rf"invalid {instance['class']}: .*(missing|no '{name}'|give either the target)"
        with pytest.raises(ValueError, match=told):
            io.load(path)


@pytest.mark.parametrize("model", [*MODELS, *LISTED], ids=lambda m: type(m).__name__)
def test_a_file_without_one_of_its_fields_is_refused(model, tmp_path):
    assert_no_field_may_be_missing(model, tmp_path)


@pytest.mark.parametrize("name", MADE)
def test_a_file_of_what_is_fitted_without_one_of_its_fields_is_refused(name, tmp_path):
    for model in made(name):
        assert_no_field_may_be_missing(model, tmp_path)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_estimator_without_a_part_of_its_fit_is_refused_in_any_version(version, tmp_path):
    for name in ("FenchelYoungClassifier", "FenchelYoungRegressor", "discrimination"):
        model = made(name)[0]
        document = written(model, tmp_path) | {"version": version}
        del document["digest"]
        fitted = set(model._fitted_fields) - {"feature_names_in_"}
        for field in sorted(fitted & {k for k, v in document["model"]["state"].items() if v}):
            changed = json.loads(json.dumps(document))
            del changed["model"]["state"][field]
            (tmp_path / "without.json").write_text(json.dumps(changed))
            with pytest.raises(ValueError, match="missing"):
                io.load(tmp_path / "without.json")


def test_what_a_failed_fit_left_is_not_saved(copied):
    model = mx.FenchelYoungClassifier()
    model.n_features_in_, model.classes_ = 2, np.array([0, 1])
    again = copied(model)
    assert not hasattr(again, "n_features_in_")


def test_every_public_class_is_here_or_refused():
    seen = {type(m).__name__ for m in (*MODELS, *(part for name in MADE for part in made(name)))}
    homes = {name: entry.cls.__module__ for name, entry in io._REGISTRY.items()}
    core = {name for name, home in homes.items() if home.startswith("maxent.")}
    core -= {name for name, home in homes.items() if home.startswith("maxent.species.")}
    assert core <= seen
    data = {n for n in mx.__all__ if isinstance(getattr(mx, n), type)} - catalogue.ABSTRACT
    # an OperatorMap holds cells; its operators are what is saved
    refused = {"ConvergenceWarning", "Interrupted", "OperatorMap", "State", "Youngized"}
    refused |= {
        "CumulantPrior",
        "SeparableEntropy",
        "SeparableWarning",
    }  # functions, and a word of warning
    refused |= {"DensityTask", "Explanation", "JointTask", "Points", "Source", "SourcesTask"}
    # hold cells; the fitted density is saved
    refused |= {"FrankWolfeResult", "StructureDistribution"}  # answers, not models
    assert data - refused <= seen


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 3, 10**30, -0.0, 1 / 3, 5e-324, np.nan, np.inf, -np.inf, "é\ud800"),
        *([1, [2.5, None]], (1, (2, [])), {"a": (1,), 3: np.inf, (1, 2): {}}),
        *(np.float64(0.1), np.float32(np.inf), np.int8(-3), np.bool_(True), np.str_("x")),
        *(np.array(0.1), np.zeros((0, 3)), np.array([True, False]), np.array(["a", "bcd"])),
        np.array([1 + 2j], dtype=np.complex64),
        np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\x7f", "<f8"),  # NaN with a payload
    ],
    ids=repr,
)
def test_plain_values_are_exact(value, copied):
    identical(value, copied(value))


def test_byte_order_and_strides(copied):
    x = np.arange(24.0).reshape(4, 6)
    assert np.array_equal(copied(x.astype(">f8")), x)
    assert np.array_equal(copied(x[::2, ::3]), x[::2, ::3])
    assert copied(x).flags.writeable


def test_strict_json_without_pickle(tmp_path):
    io.save(density(potential=mx.Equality()).solve(mx.FISTA()), tmp_path / "m.json")
    data = (tmp_path / "m.json").read_bytes()

    def refuse(name):
        raise AssertionError(name)

    document = json.loads(data, parse_constant=refuse)
    assert list(document) == ["format", "version", "maxent_version", "digest", "model"]
    assert (document["format"], document["version"]) == ("maxent", 3)
    w = base64.b64decode(document["model"]["state"]["w"]["array"])
    for blob in (data, w):
        assert b"pickle" not in blob
        assert not blob.startswith(b"\x80")
    assert len(w) == 3 * 8


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (mx.fenchel_youngize(lambda t: (t, np.eye(2)), 2), "Python function.*fenchel_youngize"),
        (mx.Scaled(mx.fenchel_youngize(lambda t: (t, np.eye(2)), 2), 2.0), "Python function"),
        (print, "never code"),
        (object(), "register"),
        (np.array([None]), "dtype object"),
        ({1, 2}, "builtins.set"),
    ],
)
def test_what_cannot_be_saved(model, words, tmp_path):
    with pytest.raises(TypeError, match=words):
        io.save(model, tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


# -- own classes ---------------------------------------------------------------------------------


def test_register_hooks_and_names(copied, monkeypatch):
    monkeypatch.setattr(io, "_REGISTRY", dict(io._REGISTRY))

    @io.register
    class _Hooked:
        def __init__(self):
            self.fitted = {"coef": np.arange(3.0)}

        def __getmodel__(self):
            return self.fitted

        def __setmodel__(self, state):
            self.fitted = dict(state)

    identical(_Hooked().fitted, copied(_Hooked()).fitted)

    @io.register
    class _Built:
        def __init__(self, size):
            self.size, self.cells = size, np.zeros(size)

        def __getmodel__(self):
            return {"size": self.size}

    assert copied(_Built(3)).cells.shape == (3,)

    class _Foreign:
        def __init__(self, size):
            self.size = size

    io.register(_Foreign, get=lambda x: {"size": x.size})
    assert copied(_Foreign(4)).size == 4
    io.register(_Built, make=lambda state: _Built(2 * state["size"]))
    assert copied(_Built(3)).size == 6

    class Derived(mx.Shannon):
        pass

    with pytest.raises(TypeError, match=r"register"):
        copied(Derived())
    with pytest.raises(ValueError, match="registered already"):
        io.register(type("Shannon", (), {}))
    with pytest.raises(TypeError, match="no dataclass"):
        io.register(type("Bare", (), {}))


# -- broken files --------------------------------------------------------------------------------


def document(model, **header):
    return {"format": "maxent", "version": 1, "maxent_version": "0", "model": model} | header


def array(values, **changes):
    return io._encode_array(np.asarray(values)) | changes


def instance(name, **state):
    return {"class": name, "state": state}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Expecting value"),
        (b"\x80\x04\x95", "decode"),
        (b'{"format": "maxent", "vers', "Unterminated"),
        (b"[1]", "found format 'list', expected"),
        (b'{"format": "maxent", "version": NaN}', "NaN, which is not JSON"),
        (b'{"format":"maxent","version":1,"model":' + b"[" * 100_000, "nested too deeply"),
        (document(1, format="other"), "found format 'other'"),
        (document(1, version="1"), "found version '1'"),
        (document(1, version=True), "found version True"),
        (document(1, version=4, maxent_version="9.9"), "written by maxent '9.9'.*pip install -U"),
        ({"format": "maxent", "version": 1}, 'no "model"'),
        (document(instance("os.system")), "class 'os.system', which this maxent"),
        (document(instance("Problem.__init__")), "does not know"),
        (document({"class": ["Box"], "state": {}}), "does not know"),
        (document(instance("Youngized", loss=1, n_classes=2)), "does not know"),
        (document({"class": "Box"}), "expected exactly"),
        (document({"class": "Box", "state": [1]}), "list as the state of Box"),
        (document(instance("Box", beta=-1.0)), "invalid Box: beta must be"),
        (document(instance("Box", beta=1.0, gamma=2)), r"unknown arguments \['gamma'\]"),
        (document(instance("Box")), "invalid Box: .*missing"),
        (document(instance("Scaled", entropy=1, temperature=2.0)), "entropy must be of type"),
        (document(instance("OneVsAll", entropy=instance("Box", beta=1.0))), "of type Entropy"),
        (document(instance("Product", domain=instance("Equality"), copies=2)), "of type Domain"),
        (document(instance("Shannon")), r"invalid Shannon: \['domain'\] missing"),
        (b'{"format": "maxent", "version": 1, "model": 1, "model": 2}', "'model' twice"),
        (
            b'{"format": "maxent", "version": 3, "model": [{"float": "inf", "float": "nan"}]}',
            "twice",
        ),
        (document({"dict": [["a", 1], ["a", 2]]}), "stands there twice"),
        (document(instance("ShiftedPotential", potential=3, reference=1)), "of type Potential"),
        (document(instance("Ragged", values=array([1.0]), offsets=array([0, 9]))), "offsets"),
        (document(instance("Ragged", values=array([1.0]), offsets=array([0, 2, 1]))), "offsets"),
        (document({"surprise": 1}), r"object with \['surprise'\], expected one of class"),
        (document(array([1.0], shape=[2])), "array of 8 bytes, expected 16"),
        (document(array([1.0], shape=[10**12, 10**12])), "array of 8 bytes"),
        (document(array([1.0], shape=[-1])), "non-negative"),
        (document(array([1.0], shape="1")), "expected a list"),
        (document(array([1.0], dtype="|O")), r"dtype '\|O'"),
        (document(array([1.0], dtype="<f8,<f8")), "dtype"),
        (document(array([1.0], dtype=">f8")), "dtype"),
        (document(array([1.0], layout="Z")), "layout"),
        (document(array([1.0], array="?")), "base64"),
        (document(array([1.0], array=5)), "base64"),
        (document({"float": "1e5"}), "'nan', 'inf' or '-inf'"),
        (document({"enum": ["Status", "__class__"]}), "enumeration"),
        (document({"enum": ["Flag", "X"]}), "enumeration"),
        (document({"dict": [[[1], 2]]}), "key"),
        (document({"dict": [[1]]}), "a list of 2 entries"),
        (document({"tuple": 1}), "expected a list"),
        (
            document({"csc": [array([1.0]), array([7]), array([0, 1])], "shape": [2, 1]}),
            "invalid sparse matrix",
        ),
        (
            document({"csc": [array([1.0]), array([0]), array([0, 5])], "shape": [2, 1]}),
            "invalid sparse matrix",
        ),
    ],
)
def test_broken_files(content, words, tmp_path):
    path = tmp_path / "broken.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(ValueError, match=f"cannot load .*broken.json.*{words}"):
        io.load(path)


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "m.json"
    io.save(mx.Box([0.1, 0.2]), path)
    data = path.read_bytes().rstrip()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="cannot load"):
            io.load(path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "none.json")


# -- atomic writes -------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["replace", "fsync", "write"])
def test_failure_leaves_the_old_file(error, step, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    io.save(mx.Box(1.0), path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        if step == "write":
            real = open

            class Full:
                def __init__(self, file):
                    self.file = file

                def __enter__(self):
                    return self

                def __exit__(self, *args):
                    self.file.close()

                def write(self, data):
                    self.file.write(data[: len(data) // 2])
                    raise error

            patch.setattr(
                "builtins.open",
                lambda f, m="r", *a, **k: Full(real(f, m, *a, **k)) if m == "xb" else real(f, m),
            )
        else:
            patch.setattr(os, step, fail)
        with pytest.raises(type(error)):
            io.save(mx.Box(2.0), path)
    assert [p.name for p in tmp_path.iterdir()] == ["m.json"]
    assert path.read_bytes() == before


def test_save_through_a_link_and_keep_the_mode(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    io.save(mx.Box(1.0), real)
    real.chmod(0o640)
    link.symlink_to(real)
    io.save(mx.Box(2.0), link)
    assert link.is_symlink()
    assert float(io.load(real).beta) == 2.0
    assert real.stat().st_mode & 0o777 == 0o640

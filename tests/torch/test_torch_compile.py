"""maxent.torch.structured under torch.compile, torch.export, torch.func: the numbers of a call."""

import io
import shutil

import pytest

import maxent as mx
from tools import lacking, needs

torch = needs("torch")

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from maxent.structured import Permutahedron, Tree  # noqa: E402

LENGTHS = torch.tensor([4, 1, 3])
MASK = torch.arange(4) < LENGTHS[:, None]
HEADS = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0], [0, 2, 0, 0]])
TAGS = torch.tensor([[0, 2, 1, 0], [1, 0, 0, 0], [2, 2, 1, 0]])
PARTNERS = torch.tensor([[1, 0, 3, 2], [0, 0, 0, 0], [2, 1, 0, 0]])
SQUARES, CHAIN, VECTORS = [(3, 4, 4)], [(3, 4, 3), (3, 3)], [(3, 5)]
SPANS, CLOUDS = [(3, 4, 4, 2)], [(2, 4, 2), (2, 3, 2)]
TREE, SUBSET, ORDERS = Tree([(0, 1), (0, 2)], 2), mx.KSubset(2), Permutahedron([3.0, 1.0, 0.5])
ROWS, COLUMNS = torch.tensor([2.0, 1.0, 1.0, 1.0]), torch.tensor([1.0, 1.5, 1.5, 1.0])

# functions of tensors of these shapes to a number per row, to numbers of rows, or to several
SEGMENTS = [(3, 4, 2), (3, 2), (2, 2)]  # content, durations, transitions
SPELLED = torch.tensor([[1], [2], [1]])
CASES = {
    "chain_log_partition": (lambda n, t: ms.chain_log_partition(n, t, LENGTHS, t[0], t[1]), CHAIN),
    "chain_marginals": (lambda n, t: ms.chain_marginals(n, t, MASK), CHAIN),
    "chain_argmax": (lambda n, t: ms.chain_argmax(n, t, LENGTHS), CHAIN),
    "chain_kbest": (lambda n, t: ms.chain_kbest(n, t, 2), CHAIN),
    "chain_max_marginals": (lambda n, t: ms.chain_max_marginals(n, t, LENGTHS)[:, 0], CHAIN),
    "entropy of chains": (lambda n, t: ms.ChainScores(n, t, MASK).entropy(), CHAIN),
    "chain_score": (lambda n, t: ms.chain_score(n, t, TAGS, LENGTHS), CHAIN),
    "crf_loss": (lambda n, t: ms.crf_loss(n, t, TAGS, MASK, reduction="none"), CHAIN),
    "chain_hinge_loss": (lambda n, t: ms.chain_hinge_loss(n, t, TAGS, LENGTHS), CHAIN),
    "chain_perceptron_loss": (lambda n, t: ms.chain_perceptron_loss(n, t, TAGS), CHAIN),
    "per position": (lambda n, t: ms.chain_log_partition(n, t), [(3, 4, 3), (3, 3, 3, 3)]),
    "segment_log_partition": (lambda *x: ms.segment_log_partition(*x, LENGTHS), SEGMENTS),
    "segment_marginals": (lambda *x: tuple(ms.segment_marginals(*x, MASK)), SEGMENTS),
    "segment_argmax": (lambda *x: ms.segment_argmax(*x, LENGTHS), SEGMENTS),
    "segment_crf_loss": (
        lambda *x: ms.segment_crf_loss(*x, TAGS % 2, TAGS > -1, LENGTHS, reduction="none"),
        SEGMENTS,
    ),
    "segment_score": (lambda *x: ms.segment_score(*x, TAGS % 2, TAGS > -1, LENGTHS), SEGMENTS),
    "ctc_log_partition": (lambda x: ms.ctc_log_partition(x, SPELLED, LENGTHS), [(3, 4, 3)]),
    "ctc_argmax": (lambda x: ms.ctc_argmax(x, SPELLED), [(3, 4, 3)]),
    "ctc_loss": (lambda x: ms.ctc_loss(x, SPELLED, MASK, reduction="none"), [(3, 4, 3)]),
    "ctc_marginals": (lambda x: ms.ctc_marginals(x, SPELLED), [(3, 4, 3)]),
    "ctc_sparsemap": (lambda x: ms.ctc_sparsemap(x, SPELLED, LENGTHS), [(3, 4, 3)]),
    "sparse_ctc_loss": (lambda x: ms.sparse_ctc_loss(x, SPELLED, reduction="none"), [(3, 4, 3)]),
    "alignment_log_partition": (
        lambda x: ms.alignment_log_partition(x, LENGTHS, MASK, band=2),
        SQUARES,
    ),
    "alignment_marginals": (lambda x: ms.alignment_marginals(x, LENGTHS), SQUARES),
    "soft_dtw": (lambda x, y: ms.soft_dtw(x, y, 0.5, None, LENGTHS), [(3, 4, 2), (3, 5, 2)]),
    "arborescence_log_partition": (lambda x: ms.arborescence_log_partition(x, LENGTHS), SQUARES),
    "arborescence_marginals": (lambda x: ms.arborescence_marginals(x, MASK, "multi"), SQUARES),
    "arborescence_sparsemap": (lambda x: ms.arborescence_sparsemap(x, LENGTHS), SQUARES),
    "arborescence_argmax": (lambda x: ms.arborescence_argmax(x), SQUARES),
    "arborescence_crf_loss": (lambda x: ms.arborescence_crf_loss(x, HEADS, LENGTHS), SQUARES),
    "arborescence_sparsemap_loss": (
        lambda x: ms.arborescence_sparsemap_loss(x, HEADS, LENGTHS),
        SQUARES,
    ),
    "arborescence_hinge_loss": (
        lambda x: ms.arborescence_hinge_loss(x, HEADS, LENGTHS, cost=0.5),
        SQUARES,
    ),
    "log_partition": (lambda x: ms.log_partition(TREE, x), [(3, 14)]),
    "marginals": (lambda x: ms.marginals(TREE, x), [(14,)]),
    "argmax": (lambda x: ms.argmax(SUBSET, x), VECTORS),
    "entropy": (lambda x: ms.entropy(TREE, x), [(3, 14)]),
    "kl": (lambda x, y: ms.kl(TREE, x, y), [(3, 14), (3, 14)]),
    "cross_entropy": (lambda x, y: ms.cross_entropy(SUBSET, x, y), [(2, 4), (2, 4)]),
    "kbest": (lambda x: ms.kbest(TREE, x, 3), [(3, 14)]),
    "kbest of arrays": (lambda x: ms.kbest(ORDERS, x, 4), [(2, 3)]),
    "max_marginals": (lambda x: ms.max_marginals(SUBSET, x), VECTORS),
    "sparsemap": (lambda x: ms.sparsemap(SUBSET, x), VECTORS),
    "sparsemap of arrays": (lambda x: ms.sparsemap(ORDERS, x), [(2, 3)]),
    "sparsemap_loss": (
        lambda x: ms.sparsemap_loss(SUBSET, x, ms.argmax(SUBSET, -x.detach()), "none"),
        VECTORS,
    ),
    "soft_rank": (lambda x: ms.soft_rank(x, descending=True), VECTORS),
    "soft_rank kl": (lambda x: ms.soft_rank(x, 0.5, "kl", dim=0), VECTORS),
    "weighted ranks": (lambda x: ms.soft_rank(x, weights=torch.arange(1.0, 6.0)), VECTORS),
    "soft_quantile": (lambda x: ms.soft_quantile(x, [0.2, 0.9], 0.5), VECTORS),
    "soft_sort": (lambda x: ms.soft_sort(x), VECTORS),
    "soft_sort kl": (lambda x: ms.soft_sort(x, 0.5, "kl"), VECTORS),
    "soft_topk": (lambda x: ms.soft_topk(x, 2), VECTORS),
    "soft_topk hard": (lambda x: ms.soft_topk(x, 2, 0), VECTORS),
    "soft_partial_rank": (lambda x: ms.soft_partial_rank(x, 2, 0.5), VECTORS),
    "transport": (lambda x: ms.transport(x, ROWS, COLUMNS, 0.5), SQUARES),
    "partial_transport": (lambda x: ms.partial_transport(x, ROWS, COLUMNS, 2.5, 0.5), SQUARES),
    "unbalanced_transport": (
        lambda x: ms.unbalanced_transport(x, ROWS, COLUMNS, (0.5, 2.0), 0.5, "kl"),
        SQUARES,
    ),
    "unbalanced_transport and its gap": (
        lambda x: ms.unbalanced_transport(
            x, ROWS, COLUMNS, 0.5, 0.5, divergence="l1", return_gap=True
        ),
        SQUARES,
    ),
    "unbalanced_transport hard": (
        lambda x: ms.unbalanced_transport(x, ROWS, COLUMNS, 9.0, 0, divergence="l1"),
        SQUARES,
    ),
    "unbalanced_transport_value": (
        lambda x: ms.unbalanced_transport_value(x, ROWS, COLUMNS, 0.5, divergence="l2"),
        SQUARES,
    ),
    "transport hard": (lambda x: ms.transport(x, ROWS, COLUMNS, 0), SQUARES),
    "sinkhorn": (lambda x: ms.sinkhorn(x), SQUARES),
    "sinkhorn_points": (
        lambda x, y: (
            (p := ms.sinkhorn_points(x, y, strength=0.5)).value + p.barycentres().sum((1, 2))
        ),
        CLOUDS,
    ),
    "sinkhorn_divergence": (lambda x, y: ms.sinkhorn_divergence(x, y, strength=0.5), CLOUDS),
    "matching": (lambda x: ms.matching(x, 0.5, lengths=LENGTHS), SQUARES),
    "transport_loss": (
        lambda x: ms.transport_loss(x, torch.full_like(x, 0.25), reduction="none"),
        SQUARES,
    ),
    "matching_loss": (
        lambda x: ms.matching_loss(x, PARTNERS, 0.5, "kl", MASK, reduction="none"),
        SQUARES,
    ),
    "projective_log_partition": (lambda x: ms.projective_log_partition(x, LENGTHS), SQUARES),
    "projective_marginals": (lambda x: ms.projective_marginals(x, MASK, "multi"), SQUARES),
    "projective_sparsemap": (lambda x: ms.projective_sparsemap(x, LENGTHS), SQUARES),
    "projective_argmax": (lambda x: ms.projective_argmax(x), SQUARES),
    "constituency_log_partition": (lambda x: ms.constituency_log_partition(x, LENGTHS), SPANS),
    "constituency_marginals": (lambda x: ms.constituency_marginals(x, MASK), SPANS),
    "constituency_sparsemap": (lambda x: ms.constituency_sparsemap(x), SPANS),
    "constituency_argmax": (lambda x: ms.constituency_argmax(x, LENGTHS), SPANS),
}
NOT_DERIVED = {
    *("chain_kbest", "arborescence_argmax", "argmax", "soft_topk hard", "transport hard"),
    *("projective_argmax", "constituency_argmax", "ctc_argmax", "kbest", "kbest of arrays"),
    "unbalanced_transport hard",
}


@pytest.fixture(autouse=True)
def _afresh():
    """Code whose compilation once broke is not compiled again before this."""
    torch.compiler.reset()


each_case = pytest.mark.parametrize("name", CASES)
quiet = pytest.mark.filterwarnings("ignore")  # of the compiler's own modules


def inputs(name, *batch):
    generator = torch.Generator().manual_seed(len(name))
    shapes = CASES[name][1]
    return [torch.randn(*batch, *s, dtype=torch.float64, generator=generator) for s in shapes]


def numbers(out):
    """What is differentiated, and what is compared, of one or several tensors."""
    return out if isinstance(out, tuple) else (out,)


def summed(out):
    """A number that every entry moves, each by another amount."""
    parts = [x for x in out if x.is_floating_point()]
    return sum((x * (1 + torch.arange(x.numel()).reshape(x.shape) / 7)).sum() for x in parts)


def total(name):
    return lambda *tensors: summed(numbers(CASES[name][0](*tensors)))


def slopes(function, tensors):
    given = [x.clone().requires_grad_() for x in tensors]
    return torch.autograd.grad(function(*given), given)


@quiet
@each_case
def test_a_compiled_function_is_one_graph_with_the_same_numbers(name):
    given, derived = inputs(name), name not in NOT_DERIVED

    def function(*tensors):
        out = numbers(CASES[name][0](*tensors))
        return out, summed(out) if derived else None

    leaves = [x.clone().requires_grad_(derived) for x in given]
    found, value = torch.compile(function, fullgraph=True, backend="aot_eager")(*leaves)
    for mine, right in zip(found, numbers(CASES[name][0](*given)), strict=True):
        torch.testing.assert_close(mine.detach(), right)
    if derived:
        torch.testing.assert_close(torch.autograd.grad(value, leaves), slopes(total(name), given))


@each_case
def test_gradients_and_batches_of_torch_func(name):
    given, several = inputs(name), inputs(name, 2)
    order = tuple(range(len(given)))
    right = [numbers(CASES[name][0](*each)) for each in zip(*several, strict=True)]
    batch = numbers(torch.func.vmap(CASES[name][0])(*several))
    for mine, parts in zip(batch, zip(*right, strict=True), strict=True):
        torch.testing.assert_close(mine, torch.stack(parts))
    if name in NOT_DERIVED:
        return
    gradient = torch.func.grad(total(name), order)
    torch.testing.assert_close(gradient(*given), slopes(total(name), given))
    for mine, parts in zip(
        torch.func.vmap(gradient)(*several),
        zip(*(gradient(*each) for each in zip(*several, strict=True)), strict=True),
        strict=True,
    ):
        torch.testing.assert_close(mine, torch.stack(parts))


def test_every_function_is_there():
    functions = {
        name for name in ms.__all__ if name.islower() and not name.endswith("sparsemap_support")
    }
    draws = {"chain_sample", "segment_sample", "sample", "sample_without_replacement"}
    assert functions - set(CASES) == draws


@quiet  # of torch's own modules
def test_forward_mode_is_refused():
    x = torch.randn(3, 4, 4)
    with pytest.raises(NotImplementedError, match=r"arborescence_point.*jacrev of jacrev"):
        torch.func.jvp(ms.arborescence_log_partition, (x,), (x,))
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.hessian(lambda x: ms.soft_rank(x).sum())(x)


@pytest.mark.parametrize(
    "name", ["chain_log_partition", "alignment_log_partition", "arborescence_log_partition"]
)
def test_second_derivatives_of_torch_func(name):
    (given, *rest), function = inputs(name), CASES[name][0]

    def value(x):
        return function(x, *rest).sum()

    right = torch.autograd.functional.hessian(value, given)
    mine = torch.func.jacrev(torch.func.jacrev(value))(given)
    torch.testing.assert_close(mine, right)


@quiet
def test_torch_func_within_what_is_compiled():
    given = inputs("crf_loss")
    gradient = torch.func.grad(total("crf_loss"), (0, 1))
    compiled = torch.compile(gradient, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*given), slopes(total("crf_loss"), given))
    several = inputs("crf_loss", 2)
    both = torch.func.vmap(gradient)
    with pytest.raises(Exception, match="vmap and grad together"):
        torch.compile(both, fullgraph=True, backend="aot_eager")(*several)
    torch.testing.assert_close(torch.compile(both, backend="aot_eager")(*several), both(*several))


@quiet
def test_samples_are_compiled():
    nodes, transitions = inputs("chain_marginals")

    def drawn(nodes, transitions):
        return ms.chain_sample(nodes, transitions, 5, MASK)

    torch.manual_seed(0)
    right = drawn(nodes, transitions)
    torch.manual_seed(0)
    compiled = torch.compile(drawn, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(nodes, transitions), right)
    with pytest.raises(Exception, match="seed torch itself"):
        torch.compile(
            lambda x: ms.chain_sample(x, transitions, generator=torch.default_generator),
            fullgraph=True,
            backend="aot_eager",
        )(nodes)


@quiet
@pytest.mark.parametrize("draw", [ms.sample, ms.sample_without_replacement])
@pytest.mark.parametrize(("domain", "size"), [(TREE, 14), (mx.Alignment(2, 3), 6)], ids=str)
def test_structures_are_drawn_in_compiled_code(draw, domain, size):
    scores = torch.randn(3, size, dtype=torch.float64)
    drawn = torch.compile(lambda x: draw(domain, x, 2), fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    right = draw(domain, scores, 2)
    torch.manual_seed(0)
    assert torch.equal(drawn(scores), right)


@quiet
def test_segmentations_are_drawn_in_compiled_code():
    given = inputs("segment_marginals")
    drawn = torch.compile(
        lambda *x: ms.segment_sample(*x, LENGTHS, n=3), fullgraph=True, backend="aot_eager"
    )
    torch.manual_seed(0)
    right = ms.segment_sample(*given, LENGTHS, n=3)
    torch.manual_seed(0)
    for mine, each in zip(drawn(*given), right, strict=True):
        assert torch.equal(mine, each)


@quiet
def test_values_are_checked_when_compiled_code_runs():
    compiled = torch.compile(ms.crf_loss, fullgraph=True, backend="aot_eager")
    nodes, transitions = inputs("crf_loss")
    with pytest.raises(ValueError, match=r"lengths run from 1 to 4.* got 1 to 9"):
        compiled(nodes, transitions, TAGS, torch.tensor([4, 1, 9]))
    with pytest.raises(ValueError, match="states run from 0 to 2"):
        compiled(nodes, transitions, TAGS + 1, LENGTHS)
    compiled = torch.compile(ms.arborescence_crf_loss, fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match="are no tree"):
        compiled(*inputs("arborescence_crf_loss"), TAGS)


@quiet
def test_what_is_compiled_once_takes_batches_of_every_size():
    compiled = torch.compile(ms.crf_loss, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch, length in [(2, 5), (3, 4), (5, 7)]:
        nodes, transitions = torch.randn(batch, length, 3), torch.randn(3, 3)
        tags, lengths = torch.zeros(batch, length, dtype=torch.int64), torch.arange(batch) % 4 + 1
        torch.testing.assert_close(
            compiled(nodes, transitions, tags, lengths),
            ms.crf_loss(nodes, transitions, tags, lengths),
        )
    for function in (ms.arborescence_marginals, ms.soft_rank, ms.sinkhorn):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=True)
        for batch, n in [(2, 3), (3, 5)]:
            x = torch.randn(batch, n, n)
            torch.testing.assert_close(compiled(x), function(x))


class Unknown(mx.KSubset):
    """A domain that no file knows."""


@quiet
def test_domains_of_what_is_compiled():
    x = torch.randn(2, 4)
    for domain in (mx.KSubset(1), mx.KSubset(3)):  # the second is another graph
        compiled = torch.compile(ms.sparsemap, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(domain, x), ms.sparsemap(domain, x))
    within = torch.compile(lambda x: ms.sparsemap(mx.KSubset(2), x), fullgraph=True)
    with pytest.raises(Exception, match="make it outside"):
        within(x)
    unknown = Unknown(2)
    with pytest.raises(Exception, match="make it known with"):
        torch.compile(lambda x: ms.sparsemap(unknown, x), fullgraph=True)(x)
    with pytest.raises(Exception, match="supports are not for"):
        torch.compile(lambda x: ms.sparsemap_support(SUBSET, x)[0], fullgraph=True)(x)
    with pytest.raises(NotImplementedError, match="supports are not for"):
        torch.func.vmap(lambda x: ms.sparsemap_support(SUBSET, x)[0])(x)


MODULES = {
    "LinearChain": (lambda: ms.LinearChain(3), [torch.randn(3, 4, 3), TAGS, LENGTHS]),
    "SoftDTW": (lambda: ms.SoftDTW(0.5), [torch.randn(3, 4, 2), torch.randn(3, 5, 2)]),
    "SparseMAP": (lambda: ms.SparseMAP(SUBSET), [torch.randn(3, 5)]),
    "SparseMAPLoss": (lambda: ms.SparseMAPLoss(SUBSET), [torch.randn(3, 5), torch.eye(5)[:3] * 2]),
    "ArborescenceMarginals": (ms.ArborescenceMarginals, [torch.randn(3, 4, 4), LENGTHS]),
    "ArborescenceLoss": (
        lambda: ms.ArborescenceLoss("hinge", cost=0.5),
        [torch.randn(3, 4, 4), HEADS, MASK],
    ),
    "ProjectiveLoss": (ms.ProjectiveLoss, [torch.randn(3, 4, 4), HEADS, MASK]),
    "ConstituencyLoss": (
        lambda: ms.ConstituencyLoss("sparsemap"),
        [torch.randn(3, 4, 4, 2), ms.constituency_argmax(torch.randn(3, 4, 4, 2)), None],
    ),
    "SoftRank": (ms.SoftRank, [torch.randn(3, 5)]),
    "SoftSort": (ms.SoftSort, [torch.randn(3, 5)]),
    "SoftTopK": (lambda: ms.SoftTopK(2), [torch.randn(3, 5)]),
    "Sinkhorn": (ms.Sinkhorn, [torch.randn(3, 4, 4)]),
    "Matching": (ms.Matching, [torch.randn(3, 4, 4), LENGTHS]),
    "MatchingLoss": (ms.MatchingLoss, [torch.randn(3, 4, 4), PARTNERS, LENGTHS]),
}


def test_every_module_is_there():
    assert {name for name in ms.__all__ if name[0].isupper()} - set(MODULES) == {
        "ChainScores",
        "ConstituencyScores",
        "PointPlan",
        "ProjectiveScores",
        "SegmentMarginals",
    }


@quiet
@pytest.mark.parametrize("name", MODULES)
def test_modules_are_exported_to_a_file(name):
    make, given = MODULES[name]
    module = make()
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, tuple(given)), file)
    file.seek(0)
    torch.testing.assert_close(torch.export.load(file).module()(*given), module(*given))


@quiet
@pytest.mark.slow
def test_compiled_to_machine_code(tmp_path, monkeypatch):
    """All of them as one graph: C++ takes long to compile, and its vectors longer still."""
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        lacking("torch.compile needs a C++ compiler: apt-get install g++")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    names = ("crf_loss", "arborescence_crf_loss", "soft_rank")
    given = [x for name in names for x in inputs(name)]

    def step(scores, nodes, transitions, squares, vectors):
        maps = mt.fenchel_young_loss(mt.sparsemax(scores) * 3, torch.tensor([0, 3, 5, 2]))
        parts = [(nodes, transitions), (squares,), (vectors,)]
        rest = [total(name)(*part) for name, part in zip(names, parts, strict=True)]
        return maps.double() + sum(rest)

    given = [torch.randn(4, 6), *given]
    settings = {"options": {"cpp.simdlen": 1, "compile_threads": 1}}
    compiled = torch.compile(step, fullgraph=True, **settings)
    for mine, right in zip(slopes(compiled, given), slopes(step, given), strict=True):
        torch.testing.assert_close(mine, right)

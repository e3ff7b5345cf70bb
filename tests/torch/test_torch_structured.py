"""maxent.torch.structured: the numbers of the domains, exact derivatives, and no bad rows."""

import importlib.util
import math

import numpy as np
import pytest

import maxent as mx
from tools import needs

torch = needs("torch")
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402
from maxent.rows.arrays import row_dot  # noqa: E402
from maxent.structured import Alignment, Chain, Tree  # noqa: E402

INF = math.inf
TOLERANCE = {torch.float64: 1e-11, torch.float32: 2e-5}
LENGTHS = torch.tensor([4, 1, 3])
KINDS = {"shared": (3, 3), "per sequence": (3, 3, 3), "per position": (3, 3, 3, 3)}

each_type = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
each_backend = pytest.mark.parametrize("backend", ["plain", "numba"])
each_kind = pytest.mark.parametrize("kind", KINDS)
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def normal(*shape, dtype=torch.float64, grad=False):
    return (1.5 * torch.randn(*shape, dtype=dtype)).requires_grad_(grad)


def sequences(kind, dtype=torch.float64, grad=False):
    """Scores of three sequences over three states, start and end scores; NaN behind the ends."""
    nodes, transitions = normal(3, 4, 3, dtype=dtype), normal(*KINDS[kind], dtype=dtype)
    start, end = normal(3, dtype=dtype), normal(3, dtype=dtype)
    return [x.requires_grad_(grad) for x in (nodes, transitions, start, end)]


def chain_rows(nodes, transitions, start, end):
    """The same as rows of the core."""
    nodes, transitions, start, end = (
        x.detach().double().numpy() for x in (nodes, transitions, start, end)
    )
    rows = []
    for i, n in enumerate(LENGTHS.tolist()):
        unary = nodes[i, :n].copy()
        unary[0] += start
        unary[-1] += end
        blocks = np.broadcast_to(
            transitions if transitions.ndim == 2 else transitions[i], (3, 3, 3)
        )
        rows.append(np.concatenate([unary.ravel(), blocks[: n - 1].ravel()]))
    return mx.Ragged.from_rows(rows)


def close(actual, expected, tolerance):
    np.testing.assert_allclose(actual.detach().cpu(), expected, rtol=tolerance, atol=tolerance)


# Chains


@each_backend
@each_type
@each_kind
def test_chains_are_those_of_the_core(kind, dtype, backend):
    nodes, transitions, start, end = sequences(kind, dtype)
    rows = chain_rows(nodes, transitions, start, end)
    nodes[1, 1:] = nodes[2, 3:] = math.nan  # behind the ends
    log_partition, mean = Chain(3).softmax(rows)
    with mt.backend(backend):
        arguments = nodes, transitions, LENGTHS, start, end
        close(ms.chain_log_partition(*arguments), log_partition, TOLERANCE[dtype])
        p, p_edge = ms.chain_marginals(*arguments)
        score, paths = ms.chain_argmax(*arguments)
        scores, several = ms.chain_kbest(nodes, transitions, 3, *arguments[2:])
    best = Chain(3).argmax(rows)
    close(score, row_dot(rows, best), TOLERANCE[dtype])
    close(scores[:, 0], score, TOLERANCE[dtype])
    assert (several[:, 0] == paths).all()
    for i, n in enumerate(LENGTHS.tolist()):
        row = mean.rows()[i]
        close(p[i, :n].reshape(-1), row[: n * 3], TOLERANCE[dtype])
        assert not p[i, n:].any()
        assert paths[i, :n].tolist() == Chain(3).decode(best)[i].tolist()
        edges = row[n * 3 :].reshape(n - 1, 3, 3)
        close(
            p_edge[i][: n - 1] if p_edge.ndim == 4 else p_edge[i],
            edges if p_edge.ndim == 4 else edges.sum(0),
            TOLERANCE[dtype],
        )
    assert p.dtype is dtype


@each_backend
@each_kind
def test_derivatives_of_chains(kind, backend):
    leaves = sequences(kind, grad=True)
    tags = torch.randint(3, (3, 4))

    def arguments(nodes, transitions, start, end):
        return nodes, transitions, LENGTHS, start, end

    def loss(function):
        return lambda n, e, s, t: function(n, e, tags, LENGTHS, s, t)

    with mt.backend(backend):
        assert gradcheck(lambda *x: ms.chain_log_partition(*arguments(*x)), leaves, fast_mode=True)
        assert gradcheck(lambda *x: ms.chain_marginals(*arguments(*x)), leaves, fast_mode=True)
        assert gradcheck(lambda *x: ms.chain_argmax(*arguments(*x))[0], leaves, fast_mode=True)
        for function in (ms.crf_loss, ms.chain_hinge_loss, ms.chain_perceptron_loss):
            assert gradcheck(loss(function), leaves, fast_mode=True)
        assert gradgradcheck(loss(ms.crf_loss), leaves, fast_mode=True)
        assert gradgradcheck(
            lambda *x: ms.chain_log_partition(*arguments(*x)), leaves, fast_mode=True
        )


def test_third_derivatives_are_refused():
    nodes = normal(1, 3, 2, grad=True)
    value = ms.chain_log_partition(nodes, torch.zeros(2, 2, dtype=torch.float64)).sum()
    for _ in range(2):
        (slope,) = torch.autograd.grad(value, nodes, create_graph=True)
        value = (slope**2).sum()
    with pytest.raises(NotImplementedError, match="third derivatives"):
        torch.autograd.grad(value, nodes)


def test_losses_are_those_of_the_core():
    nodes, transitions, start, end = sequences("per position")
    tags = torch.tensor([[0, 1, 2, 1], [2, -1, -1, -1], [1, 1, 0, -1]])  # -1 behind the ends
    rows = chain_rows(nodes, transitions, start, end)
    domain = Chain(3)
    y = domain.encode([t[:n] for t, n in zip(tags.numpy(), LENGTHS, strict=True)])
    arguments = nodes, transitions, tags, LENGTHS, start, end
    right = mx.FenchelYoungLoss(mx.Shannon(domain=domain)).value(rows, y)
    close(ms.crf_loss(*arguments, reduction="none"), right, 1e-10)
    close(ms.crf_loss(*arguments), right.mean(), 1e-10)
    right = mx.FenchelYoungLoss(mx.Zero(domain=domain)).value(rows, y)
    close(ms.chain_perceptron_loss(*arguments, reduction="none"), right, 1e-10)
    hinge = ms.chain_hinge_loss(*arguments, reduction="none")
    cost = []
    for theta, target, n in zip(rows.rows(), y.rows(), LENGTHS.tolist(), strict=True):
        paths = domain.vertices(theta.size)
        wrong = n - paths[:, : 3 * n] @ target[: 3 * n]
        cost.append((paths @ theta + wrong).max() - theta @ target)
    close(hinge, cost, 1e-10)


def test_drawn_paths_follow_the_marginals():
    nodes, transitions, start, end = sequences("shared")
    p, _ = ms.chain_marginals(nodes, transitions, LENGTHS, start, end)
    generator = torch.Generator().manual_seed(0)
    drawn = ms.chain_sample(nodes, transitions, 4000, LENGTHS, start, end, generator)
    share = torch.nn.functional.one_hot(drawn, 3).double().mean(0)
    inside = torch.arange(4) < LENGTHS[:, None]
    assert (share - p)[inside].abs().max() < 0.04


@each_backend
@each_type
def test_chains_of_large_scores(dtype, backend):
    nodes = 1e4 * torch.randn(2, 30, 5, dtype=dtype)
    transitions = 1e4 * torch.randn(5, 5, dtype=dtype)
    with mt.backend(backend):
        p, _ = ms.chain_marginals(nodes, transitions)
        value = ms.chain_log_partition(nodes, transitions)
        best, _ = ms.chain_argmax(nodes, transitions)
    assert p.isfinite().all()
    close(p.sum(2), 1.0, 1e-5)
    close(value, best, 1e-6)


def test_one_position_and_no_rows():
    nodes, transitions = normal(2, 1, 3), normal(3, 3)
    close(ms.chain_log_partition(nodes, transitions), torch.logsumexp(nodes[:, 0], 1), 1e-12)
    assert ms.chain_log_partition(nodes[:0], transitions).shape == (0,)
    assert ms.chain_argmax(nodes[:0], transitions)[1].shape == (0, 1)
    assert ms.crf_loss(nodes[:0], transitions, torch.zeros(0, 1, dtype=torch.int64)) == 0
    assert ms.chain_marginals(nodes, normal(2, 0, 3, 3))[1].shape == (2, 0, 3, 3)


def test_half_precision_is_computed_in_float32():
    nodes = normal(2, 3, 3, dtype=torch.bfloat16)
    assert ms.chain_log_partition(nodes, normal(3, 3, dtype=torch.bfloat16)).dtype is torch.float32


@each_kind
def test_one_bundle_answers_as_the_functions(kind):
    nodes, transitions, start, end = sequences(kind)
    bundle = (nodes, transitions, LENGTHS, start, end)
    chains = ms.ChainScores(*bundle)
    tags = chains.argmax()[1].flip(0)
    pairs = [
        (chains.log_partition(), ms.chain_log_partition(*bundle)),
        (chains.marginals(), ms.chain_marginals(*bundle)),
        (chains.argmax(), ms.chain_argmax(*bundle)),
        (chains.kbest(2), ms.chain_kbest(nodes, transitions, 2, LENGTHS, start, end)),
        (chains.score(tags), ms.chain_score(nodes, transitions, tags, LENGTHS, start, end)),
        (chains.crf_loss(tags), ms.crf_loss(nodes, transitions, tags, LENGTHS, start, end)),
        (chains.hinge_loss(tags), ms.chain_hinge_loss(*bundle[:2], tags, *bundle[2:])),
        (chains.perceptron_loss(tags), ms.chain_perceptron_loss(*bundle[:2], tags, *bundle[2:])),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs)
    layer = ms.LinearChain(3).double()
    scores, paths = layer.scores(nodes, LENGTHS).kbest(3)
    assert scores.shape == (3, 3)
    assert torch.equal(paths[:, 0], layer.decode(nodes, LENGTHS))


def test_bad_chains():
    nodes, transitions = normal(2, 3, 3), normal(3, 3)
    with pytest.raises(ValueError, match="lengths run from 1 to 3"):
        ms.chain_log_partition(nodes, transitions, torch.tensor([3, 4]))
    with pytest.raises(ValueError, match="lengths are 2 integers"):
        ms.chain_log_partition(nodes, transitions, torch.tensor([3]))
    with pytest.raises(ValueError, match="need transitions of shape"):
        ms.chain_log_partition(nodes, normal(2, 2))
    with pytest.raises(ValueError, match="at least one position"):
        ms.chain_log_partition(nodes[:, :0], transitions)
    with pytest.raises(TypeError, match="tensor of floats"):
        ms.chain_log_partition(nodes.long(), transitions)
    with pytest.raises(ValueError, match="start is a tensor of 3 scores"):
        ms.chain_log_partition(nodes, transitions, start=normal(2))
    with pytest.raises(ValueError, match="states run from 0 to 2"):
        ms.crf_loss(nodes, transitions, torch.full((2, 3), 3))
    with pytest.raises(ValueError, match="tags are integers"):
        ms.crf_loss(nodes, transitions, torch.zeros(2, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="reduction"):
        ms.crf_loss(nodes, transitions, torch.zeros(2, 3, dtype=torch.int64), reduction="all")
    with pytest.raises(ValueError, match="k >= 1"):
        ms.chain_kbest(nodes, transitions, 0)
    with pytest.raises(ValueError, match="n >= 1"):
        ms.chain_sample(nodes, transitions, 0)
    with pytest.raises(ValueError, match="cost"):
        ms.chain_hinge_loss(nodes, transitions, torch.zeros(2, 3, dtype=torch.int64), cost=-1.0)


CHAIN_MAPS = {
    "log-partition": ms.chain_log_partition,
    "argmax": ms.chain_argmax,
    "k best": lambda n, e: ms.chain_kbest(n, e, 2),
    "draws": ms.chain_sample,
}


@pytest.mark.parametrize("name", CHAIN_MAPS)
def test_bad_scores_of_chains(name):
    run = CHAIN_MAPS[name]
    nodes, transitions = normal(2, 3, 3), normal(3, 3)
    for bad in (math.nan, INF):
        wrong = nodes.clone()
        wrong[1, 1, 1] = bad
        with pytest.raises(ValueError, match="nodes contain NaN"):
            run(wrong, transitions)
    nodes[1, 1] = -INF
    with pytest.raises(ValueError, match="sequence 1 has no path"):
        run(nodes, transitions)


# Alignments


@each_backend
@each_type
@pytest.mark.parametrize("band", [None, 1])
def test_alignments_are_those_of_the_core(band, dtype, backend):
    scores = normal(3, 4, 5, dtype=dtype)
    ns, ms_ = torch.tensor([4, 1, 2]), torch.tensor([5, 3, 4])
    with mt.backend(backend):
        value = ms.alignment_log_partition(scores, ns, ms_, band)
        p = ms.alignment_marginals(scores, ns, ms_, band)
        whole = ms.alignment_log_partition(scores, band=band)
    assert value.dtype is dtype
    for i, (n, m) in enumerate(zip(ns.tolist(), ms_.tolist(), strict=True)):
        theta = scores[i, :n, :m].double().reshape(-1).numpy()
        log_partition, mean = Alignment(n, m, band).softmax(theta)
        close(value[i], log_partition, TOLERANCE[dtype])
        close(p[i, :n, :m].reshape(-1), mean, TOLERANCE[dtype])
        assert p[i].sum() == pytest.approx(mean.sum(), abs=1e-4)
    close(whole[0], value[0].detach(), TOLERANCE[dtype])


@each_backend
def test_derivatives_of_alignments(backend):
    scores = normal(2, 3, 4, grad=True)
    lengths = torch.tensor([3, 2]), torch.tensor([4, 2])
    x, y = normal(2, 3, 2, grad=True), normal(2, 4, 2, grad=True)
    wide = [normal(1, n, 9, grad=True) for n in (3, 2)]
    with mt.backend(backend):
        for function in (ms.alignment_log_partition, ms.alignment_marginals):
            assert gradcheck(lambda s, f=function: f(s, *lengths), [scores], fast_mode=True)
        assert gradgradcheck(
            lambda s: ms.alignment_log_partition(s, *lengths), [scores], fast_mode=True
        )
        for pair in ((x, y), wide):
            assert gradcheck(lambda a, b: ms.soft_dtw(a, b, 0.7, 1), pair, fast_mode=True)
            assert gradgradcheck(lambda a, b: ms.soft_dtw(a, b, 0.7), pair, fast_mode=True)


def test_soft_dtw_becomes_dtw():
    x, y = normal(2, 6), normal(2, 5)
    cost = (x[:, :, None] - y[:, None]) ** 2
    vertices = Alignment(6, 5).vertices(30)
    best = (cost.reshape(2, 1, 30).numpy() * vertices).sum(2).min(1)
    close(ms.soft_dtw(x, y, 1e-5), best, 1e-3)
    assert ms.SoftDTW(0.5, band=2)(x, y).shape == (2,)
    assert ms.soft_dtw(x[:0], y[:0]).shape == (0,)
    assert ms.soft_dtw(x[:, :1], y[:, :1]).shape == (2,)
    assert ms.soft_dtw(1e2 * x.float(), y.float(), 1e-2).isfinite().all()


def test_bad_alignments():
    x, y = normal(2, 6), normal(2, 5)
    with pytest.raises(ValueError, match="gamma > 0"):
        ms.soft_dtw(x, y, 0.0)
    with pytest.raises(ValueError, match="elements of one size"):
        ms.soft_dtw(normal(2, 6, 1), normal(2, 6, 2))
    with pytest.raises(ValueError, match="lengths run from 1 to 6"):
        ms.soft_dtw(x, y, x_lengths=torch.tensor([7, 1]))
    with pytest.raises(ValueError, match="NaN"):
        ms.soft_dtw(x * math.nan, y)
    with pytest.raises(ValueError, match="band"):
        ms.soft_dtw(x, y, band=-1)
    with pytest.raises(ValueError, match=r"\(pairs, n, m\)"):
        ms.alignment_marginals(normal(3, 3))
    with pytest.raises(TypeError, match="floats"):
        ms.alignment_marginals(torch.zeros(1, 2, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match="floats"):
        ms.soft_dtw(x.long(), y)
    scores = normal(2, 3, 3)
    scores[1, 0, 0] = -INF
    with pytest.raises(ValueError, match="pair 1 has no alignment"):
        ms.alignment_log_partition(scores)


# Any domain


STAR = Tree([(0, 1), (0, 2)], (2, 3, 2))


def test_log_partitions_of_a_domain():
    theta = normal(2, 3, STAR.size, grad=True)
    value, mean = STAR.softmax(theta.detach().numpy())
    close(ms.log_partition(STAR, theta), value, 1e-12)
    close(ms.marginals(STAR, theta), mean, 1e-12)
    close(ms.argmax(STAR, theta), STAR.argmax(theta.detach().numpy()), 0)
    assert gradcheck(lambda t: ms.log_partition(STAR, t), [theta], fast_mode=True)
    assert gradcheck(lambda t: ms.marginals(STAR, t), [theta], fast_mode=True)
    assert gradgradcheck(lambda t: ms.log_partition(STAR, t), [theta], fast_mode=True)
    assert ms.marginals(STAR, theta.float()).dtype is torch.float32
    assert ms.log_partition(STAR, theta[:0]).shape == (0, 3)


SPARSE = {
    "chain": (Chain(3), 3 * 3 + 2 * 9),
    "tree": (STAR, STAR.size),
    "alignment": (Alignment(3, 3), 9),
    "subset": (mx.KSubset(2), 5),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparsemap(name):
    domain, size = SPARSE[name]
    theta = normal(3, size, grad=True)
    p = ms.sparsemap(domain, theta)
    close(p, domain.project(theta.detach().numpy()), 1e-10)
    again, supports = ms.sparsemap_support(domain, theta)
    close(again, p.detach(), 1e-10)
    warm = ms.sparsemap(domain, theta + 1e-3, supports)
    close(warm, ms.sparsemap(domain, theta + 1e-3).detach(), 1e-9)
    y = torch.from_numpy(domain.argmax(normal(3, size).numpy()))
    loss = ms.sparsemap_loss(domain, theta, y, "none")
    right = mx.FenchelYoungLoss(mx.SquaredNorm(domain=domain)).value(
        theta.detach().numpy(), y.numpy()
    )
    close(loss, right, 1e-10)
    for function in (
        lambda t: ms.sparsemap(domain, t),
        lambda t: ms.sparsemap_support(domain, t)[0],
        lambda t: ms.sparsemap_loss(domain, t, y),
    ):
        assert gradcheck(function, [theta], fast_mode=True)
        assert gradgradcheck(function, [theta], fast_mode=True)


def test_sparsemap_modules():
    theta = normal(2, 27)
    layer = ms.SparseMAP(Chain(3), warm_start=True)
    for shift in (0.0, 0.01, 0.02):
        close(layer(theta + shift), ms.SparseMAP(Chain(3))(theta + shift), 1e-9)
    assert layer(theta[:1]).shape == (1, 27)
    y = ms.argmax(Chain(3), theta)
    loss = ms.SparseMAPLoss(Chain(3), "sum")(theta, y)
    close(loss, ms.sparsemap_loss(Chain(3), theta, y, "sum"), 0)
    assert "warm_start=True" in repr(layer)
    assert "sum" in repr(ms.SparseMAPLoss(Chain(3), "sum"))


def test_bad_input_of_domains():
    theta = normal(2, 27)
    with pytest.raises(TypeError, match="domain is one of maxent's"):
        ms.sparsemap("chain", theta)
    with pytest.raises(TypeError, match="floats"):
        ms.sparsemap(Chain(3), theta.long())
    with pytest.raises(ValueError, match="is no sequence"):
        ms.sparsemap(Chain(3), theta[:, :26])
    with pytest.raises(ValueError, match="NaN"):
        ms.sparsemap(Chain(3), theta * math.nan)
    with pytest.raises(ValueError, match="single number"):
        ms.marginals(Chain(3), theta[0, 0])
    with pytest.raises(ValueError, match="shape of the scores"):
        ms.sparsemap_loss(Chain(3), theta, theta[:1])
    with pytest.raises(ValueError, match="detach"):
        ms.sparsemap_loss(Chain(3), theta, theta.clone().requires_grad_())


def test_a_chain_is_learnt():
    layer = ms.LinearChain(3)
    tags = torch.arange(12).reshape(2, 6) % 3
    lengths = torch.tensor([6, 4])
    nodes = torch.zeros(2, 6, 3)
    for loss in ("crf", "hinge", "perceptron"):
        layer = ms.LinearChain(3, loss)
        optimiser = torch.optim.SGD(layer.parameters(), 0.5)
        nodes = 0.1 * torch.randn(2, 6, 3)
        for _ in range(30):
            optimiser.zero_grad()
            layer(nodes, tags, lengths).backward()
            optimiser.step()
        assert layer.decode(nodes, lengths)[1].tolist() == [0, 1, 2, 0, 0, 0]
    assert layer.marginals(nodes).shape == (2, 6, 3)
    assert "3, loss='perceptron'" in repr(layer)
    with pytest.raises(ValueError, match="crf, hinge, perceptron"):
        ms.LinearChain(3, "svm")


# CUDA


def on_device(*tensors):
    return [x.detach().cuda().requires_grad_(x.requires_grad) for x in tensors]


@cuda
@each_type
@each_kind
@pytest.mark.parametrize("backend", ["plain", "triton"])
def test_cuda_chains(backend, kind, dtype):
    leaves = sequences(kind, dtype, grad=True)
    nodes, transitions, start, end = leaves
    there = on_device(*leaves)
    tags = torch.randint(3, (3, 4))
    here = ms.crf_loss(nodes, transitions, tags, LENGTHS, start, end)
    with mt.backend(backend):
        loss = ms.crf_loss(there[0], there[1], tags.cuda(), LENGTHS.cuda(), *there[2:])
        slopes = torch.autograd.grad(loss, there, create_graph=True)
        second = torch.autograd.grad(sum((s**2).sum() for s in slopes), there)
        best = ms.chain_argmax(there[0], there[1], LENGTHS.cuda(), *there[2:])
    close(loss, here.detach(), TOLERANCE[dtype])
    expected = torch.autograd.grad(here, leaves, create_graph=True)
    for a, b in zip(slopes, expected, strict=True):
        close(a, b.detach(), TOLERANCE[dtype])
    right = torch.autograd.grad(sum((s**2).sum() for s in expected), leaves)
    for a, b in zip(second, right, strict=True):
        close(a, b, 10 * TOLERANCE[dtype])
    assert (best[1].cpu() == ms.chain_argmax(nodes, transitions, LENGTHS, start, end)[1]).all()


@cuda
@each_type
def test_cuda_chains_of_large_scores(dtype):
    nodes = 1e4 * torch.randn(4, 30, 20, dtype=dtype)
    transitions = 1e4 * torch.randn(20, 20, dtype=dtype)
    p, counts = ms.chain_marginals(nodes.cuda(), transitions.cuda())
    right, right_counts = ms.chain_marginals(nodes, transitions)
    close(p, right, 1e-3)
    close(counts, right_counts, 1e-2)


@cuda
def test_cuda_rows_without_a_path_are_minus_infinity():
    nodes = torch.zeros(2, 3, 2)
    nodes[1, 1] = -INF
    assert ms.chain_log_partition(nodes.cuda(), torch.zeros(2, 2).cuda())[1] == -INF


@cuda
@each_type
def test_cuda_alignments_and_domains(dtype):
    x, y = normal(2, 6, 2, dtype=dtype, grad=True), normal(2, 5, 2, dtype=dtype, grad=True)
    theta = normal(2, 27, dtype=dtype, grad=True)
    for function, leaves in (
        (lambda a, b: ms.soft_dtw(a, b, 0.5), (x, y)),
        (lambda t: ms.sparsemap(Chain(3), t), (theta,)),
        (lambda t: ms.log_partition(Chain(3), t), (theta,)),
    ):
        there = on_device(*leaves)
        here, far = function(*leaves), function(*there)
        close(far, here.detach(), TOLERANCE[dtype])
        slopes = torch.autograd.grad(far.square().sum(), there)
        right = torch.autograd.grad(here.square().sum(), leaves)
        for a, b in zip(slopes, right, strict=True):
            close(a, b, 20 * TOLERANCE[dtype])


@pytest.mark.parametrize("layer", ["_chains", "alignment"])
def test_every_engine_of_a_table_is_there(layer):
    """Also those that only CUDA tensors load."""
    room = "maxent.torch.structured"
    engines = importlib.import_module(f"{room}.{layer}")._ENGINES
    assert set(engines) == {"numba", "triton", "plain"}
    for name in engines.values():
        assert importlib.util.find_spec(f"{room}.{name}") is not None, name


def test_masks_are_lengths():
    mask = torch.arange(4) < LENGTHS[:, None]
    nodes, transitions, *_ = sequences("shared")
    squares, tags = normal(3, 4, 4), torch.zeros(3, 4, dtype=torch.int64)
    for function in (
        lambda given: ms.chain_log_partition(nodes, transitions, given),
        lambda given: ms.chain_hinge_loss(nodes, transitions, tags, given),
        lambda given: ms.alignment_marginals(squares, given, given.flip(0)),
        lambda given: ms.soft_dtw(nodes, nodes, x_lengths=given),
        lambda given: ms.matching(squares, lengths=given),
        lambda given: ms.matching_loss(squares, tags + torch.arange(4), lengths=given),
    ):
        assert torch.equal(function(mask), function(LENGTHS))
    gap = torch.tensor([[True, False, True, True]] * 3)
    with pytest.raises(ValueError, match="mask of row 0 has a gap"):
        ms.chain_log_partition(nodes, transitions, gap)
    with pytest.raises(ValueError, match=r"has the shape \(3, 4\)"):
        ms.chain_log_partition(nodes, transitions, mask[:, :3])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_and_log_partitions_of_16_bits_are_float32(dtype):
    nodes, transitions = 9 * normal(3, 4, 3).to(dtype), normal(3, 3).to(dtype)
    squares, tags = 9 * normal(3, 4, 4).to(dtype), torch.zeros(3, 4, dtype=torch.int64)
    plans, point = torch.full((3, 4, 4), 0.25), torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 3)
    for function, scores in [
        (lambda x: ms.crf_loss(x, transitions.to(x.dtype), tags, reduction="none"), nodes),
        (lambda x: ms.chain_hinge_loss(x, transitions.to(x.dtype), tags, reduction="none"), nodes),
        (ms.alignment_log_partition, squares),
        (lambda x: ms.soft_dtw(x, x.flip(1)), nodes),
        (lambda x: ms.transport_loss(x, plans, reduction="none"), squares),
        (
            lambda x: ms.matching_loss(
                x, tags + torch.arange(4), regularization="kl", reduction="none"
            ),
            squares,
        ),
        (lambda x: ms.sparsemap_loss(mx.KSubset(2), x, point, "none"), squares[:, 0]),
        (lambda x: ms.log_partition(mx.KSubset(2), x), squares[:, 0]),
    ]:
        value = function(scores)
        assert value.dtype == torch.float32
        right = function(scores.double())
        torch.testing.assert_close(value.double(), right, rtol=2e-6, atol=2e-5)

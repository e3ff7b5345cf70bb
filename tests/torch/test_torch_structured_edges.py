"""Structured layers at their edges: padding that is no number, empty batches, 16 bits, refusals."""

import pytest

from tools import needs

torch = needs("torch")

import maxent as mx  # noqa: E402
import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as ms  # noqa: E402

LENGTHS = torch.tensor([4, 2, 3])
HEADS = torch.tensor([[0, 2, 0, 2], [0, 0, 9, 9], [0, 0, 1, 9]])


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def beyond(x, *axes):
    """Where any of the axes is beyond the lengths."""
    out = torch.zeros(x.shape, dtype=torch.bool)
    for axis in axes:
        shape = [len(LENGTHS) if i == 0 else -1 if i == axis else 1 for i in range(x.ndim)]
        place = torch.arange(x.shape[axis])
        out |= (place >= LENGTHS[:, None]).reshape([*shape[:axis], -1, *shape[axis + 1 :]])
    return out


def derivatives(function, leaves):
    """The value, its gradient, and the gradient of the gradient's square."""
    leaves = [x.detach().clone().requires_grad_() for x in leaves]
    value = function(*leaves)
    slopes = torch.autograd.grad(value.sum(), leaves, create_graph=True)
    total = sum(slope.square().sum() for slope in slopes)
    bends = torch.autograd.grad(total, leaves) if total.requires_grad else []
    return [x.detach() for x in (value, *slopes, *bends)]


PADDED = {
    "soft_dtw": (lambda x, y: ms.soft_dtw(x, y, 0.7, None, LENGTHS, LENGTHS), (3, 4), (1,)),
    "soft_dtw of vectors": (
        lambda x, y: ms.soft_dtw(x, y, 0.7, None, LENGTHS, LENGTHS),
        (3, 4, 12),
        (1,),
    ),
    "arborescence": (
        lambda x, y: ms.arborescence_marginals(x + y, LENGTHS).square(),
        (3, 4, 4),
        (1, 2),
    ),
    "projective": (
        lambda x, y: ms.projective_marginals(x + y, LENGTHS).square(),
        (3, 4, 4),
        (1, 2),
    ),
    "constituency": (
        lambda x, y: ms.constituency_marginals(x + y, LENGTHS).square(),
        (3, 4, 4, 2),
        (1, 2),
    ),
}


@pytest.mark.parametrize("name", PADDED)
def test_what_is_beyond_the_lengths_is_not_read(name):
    function, shape, axes = PADDED[name]
    clean = [normal(*shape, seed=seed) for seed in (1, 2)]
    dirty = [
        x.masked_fill(beyond(x, *axes), bad)
        for x, bad in zip(clean, (torch.nan, torch.inf), strict=True)
    ]
    for found, right in zip(
        derivatives(function, dirty), derivatives(function, clean), strict=True
    ):
        torch.testing.assert_close(found, right)


@pytest.mark.parametrize("kind", ["crf", "sparsemap", "hinge", "perceptron"])
@pytest.mark.parametrize("loss", [ms.ArborescenceLoss, ms.ProjectiveLoss, ms.ConstituencyLoss])
def test_cells_that_no_tree_has_are_not_read(loss, kind):
    if loss is ms.ConstituencyLoss:
        clean = normal(3, 4, 4, 2)
        never = torch.ones(4, 4, dtype=torch.bool).tril(-1)[None, :, :, None]
        target = ms.constituency_argmax(normal(3, 4, 4, 2, seed=5), LENGTHS)
        given = target.masked_fill(beyond(target, 1, 2), torch.nan)
    else:
        clean = normal(3, 4, 4)
        never = torch.eye(4, dtype=torch.bool)
        never[:, 0] = True
        target = given = HEADS
    dirty = clean.masked_fill(never, torch.nan).masked_fill(beyond(clean, 1, 2), torch.inf)
    found = derivatives(lambda x: loss(kind, reduction="none")(x, given, LENGTHS), [dirty])
    right = derivatives(lambda x: loss(kind, reduction="none")(x, target, LENGTHS), [clean])
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other)


def test_trees_of_other_lengths_are_not_compared():
    scores = normal(3, 4, 4)
    own, other = ms.ProjectiveScores(scores, LENGTHS), ms.ProjectiveScores(scores)
    with pytest.raises(ValueError, match=r"same lengths, got \[4, 2, 3\] and \[4, 4, 4\]"):
        own.kl(other)
    assert own.kl(ms.ProjectiveScores(scores, LENGTHS)).tolist() == [0.0] * 3


# -- CTC -----------------------------------------------------------------------------------------


def test_sparse_ctc_with_a_label_that_is_forbidden():
    scores, targets = normal(2, 4, 4), torch.tensor([[1, 2], [2, 2]])
    forbidden = scores.clone()
    forbidden[:, :, 3] = -torch.inf
    right = derivatives(lambda x: ms.sparse_ctc_loss(x, targets), [scores[:, :, :3]])
    loss, slope = derivatives(lambda x: ms.sparse_ctc_loss(x, targets), [forbidden])
    torch.testing.assert_close(loss, right[0])
    torch.testing.assert_close(slope[:, :, :3], right[1])
    assert not slope[:, :, 3].any()


def test_second_derivatives_leave_out_what_counts_as_0():
    """A target that is too long, one whose label is forbidden, and a position without a label."""
    scores, targets = normal(4, 4, 4), torch.tensor([[1, 1, 1], [1, 2, 3], [1, 2, 3], [3, 1, 2]])
    scores[1, :, 2] = scores[2, 1] = -torch.inf
    found = derivatives(
        lambda x: ms.ctc_loss(x, targets, reduction="sum", zero_infinity=True), [scores]
    )
    right = derivatives(lambda x: ms.ctc_loss(x, targets[3:], reduction="sum"), [scores[3:]])
    torch.testing.assert_close(found[0], right[0])
    for one, other in zip(found[1:], right[1:], strict=True):
        assert not one[:3].any()
        torch.testing.assert_close(one[3:], other)


# -- matchings and plans -------------------------------------------------------------------------


def test_what_a_target_has_beyond_the_lengths_is_not_read():
    scores = normal(3, 4, 4)
    target = torch.eye(4).repeat(3, 1, 1)
    right = ms.matching_loss(scores, target, lengths=LENGTHS)
    dirty = target.masked_fill(beyond(target, 1, 2), torch.nan)
    torch.testing.assert_close(ms.matching_loss(scores, dirty, lengths=LENGTHS), right)
    partners = torch.tensor([[0, 1, 2, 3], [0, 1, -100, -100], [0, 1, 2, 0]])
    torch.testing.assert_close(ms.matching_loss(scores, partners, lengths=LENGTHS), right)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_plans_of_an_empty_batch(reduction):
    x = torch.zeros(0, 3, 3, requires_grad=True)
    a, b = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25])
    for plan in (
        ms.matching(x),
        ms.sinkhorn(x),
        ms.matching(x, 0),
        ms.transport(x, a, b),
        ms.transport(x, a, b, 0),
        ms.partial_transport(x, a, b, 0.5),
    ):
        assert plan.shape == (0, 3, 3)
    loss = ms.matching_loss(x, torch.zeros(0, 3, dtype=torch.int64), reduction=reduction)
    assert loss.sum() == 0
    (slope,) = torch.autograd.grad(loss.sum(), x)
    assert slope.shape == (0, 3, 3)


def test_sums_of_each_matrix_are_infinite_penalties():
    x, strength = normal(2, 3, 4), 0.5
    a, b = normal(2, 3, seed=1).softmax(1), normal(2, 4, seed=2).softmax(1)
    for regularization in ("l2", "kl"):
        plans = ms.unbalanced_transport(x, a, b, torch.inf, strength, regularization)
        for i in range(2):
            alone = ms.transport(x[i], a[i], b[i], strength, regularization)
            torch.testing.assert_close(plans[i], alone)


# -- clouds of points ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_clouds_of_16_bits(dtype):
    x, y = normal(3, 2, dtype=dtype), normal(7, 2, seed=1, dtype=dtype)
    masses = normal(7).softmax(0).float()  # no 16 bits have their sum
    for b in (None, masses):
        plan = ms.sinkhorn_points(x, y, b=b, strength=0.5)
        right = ms.sinkhorn_points(x.double(), y.double(), b=b, strength=0.5)
        assert plan.value.dtype == plan.f.dtype == torch.float32
        assert plan.barycentres().dtype == dtype
        torch.testing.assert_close(plan.value.double(), right.value, rtol=1e-6, atol=1e-6)
    divergence = ms.sinkhorn_divergence(300 * x, 300 * y + 300, strength=0.5)
    assert divergence.dtype == torch.float32
    assert 65504 < divergence < torch.inf  # beyond the numbers of float16


def test_values_of_unbalanced_plans_of_16_bits_are_float32():
    x = torch.full((2, 2), -300.0, dtype=torch.float16)
    value = ms.unbalanced_transport_value(x, torch.full((2,), 300.0), torch.full((2,), 300.0), 1e3)
    assert value.dtype == torch.float32
    assert value.isfinite()


def test_divergence_of_equal_clouds_is_not_negative():
    for seed in range(5):
        x = normal(6, 2, seed=seed).requires_grad_()
        y = x.detach() + 1e-9 * normal(6, 2, seed=9)
        value = ms.sinkhorn_divergence(x, y, strength=0.1)
        assert value >= 0
        assert value.sqrt().isfinite()
    z = normal(4, 2).requires_grad_()
    (slope,) = torch.autograd.grad(
        ms.sinkhorn_divergence(z, z.detach(), strength=0.1), z, create_graph=True
    )
    (bend,) = torch.autograd.grad(slope.square().sum() + slope.sum(), z)
    assert bend.any()  # what is cut off is the value, not its second derivatives


@pytest.mark.filterwarnings("ignore:sinkhorn_points stopped")
@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 10])
def test_gaps_of_few_iterations_are_bounds(iterations):
    x, y = 5 * normal(3, 2), 5 * normal(5, 2, seed=1)
    right = ms.sinkhorn_points(x, y, strength=0.01)
    found = ms.sinkhorn_points(x, y, strength=0.01, max_iter=iterations)
    assert (found.value - right.value).abs() <= found.gap + 1e-9


# -- within torch --------------------------------------------------------------------------------


SQUARES = normal(2, 4, 4, dtype=torch.float32)
EXPORTED = {
    "LinearChain": (
        lambda: ms.LinearChain(3),
        [normal(2, 5, 3, dtype=torch.float32), torch.zeros(2, 5, dtype=torch.int64)],
    ),
    "SoftDTW": (ms.SoftDTW, [normal(2, 5, 2, dtype=torch.float32), SQUARES[:, :, :2]]),
    "ArborescenceLoss": (ms.ArborescenceLoss, [SQUARES, torch.tensor([[0, 0, 1, 2]] * 2)]),
    "ProjectiveLoss": (ms.ProjectiveLoss, [SQUARES, torch.tensor([[0, 0, 1, 2]] * 2)]),
    "MatchingLoss": (ms.MatchingLoss, [SQUARES, torch.tensor([[1, 0, 2, 3]] * 2)]),
    "SparseMAPLoss": (
        lambda: ms.SparseMAPLoss(mx.KSubset(2)),
        [SQUARES[:, 0], torch.tensor([[1.0, 1.0, 0.0, 0.0]] * 2)],
    ),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_exported_batches_vary(name):
    make, inputs = EXPORTED[name]
    layer, batch = make(), torch.export.Dim("batch", min=1, max=64)
    shapes = tuple({0: batch} for _ in inputs)
    program = torch.export.export(layer, tuple(inputs), dynamic_shapes=shapes).module()
    more = [torch.cat([x, x, x[:1]]) for x in inputs]
    torch.testing.assert_close(program(*more), layer(*more))


AUTOCAST = {
    "crf_loss": (
        lambda x, y: ms.crf_loss(x, y, torch.zeros(3, 5, dtype=torch.int64)),
        [(3, 5, 4), (4, 4)],
    ),
    "soft_dtw": (lambda x, y: ms.soft_dtw(x, y), [(3, 5, 12), (3, 6, 12)]),
}


@pytest.mark.parametrize("backend", ["numba", "plain"])
@pytest.mark.parametrize("name", AUTOCAST)
def test_autocast_leaves_values_and_gradients_alone(name, backend):
    function, shapes = AUTOCAST[name]
    leaves = [normal(*shape, dtype=torch.float32).requires_grad_() for shape in shapes]

    def found():
        value = function(*leaves)
        return value, *torch.autograd.grad(value.sum(), leaves)

    with mt.backend(backend):
        right = found()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = found()
    for one, other in zip(cast, right, strict=True):
        torch.testing.assert_close(one, other)


SAMPLERS = {
    "chain": lambda g: ms.chain_sample(torch.zeros(1, 3, 2), torch.zeros(2, 2), generator=g),
    "segment": lambda g: ms.segment_sample(
        torch.zeros(1, 3, 2), torch.zeros(2, 2), torch.zeros(2, 2), generator=g
    ),
    "projective": lambda g: ms.ProjectiveScores(torch.zeros(1, 4, 4)).sample(2, g),
    "domain": lambda g: ms.sample(mx.KSubset(2), torch.zeros(1, 4), 2, g),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_generators(name):
    draw = SAMPLERS[name]
    drawn = [draw(torch.Generator().manual_seed(3)) for _ in range(2)]
    for one, other in zip(*drawn, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(TypeError, match=r"a torch.Generator of the CPU or None, got 3"):
        draw(3)
    generator = torch.Generator()
    with pytest.raises(Exception, match=r"a generator is not for torch\.compile"):
        torch.compile(lambda: draw(generator), backend="aot_eager", fullgraph=True)()


def test_shares_of_quantiles_may_be_a_tensor():
    x = normal(3, 5)
    shares = torch.tensor([0.0, 0.25, 1.0])
    right = torch.quantile(x, shares.double(), dim=1)
    torch.testing.assert_close(ms.soft_quantile(x, shares, strength=0), right)
    torch.testing.assert_close(ms.soft_quantile(x, shares[1], strength=0), right[1])
    torch.testing.assert_close(ms.soft_quantile(x, shares[1].numpy()[()], strength=0), right[1])


# -- refusals ------------------------------------------------------------------------------------


NODES, MOVES, TAGS = torch.zeros(2, 3, 4), torch.zeros(4, 4), torch.zeros(2, 3, dtype=torch.int64)
GRAPHS = torch.zeros(3, 4, 4)
BAD = {
    "start of a list": (
        lambda: ms.chain_log_partition(NODES, MOVES, start=[0.0] * 4),
        "start is a tensor of 4 scores, one per state, got list",
    ),
    "an infinite cost": (
        lambda: ms.chain_hinge_loss(NODES, MOVES, TAGS, cost=torch.inf),
        "cost of a wrong state is a finite number >= 0, got inf",
    ),
    "a cost in words": (
        lambda: ms.chain_hinge_loss(NODES, MOVES, TAGS, cost="1"),
        "cost of a wrong state is a finite number >= 0, got '1'",
    ),
    "no states": (lambda: ms.LinearChain(0), "LinearChain needs an integer n_states >= 1, got 0"),
    "heads turned round": (
        lambda: ms.ArborescenceLoss()(GRAPHS, torch.zeros(4, 3, dtype=torch.int64)),
        r"heads are integers of shape \(3, 4\).*got torch.int64 of shape \(4, 3\)",
    ),
    "projective heads turned round": (
        lambda: ms.ProjectiveLoss()(GRAPHS, torch.zeros(4, 3, dtype=torch.int64)),
        r"heads are integers of shape \(3, 4\).*got torch.int64 of shape \(4, 3\)",
    ),
    "heads in a list": (
        lambda: ms.ArborescenceLoss()(GRAPHS, [[0, 0, 1, 2]] * 3),
        "heads are integers of shape.*got list",
    ),
    "a tree in a list": (
        lambda: ms.ConstituencyLoss()(torch.zeros(1, 2, 2, 1), [1]),
        r"in the shape of the scores \(1, 2, 2, 1\), got list",
    ),
    "a tree of another batch": (
        lambda: ms.ConstituencyLoss()(torch.zeros(2, 2, 2, 1), torch.zeros(1, 2, 2, 2, 1)),
        r"in the shape of the scores \(2, 2, 2, 1\)",
    ),
    "no root": (lambda: ms.ArborescenceLoss(root="one"), "root must be"),
    "no root of marginals": (lambda: ms.ArborescenceMarginals("one"), "root must be"),
    "no projective root": (lambda: ms.ProjectiveLoss(root="one"), "root must be"),
    "no reduction": (lambda: ms.ArborescenceLoss(reduction="avg"), "reduction must be"),
    "no reduction of matchings": (lambda: ms.MatchingLoss(reduction="avg"), "reduction must be"),
    "negative strength": (lambda: ms.Sinkhorn(-1.0), "finite number >= 0, got -1.0"),
    "negative strength of matchings": (lambda: ms.Matching(-1.0), "finite number >= 0, got -1.0"),
    "regularization": (lambda: ms.Matching(1.0, "l1"), "'l2', 'kl', got 'l1'"),
    "k": (lambda: ms.SoftTopK(0), "SoftTopK needs an integer k >= 1, got 0"),
    "gamma": (lambda: ms.SoftDTW(-1.0), "finite number gamma > 0, got -1.0"),
    "band": (lambda: ms.SoftDTW(band=-1), "band is an integer >= 0 or None, got -1"),
    "gamma of a tensor": (
        lambda: ms.soft_dtw(NODES, NODES, torch.tensor(1.0)),
        r"finite number gamma > 0, got tensor\(1.\)",
    ),
    "elements that are no numbers": (
        lambda: ms.soft_dtw(NODES, NODES.index_fill(0, torch.tensor(1), torch.nan)),
        "y of pair 1 has elements that are NaN or infinite",
    ),
    "elements beyond numbers": (
        lambda: ms.soft_dtw(NODES, NODES + 1e20),
        "squared distances of pair 0, over gamma, are beyond the largest numbers of torch.float32",
    ),
    "partners out of range": (
        lambda: ms.matching_loss(torch.zeros(2, 2), torch.tensor([0, 7])),
        r"partners \[0, 7\] of matrix 0 are no matching: each from 0 to 1",
    ),
    "partners twice": (
        lambda: ms.matching_loss(torch.zeros(2, 2), torch.tensor([0, 0])),
        r"partners \[0, 0\] of matrix 0 are no matching",
    ),
    "a target that is no matching": (
        lambda: ms.matching_loss(torch.zeros(2, 2), torch.ones(2, 2)),
        "target of matrix 0 of matching_loss is no plan",
    ),
    "a target that is no plan": (
        lambda: ms.transport_loss(torch.zeros(2, 2), torch.eye(2), [0.5, 0.5], [0.5, 0.5]),
        "target of matrix 0 of transport_loss is no plan",
    ),
    "a target with a gradient": (
        lambda: ms.transport_loss(torch.zeros(2, 2), torch.eye(2).requires_grad_()),
        "pass target.detach",
    ),
    "a target in a list": (
        lambda: ms.matching_loss(torch.zeros(2, 2), [0, 1]),
        "targets of the scores' shape .*got list",
    ),
    "lengths turned round": (
        lambda: ms.matching(torch.zeros(2, 3, 4, 4), lengths=torch.full((3, 2), 2)),
        r"integers of shape \(2, 3\), one per matrix.*got torch.int64 of shape \(3, 2\)",
    ),
    "a mask of another size": (
        lambda: ms.matching(GRAPHS, lengths=torch.ones(3, 5, dtype=torch.bool)),
        r"mask of shape \(3, 4\), got torch.bool of shape \(3, 5\)",
    ),
    "sums for each matrix": (
        lambda: ms.transport(GRAPHS, torch.ones(3, 4), torch.ones(3, 4)),
        "for sums that differ between matrices, see unbalanced_transport",
    ),
    "scores without an entry": (
        lambda: ms.argmax(mx.KSubset(2), torch.zeros(2, 0)),
        r"have the shape \(..., size\), got \(2, 0\)",
    ),
    "no shares": (lambda: ms.soft_quantile(torch.zeros(3), []), "q is a share from 0 to 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_integers_are_refused_by_what_they_are():
    for function in (ms.transport, ms.matching):
        with pytest.raises(TypeError, match=r"got torch.int64 of shape \(2, 2\)"):
            function(torch.zeros(2, 2, dtype=torch.int64))
    with pytest.raises(TypeError, match="needs a tensor of floating scores, got list"):
        ms.arborescence_log_partition([[0.0]])


def test_modules_show_what_they_were_given():
    assert repr(ms.SoftTopK(3)).startswith("SoftTopK(k=3, strength=None")
    assert "reduction='sum'" in repr(ms.MatchingLoss(reduction="sum"))


def test_max_marginals_of_a_sequence_without_a_path():
    nodes = normal(2, 3, 4)
    nodes[1, :2] = -torch.inf
    with pytest.raises(ValueError, match="sequence 1 has no path"):
        ms.chain_max_marginals(nodes, MOVES.double())

"""Torch's maps and layers never leave their set, by no rounding and at no scale of the scores."""

import numpy as np
import pytest

import maxent as mx
from maxent.testing.inside import check_inside, wide_scores
from tools import needs

torch = needs("torch")
import maxent.torch as mt  # noqa: E402
import maxent.torch.structured as mts  # noqa: E402

MAPS = {
    "softmax": (mx.Simplex(), 5, mt.softmax),
    "entmax 1.3": (mx.Simplex(), 5, lambda x: mt.entmax(x, 1.3)),
    "entmax15": (mx.Simplex(), 5, mt.entmax15),
    "sparsemax": (mx.Simplex(), 5, mt.sparsemax),
    "entmax 3": (mx.Simplex(), 5, lambda x: mt.entmax(x, 3.0)),
    "normmax 2": (mx.Simplex(), 5, mt.normmax),
    "normmax inf": (mx.Simplex(), 5, lambda x: mt.normmax(x, float("inf"))),
    "budget": (mx.KSubset(2), 5, lambda x: mt.budget(x, 2)),
    "sparse sigmoid": (mx.Cube(), 4, mt.sparse_sigmoid),
}


def _chain(x):
    """Marginals of three positions and two states, transitions by position, as rows."""
    nodes, edges = x[:, :6].reshape(-1, 3, 2), x[:, 6:].reshape(-1, 2, 2, 2)
    mean, pairs = mts.chain_marginals(nodes, edges)
    return torch.cat([mean.flatten(1), pairs.flatten(1)], 1)


def _tables(function, m, n, *more):
    return lambda x: function(x.reshape(-1, m, n), *(y.to(x.device) for y in more)).flatten(1)


SHARES = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.3, 0.2])
LAYERS = {
    "chain": (mx.Chain(2), 14, _chain),
    "alignment": (mx.Alignment(3, 2), 6, _tables(mts.alignment_marginals, 3, 2)),
    "trees": (mx.Arborescence(), 16, _tables(mts.arborescence_marginals, 4, 4)),
    "projective trees": (mx.ProjectiveTree(), 16, _tables(mts.projective_marginals, 4, 4)),
    "constituents": (
        mx.ConstituencyTree(),
        9,
        lambda x: mts.constituency_marginals(x.reshape(-1, 3, 3, 1)).flatten(1),
    ),
    "sparse trees": (mx.Arborescence(), 9, _tables(mts.arborescence_sparsemap, 3, 3)),
    "matching": (mx.Birkhoff(), 9, _tables(mts.matching, 3, 3)),
    "sinkhorn": (mx.Birkhoff(), 9, _tables(mts.sinkhorn, 3, 3)),
    "transport": (mx.Transport(*SHARES), 6, _tables(mts.transport, 2, 3, *SHARES)),
    "sparsemap": (mx.Chain(2), 8, lambda x: mts.sparsemap(mx.Chain(2), x)),
    "marginals": (mx.KSubset(2), 4, lambda x: mts.marginals(mx.KSubset(2), x)),
    "soft ranks": (mx.Permutahedron([4, 3, 2, 1]), 4, lambda x: mts.soft_rank(x, 1.0)),
    "top k": (mx.KSubset(2), 4, lambda x: mts.soft_topk(x, 2, 1.0)),
}


def _check(domain, size, function, name, device="cpu"):
    def there(x):
        return function(torch.from_numpy(np.array(x)).to(device)).cpu().numpy()

    check_inside(domain, size, there, name)


@pytest.mark.parametrize("backend", ["plain", "numba"])
@pytest.mark.parametrize("name", MAPS)
def test_maps(name, backend):
    with mt.backend(backend):
        _check(*MAPS[name], name)


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        (name, backend)
        for name in LAYERS
        for backend in ("plain", "numba")
        if (name, backend) != ("trees", "plain")  # below
    ],
)
def test_structured_layers(name, backend):
    with mt.backend(backend):
        _check(*LAYERS[name], name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("name", [*MAPS, *(name for name in LAYERS if name != "trees")])
def test_cuda(name):
    _check(*(MAPS | LAYERS)[name], name, "cuda")


@pytest.mark.parametrize("name", ["projective trees", "constituents"])
def test_span_trees_as_devices_sum_them(name, monkeypatch):
    from maxent.torch.structured import _spans

    monkeypatch.setattr(_spans, "_on_device", _spans._recorded)
    _check(*LAYERS[name], name)


def test_trees_in_plain_operations():
    """Their sums over cuts lose digits where scores are large, but no arc leaves [0, 1]."""
    scores = torch.from_numpy(wide_scores(16, 4, np.random.default_rng(0))).reshape(-1, 4, 4)
    with mt.backend("plain"):
        for dtype in (torch.float64, torch.float32):
            p = mts.arborescence_marginals(scores.to(dtype))
            assert bool(((p >= 0) & (p <= 1)).all())
            torch.testing.assert_close(p.sum(1)[:, 1:], torch.ones(len(p), 3, dtype=dtype))

"""Dependency trees for torch: log-partition, marginals, argmax, SparseMAP and their losses.

Scores are (..., n, n) tensors [head, dependent] with node 0 the root, lengths the nodes of each
graph, the root included; see ``maxent.structured.Arborescence``. CPU tensors go to the compiled
kernels. On CUDA log-partitions and marginals are computed on the device; argmax, projections and
second derivatives take a round trip through the CPU. Scores that leave no tree are refused, but on
CUDA, where looking would wait for the device, log-partition and marginals of such a graph are NaN.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from maxent.rows.arrays import Ragged, Rows
from maxent.structured.trees.arborescence import Arborescence
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import compute_type
from maxent.torch.maps.losses import check_reduction
from maxent.torch.structured import _arborescence_plain
from maxent.torch.structured._arborescence_third import third_cumulant
from maxent.torch.structured._lengths import (
    check_cost,
    check_heads,
    check_lengths,
    check_root,
    described,
)
from torch import Tensor, nn

Root = Literal["single", "multi"]


def arborescence_log_partition(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """log of the sum of `exp(score)` over all trees; its gradient is the marginals.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> scores = torch.zeros(2, 4, 4)
    >>> arborescence_log_partition(scores, torch.tensor([4, 3])).exp()  # 3^2 and 2 trees
    tensor([9., 2.])
    """
    rows, lengths = _prepare(scores, lengths, "arborescence_log_partition")
    return _point(rows, lengths, "softmax", root)[0].reshape(scores.shape[:-2])


def arborescence_marginals(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The probability of each arc; 0 on the diagonal, in column 0 and beyond the lengths.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> arborescence_marginals(torch.zeros(3, 3))
    tensor([[0.0000, 0.5000, 0.5000],
            [0.0000, 0.0000, 0.5000],
            [0.0000, 0.5000, 0.0000]])
    """
    rows, lengths = _prepare(scores, lengths, "arborescence_marginals")
    return _point(rows, lengths, "softmax", root)[1].to(scores.dtype).reshape(scores.shape)


def arborescence_sparsemap(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The nearest point to the scores in the convex hull of the trees: a mean of few of them.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> arborescence_sparsemap(torch.tensor([[0.0, 0.0, 0.4], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    tensor([[0.0000, 0.4000, 0.6000],
            [0.0000, 0.0000, 0.4000],
            [0.0000, 0.6000, 0.0000]])
    """
    rows, lengths = _prepare(scores, lengths, "arborescence_sparsemap")
    return _point(rows, lengths, "project", root)[1].to(scores.dtype).reshape(scores.shape)


def arborescence_argmax(
    scores: Tensor, lengths: Tensor | None = None, root: Root = "single"
) -> Tensor:
    """The heads (..., n) of the best tree; 0 for the root itself and beyond the lengths.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.

    Examples
    --------
    >>> import torch
    >>> arborescence_argmax(torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    tensor([0, 2, 0])
    """
    rows, lengths = _prepare(scores, lengths, "arborescence_argmax")
    best: Tensor = _Best.apply(rows.detach(), lengths, root)
    return best.argmax(dim=1).reshape(scores.shape[:-1])


def arborescence_crf_loss(
    scores: Tensor,
    heads: Tensor,
    lengths: Tensor | None = None,
    root: Root = "single",
    reduction: str = "mean",
) -> Tensor:
    """`log Z - <scores, y>`: the negative log-likelihood of the tree with these heads (..., n).

    The gradient is the marginals less the tree.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    heads : int tensor (..., n)
        Head of each node; the entries of the root and beyond the lengths are not read.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.

    Examples
    --------
    >>> import torch
    >>> arborescence_crf_loss(torch.zeros(1, 3, 3), torch.tensor([[0, 0, 1]])).exp()
    tensor(2.)
    """
    return _loss(scores, heads, lengths, root, reduction, "softmax")


def arborescence_sparsemap_loss(
    scores: Tensor,
    heads: Tensor,
    lengths: Tensor | None = None,
    root: Root = "single",
    reduction: str = "mean",
) -> Tensor:
    """`max_p <scores, p> - ||p||^2 / 2`, less the same of the tree: 0 with a margin of 1.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    heads : int tensor (..., n)
        Head of each node; the entries of the root and beyond the lengths are not read.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.

    Examples
    --------
    >>> import torch
    >>> scores = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    >>> arborescence_sparsemap_loss(scores, torch.tensor([[0, 0, 1]]))
    tensor(0.)
    """
    return _loss(scores, heads, lengths, root, reduction, "project")


def arborescence_hinge_loss(
    scores: Tensor,
    heads: Tensor,
    lengths: Tensor | None = None,
    root: Root = "single",
    reduction: str = "mean",
    cost: float = 1.0,
) -> Tensor:
    """`max_v <scores, v - y> + cost` (wrong heads of v); cost 0 is the perceptron's loss.

    Parameters
    ----------
    scores : tensor (..., n, n)
        Scores of the arcs [head, dependent]; node 0 is the root.
    heads : int tensor (..., n)
        Head of each node; the entries of the root and beyond the lengths are not read.
    lengths : int tensor (...) or bool tensor (..., n), default None
        Nodes of each tree, the root included, or a mask of them; None is n for all.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.
    cost : float, default 1.0
        Cost of each wrong head; 0 is the perceptron's loss.

    Examples
    --------
    >>> import torch
    >>> arborescence_hinge_loss(torch.zeros(1, 3, 3), torch.tensor([[0, 0, 1]]))
    tensor(2.)
    """
    rows, lengths = _prepare(scores, lengths, "arborescence_hinge_loss")
    gold = _gold(rows, heads, lengths, root, tuple(scores.shape[:-2]))
    check_cost(cost, "head")
    augmented = (rows.detach().double() + cost) - cost * gold
    wrong = _Best.apply(augmented, lengths, root) - gold
    loss = _inner(rows.double(), wrong) + cost * wrong.clamp_min(0).sum((1, 2))
    return _reduce(loss.to(rows.dtype), reduction, scores.shape[:-2])


class ArborescenceMarginals(nn.Module):
    """``arborescence_marginals`` as a layer.

    Parameters
    ----------
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    """

    def __init__(self, root: Root = "single") -> None:
        super().__init__()
        check_root(root)
        self.root: Root = root

    def forward(self, scores: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Marginals of scores (..., n, n)."""
        return arborescence_marginals(scores, lengths, self.root)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        return f"root={self.root!r}"


class ArborescenceLoss(nn.Module):
    """The loss of a tree, by name: "crf", "sparsemap", "hinge" or "perceptron".

    Parameters
    ----------
    kind : "crf", "sparsemap", "hinge" or "perceptron", default "crf"
        Which loss.
    root : "single" or "multi", default "single"
        With "single" the root has exactly one dependent, with "multi" any number from one on.
    reduction : "mean", "sum" or "none", default "mean"
        "mean" is over the trees.
    cost : float, default None
        Cost of each wrong head, for "hinge" alone; None is 1.

    Examples
    --------
    >>> import torch
    >>> loss = ArborescenceLoss("hinge", root="multi", cost=0.5)
    >>> loss(torch.zeros(1, 3, 3), torch.tensor([[0, 0, 1]]))
    tensor(1.)
    """

    def __init__(
        self,
        kind: Literal["crf", "sparsemap", "hinge", "perceptron"] = "crf",
        root: Root = "single",
        reduction: str = "mean",
        cost: float | None = None,
    ) -> None:
        super().__init__()
        if kind not in ("crf", "sparsemap", "hinge", "perceptron"):
            raise ValueError(
                f'kind must be "crf", "sparsemap", "hinge" or "perceptron", got {kind!r}'
            )
        check_root(root)
        check_reduction(reduction)
        if cost is not None:
            if kind != "hinge":
                raise ValueError(f'cost is that of a wrong head in "hinge", not in {kind!r}')
            check_cost(cost, "head")
        self.kind, self.root, self.reduction, self.cost = kind, root, reduction, cost

    def forward(self, scores: Tensor, heads: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The loss of the trees with these heads (..., n)."""
        if self.kind == "crf":
            return arborescence_crf_loss(scores, heads, lengths, self.root, self.reduction)
        if self.kind == "sparsemap":
            return arborescence_sparsemap_loss(scores, heads, lengths, self.root, self.reduction)
        cost = 0.0 if self.kind == "perceptron" else 1.0 if self.cost is None else self.cost
        return arborescence_hinge_loss(scores, heads, lengths, self.root, self.reduction, cost)

    def extra_repr(self) -> str:
        """What ``repr`` shows."""
        shown = f"kind={self.kind!r}, root={self.root!r}, reduction={self.reduction!r}"
        return shown if self.cost is None else f"{shown}, cost={self.cost}"


# --- input --------------------------------------------------------------------------------


def _prepare(scores: Tensor, lengths: Tensor | None, name: str) -> tuple[Tensor, Tensor | None]:
    """Scores (batch, n, n), 0 where there is no arc, and lengths (batch,), checked."""
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise TypeError(f"{name} needs a tensor of floating scores, got {described(scores)}")
    if scores.ndim < 2 or scores.shape[-1] != scores.shape[-2] or scores.shape[-1] == 0:
        raise ValueError(
            f"{name} needs scores of shape (..., n, n), [head, dependent] with the root first, "
            f"got {tuple(scores.shape)}"
        )
    rows = scores.reshape(-1, *scores.shape[-2:]).to(compute_type(scores))
    shape, n = tuple(scores.shape[:-2]), scores.shape[-1]
    place = torch.arange(n, device=rows.device)
    arcs = (place[:, None] != place) & (place > 0)  # the others may be anything, NaN as well
    if lengths is None:
        return torch.where(arcs, rows, 0.0), None
    lengths = torch.as_tensor(lengths)
    masked = lengths.dtype == torch.bool
    if lengths.is_floating_point() or tuple(lengths.shape) != ((*shape, n) if masked else shape):
        raise ValueError(
            f"lengths are integers of shape {shape}, one per graph, or a bool mask of shape "
            f"{(*shape, n)}, got {described(lengths)}"
        )
    given = lengths.reshape(-1, n) if masked else lengths.reshape(-1)
    counts = check_lengths(given, rows, n, 1, "the nodes, the root included")
    return torch.where(arcs & _arborescence_plain._inside(counts, n), rows, 0.0), counts


def _gold(
    rows: Tensor, heads: Tensor, lengths: Tensor | None, root: Root, shape: tuple[int, ...]
) -> Tensor:
    """The vertices (batch, n, n) in float64 of heads (..., n), which must be trees."""
    batch, n, _ = rows.shape
    check_heads(heads, shape, n)
    gold: Tensor = _Trees.apply(heads.reshape(batch, n).to(rows.device), lengths, root)
    return gold


class _Trees(Operation, name="arborescence_trees"):
    """Heads (batch, n) as vertices in float64; on the CPU, what is no tree is refused."""

    @staticmethod
    def run(heads: Tensor, lengths: Tensor | None, root: str) -> Tensor:
        batch, n = heads.shape
        places = torch.arange(n, device=heads.device)
        real = (places >= 1).expand(batch, n)
        if lengths is not None:
            real = real & (places < lengths[:, None])
        heads = torch.where(real, heads.to(torch.int64), 0)
        if heads.device.type == "cpu":
            _check_trees(heads, real, lengths, root)
        gold = torch.zeros((batch, n, n), dtype=torch.float64, device=heads.device)
        return gold.scatter_(1, heads[:, None, :], real[:, None, :].double())

    @staticmethod
    def fake(heads: Tensor, lengths: Tensor | None, root: str) -> Tensor:
        batch, n = heads.shape
        return heads.new_empty(batch, n, n, dtype=torch.float64)


def _check_trees(heads: Tensor, real: Tensor, lengths: Tensor | None, root: str) -> None:
    n = heads.shape[1]
    limit = heads.new_full((len(heads),), n) if lengths is None else lengths
    at = heads.clamp(0, n - 1)
    right = (heads >= 0) & (heads < limit[:, None])
    for _ in range(n.bit_length()):  # twice as many steps towards the root each time
        at = at.gather(1, at)
    right &= at == 0
    wrong = ~right.all(dim=1)
    if root == "single":
        wrong |= ((heads == 0) & real).sum(dim=1) != real.any(dim=1).long()
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"the heads {heads[row][real[row]].tolist()} of graph {row} are no tree with "
            f"root={root!r}: every node must lead to 0"
            + (", which has one dependent" if root == "single" else "")
        )


def _pack(rows: Tensor, lengths: Tensor | None) -> Rows:
    """Rows of the core: a view of all, or the used entries as a Ragged."""
    table = rows.detach().to("cpu")
    if lengths is None:
        if table.dtype not in (torch.float32, torch.float64):
            table = table.float()
        return table.contiguous().numpy().reshape(len(table), rows.shape[1] ** 2)
    inside = _arborescence_plain._inside(lengths.to("cpu"), rows.shape[1])
    sizes = lengths.to("cpu").long() ** 2
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    values = table[inside]
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    return Ragged(values.numpy(), offsets.numpy())


def _unpack(result: Rows, rows: Tensor, lengths: Tensor | None) -> Tensor:
    """Rows of the core as a tensor like ``rows``, 0 beyond the lengths."""
    if not isinstance(result, Ragged):
        return torch.from_numpy(result).reshape(rows.shape).to(rows.device, rows.dtype)
    assert lengths is not None
    out = torch.zeros(rows.shape, dtype=rows.dtype)
    inside = _arborescence_plain._inside(lengths.to("cpu"), rows.shape[1])
    out[inside] = torch.from_numpy(result.values).to(rows.dtype)
    return out.to(rows.device)


# --- autograd -----------------------------------------------------------------------------
# kind "softmax": the value is log Z, the map its gradient, the marginals; kind "project": the
# value is max_p <scores, p> - ||p||^2 / 2, the map the projection. Jacobians are symmetric.


def _inner(x: Tensor, y: Tensor) -> Tensor:
    """<x, y> of each graph; an arc that y does not use counts 0, also where x is -inf."""
    return torch.where(y != 0, x * y, 0.0).sum((1, 2))


def _compute(rows: Tensor, lengths: Tensor | None, kind: str, root: str) -> tuple[Tensor, Tensor]:
    """The value in float64 and the map."""
    domain = _domain(root)
    if kind == "softmax" and rows.device.type != "cpu":
        value, p = _arborescence_plain.softmax(rows.detach(), lengths, root == "single")
        return value, p.to(rows.dtype)
    if kind == "softmax":
        log_partition, mean = domain.softmax(_pack(rows, lengths))
        return torch.from_numpy(log_partition), _unpack(mean, rows, lengths)
    p = _unpack(domain.project(_pack(rows, lengths)), rows, lengths)
    exact = p.double()
    return _inner(rows.detach().double(), exact) - (exact * exact).sum((1, 2)) / 2, p


def _domain(root: Any) -> Arborescence:
    return Arborescence(root=root)


class _Best(Operation, name="arborescence_best"):
    """The vertices of the best trees."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor | None, root: str) -> Tensor:
        return _unpack(_domain(root).argmax(_pack(rows, lengths)), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor | None, root: str) -> Tensor:
        return rows.new_empty(rows.shape)


class _Point(Operation, name="arborescence_point"):
    """The value and the map, which is its gradient."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor | None, kind: str, root: str) -> tuple[Tensor, Tensor]:
        value, p = _compute(rows, lengths, kind, root)
        return value.to(rows.dtype), p

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor | None, kind: str, root: str) -> tuple[Tensor, Tensor]:
        return rows.new_empty(rows.shape[0]), rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        rows, lengths, ctx.kind, ctx.root = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows, lengths, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, g_map: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, lengths, p = ctx.saved_tensors
        slope = None if g is None else g[:, None, None] * p
        if g_map is not None:
            more = _Derivative.apply(rows, p, g_map, lengths, ctx.kind, ctx.root)
            slope = more if slope is None else slope + more
        return slope, None, None, None


class _Derivative(Operation, name="arborescence_derivative"):
    """The Jacobian of the map times v."""

    @staticmethod
    def run(
        rows: Tensor, p: Tensor, v: Tensor, lengths: Tensor | None, kind: str, root: str
    ) -> Tensor:
        domain = _domain(root)
        theta, point, tangent = (_pack(x.double(), lengths) for x in (rows, p, v))
        jvp = domain.softmax_jvp if kind == "softmax" else domain.project_jvp
        return _unpack(jvp(theta, point, tangent), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, p: Tensor, v: Tensor, *_: Any) -> Tensor:
        return rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        rows, p, v, lengths, ctx.kind, ctx.root = inputs
        ctx.save_for_backward(rows, p, v, lengths, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        rows, p, v, lengths, product = ctx.saved_tensors
        third = None
        if ctx.kind == "softmax" and ctx.needs_input_grad[0]:
            third = third_cumulant(rows, lengths, ctx.root == "single", v, g, product)
        through = _Derivative.apply(rows, p, g, lengths, ctx.kind, ctx.root)
        return third, None, through, None, None, None


def _point(rows: Tensor, lengths: Tensor | None, kind: str, root: Root) -> tuple[Tensor, Tensor]:
    both: tuple[Tensor, Tensor] = _Point.apply(rows, lengths, kind, root)
    return both


def _loss(
    scores: Tensor,
    heads: Tensor,
    lengths: Tensor | None,
    root: Root,
    reduction: str,
    kind: str,
) -> Tensor:
    rows, lengths = _prepare(scores, lengths, "the loss of a tree")
    gold = _gold(rows, heads, lengths, root, tuple(scores.shape[:-2]))
    exact = rows.double()  # log Z and the score of a tree may be large and close
    loss = _point(exact, lengths, kind, root)[0] - _inner(exact, gold)
    if kind == "project":
        loss = loss + gold.sum((1, 2)) / 2
    return _reduce(loss.to(rows.dtype), reduction, scores.shape[:-2])


def _reduce(loss: Tensor, reduction: str, shape: torch.Size) -> Tensor:
    check_reduction(reduction)
    if reduction == "none":
        return loss.reshape(shape)
    return loss.sum() if reduction == "sum" else loss.sum() / max(1, loss.shape[0])

"""Trees put together from spans, for torch: the operations on rows of scores.

Rows are (B, n, n, labels), lengths (B,), ``kind`` says which trees: projective with a "single" or
"multi" root, or "binary". CPU tensors go to the compiled charts of ``maxent.structured``. On CUDA
log-partitions and marginals have Triton kernels, their derivatives are torch operations; searches
and projections take a round trip. Scores that leave no tree are refused, but on CUDA, where looking
would wait for the device, log-partition and marginals of such a tree are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import torch
from maxent.rows.arrays import Ragged, Rows
from maxent.structured.trees.constituency import ConstituencyTree
from maxent.structured.trees.projective import ProjectiveTree
from maxent.structured.trees.spans import SpanDomain
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import backend_of
from maxent.torch.structured._spans_plain import (
    constituency_log_partition,
    dependency_log_partition,
)
from torch import Tensor


def domain_of(rows: Tensor, kind: str) -> SpanDomain:
    """The core's domain."""
    if kind == "binary":
        return ConstituencyTree(rows.shape[3])
    return ProjectiveTree(root="single" if kind == "single" else "multi")


def inside(lengths: Tensor, n: int) -> Tensor:
    """Which cells (B, n, n) are between nodes of the tree."""
    real = torch.arange(n, device=lengths.device) < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


def cells(lengths: Tensor, n: int, kind: str) -> Tensor:
    """Which cells (B, n, n, 1) trees may have."""
    first, last = torch.meshgrid(*[torch.arange(n, device=lengths.device)] * 2, indexing="ij")
    own = first <= last if kind == "binary" else (first != last) & (last > 0)
    return (inside(lengths, n) & own)[..., None]


def pack(table: Tensor, lengths: Tensor) -> Rows:
    """Rows of the core: a view of all, or the used entries as a Ragged."""
    n = table.shape[1]
    values, counts = table.detach().cpu().contiguous(), lengths.cpu()
    if bool((counts == n).all()):
        return values.flatten(1).numpy()
    sizes = counts**2 * table.shape[3]
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return Ragged(values[inside(counts, n)].reshape(-1).numpy(), offsets.numpy())


def unpack(result: Rows, like: Tensor, lengths: Tensor) -> Tensor:
    """Rows of the core as a tensor (B, n, n, labels), 0 beyond the lengths."""
    if not isinstance(result, Ragged):
        return torch.from_numpy(np.asarray(result)).reshape(like.shape).to(like)
    out = torch.zeros(like.shape, dtype=like.dtype)
    values = torch.from_numpy(result.values).to(like.dtype)
    out[inside(lengths.cpu(), like.shape[1])] = values.reshape(-1, like.shape[3])
    return out.to(like.device)


class Softmax(Operation, name="span_trees_softmax"):
    """Log-partitions and marginals: the second are the gradient of the first."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, kind: str) -> tuple[Tensor, Tensor]:
        on_triton = backend_of(rows) == "triton"
        if on_triton or _on_device(rows):
            value, mean = (_by_triton if on_triton else _by_autograd)(rows, lengths, kind)
            return value.to(rows.dtype), _within(mean, lengths, kind).to(rows.dtype)
        log_partition, p = domain_of(rows, kind).softmax(pack(rows, lengths))
        return torch.from_numpy(log_partition).to(rows), unpack(p, rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, kind: str) -> tuple[Tensor, Tensor]:
        return rows.new_empty(rows.shape[0]), rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.kind = inputs[2]
        ctx.save_for_backward(*inputs[:2], output[1])

    @staticmethod
    def backward(
        ctx: Any, g: Tensor | None, g_mean: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        rows, lengths, mean = ctx.saved_tensors
        d_rows = None if g is None else g[:, None, None, None] * mean
        if g_mean is not None:
            more = Covariance.apply(rows, lengths, g_mean, ctx.kind)
            d_rows = more if d_rows is None else d_rows + more
        return d_rows, None, None


class Covariance(Operation, name="span_trees_covariance"):
    """The covariance of the tree times v: symmetric and linear in v."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, v: Tensor, kind: str) -> Tensor:
        if _on_device(rows):
            return derivatives(rows, lengths, kind, [v])[1][1].to(rows.dtype)
        theta, along = pack(rows, lengths), pack(v.to(rows.dtype), lengths)
        return unpack(domain_of(rows, kind).softmax_jvp(theta, theta, along), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, v: Tensor, kind: str) -> Tensor:
        return rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.kind = inputs[3]
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, None, Tensor, None]:
        rows, lengths, v = ctx.saved_tensors
        third = None
        if ctx.needs_input_grad[0]:
            third = _ThirdCumulant.apply(rows, lengths, v, g, ctx.kind)
        return third, None, Covariance.apply(rows, lengths, g, ctx.kind), None


class _ThirdCumulant(Operation, name="span_trees_third_cumulant"):
    """The derivative of the covariance times v, along u."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, v: Tensor, u: Tensor, kind: str) -> Tensor:
        if not _recorded(rows):
            raise NotImplementedError(
                "second derivatives of marginals are not there inside of torch.compile; take them "
                "outside"
            )
        return derivatives(rows, lengths, kind, [v, u])[1][2].to(rows.dtype)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, v: Tensor, u: Tensor, kind: str) -> Tensor:
        return rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None, None, None]:
        raise NotImplementedError(
            "fourth derivatives of a log-partition are not there: third ones are the last (detach "
            "the scores in what is differentiated a fourth time)"
        )


def _on_device(rows: Tensor) -> bool:
    return rows.device.type != "cpu" and _recorded(rows)


def _recorded(rows: Tensor) -> bool:
    """Whether autograd follows what is done here: not below an operator of torch's library."""
    with torch.enable_grad():
        return (rows.detach()[:0].requires_grad_() * 1).requires_grad


def _by_triton(rows: Tensor, lengths: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Log-partitions and marginals by kernels of their own."""
    from maxent.torch.structured import _spans_triton

    scores = rows.detach().double()
    if kind != "binary":
        arcs = scores[..., 0].contiguous()
        value, mean = _spans_triton.dependency(arcs, lengths, kind == "single")
        return value, mean[..., None]
    total = scores.logsumexp(3)
    value, mean = _spans_triton.constituency(total, lengths)
    share = scores - torch.where(total > -torch.inf, total, 0.0)[..., None]
    return value, torch.where(mean[..., None] != 0, share.exp() * mean[..., None], 0.0)


def _by_autograd(rows: Tensor, lengths: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """The same by torch operations that autograd follows."""
    value, (mean,) = derivatives(rows, lengths, kind, [])
    return value, mean


def _within(mean: Tensor, lengths: Tensor, kind: str) -> Tensor:
    """Marginals whose sums over heads, or over the labels of what every tree has, are 1 exactly."""
    mean = mean.double().clamp(0, 1)
    if kind == "binary":
        first, last = torch.meshgrid(
            *[torch.arange(mean.shape[1], device=mean.device)] * 2, indexing="ij"
        )
        whole = (first == 0) & (last == lengths[:, None, None] - 1)
        sums, known = mean.sum(3, keepdim=True), ((first == last) | whole)[..., None]
    else:
        sums, known = mean.sum(1, keepdim=True), torch.ones_like(mean[:, :1], dtype=torch.bool)
    return torch.where(known & (sums > 0), mean / sums, mean).clamp(0, 1)


def derivatives(
    rows: Tensor, lengths: Tensor, kind: str, along: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The log-partition, its gradient, and the gradients of each one's product with a v.

    By sums in plain operations that autograd follows, in float64.
    """
    with torch.enable_grad():
        scores = rows.detach().requires_grad_()
        if kind == "binary":
            value = constituency_log_partition(scores, lengths)
        else:
            value = dependency_log_partition(scores[..., 0], lengths, kind == "single")
        slopes, sums = [], value.sum()
        for place in range(len(along) + 1):
            last = place == len(along)
            (slope,) = torch.autograd.grad(sums, scores, create_graph=not last)
            slopes.append(slope.detach())
            if not last:
                sums = (slope * along[place]).sum()
    missing = value.detach().isnan()[:, None, None, None]
    return value.detach(), [slope.masked_fill(missing, torch.nan) for slope in slopes]


class Project(Operation, name="span_trees_project"):
    """The nearest points; the derivative is that of the face."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, kind: str) -> Tensor:
        return unpack(domain_of(rows, kind).project(pack(rows, lengths)), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, kind: str) -> Tensor:
        return rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.kind = inputs[2]
        ctx.save_for_backward(*inputs[:2], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        rows, lengths, p = ctx.saved_tensors
        return _WithinFace.apply(rows, lengths, p, g, ctx.kind), None, None


class _WithinFace(Operation, name="span_trees_within_face"):
    """v projected on the directions of the face of p: symmetric, linear, itself without slope."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, p: Tensor, v: Tensor, kind: str) -> Tensor:
        given = (pack(x.to(rows.dtype), lengths) for x in (rows, p, v))
        return unpack(domain_of(rows, kind).project_jvp(*given), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, p: Tensor, v: Tensor, kind: str) -> Tensor:
        return rows.new_empty(rows.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.kind = inputs[4]
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None, Tensor, None]:
        return None, None, None, _WithinFace.apply(*ctx.saved_tensors, g, ctx.kind), None


class SparseLoss(Operation, name="span_trees_sparse_loss"):
    """`(|theta - y|^2 - |theta - p|^2) / 2` given the nearest points p; its slope is p - y."""

    @staticmethod
    def run(rows: Tensor, p: Tensor, gold: Tensor) -> Tensor:
        # where theta is -inf both points are 0
        apart = torch.where(p == gold, 0.0, (p - gold) * (rows - (p + gold) / 2))
        return apart.sum((1, 2, 3)).clamp_min(0)

    @staticmethod
    def fake(rows: Tensor, p: Tensor, gold: Tensor) -> Tensor:
        return rows.new_empty(rows.shape[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        p, gold = ctx.saved_tensors
        return g[:, None, None, None] * (p - gold), None, None


class Best(Operation, name="span_trees_best"):
    """The best trees, as zeros and ones."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, kind: str) -> Tensor:
        return unpack(domain_of(rows, kind).argmax(pack(rows, lengths)), rows, lengths)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, kind: str) -> Tensor:
        return rows.new_empty(rows.shape)


class KBest(Operation, name="span_trees_kbest"):
    """Scores (B, k) of the k best trees, falling, and the trees (B, k, n, n, labels)."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, k: int, kind: str) -> tuple[Tensor, Tensor]:
        values, batches = domain_of(rows, kind).kbest(pack(rows, lengths), k)
        trees = torch.stack([unpack(batch, rows, lengths) for batch in batches], 1)
        return torch.from_numpy(values).to(rows), trees

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, k: int, kind: str) -> tuple[Tensor, Tensor]:
        batch, *tree = rows.shape
        return rows.new_empty(batch, k), rows.new_empty(batch, k, *tree)


class Sample(Operation, name="span_trees_sample"):
    """Trees (B, samples, n, n, labels) by uniform numbers (B, samples, 4 n)."""

    @staticmethod
    def run(rows: Tensor, lengths: Tensor, uniform: Tensor, kind: str) -> Tensor:
        used = [row[:, : 4 * int(n)].cpu() for row, n in zip(uniform, lengths, strict=True)]
        numbers = torch.cat([uniform.new_empty(uniform.shape[1], 0).cpu(), *used], 1)
        drawn = domain_of(rows, kind).drawn(pack(rows, lengths), numbers.contiguous().numpy())
        return torch.stack([unpack(batch, rows, lengths) for batch in drawn], 1)

    @staticmethod
    def fake(rows: Tensor, lengths: Tensor, uniform: Tensor, kind: str) -> Tensor:
        batch, *tree = rows.shape
        return rows.new_empty(batch, uniform.shape[1], *tree)


class Checked(Operation, name="span_trees_checked"):
    """Zeros and ones that are trees, 0 beyond the lengths; refused on the CPU where they are none.

    Each is the best tree where its own cells score.
    """

    @staticmethod
    def run(marks: Tensor, lengths: Tensor, kind: str, what: str) -> Tensor:
        there = inside(lengths, marks.shape[1])[..., None]
        kept = torch.where(there, marks.double(), 0.0)
        if marks.device.type != "cpu":
            return kept
        domain = domain_of(marks, kind)
        best = unpack(domain.argmax(pack(2 * kept - 1, lengths)), kept, lengths)
        wrong = (best != kept).flatten(1).any(1).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"{what} of row {row} (of length {int(lengths[row])}) are no tree of {domain}"
            )
        return kept

    @staticmethod
    def fake(marks: Tensor, lengths: Tensor, kind: str, what: str) -> Tensor:
        return marks.new_empty(marks.shape, dtype=torch.float64)


class Heads(Operation, name="span_trees_heads"):
    """Heads (B, n) as zeros and ones (B, n, n, 1), 0 beyond the lengths."""

    @staticmethod
    def run(heads: Tensor, lengths: Tensor) -> Tensor:
        batch, n = heads.shape
        place = torch.arange(n, device=heads.device)
        real = (place < lengths[:, None]) & (place > 0)
        heads = torch.where(real, heads, 0)
        if heads.device.type != "cpu":
            heads = heads.clamp(0, n - 1)
        elif bool(((heads < 0) | (heads >= n)).any()):
            low, high = int(heads.min()), int(heads.max())
            raise ValueError(f"heads run from 0, the root, to {n - 1}, got {low} to {high}")
        marks = torch.zeros(batch, n, n, dtype=torch.float64, device=heads.device)
        marks.scatter_(1, heads[:, None, :].long(), real[:, None, :].double())
        return marks[..., None]

    @staticmethod
    def fake(heads: Tensor, lengths: Tensor) -> Tensor:
        batch, n = heads.shape
        return heads.new_empty(batch, n, n, 1, dtype=torch.float64)

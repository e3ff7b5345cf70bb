"""Operations on alignments of CTC: engines for the CPU and for CUDA, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

import torch
from maxent._support.threads import over_rows
from maxent.core.domains.active_set import Support
from maxent.rows.arrays import Array
from maxent.structured.paths.automaton import Automaton
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import backend_of
from torch import Tensor


class Sums(Operation, name="ctc_sums"):
    """Log-partitions over alignments and probabilities of labels, which are their gradient."""

    @staticmethod
    def run(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> tuple[Tensor, Tensor]:
        given = [x.detach().contiguous() for x in (scores, targets, lengths, sizes)]
        if backend_of(scores) != "numba":
            return _plain(given[0], given[1], given[2], given[3], blank)
        _check_scores(scores, lengths)
        value, mean = scores.new_empty(scores.shape[0]), torch.zeros_like(given[0])
        from maxent.structured.paths.kernels.ctc import ctc_rows

        _over_rows(ctc_rows, given, blank, value, mean)
        return value, mean.clamp_(max=1.0)

    @staticmethod
    def fake(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> tuple[Tensor, Tensor]:
        return scores.new_empty(scores.shape[0]), scores.new_empty(scores.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.blank = inputs[4]
        ctx.save_for_backward(*inputs[:4], output[1])

    @staticmethod
    def backward(
        ctx: Any, g: Tensor | None, g_mean: Tensor | None
    ) -> tuple[Tensor | None, None, None, None, None]:
        *given, mean = ctx.saved_tensors
        slope = None if g is None else g[:, None, None] * mean
        if g_mean is not None:
            more = _Covariance.apply(*given, g_mean, ctx.blank)
            slope = more if slope is None else slope + more
        return slope, None, None, None, None


class _Covariance(Operation, name="ctc_covariance"):
    """The covariance of the alignment times v, by the automaton of each target, on the CPU."""

    @staticmethod
    def run(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, v: Tensor, blank: int
    ) -> Tensor:
        out = torch.zeros(scores.shape, dtype=scores.dtype)
        along = v.detach().cpu().numpy()
        for row, (domain, theta, columns) in enumerate(
            _rows(scores, targets, lengths, sizes, blank)
        ):
            cut = along[row, : len(theta)][:, columns]
            slope = domain.softmax_jvp(theta.reshape(1, -1), None, cut.reshape(1, -1))
            found = torch.from_numpy(np.asarray(slope).reshape(theta.shape))
            out[row, : len(theta)][:, columns] = found.to(scores.dtype)
        return out.to(scores.device)

    @staticmethod
    def fake(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, v: Tensor, blank: int
    ) -> Tensor:
        return scores.new_empty(scores.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.blank = inputs[5]
        ctx.save_for_backward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, None, None, None, Tensor, None]:
        if ctx.needs_input_grad[0]:
            raise NotImplementedError(
                "third derivatives of CTC are not there: second ones are the last (detach the "
                "scores in what is differentiated a third time)"
            )
        return None, None, None, None, _Covariance.apply(*ctx.saved_tensors, g, ctx.blank), None


class Best(Operation, name="ctc_best"):
    """Best alignments (B, T), by the compiled programme."""

    @staticmethod
    def run(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> tuple[Tensor, Tensor]:
        from maxent.structured.paths.kernels.ctc import ctc_best_rows

        given = [x.detach().cpu().contiguous() for x in (scores, targets, lengths, sizes)]
        _check_scores(given[0], given[2])
        value = given[0].new_empty(scores.shape[0])
        label = torch.zeros(scores.shape[:2], dtype=torch.int64)
        _over_rows(ctc_best_rows, given, blank, value, label)
        return value.to(scores.device), label.to(scores.device)

    @staticmethod
    def fake(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> tuple[Tensor, Tensor]:
        labels = scores.new_empty(scores.shape[:2], dtype=torch.int64)
        return scores.new_empty(scores.shape[0]), labels


class Sparse(Operation, name="ctc_sparse"):
    """The mean alignments nearest to scores: a mixture of few, found on the CPU."""

    @staticmethod
    def run(scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int) -> Tensor:
        out = torch.zeros(scores.shape, dtype=scores.dtype)
        for row, (domain, theta, columns) in enumerate(
            _rows(scores, targets, lengths, sizes, blank)
        ):
            p = torch.from_numpy(np.asarray(domain.project(theta.ravel())).reshape(theta.shape))
            out[row, : len(theta)][:, columns] = p.to(scores.dtype)
        return out.to(scores.device)

    @staticmethod
    def fake(scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int) -> Tensor:
        return scores.new_empty(scores.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.blank = inputs[4]
        ctx.save_for_backward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None, None, None]:
        return _SparseTangent.apply(g, *ctx.saved_tensors, ctx.blank), None, None, None, None


class _SparseTangent(Operation, name="ctc_sparse_tangent"):
    """The part of v along the face of the projection: symmetric, constant almost everywhere."""

    @staticmethod
    def run(
        v: Tensor, scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> Tensor:
        out = torch.zeros(scores.shape, dtype=v.dtype)
        along = v.detach().cpu().numpy()
        for row, (domain, theta, columns) in enumerate(
            _rows(scores, targets, lengths, sizes, blank)
        ):
            cut, flat = along[row, : len(theta)][:, columns], theta.reshape(1, -1)
            slope = domain.project_jvp(flat, flat, cut.reshape(1, -1))
            found = torch.from_numpy(np.asarray(slope).reshape(theta.shape))
            out[row, : len(theta)][:, columns] = found.to(v.dtype)
        return out.to(v.device)

    @staticmethod
    def fake(
        v: Tensor, scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> Tensor:
        return v.new_empty(v.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.blank = inputs[5]
        ctx.save_for_backward(*inputs[1:5])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return _SparseTangent.apply(g, *ctx.saved_tensors, ctx.blank), *[None] * 5


class Target(Operation, name="ctc_target"):
    """Targets, 0 behind their ends; refused on the CPU where they are none or have no alignment.

    ``lacking`` lets rows with fewer positions than their target needs pass.
    """

    @staticmethod
    def run(
        targets: Tensor, lengths: Tensor, sizes: Tensor, labels: int, blank: int, lacking: bool
    ) -> Tensor:
        inside = torch.arange(targets.shape[1], device=targets.device) < sizes[:, None]
        kept = torch.where(inside, targets.to(torch.int64), 0)
        if targets.device.type != "cpu" or not len(targets):
            return kept.clamp_(0, labels - 1)
        used = kept[inside]
        if used.numel() and (int(used.min()) < 0 or int(used.max()) >= labels):
            raise ValueError(
                f"targets have labels from 0 to {labels - 1}, got some from {int(used.min())} to "
                f"{int(used.max())}"
            )
        if bool((used == blank).any()):
            row = int(((kept == blank) & inside).any(1).nonzero()[0])
            raise ValueError(f"target {row} has the blank {blank}, which stands for no label")
        repeats = ((kept[:, 1:] == kept[:, :-1]) & inside[:, 1:]).sum(1)
        short = (sizes + repeats > lengths).nonzero()
        if len(short) and not lacking:
            row = int(short[0])
            raise ValueError(
                f"target {row} has {int(sizes[row])} labels and {int(repeats[row])} repeats, which "
                f"need {int(sizes[row] + repeats[row])} positions, got {int(lengths[row])}: leave "
                "it out, or give zero_infinity=True"
            )
        return kept

    @staticmethod
    def fake(
        targets: Tensor, lengths: Tensor, sizes: Tensor, labels: int, blank: int, lacking: bool
    ) -> Tensor:
        return targets.new_empty(targets.shape, dtype=torch.int64)


def _check_scores(scores: Tensor, lengths: Tensor) -> None:
    inside = torch.arange(scores.shape[1]) < lengths[:, None]
    used = torch.where(inside[:, :, None], scores, 0.0)
    if bool(used.isnan().any()) or bool((used == torch.inf).any()):
        raise ValueError(
            "scores contain NaN or +inf; use -inf to forbid a label, finite scores otherwise"
        )


def _over_rows(kernel: Any, given: list[Tensor], blank: int, *more: Tensor) -> None:
    """A kernel over all rows."""
    scores, targets = given[:2]
    arrays = [x.numpy() for x in given]
    results = [x.numpy() for x in more]

    def work(start: int, stop: int) -> None:
        kernel(*arrays, blank, *results, start, stop)

    over_rows(work, scores.shape[0], 3 * scores.shape[1] * (2 * targets.shape[1] + 1))


def _rows(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> list[tuple[Automaton, Array, Array]]:
    """For each row its automaton over the labels of its target, their scores and their columns."""
    given = scores.detach().cpu().double().numpy()
    found = []
    for row, (target, length, size) in enumerate(
        zip(targets.tolist(), lengths.tolist(), sizes.tolist(), strict=True)
    ):
        columns, local = np.unique([blank, *target[:size]], return_inverse=True)
        own = local.tolist()
        domain = Automaton.ctc(own[1:], len(columns), own[0])
        found.append((domain, given[row, :length][:, columns], columns))
    return found


def supports(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> list[list[tuple[float, list[int]]]]:
    """The weights and the labels of the alignments that each projection mixes, heaviest first."""
    found = []
    for domain, theta, columns in _rows(scores, targets, lengths, sizes, blank):
        support: Support = domain.project_support(theta.ravel())[1][0]
        words = domain.decode(support.vertices.toarray())
        mixed = [
            (float(weight), columns[word].tolist())
            for weight, word in zip(support.weights, words, strict=True)
        ]
        found.append(sorted(mixed, reverse=True))
    return found


def _plain(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The same sums in batched torch operations, one position after another."""
    batch, most, _ = scores.shape
    states = 2 * targets.shape[1] + 1
    line = targets.new_full((batch, states), blank)
    line[:, 1::2] = targets
    odd = torch.arange(states, device=scores.device) % 2 == 1
    skips = torch.zeros_like(line, dtype=torch.bool)
    skips[:, 2:] = odd[2:] & (line[:, 2:] != line[:, :-2])
    own = scores.gather(2, line[:, None].expand(-1, most, -1))
    forward = own.new_full(own.shape, -torch.inf)
    forward[:, 0, :2] = own[:, 0, :2]
    for t in range(1, most):
        forward[:, t] = own[:, t] + _ways(forward[:, t - 1], skips).logsumexp(0)
    rows = torch.arange(batch, device=scores.device)
    final = forward[rows, lengths - 1]
    places = torch.stack([2 * sizes, (2 * sizes - 1).clamp_min(0)], 1)
    ends = final.gather(1, places)
    ends[:, 1] = ends[:, 1].masked_fill(sizes == 0, -torch.inf)
    value = ends.logsumexp(1)
    share = (ends - torch.where(value > -torch.inf, value, 0.0)[:, None]).exp()
    start = torch.zeros_like(final).scatter_add_(1, places, share)
    mean, here = torch.zeros_like(scores), torch.zeros_like(start)
    for t in range(most - 1, -1, -1):
        here = torch.where((lengths == t + 1)[:, None], start, here)
        mean[:, t].scatter_add_(1, line, here)
        if t:
            ways = _ways(forward[:, t - 1], skips)
            top = ways.amax(0)
            weight = (ways - torch.where(top > -torch.inf, top, 0.0)).exp_()
            weight = weight / weight.sum(0).clamp_min(torch.finfo(weight.dtype).tiny) * here
            here = weight[0].clone()
            here[:, :-1] += weight[1, :, 1:]
            here[:, :-2] += weight[2, :, 2:]
    return value, mean.clamp_(max=1.0)


def _ways(before: Tensor, skips: Tensor) -> Tensor:
    """(3, B, states): the messages of staying, going on and passing over a blank."""
    step, skip = (torch.full_like(before, -torch.inf) for _ in range(2))
    step[:, 1:] = before[:, :-1]
    skip[:, 2:] = before[:, :-2]
    return torch.stack([before, step, skip.masked_fill(~skips, -torch.inf)])

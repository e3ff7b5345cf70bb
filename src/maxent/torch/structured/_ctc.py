"""Operations on alignments of CTC: engines for the CPU and for CUDA, and their derivatives."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

import torch
from maxent.core.domains.active_set import Support
from maxent.rows.arrays import Array
from maxent.structured.paths.automaton import Automaton
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import backend_of
from torch import Tensor

_ENGINES = {"numba": "_ctc_compiled", "triton": "_ctc_triton", "plain": "_ctc_plain"}


class Loss(Operation, name="ctc_loss"):
    """Log-partitions over all sequences less those over alignments, and their gradient."""

    @staticmethod
    def run(
        scores: Tensor,
        targets: Tensor,
        lengths: Tensor,
        sizes: Tensor,
        blank: int,
        lacking: bool,
    ) -> tuple[Tensor, Tensor]:
        given = [x.detach().contiguous() for x in (scores, targets, lengths, sizes)]
        value, slope = load_engine(backend_of(scores)).loss(*given, blank)
        if not lacking:
            _check_alignments(value == torch.inf, ", or give zero_infinity=True")
        return value, slope.to(scores.dtype)

    @staticmethod
    def fake(
        scores: Tensor,
        targets: Tensor,
        lengths: Tensor,
        sizes: Tensor,
        blank: int,
        lacking: bool,
    ) -> tuple[Tensor, Tensor]:
        value = scores.new_empty(scores.shape[0], dtype=torch.float64)
        return value, scores.new_empty(scores.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.blank = inputs[4]
        ctx.save_for_backward(*inputs[:4], output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, g_slope: Tensor | None) -> tuple[Tensor | None, ...]:
        scores, targets, lengths, sizes, own = ctx.saved_tensors
        slope = None if g is None else g.to(own.dtype)[:, None, None] * own
        if g_slope is not None:
            exact, v = scores.double(), g_slope.double()
            aligned = _Covariance.apply(exact, targets, lengths, sizes, v, ctx.blank)
            more = (_softmax_jvp(exact, lengths, v) - aligned).to(scores.dtype)
            slope = more if slope is None else slope + more
        return slope, *[None] * 5


class Sums(Operation, name="ctc_sums"):
    """Log-partitions over alignments and probabilities of labels, which are their gradient."""

    @staticmethod
    def run(
        scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
    ) -> tuple[Tensor, Tensor]:
        given = [x.detach().contiguous() for x in (scores, targets, lengths, sizes)]
        value, mean = load_engine(backend_of(scores)).sums(*given, blank)
        _check_alignments(value == -torch.inf)
        return value, mean

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
        # a row that v leaves out may have no alignment
        used = np.flatnonzero(along.any(axis=(1, 2))).tolist()
        for row, domain, theta, columns in _rows(scores, targets, lengths, sizes, blank, used):
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
        given = [x.detach().cpu().contiguous() for x in (scores, targets, lengths, sizes)]
        value, label = load_engine("numba").best(*given, blank)
        _check_alignments(value == -torch.inf)
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
        for row, domain, theta, columns in _rows(scores, targets, lengths, sizes, blank):
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
        for row, domain, theta, columns in _rows(scores, targets, lengths, sizes, blank):
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


def _check_alignments(none: Tensor, otherwise: str = "") -> None:
    """On the CPU, refuse targets that scores of -inf leave no alignment."""
    if none.device.type == "cpu" and bool(none.any()):
        raise ValueError(
            f"target {int(none.nonzero()[0])} has no alignment: scores of -inf forbid every one of "
            f"them; leave at least one finite{otherwise}"
        )


def load_engine(backend: str) -> ModuleType:
    """The module of a backend, imported when it is first asked."""
    return importlib.import_module(f"maxent.torch.structured.{_ENGINES[backend]}")


def _softmax_jvp(scores: Tensor, lengths: Tensor, v: Tensor) -> Tensor:
    """The derivative of the softmax of each position along v, 0 behind the ends."""
    inside = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
    inside = (inside & (scores.amax(2) > -torch.inf))[:, :, None]
    p = torch.where(inside, scores, 0.0).softmax(2)
    along = torch.where(inside, v, 0.0)
    return p * (along - (p * along).sum(2, keepdim=True))


def _rows(
    scores: Tensor,
    targets: Tensor,
    lengths: Tensor,
    sizes: Tensor,
    blank: int,
    used: Sequence[int] | None = None,
) -> list[tuple[int, Automaton, Array, Array]]:
    """For each row its automaton over the labels of its target, their scores and their columns."""
    given = scores.detach().cpu().double().numpy()
    target, length, size = targets.tolist(), lengths.tolist(), sizes.tolist()
    found = []
    for row in range(len(target)) if used is None else used:
        columns, local = np.unique([blank, *target[row][: size[row]]], return_inverse=True)
        own = local.tolist()
        domain = Automaton.ctc(own[1:], len(columns), own[0])
        found.append((row, domain, given[row, : length[row]][:, columns], columns))
    return found


def supports(
    scores: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor, blank: int
) -> list[list[tuple[float, list[int]]]]:
    """The weights and the labels of the alignments that each projection mixes, heaviest first."""
    found = []
    for _, domain, theta, columns in _rows(scores, targets, lengths, sizes, blank):
        support: Support = domain.project_support(theta.ravel())[1][0]
        words = domain.decode(support.vertices.toarray())
        mixed = [
            (float(weight), columns[word].tolist())
            for weight, word in zip(support.weights, words, strict=True)
        ]
        found.append(sorted(mixed, reverse=True))
    return found

"""Alignments of padded tensors: soft-DTW and its alignment matrix, with hand-written derivatives.

Conventions: B pairs of sequences of up to n and m elements.

scores : (B, n, m), of aligning element i with element j; a cost with its sign turned.
x_lengths, y_lengths : (B,) integers from 1 to n and from 1 to m, or masks; None for n and m.
band : how far a path may leave the diagonal, as in ``maxent.structured.Alignment``; None: anywhere.

CPU tensors are read by the compiled programmes of ``maxent.structured.Alignment``; CUDA tensors
take batched torch operations, one anti-diagonal after the other.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType
from typing import Any

import torch
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import backend_of, compute_type
from maxent.torch.structured._lengths import check_lengths
from maxent.torch.structured._oracle import sums
from torch import Tensor

_ENGINES = {
    "numba": "_alignment_compiled",
    "triton": "_alignment_plain",
    "plain": "_alignment_plain",
}
_EVERYWHERE = 2**31  # a band as wide as any matrix
_FEW = 8  # dimensions up to which squared distances are summed without a product of matrices


def alignment_log_partition(
    scores: Tensor,
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
    band: int | None = None,
) -> Tensor:
    """log sum over monotone alignments of `exp(score)`, (B,); its gradient is the marginals.

    Parameters
    ----------
    scores : tensor (B, n, m)
        Scores of aligning element i with element j.
    x_lengths : int tensor (B,) or bool tensor (B, n), default None
        Elements of the first sequences, or a mask of them; None is n for all.
    y_lengths : int tensor (B,) or bool tensor (B, m), default None
        Elements of the second sequences, or a mask of them; None is m for all.
    band : int, default None
        How far a path may leave the diagonal, see ``Alignment``; None for no limit.

    Examples
    --------
    >>> import torch
    >>> alignment_log_partition(torch.zeros(1, 2, 2)).exp().round()
    tensor([3.])
    """
    value: Tensor = _Softmax.apply(*_prepared(scores, x_lengths, y_lengths, band))[0]
    return value


def alignment_marginals(
    scores: Tensor,
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
    band: int | None = None,
) -> Tensor:
    """Probabilities (B, n, m) that two elements are aligned, 0 behind the ends.

    Parameters
    ----------
    scores : tensor (B, n, m)
        Scores of aligning element i with element j.
    x_lengths : int tensor (B,) or bool tensor (B, n), default None
        Elements of the first sequences, or a mask of them; None is n for all.
    y_lengths : int tensor (B,) or bool tensor (B, m), default None
        Elements of the second sequences, or a mask of them; None is m for all.
    band : int, default None
        How far a path may leave the diagonal, see ``Alignment``; None for no limit.

    Examples
    --------
    >>> import torch
    >>> alignment_marginals(torch.zeros(1, 2, 2))
    tensor([[[1.0000, 0.3333],
             [0.3333, 1.0000]]])
    """
    mean: Tensor = _Softmax.apply(*_prepared(scores, x_lengths, y_lengths, band))[1]
    return mean


def soft_dtw(
    x: Tensor,
    y: Tensor,
    gamma: float = 1.0,
    band: int | None = None,
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
) -> Tensor:
    """`-gamma log sum exp(-cost / gamma)` over alignments, (B,), of squared distances.

    Differentiable twice in both sequences.

    Parameters
    ----------
    x : tensor (B, n, d) or (B, n)
        First sequences, of vectors or of numbers.
    y : tensor (B, m, d) or (B, m)
        Second sequences.
    gamma : float, default 1.0
        Softness: small values approach dynamic time warping.
    band : int, default None
        How far a path may leave the diagonal, see ``Alignment``; None for no limit.
    x_lengths : int tensor (B,) or bool tensor (B, n), default None
        Elements of the first sequences, or a mask of them; None is n for all.
    y_lengths : int tensor (B,) or bool tensor (B, m), default None
        Elements of the second sequences, or a mask of them; None is m for all.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([[0.0, 1.0, 2.0]])
    >>> soft_dtw(x, torch.tensor([[0.0, 2.0]]), gamma=0.001)
    tensor([0.9993])
    """
    check_gamma(gamma)
    x, y = _sequences(x, y)
    pairs = _pairs(x, x.shape[1], y.shape[1], x_lengths, y_lengths, band)
    # what lies behind the ends may be NaN, which products of matrices would spread
    x = x if x_lengths is None else _within(x, pairs[0])
    y = y if y_lengths is None else _within(y, pairs[1])
    log_partition: Tensor = _FusedAffinities.apply(x, y, *pairs, 1.0 / gamma)[0]
    return -gamma * log_partition


def _softmax(theta: Tensor, ns: Tensor, ms: Tensor, band: int) -> tuple[Tensor, Tensor]:
    """Log-partitions and marginals; on the CPU, what has none is refused."""
    theta = theta.contiguous()
    both: tuple[Tensor, Tensor] = _engine(theta).softmax(theta, ns, ms, band)
    if theta.device.type == "cpu" and not bool(both[0].isfinite().all()):
        _explain(theta, ns, ms, both[0])
    return both


def _covariance(theta: Tensor, v: Tensor, ns: Tensor, ms: Tensor, band: int) -> Tensor:
    """The derivative of the marginals along v."""
    theta = theta.contiguous()
    out: Tensor = _engine(theta).covariance(theta, ns, ms, band, v)
    return out


_Softmax = sums("alignment", _softmax, _covariance)


def check_gamma(gamma: float) -> None:
    """Refuse what is no softness; a tensor would have a gradient that is not there."""
    if isinstance(gamma, Tensor) or not 0 < gamma < math.inf:
        raise ValueError(f"soft_dtw needs a finite number gamma > 0, got {gamma!r}")


def check_band(band: int | None) -> None:
    """Refuse what is no band."""
    if band is not None and (isinstance(band, bool) or not isinstance(band, int) or band < 0):
        raise ValueError(f"the band is an integer >= 0 or None, got {band!r}")


def _explain(theta: Tensor, ns: Tensor, ms: Tensor, value: Tensor) -> None:
    """Refuse a pair whose log-partition is not finite."""
    row = int((~value.isfinite()).nonzero()[0])
    scores = theta[row, : ns[row], : ms[row]]
    if bool(scores.isnan().any()) or bool((scores == math.inf).any()):
        raise ValueError(
            f"pair {row} has scores that are NaN or +inf; use -inf to forbid, finite scores "
            "otherwise"
        )
    raise ValueError(
        f"pair {row} has no alignment: scores of -inf forbid every one of them; leave at least "
        "one path finite"
    )


def _explain_sequences(x: Tensor, y: Tensor, ns: Tensor, ms: Tensor, value: Tensor) -> None:
    """Refuse a pair of sequences whose value is not finite: no alignment of theirs is forbidden."""
    row = int((~value.isfinite()).nonzero()[0])
    for name, sequences, counts in (("x", x, ns), ("y", y, ms)):
        if not bool(sequences[row, : counts[row]].isfinite().all()):
            raise ValueError(f"{name} of pair {row} has elements that are NaN or infinite")
    raise ValueError(
        f"the squared distances of pair {row}, over gamma, are beyond the largest numbers of "
        f"{x.dtype}: make the elements smaller, or gamma larger"
    )


class _Affinity(Operation, name="alignment_affinity"):
    """-scale |x_i - y_j|^2 for all pairs: (B, n, d) and (B, m, d) give (B, n, m)."""

    @staticmethod
    def run(x: Tensor, y: Tensor, scale: float) -> Tensor:
        dims = x.shape[2]
        if dims > _FEW:
            middle = x.mean(1, keepdim=True)
            a, b = x - middle, y - middle
            squares = a.square().sum(2)[:, :, None] + b.square().sum(2)[:, None]
            return torch.baddbmm(squares, a, b.mT, alpha=-2.0).clamp_(min=0).mul_(-scale)
        out = x.new_zeros(x.shape[0], x.shape[1], y.shape[1])
        for k in range(dims):
            apart = x[:, :, None, k] - y[:, None, :, k]
            out.addcmul_(apart, apart, value=-scale)
        return out

    @staticmethod
    def fake(x: Tensor, y: Tensor, scale: float) -> Tensor:
        return x.new_empty(x.shape[0], x.shape[1], y.shape[1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *sequences, ctx.scale = inputs
        ctx.save_for_backward(*sequences)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y = ctx.saved_tensors
        return *_pulled(x, y, g, ctx.scale), None


def _pulled(x: Tensor, y: Tensor, g: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """The gradients of the sequences from that of their affinities."""
    d_x = (g @ y - g.sum(2)[:, :, None] * x) * (2 * scale)
    d_y = (g.mT @ x - g.sum(1)[:, :, None] * y) * (2 * scale)
    return d_x, d_y


class _FusedAffinities(Operation, name="soft_dtw"):
    """The log-partition of ``_Affinity``, on the CPU by one kernel; no matrix is kept for backward.

    A gradient that is differentiated again is taken from the matrices after all.
    """

    @staticmethod
    def run(
        x: Tensor, y: Tensor, ns: Tensor, ms: Tensor, band: int, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        if backend_of(x) != "numba" or x.shape[0] == 0:
            value, mean = _softmax(_Affinity.run(x, y, scale), ns, ms, band)
            return value, *_pulled(x, y, -mean, scale)
        value, d_x, d_y = _engine(x).soft_dtw(x, y, ns, ms, band, scale)
        if not bool(value.isfinite().all()):
            _explain_sequences(x, y, ns, ms, value)
        return value, d_x, d_y

    @staticmethod
    def fake(
        x: Tensor, y: Tensor, ns: Tensor, ms: Tensor, band: int, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        return x.new_empty(x.shape[0]), x.new_empty(x.shape), y.new_empty(y.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.band, ctx.scale = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, y, ns, ms, d_x, d_y = ctx.saved_tensors
        if torch.is_grad_enabled():
            mean = _Softmax.apply(_Affinity.apply(x, y, ctx.scale), ns, ms, ctx.band)[1]
            slopes = _pulled(x, y, g[:, None, None] * mean, ctx.scale)
            return *slopes, None, None, None, None
        scale = -g[:, None, None]
        return scale * d_x, scale * d_y, None, None, None, None


def _engine(x: Tensor) -> ModuleType:
    return importlib.import_module(f"maxent.torch.structured.{_ENGINES[backend_of(x)]}")


def _sequences(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise TypeError(
                f"{name} must be a tensor of floats, got "
                f"{value.dtype if isinstance(value, Tensor) else type(value).__name__}"
            )
    if x.ndim == 2 and y.ndim == 2:
        x, y = x[:, :, None], y[:, :, None]
    if x.ndim != 3 or y.ndim != 3 or x.shape[::2] != y.shape[::2]:
        raise ValueError(
            "x and y are as many sequences of elements of one size, (B, n, d) and (B, m, d), got "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    if 0 in x.shape[1:] or y.shape[1] == 0:
        raise ValueError(
            f"sequences have at least one element, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    dtype = torch.promote_types(x.dtype, y.dtype)
    dtype = torch.float64 if dtype == torch.float64 else torch.float32
    return x.to(dtype), y.to(dtype)


def _prepared(
    scores: Tensor, x_lengths: Tensor | None, y_lengths: Tensor | None, band: int | None
) -> tuple[Tensor, Tensor, Tensor, int]:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise TypeError(
            "scores must be a tensor of floats, got "
            f"{scores.dtype if isinstance(scores, Tensor) else type(scores).__name__}"
        )
    if scores.ndim != 3 or 0 in scores.shape[1:]:
        raise ValueError(
            "scores have the shape (pairs, n, m) with at least one element on either side, got "
            f"{tuple(scores.shape)}"
        )
    pairs = _pairs(scores, scores.shape[1], scores.shape[2], x_lengths, y_lengths, band)
    return scores.to(compute_type(scores)).contiguous(), *pairs


def _within(x: Tensor, lengths: Tensor) -> Tensor:
    """Sequences, 0 behind their ends."""
    place = torch.arange(x.shape[1], device=x.device)
    return torch.where((place < lengths[:, None])[:, :, None], x, 0.0)


def _pairs(
    batch: Tensor,
    n: int,
    m: int,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    band: int | None,
) -> tuple[Tensor, Tensor, int]:
    """The elements on either side of each pair, and the band."""
    check_band(band)
    ns, ms = check_lengths(x_lengths, batch, n), check_lengths(y_lengths, batch, m)
    return ns, ms, _EVERYWHERE if band is None else band

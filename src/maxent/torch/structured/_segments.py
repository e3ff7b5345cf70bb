"""Segmentations of padded tensors, checked: one bundle of scores, its engines, its derivatives."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple

import torch
from maxent.torch.maps._dispatch import backend_of
from maxent.torch.structured._chains import check_lengths
from torch import Tensor


class Segments(NamedTuple):
    """Checked scores of B sequences in float64, labels first, contiguous.

    In this order they are the first arguments of every engine and of every autograd function.
    begins, ends : (B, C, T), the sums of the content before a start taken off and up to an end
    added; reverse : (B, C, K) durations, the longest first; transitions : (B, C, C).
    """

    begins: Tensor
    ends: Tensor
    reverse: Tensor
    transitions: Tensor
    lengths: Tensor

    def sums(self) -> tuple[Tensor, ...]:
        """Log-partitions, and the marginals in the order of the scores."""
        both: tuple[Tensor, ...] = _Softmax.apply(*self)
        return both

    def best(self) -> tuple[Tensor, Tensor, Tensor]:
        """Best scores, labels of positions and where segments begin; found on the CPU."""
        value, labels, first = self._on_cpu("viterbi")
        check_segmentations(value)
        return tuple(x.to(self.begins.device) for x in (value, labels, first))  # type: ignore[return-value]

    def sample(self, n: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Labels and beginnings of n segmentations of each sequence, drawn on the CPU."""
        batch, _, length = self.begins.shape
        uniform = torch.rand((n, batch, length, 2), dtype=torch.float64, generator=generator)
        value, labels, first = self._on_cpu("sample", uniform)
        check_segmentations(value)
        return labels.to(self.begins.device), first.to(self.begins.device)

    def score(self, labels: Tensor, first: Tensor) -> Tensor:
        """The scores of given segmentations."""
        position = torch.arange(labels.shape[1], device=labels.device)
        inside = position < self.lengths[:, None]
        starts = first & inside
        # where the segment of a position began, and whether it ends there
        begun = torch.where(starts, position, 0).cummax(1).values
        last = inside & torch.cat([first[:, 1:], torch.ones_like(first[:, :1])], 1)
        last = last | (position == self.lengths[:, None] - 1)
        longest = self.reverse.shape[2]
        place = labels[:, None]
        begin = self.begins.gather(1, place)[:, 0]
        end = self.ends.gather(1, place)[:, 0]
        length = position - begun + 1
        table = self.reverse.gather(1, labels[:, :, None].expand(-1, -1, longest))
        spent = table.gather(2, (longest - length).clamp(0, longest - 1)[:, :, None])[:, :, 0]
        before = torch.cat([labels[:, :1], labels[:, :-1]], 1)
        pairs = before * self.transitions.shape[1] + labels
        change = self.transitions.flatten(1).gather(1, pairs)
        inner = starts & (position > 0)
        total = torch.where(starts, begin, 0).sum(1) + torch.where(inner, change, 0).sum(1)
        return total + torch.where(last, end + spent, 0).sum(1)

    def check_target(self, labels: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Labels as int64 and beginnings as bool, 0 behind the end; refused on the CPU if wrong."""
        batch, n_labels, length = self.begins.shape
        for name, x, kind in (("labels", labels, "integers"), ("first", first, "booleans")):
            wrong = not isinstance(x, Tensor) or x.is_floating_point() or x.shape != (batch, length)
            if wrong or (name == "first") != (x.dtype == torch.bool):
                raise ValueError(
                    f"{name} are {kind} of shape {(batch, length)}, one per position, got {what(x)}"
                )
        position = torch.arange(length, device=self.begins.device)
        inside = position < self.lengths[:, None]
        labels = labels.to(self.begins.device, torch.int64).masked_fill(~inside, 0)
        first = first.to(self.begins.device) & inside
        if self.begins.device.type != "cpu":
            return labels.clamp(0, n_labels - 1), first
        if batch and (int(labels.min()) < 0 or int(labels.max()) >= n_labels):
            raise ValueError(
                f"labels run from 0 to {n_labels - 1}, got some from {int(labels.min())} to "
                f"{int(labels.max())}"
            )
        if not bool(first[:, 0].all()):
            row = int((~first[:, 0]).nonzero()[0])
            raise ValueError(f"a segment begins at position 0; first[{row}, 0] is False")
        changes = (labels[:, 1:] != labels[:, :-1]) & ~first[:, 1:] & inside[:, 1:]
        if bool(changes.any()):
            row, at = (int(i) for i in changes.nonzero()[0])
            raise ValueError(
                f"the label of sequence {row} changes at position {at + 1}, where no segment "
                "begins by first"
            )
        begun = torch.where(first, position, 0).cummax(1).values
        reach = torch.where(inside, position - begun + 1, 0)
        longest = self.reverse.shape[2]
        if batch and int(reach.max()) > longest:
            row = int((reach > longest).any(1).nonzero()[0])
            raise ValueError(
                f"sequence {row} has a segment of {int(reach[row].max())} positions, the longest "
                f"that durations score has {longest}"
            )
        return labels, first

    def check_scores(self) -> None:
        """Refuse NaN and +inf."""
        for name, x in zip(self._fields, self[:4], strict=False):
            if bool(x.isnan().any()) or bool((x == torch.inf).any()):
                kind = "durations" if name == "reverse" else name
                raise ValueError(
                    f"the scores ({kind}) contain NaN or +inf; use -inf to forbid, finite scores "
                    "otherwise"
                )

    def _on_cpu(self, task: str, *more: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = Segments(*(x.detach().cpu() for x in self))
        scores.check_scores()
        found: tuple[Tensor, Tensor, Tensor] = getattr(engine("numba"), task)(*scores, *more)
        return found


class _Softmax(torch.autograd.Function):
    """Log-partitions and marginals: the second are the gradient of the first."""

    @staticmethod
    def forward(ctx: Any, *scores: Tensor) -> tuple[Tensor, ...]:
        if scores[0].device.type == "cpu":
            Segments(*scores).check_scores()
        value, *means = engine(backend_of(scores[0])).softmax(*scores)
        if value.device.type == "cpu":
            check_segmentations(value)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*scores, *means)
        return value, *means

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *along: Tensor | None) -> tuple[Tensor | None, ...]:
        scores, means = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        slopes: list[Tensor | None] = [None] * 4
        if g is not None:
            slopes = [g[:, None, None] * mean for mean in means]
        if any(v is not None for v in along):
            pairs = zip(along, means, strict=True)
            v = [torch.zeros_like(mean) if x is None else x for x, mean in pairs]
            more = _Covariance.apply(*scores, *v)
            slopes = [b if a is None else a + b for a, b in zip(slopes, more, strict=True)]
        return *slopes, None


class _Covariance(torch.autograd.Function):
    """The covariance of the segmentation times v, symmetric and linear in v; found on the CPU."""

    @staticmethod
    def forward(ctx: Any, *scores_and_v: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*scores_and_v[:5])
        given = [x.detach().cpu().contiguous() for x in scores_and_v]
        slopes = engine("numba").covariance(*given)
        return tuple(x.to(scores_and_v[0].device) for x in slopes)

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor | None, ...]:
        if any(ctx.needs_input_grad[:4]):
            raise NotImplementedError(
                "third derivatives of a log-partition over segmentations are not there: second "
                "ones are the last (detach the scores in what is differentiated a third time)"
            )
        return *[None] * 5, *_Covariance.apply(*ctx.saved_tensors, *g)


def engine(name: str) -> ModuleType:
    """The module of a backend, imported when it is first asked."""
    return importlib.import_module(
        f"maxent.torch.structured._segments_{'compiled' if name == 'numba' else 'plain'}"
    )


def prepare(
    content: Tensor,
    durations: Tensor,
    transitions: Tensor,
    lengths: Tensor | None,
    begins: Tensor | None,
    ends: Tensor | None,
) -> Segments:
    """Checked scores: sums of the content over positions, so that a segment is a difference."""
    given = {"content": content, "durations": durations, "transitions": transitions}
    given |= {name: x for name, x in (("begins", begins), ("ends", ends)) if x is not None}
    for name, x in given.items():
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"{name} must be a tensor of floats, got {what(x)}")
    if content.ndim != 3 or 0 in content.shape[1:]:
        raise ValueError(
            "content has the shape (sequences, positions, labels) with at least one position and "
            f"label, got {tuple(content.shape)}"
        )
    batch, length, labels = content.shape
    longest = durations.shape[-2] if durations.ndim > 1 else 0
    if not longest or durations.shape not in {(longest, labels), (batch, longest, labels)}:
        raise ValueError(
            f"durations have the shape (K, {labels}), or ({batch}, K, {labels}) with one table for "
            f"each sequence, K the longest length of a segment; got {tuple(durations.shape)}"
        )
    if transitions.shape not in {(labels, labels), (batch, labels, labels)}:
        raise ValueError(
            f"content of {labels} labels needs transitions of shape {(labels, labels)} or "
            f"{(batch, labels, labels)}, got {tuple(transitions.shape)}"
        )
    for name in ("begins", "ends"):
        if name in given and given[name].shape != content.shape:
            raise ValueError(
                f"{name} have the shape of the content, {tuple(content.shape)}, got "
                f"{tuple(given[name].shape)}"
            )
    if content.device.type == "cpu" and bool((content == -torch.inf).any()):
        raise ValueError(
            "content of -inf has no differences of sums; forbid a label where segments begin and "
            "end, or by a large negative score"
        )
    lengths = check_lengths(lengths, content, length)
    inside = torch.arange(length, device=content.device) < lengths[:, None]
    sums = content.double().masked_fill(~inside[:, :, None], 0.0).cumsum(1)
    before = torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], 1)
    begin = -before if begins is None else begins.double() - before
    end = sums if ends is None else ends.double() + sums
    table = durations.double().flip(-2).mT
    return Segments(
        begin.mT.contiguous(),
        end.mT.contiguous(),
        table.expand(batch, labels, longest).contiguous(),
        transitions.double().expand(batch, labels, labels).contiguous(),
        lengths,
    )


def check_segmentations(values: Tensor) -> None:
    """Refuse sequences whose best score is -inf."""
    none = (values == -torch.inf).nonzero()
    if len(none):
        raise ValueError(
            f"sequence {int(none[0])} has no segmentation: scores of -inf forbid every one of "
            "them; leave at least one finite"
        )


def what(x: Any) -> str:
    """An argument in words."""
    return f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__

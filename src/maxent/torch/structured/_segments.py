"""Segmentations of padded tensors, checked: one bundle of scores, its engines, its derivatives."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple

import torch
from maxent.torch._operators import Operation
from maxent.torch.maps._dispatch import backend_of
from maxent.torch.structured._lengths import check_generator, check_lengths, described
from torch import Tensor

_ENGINES = {"numba": "_segments_compiled", "triton": "_segments_triton", "plain": "_segments_plain"}


class Segments(NamedTuple):
    """Checked scores of B sequences in float64, labels first.

    In this order they are the first arguments of every engine and of every operation.
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

    def best(self) -> tuple[Tensor, Tensor]:
        """Labels of positions and where segments begin, of the best; found on the CPU."""
        found: tuple[Tensor, Tensor] = _Best.apply(*(x.detach() for x in self))
        return found

    def sample(self, n: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Labels and beginnings (n, B, T) of segmentations of each sequence, drawn on the CPU."""
        check_generator(generator)
        batch, _, length = self.begins.shape
        shape = (batch, n, length, 2)
        uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
        uniform = uniform.to(self.begins.device)
        labels, first = _Sample.apply(*(x.detach() for x in self), uniform)
        return labels.transpose(0, 1), first.transpose(0, 1)

    def score(self, labels: Tensor, first: Tensor) -> Tensor:
        """The scores of checked segmentations."""
        position = torch.arange(labels.shape[1], device=labels.device)
        inside = position < self.lengths[:, None]
        starts = first & inside
        begun = torch.where(starts, position, 0).cummax(1).values
        last = torch.cat([first[:, 1:], torch.ones_like(first[:, :1])], 1)
        last = inside & (last | (position == self.lengths[:, None] - 1))
        longest = self.reverse.shape[2]
        begin, end = (x.gather(1, labels[:, None])[:, 0] for x in (self.begins, self.ends))
        # entry of (label, length) in the flattened table, and of (label before, label)
        place = labels * longest + (longest - 1 - position + begun).clamp(0, longest - 1)
        spent = self.reverse.flatten(1).gather(1, place)
        before = torch.cat([labels[:, :1], labels[:, :-1]], 1)
        pairs = before * self.transitions.shape[1] + labels
        change = self.transitions.flatten(1).gather(1, pairs)
        total = torch.where(starts, begin, 0).sum(1) + torch.where(last, end + spent, 0).sum(1)
        return total + torch.where(starts & (position > 0), change, 0).sum(1)

    def check_target(self, labels: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Labels as int64 and beginnings as bool, 0 behind the end; refused on the CPU if wrong."""
        batch, n_labels, length = self.begins.shape
        for name, x, kind in (("labels", labels, "integers"), ("first", first, "booleans")):
            wrong = not isinstance(x, Tensor) or tuple(x.shape) != (batch, length)
            if wrong or x.is_floating_point() or (name == "first") != (x.dtype == torch.bool):
                raise ValueError(
                    f"{name} are {kind} of shape {(batch, length)}, one per position, got "
                    f"{described(x)}"
                )
        device, longest = self.begins.device, self.reverse.shape[2]
        target = labels.to(device), first.to(device)
        checked: tuple[Tensor, Tensor] = _Target.apply(*target, self.lengths, n_labels, longest)
        return checked

    def check_scores(self) -> None:
        """Refuse NaN and +inf."""
        for name, x in zip(self._fields, self[:4], strict=False):
            if bool(x.isnan().any()) or bool((x == torch.inf).any()):
                if name != "reverse" and bool((self.ends.isnan() & self.begins.isnan()).any()):
                    name = "content"
                kind = "durations" if name == "reverse" else name
                raise ValueError(
                    f"the scores of segments ({kind}) contain NaN or +inf, or content that is not "
                    "finite; use -inf to forbid where segments begin or end, lengths and changes"
                )


class _Target(Operation, name="segment_target"):
    """Given segmentations, 0 behind the end; refused on the CPU if they are none."""

    @staticmethod
    def run(
        labels: Tensor, first: Tensor, lengths: Tensor, n_labels: int, longest: int
    ) -> tuple[Tensor, Tensor]:
        position = torch.arange(labels.shape[1], device=lengths.device)
        inside = position < lengths[:, None]
        labels, first = torch.where(inside, labels.to(torch.int64), 0), first & inside
        if labels.device.type != "cpu" or not len(labels):
            return labels.clamp_(0, n_labels - 1), first
        if int(labels.min()) < 0 or int(labels.max()) >= n_labels:
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
        if int(reach.max()) > longest:
            row = int((reach > longest).any(1).nonzero()[0])
            raise ValueError(
                f"sequence {row} has a segment of {int(reach[row].max())} positions, the longest "
                f"that durations score has {longest}"
            )
        return labels, first

    @staticmethod
    def fake(
        labels: Tensor, first: Tensor, lengths: Tensor, n_labels: int, longest: int
    ) -> tuple[Tensor, Tensor]:
        return _target_rooms(labels)


def _target_rooms(x: Tensor) -> tuple[Tensor, Tensor]:
    """Empty labels and beginnings in a shape."""
    return x.new_empty(x.shape, dtype=torch.int64), x.new_empty(x.shape, dtype=torch.bool)


class _Softmax(Operation, name="segment_softmax"):
    """Log-partitions and marginals: the second are the gradient of the first."""

    @staticmethod
    def run(
        begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        scores = _given(begins, ends, reverse, transitions, lengths)
        if begins.device.type == "cpu":
            scores.check_scores()
        value, *means = engine(backend_of(begins)).softmax(*scores)
        if begins.device.type == "cpu":
            check_segmentations(value)
        return value, means[0], means[1], means[2], means[3]

    @staticmethod
    def fake(
        begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        rooms = _rooms(begins, ends, reverse, transitions)
        return begins.new_empty(begins.shape[0]), *rooms

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output[1:])

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


class _Covariance(Operation, name="segment_covariance"):
    """The covariance of the segmentation times v, symmetric and linear in v; found on the CPU."""

    @staticmethod
    def run(
        begins: Tensor,
        ends: Tensor,
        reverse: Tensor,
        transitions: Tensor,
        lengths: Tensor,
        v_begins: Tensor,
        v_ends: Tensor,
        v_reverse: Tensor,
        v_transitions: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        scores = _given(begins, ends, reverse, transitions, lengths)
        along = [
            x.detach().cpu().contiguous() for x in (v_begins, v_ends, v_reverse, v_transitions)
        ]
        slopes = engine("numba").covariance(*_on_cpu(scores), *along)
        found = [x.to(begins.device) for x in slopes]
        return found[0], found[1], found[2], found[3]

    @staticmethod
    def fake(
        begins: Tensor,
        ends: Tensor,
        reverse: Tensor,
        transitions: Tensor,
        lengths: Tensor,
        v_begins: Tensor,
        v_ends: Tensor,
        v_reverse: Tensor,
        v_transitions: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return _rooms(begins, ends, reverse, transitions)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:5])

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> tuple[Tensor | None, ...]:
        if any(ctx.needs_input_grad[:4]):
            raise NotImplementedError(
                "third derivatives of a log-partition over segmentations are not there: second "
                "ones are the last (detach the scores in what is differentiated a third time)"
            )
        return *[None] * 5, *_Covariance.apply(*ctx.saved_tensors, *g)


class _Best(Operation, name="segment_best"):
    """Labels and beginnings of the best segmentations."""

    @staticmethod
    def run(
        begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        scores = _on_cpu(_given(begins, ends, reverse, transitions, lengths))
        scores.check_scores()
        value, labels, first = engine("numba").viterbi(*scores)
        check_segmentations(value)
        return labels.to(begins.device), first.to(begins.device)

    @staticmethod
    def fake(
        begins: Tensor, ends: Tensor, reverse: Tensor, transitions: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        return _target_rooms(begins[:, 0])


class _Sample(Operation, name="segment_sample"):
    """Labels and beginnings (B, n, T) of draws, by uniform numbers (B, n, T, 2)."""

    @staticmethod
    def run(
        begins: Tensor,
        ends: Tensor,
        reverse: Tensor,
        transitions: Tensor,
        lengths: Tensor,
        uniform: Tensor,
    ) -> tuple[Tensor, Tensor]:
        scores = _on_cpu(_given(begins, ends, reverse, transitions, lengths))
        scores.check_scores()
        numbers = uniform.detach().cpu().transpose(0, 1).contiguous()
        value, labels, first = engine("numba").sample(*scores, numbers)
        check_segmentations(value)
        found = [x.transpose(0, 1).contiguous().to(begins.device) for x in (labels, first)]
        return found[0], found[1]

    @staticmethod
    def fake(
        begins: Tensor,
        ends: Tensor,
        reverse: Tensor,
        transitions: Tensor,
        lengths: Tensor,
        uniform: Tensor,
    ) -> tuple[Tensor, Tensor]:
        return _target_rooms(uniform[..., 0])


def _given(*scores: Tensor) -> Segments:
    """Scores as the engines read them."""
    return Segments(*(x.detach().contiguous() for x in scores))


def _on_cpu(scores: Segments) -> Segments:
    return Segments(*(x.cpu() for x in scores))


def _rooms(*scores: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Empty tensors in the shapes of the marginals."""
    rooms = [x.new_empty(x.shape) for x in scores]
    return rooms[0], rooms[1], rooms[2], rooms[3]


def engine(name: str) -> ModuleType:
    """The module of a backend, imported when it is first asked."""
    return importlib.import_module(f"maxent.torch.structured.{_ENGINES[name]}")


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
            raise TypeError(f"{name} must be a tensor of floats, got {described(x)}")
    if content.ndim != 3 or 0 in content.shape[1:]:
        raise ValueError(
            "content has the shape (sequences, positions, labels) with at least one position and "
            f"label, got {tuple(content.shape)}"
        )
    batch, length, labels = content.shape
    longest = durations.shape[-2] if durations.ndim > 1 else 0
    if not longest or tuple(durations.shape) not in [(longest, labels), (batch, longest, labels)]:
        raise ValueError(
            f"durations have the shape (K, {labels}), or ({batch}, K, {labels}) with one table for "
            f"each sequence, K the longest length of a segment; got {tuple(durations.shape)}"
        )
    if tuple(transitions.shape) not in [(labels, labels), (batch, labels, labels)]:
        raise ValueError(
            f"content of {labels} labels needs transitions of shape {(labels, labels)} or "
            f"{(batch, labels, labels)}, got {tuple(transitions.shape)}"
        )
    for name in ("begins", "ends"):
        if name in given and tuple(given[name].shape) != tuple(content.shape):
            raise ValueError(
                f"{name} have the shape of the content, {tuple(content.shape)}, got "
                f"{tuple(given[name].shape)}"
            )
    lengths = check_lengths(lengths, content, length)
    inside = (torch.arange(length, device=content.device) < lengths[:, None])[:, :, None]
    sums = torch.where(inside, content.double(), 0.0).cumsum(1)
    before = torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], 1)
    begin = -before if begins is None else torch.where(inside, begins.double(), 0.0) - before
    end = sums if ends is None else torch.where(inside, ends.double(), 0.0) + sums
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

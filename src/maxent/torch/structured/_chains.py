"""Chains of padded tensors, checked: one bundle of scores, its engines and its derivatives."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch
from maxent.torch._operators import Operation, eager
from maxent.torch.maps._dispatch import backend_of
from maxent.torch.structured._lengths import check_generator, check_lengths, described
from torch import Tensor

_ENGINES = {"numba": "_chain_compiled", "triton": "_chain_triton", "plain": "_chain_plain"}


class Chains(NamedTuple):
    """Checked scores of B chains, start and end scores added to the nodes, contiguous.

    In this order they are the first arguments of every engine and of every autograd function.
    """

    nodes: Tensor
    transitions: Tensor
    lengths: Tensor

    @property
    def on_cpu(self) -> bool:
        """Whether values may be looked at without waiting for a device."""
        return self.nodes.device.type == "cpu"

    def to_cpu(self) -> Chains:
        """Copies on the CPU without a gradient, where they are not there."""
        return Chains(*(x.detach().cpu() for x in self))

    def log_partition(self, tags: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Log-partitions and marginals, less the scores of paths and these paths."""
        values: tuple[Tensor, Tensor, Tensor] = _Softmax.apply(*self, tags)
        return values

    def best(self) -> tuple[Tensor, Tensor]:
        """Scores and states of the best paths."""
        values: tuple[Tensor, Tensor] = _Best.apply(*self)
        return values

    def margin(self, tags: Tensor, cost: float) -> Tensor:
        """The best scores, a cost added at wrong states, less the scores of the tags."""
        return cast(Tensor, _Margin.apply(*self, tags, cost)[0])

    def kbest(self, k: int) -> tuple[Tensor, Tensor]:
        """Scores and states of the k best paths, computed on the CPU."""
        nodes, transitions, lengths = self
        scores, paths = _KBest.apply(nodes.detach(), transitions.detach(), lengths, k)
        return scores, paths

    def sample(self, n: int, generator: torch.Generator | None) -> Tensor:
        """States of n paths of each chain, drawn on the CPU."""
        check_generator(generator)
        nodes, transitions, lengths = self
        batch, length, _ = nodes.shape
        uniform = torch.rand((n, batch, length), dtype=torch.float64, generator=generator)
        drawn: Tensor = _Sample.apply(
            nodes.detach(), transitions.detach(), lengths, uniform.movedim(1, 0)
        )
        return drawn.movedim(1, 0)

    def sums(self, nodes: Tensor, transitions: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Log-partitions and marginals of chains of these lengths with other scores."""
        value, *mean = Chains(nodes, transitions, self.lengths).log_partition()
        return value, (mean[0], mean[1])

    def check_alike(self, other: Chains) -> None:
        """Refuse chains of other shapes, and on the CPU those of other lengths."""
        for name, mine, theirs in zip(self._fields[:2], self, other, strict=False):
            if tuple(mine.shape) != tuple(theirs.shape):
                raise ValueError(
                    f"both have {name} of one shape, got {tuple(mine.shape)} and "
                    f"{tuple(theirs.shape)}"
                )
        if self.on_cpu and eager(self.nodes) and not torch.equal(self.lengths, other.lengths):
            raise ValueError(
                f"both have sequences of the same lengths, got {self.lengths.tolist()} and "
                f"{other.lengths.tolist()}"
            )

    def max_marginals(self) -> Tensor:
        """The best scores of paths through each state, by two sweeps."""
        if self.on_cpu and eager(self.nodes):
            self.check_scores()
        inside = self.inside()
        nodes = torch.where(inside[:, :, None], self.nodes, 0.0).double()
        batch, length, k = nodes.shape
        moves = self.transitions.double()
        if moves.ndim < 4:
            moves = moves.expand(batch, k, k)[:, None].expand(batch, length - 1, k, k)
        moves = torch.where(inside[:, 1:, None, None], moves, 0.0)
        before, after = [nodes[:, 0]], [torch.zeros_like(nodes[:, 0])]
        for t in range(1, length):
            into = (before[-1][:, :, None] + moves[:, t - 1]).amax(1)
            before.append(into + nodes[:, t])
            later = moves[:, -t] + (after[-1] + nodes[:, -t])[:, None]
            after.append(torch.where(inside[:, -t, None], later.amax(2), 0.0))
        best = torch.stack(before, 1) + torch.stack(after[::-1], 1)
        if self.on_cpu and eager(self.nodes):
            check_paths(best[:, 0].amax(1))
        return best.masked_fill(~inside[:, :, None], -torch.inf).to(self.nodes.dtype)

    def score(self, tags: Tensor) -> Tensor:
        """Scores of checked paths, summed in float64."""
        nodes, transitions, _ = self
        batch, _, k = nodes.shape
        inside = self.inside()
        own = nodes.gather(2, tags[:, :, None])[:, :, 0].masked_fill(~inside, 0)
        pairs = tags[:, :-1] * k + tags[:, 1:]
        if transitions.ndim == 2:
            moves = transitions.reshape(-1)[pairs]
        elif transitions.ndim == 3:
            moves = transitions.reshape(batch, k * k).gather(1, pairs)
        else:
            moves = transitions.flatten(2).gather(2, pairs[:, :, None])[:, :, 0]
        moves = moves.masked_fill(~inside[:, 1:], 0)
        total = own.sum(1, dtype=torch.float64) + moves.sum(1, dtype=torch.float64)
        return total.to(nodes.dtype)

    def inside(self) -> Tensor:
        """Which positions (B, T) lie before the ends."""
        positions = torch.arange(self.nodes.shape[1], device=self.lengths.device)
        return positions < self.lengths[:, None]

    def engine(self) -> ModuleType:
        """The programmes for these tensors."""
        return load_engine(backend_of(self.nodes))

    def viterbi(self) -> tuple[Tensor, Tensor]:
        """Scores and states of the best paths, without derivatives."""
        if self.on_cpu:
            self.check_scores()
        best: tuple[Tensor, Tensor] = self.engine().viterbi(*self)
        if self.on_cpu:
            check_paths(best[0])
        return best

    def gradient(
        self, g: Tensor, paths: Tensor, less: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """g times paths as points, less others: the gradient in nodes and in transitions."""
        mean, mean_edge = _Points.apply(*self, paths, less)
        return g[:, None, None] * mean, self.scaled_edges(g, mean_edge)

    def scaled_edges(self, g: Tensor, mean_edge: Tensor) -> Tensor:
        """The transitions' gradient: each row times g, summed over rows that share a block."""
        if self.transitions.ndim == 2:
            return (g @ mean_edge.flatten(1)).reshape(self.transitions.shape)
        return mean_edge * g.reshape(-1, *[1] * (mean_edge.ndim - 1))

    def check_scores(self) -> None:
        """Refuse NaN and +inf where they count."""
        inside = self.inside()
        positions = inside[:, 1:] if self.transitions.ndim == 4 else ...
        for name, x, counts in [
            ("nodes", self.nodes, inside),
            ("transitions", self.transitions, positions),
        ]:
            if bool(x.sum().isfinite()):
                continue
            used = x[counts]
            if bool(used.isnan().any()) or bool((used == torch.inf).any()):
                raise ValueError(
                    f"{name} contain NaN or +inf; use -inf to forbid, finite scores otherwise"
                )

    def check_tags(self, tags: Tensor) -> Tensor:
        """Tags as int64, 0 behind the end; refused out of range, on the CPU."""
        batch, length, k = self.nodes.shape
        if (
            not isinstance(tags, Tensor)
            or tags.is_floating_point()
            or tuple(tags.shape) != (batch, length)
        ):
            raise ValueError(
                f"tags are integers of shape {(batch, length)}, one state per position, got "
                f"{described(tags)}"
            )
        states: Tensor = _Tags.apply(tags.to(self.nodes.device), self.lengths, k)
        return states


class _Tags(Operation, name="chain_tags"):
    """Tags as int64, 0 behind the end; refused out of range, on the CPU."""

    @staticmethod
    def run(tags: Tensor, lengths: Tensor, k: int) -> Tensor:
        inside = torch.arange(tags.shape[1], device=lengths.device) < lengths[:, None]
        tags = torch.where(inside, tags.to(torch.int64), 0)
        if tags.device.type != "cpu":
            return tags.clamp_(0, k - 1)
        if tags.numel() and (int(tags.min()) < 0 or int(tags.max()) >= k):
            raise ValueError(
                f"states run from 0 to {k - 1}, got tags from {int(tags.min())} to "
                f"{int(tags.max())}"
            )
        return tags

    @staticmethod
    def fake(tags: Tensor, lengths: Tensor, k: int) -> Tensor:
        return tags.new_empty(tags.shape, dtype=torch.int64)


# -- operations: transitions of two dimensions are those of all rows -----------------------------

_SHARED = {"transitions": 2}


def _rooms(nodes: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """Empty tensors in the shape of points: one block of transitions per row, or per position."""
    batch, _, k = nodes.shape
    shape = transitions.shape if transitions.ndim == 4 else (batch, k, k)
    return nodes.new_empty(nodes.shape), nodes.new_empty(shape)


class _Softmax(Operation, name="chain_softmax", whole=_SHARED):
    """Log-partitions less the scores of given paths, and the marginals less these paths.

    The second and third output are the gradient of the first; their own derivative is the
    covariance of the path, so that second derivatives are there.
    """

    @staticmethod
    def run(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        chains = Chains(nodes, transitions, lengths)
        value, mean, mean_edge = chains.engine().softmax(*chains)
        if chains.on_cpu and not bool(value.isfinite().all()):
            chains.check_scores()
            check_paths(value)
        if tags is not None:
            value = value - chains.score(tags)
            chains.engine().add_paths(mean, mean_edge, tags, lengths, -1.0)
        return value, mean, mean_edge

    @staticmethod
    def fake(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        return nodes.new_empty(nodes.shape[0]), *_rooms(nodes, transitions)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], *output[1:])

    @staticmethod
    def backward(
        ctx: Any, g: Tensor | None, g_mean: Tensor | None, g_edge: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        *saved, mean, mean_edge = ctx.saved_tensors
        chains = Chains(*saved)
        d_nodes = d_edges = None
        if g is not None:
            d_nodes = g[:, None, None] * mean if ctx.needs_input_grad[0] else None
            d_edges = chains.scaled_edges(g, mean_edge) if ctx.needs_input_grad[1] else None
        if g_mean is not None or g_edge is not None:
            v = torch.zeros_like(mean) if g_mean is None else g_mean
            v_edge = torch.zeros_like(mean_edge) if g_edge is None else g_edge
            more, more_edge = _Covariance.apply(*chains, v, v_edge)
            d_nodes = more if d_nodes is None else d_nodes + more
            more_edge = more_edge.sum(0) if chains.transitions.ndim == 2 else more_edge
            d_edges = more_edge if d_edges is None else d_edges + more_edge
        return d_nodes, d_edges, None, None


class _Covariance(Operation, name="chain_covariance", whole=_SHARED):
    """The covariance of the path times v: symmetric and linear in v."""

    @staticmethod
    def run(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, v: Tensor, v_edge: Tensor
    ) -> tuple[Tensor, Tensor]:
        name = backend_of(nodes)
        engine = load_engine("plain" if name == "triton" else name)
        product: tuple[Tensor, Tensor] = engine.covariance(nodes, transitions, lengths, v, v_edge)
        return product

    @staticmethod
    def fake(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, v: Tensor, v_edge: Tensor
    ) -> tuple[Tensor, Tensor]:
        return _rooms(nodes, transitions)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:3])

    @staticmethod
    def backward(ctx: Any, g: Tensor, g_edge: Tensor) -> tuple[None, None, None, Tensor, Tensor]:
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            raise NotImplementedError(
                "third derivatives of a chain's log-partition are not there: second ones are the "
                "last (detach the scores in what is differentiated a third time)"
            )
        d_v, d_edge = _Covariance.apply(*ctx.saved_tensors, g, g_edge)
        return None, None, None, d_v, d_edge


class _Best(Operation, name="chain_best", whole=_SHARED):
    """Scores and states of the best paths."""

    @staticmethod
    def run(nodes: Tensor, transitions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return Chains(nodes, transitions, lengths).viterbi()

    @staticmethod
    def fake(nodes: Tensor, transitions: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        paths = nodes.new_empty(nodes.shape[:2], dtype=torch.int64)
        return nodes.new_empty(nodes.shape[0]), paths

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: None) -> tuple[Tensor, Tensor, None]:
        *saved, paths = ctx.saved_tensors
        return *Chains(*saved).gradient(g, paths), None


class _Margin(Operation, name="chain_margin", whole=_SHARED):
    """The best score, costs added, less that of the tags; a subgradient is the difference."""

    @staticmethod
    def run(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor, cost: float
    ) -> tuple[Tensor, Tensor]:
        chains = Chains(nodes, transitions, lengths)
        scores = nodes
        if cost:
            scores = nodes + cost
            scores.scatter_add_(2, tags[:, :, None], nodes.new_full((*tags.shape, 1), -cost))
        value, paths = chains._replace(nodes=scores).viterbi()
        return value - chains.score(tags), paths

    @staticmethod
    def fake(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, tags: Tensor, cost: float
    ) -> tuple[Tensor, Tensor]:
        return nodes.new_empty(nodes.shape[0]), tags.new_empty(tags.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:4], output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: None) -> tuple[Tensor, Tensor, None, None, None]:
        *saved, tags, paths = ctx.saved_tensors
        return *Chains(*saved).gradient(g, paths, tags), None, None, None


class _Points(Operation, name="chain_points", whole=_SHARED):
    """Paths as points, less others."""

    @staticmethod
    def run(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, paths: Tensor, less: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        engine = Chains(nodes, transitions, lengths).engine()
        mean, mean_edge = (room.zero_() for room in _rooms(nodes, transitions))
        engine.add_paths(mean, mean_edge, paths, lengths, 1.0)
        if less is not None:
            engine.add_paths(mean, mean_edge, less, lengths, -1.0)
        return mean, mean_edge

    @staticmethod
    def fake(
        nodes: Tensor, transitions: Tensor, lengths: Tensor, paths: Tensor, less: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return _rooms(nodes, transitions)


class _KBest(Operation, name="chain_kbest", whole=_SHARED):
    """Scores and states of the k best paths."""

    @staticmethod
    def run(nodes: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        chains = Chains(nodes, transitions, lengths).to_cpu()
        chains.check_scores()
        scores, paths = load_engine("numba").kbest(*chains, k)
        check_paths(scores[:, 0])
        return scores.to(nodes.device), paths.to(nodes.device)

    @staticmethod
    def fake(nodes: Tensor, transitions: Tensor, lengths: Tensor, k: int) -> tuple[Tensor, Tensor]:
        batch, length, _ = nodes.shape
        return nodes.new_empty(batch, k), nodes.new_empty(batch, k, length, dtype=torch.int64)


class _Sample(Operation, name="chain_sample", whole=_SHARED):
    """States of paths drawn by uniform numbers (B, n, T)."""

    @staticmethod
    def run(nodes: Tensor, transitions: Tensor, lengths: Tensor, uniform: Tensor) -> Tensor:
        chains = Chains(nodes, transitions, lengths).to_cpu()
        chains.check_scores()
        draws = uniform.movedim(0, 1).contiguous()
        row, paths = load_engine("numba").sample(*chains, draws)
        if row >= 0:
            _refuse_row(row)
        drawn: Tensor = paths.movedim(1, 0).contiguous()
        return drawn.to(nodes.device)

    @staticmethod
    def fake(nodes: Tensor, transitions: Tensor, lengths: Tensor, uniform: Tensor) -> Tensor:
        return nodes.new_empty(uniform.shape, dtype=torch.int64)


def load_engine(name: str) -> ModuleType:
    """The module of a backend, imported when it is first asked."""
    return importlib.import_module(f"maxent.torch.structured.{_ENGINES[name]}")


def prepare(
    nodes: Tensor,
    transitions: Tensor,
    lengths: Tensor | None,
    start: Tensor | None,
    end: Tensor | None,
) -> Chains:
    """Checked scores of one type, the start and end scores added, contiguous."""
    for name, x in (("nodes", nodes), ("transitions", transitions)):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"{name} must be a tensor of floats, got {described(x)}")
    if nodes.ndim != 3 or 0 in nodes.shape[1:]:
        raise ValueError(
            "nodes have the shape (sequences, positions, states) with at least one position and "
            f"state, got {tuple(nodes.shape)}"
        )
    batch, length, k = nodes.shape
    if tuple(transitions.shape) not in [(k, k), (batch, k, k), (batch, length - 1, k, k)]:
        raise ValueError(
            f"nodes of shape {tuple(nodes.shape)} need transitions of shape {(k, k)}, "
            f"{(batch, k, k)} or {(batch, length - 1, k, k)}, got {tuple(transitions.shape)}"
        )
    lengths = check_lengths(lengths, nodes, length)
    dtype = torch.promote_types(nodes.dtype, transitions.dtype)
    for name, extra in (("start", start), ("end", end)):
        if extra is None:
            continue
        if not isinstance(extra, Tensor) or tuple(extra.shape) != (k,):
            raise ValueError(
                f"{name} is a tensor of {k} scores, one per state, got {described(extra)}"
            )
        dtype = torch.promote_types(dtype, extra.dtype)
    dtype = torch.float64 if dtype == torch.float64 else torch.float32
    nodes, transitions = nodes.to(dtype), transitions.to(dtype)
    if start is not None or end is not None:
        position = torch.arange(length, device=nodes.device)[None, :, None]
        if start is not None:
            nodes = torch.where(position == 0, nodes + start.to(dtype), nodes)
        if end is not None:
            last = position == lengths[:, None, None] - 1
            nodes = torch.where(last, nodes + end.to(dtype), nodes)
    return Chains(nodes.contiguous(), transitions.contiguous(), lengths)


def check_paths(values: Tensor) -> None:
    """Refuse chains whose best score is -inf."""
    none = (values == -torch.inf).nonzero()
    if len(none):
        _refuse_row(int(none[0]))


def _refuse_row(row: int) -> None:
    raise ValueError(
        f"sequence {row} has no path: scores of -inf forbid every one of them; leave at least one "
        "path finite"
    )

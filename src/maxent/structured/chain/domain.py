"""Chains: sequences of states with scores on states and on transitions (linear-chain CRFs)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse, special
from scipy.sparse.linalg import splu

from maxent import io
from maxent._support.threads import over_rows
from maxent.core.domains import StructuredDomain
from maxent.core.domains.active_set import Support, max_steps, support_of
from maxent.core.domains.base import each_row
from maxent.rows.arrays import (
    Array,
    Ragged,
    Rows,
    Tied,
    as_float,
    as_rows,
    flat,
    leading,
    like,
    row_sum,
    take_row,
)
from maxent.structured.chain.layout import Layout, empty_like, layout
from maxent.structured.chain.observed import TiedPaths
from maxent.structured.chain.small import Packed, few
from maxent.structured.tied import tied_negentropy


@io.register
@dataclass(frozen=True)
class Chain(StructuredDomain):
    """Paths through ``n_states`` states: the marginal polytope of a chain.

    A row is one sequence of `T >= 1` positions: T K unary entries (position by position), then
    `(T-1) K^2` transition entries [t, from, to]; its size `T K + (T-1) K^2` fixes T. Sequences of
    one length are an array of rows, others a Ragged. A vertex marks the states and transitions of
    one path with ones. A score of -inf forbids a state or a transition.

    Where all positions of a sequence have the same transition scores, rows are a ``Tied``: the
    unary entries and one block of `K^2` transition scores, for each sequence or for all of them.
    Points then hold the sums of the transition marginals, so that inner products stay what they
    are and nothing of size `T K^2` is ever written. ``scores`` makes rows of either kind.

    Parameters
    ----------
    n_states : int
        Number of states K.
    forbidden : tuple of (int, int), default ()
        Transitions (from, to) that are forbidden everywhere.

    Examples
    --------
    >>> chain = Chain(2)
    >>> theta = [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0]  # T = 2; leaving 1 for 0 scores 3
    >>> chain.decode(chain.argmax(theta))
    [array([1, 0])]
    """

    n_states: int
    forbidden: tuple[tuple[int, int], ...] = field(default=(), metadata=io.LATER)
    constant_norm = True
    ragged = True
    tied = True

    def __post_init__(self) -> None:
        if not isinstance(self.n_states, int | np.integer) or self.n_states < 1:
            raise ValueError(f"Chain needs an integer n_states >= 1, got {self.n_states!r}")
        pairs = np.asarray(self.forbidden)
        if pairs.size and (
            pairs.ndim != 2
            or pairs.shape[1] != 2
            or not np.issubdtype(pairs.dtype, np.integer)
            or pairs.min() < 0
            or pairs.max() >= self.n_states
        ):
            raise ValueError(
                f"forbidden transitions are pairs (from, to) of states 0 .. {self.n_states - 1}, "
                f"got {self.forbidden!r}"
            )
        object.__setattr__(self, "forbidden", tuple(map(tuple, pairs.tolist())))

    def length(self, size: int) -> int:
        """Positions T of a row of ``size`` entries."""
        k = self.n_states
        length, rest = divmod(size + k * k, k + k * k)
        if rest or length < 1:
            near = max(1, length)
            raise ValueError(
                f"a row of size {size} is no sequence over n_states={k} states: T positions take "
                f"T K + (T-1) K^2 entries, so {self.size(near)} for T={near} "
                f"and {self.size(near + 1)} for T={near + 1}"
            )
        return length

    def size(self, length: int) -> int:
        """Entries `T K + (T-1) K^2` of a row of ``length`` positions."""
        return length * self.n_states + (length - 1) * self.n_states**2

    def lengths(self, rows: Rows) -> Array:
        """Positions of each row."""
        k = self.n_states
        if isinstance(rows, Tied):
            sizes = np.diff(rows.own.offsets)
            if rows.tied.shape[1] != k * k or (sizes % k).any() or (sizes == 0).any():
                raise ValueError(
                    f"rows with tied transitions over n_states={k} states hold T {k} unary entries "
                    f"and {k * k} transition entries, got {sizes[:3]} and {rows.tied.shape[1]}"
                )
            return sizes // k
        if isinstance(rows, Ragged):
            sizes, inverse = np.unique(np.diff(rows.offsets), return_inverse=True)
            return np.array([self.length(int(n)) for n in sizes], np.int64)[inverse]
        return np.full(len(rows), self.length(rows.shape[1]))

    def scores(self, nodes: Any, transitions: Any, start: Any = None, end: Any = None) -> Rows:
        """Rows from scores of states and transitions.

        Parameters
        ----------
        nodes : array (n_sequences, T, K) or list of array (T, K)
            Scores of the states; a list for different lengths.
        transitions : array or list of array
            Scores of transitions: (K, K) shared by all, (n_sequences, K, K), or one block per
            position: (n_sequences, T - 1, K, K) or a list of (T - 1, K, K).
        start : array (K,), default None
            Scores added to the first state of every sequence.
        end : array (K,), default None
            Scores added to the last state of every sequence.

        Examples
        --------
        >>> Chain(2).scores(np.zeros((1, 3, 2)), [[0.0, 1.0], [2.0, 3.0]], start=[5.0, 6.0]).rows()
        [array([5., 6., 0., 0., 0., 0., 0., 1., 2., 3.])]
        """
        k = self.n_states
        unary = [np.array(as_float(x)) for x in nodes]
        for i, x in enumerate(unary):
            if x.ndim != 2 or x.shape[1] != k or not len(x):
                raise ValueError(
                    f"sequence {i} needs a matrix of scores (positions, {k}), got shape {x.shape}"
                )
        for where, extra in ((0, start), (-1, end)):
            if extra is None:
                continue
            if np.shape(extra) != (k,):
                raise ValueError(
                    f"start and end scores are vectors of {k} numbers, got {np.shape(extra)}"
                )
            for x in unary:
                x[where] += extra
        own = Ragged.from_rows([x.reshape(-1) for x in unary])
        if isinstance(transitions, list) and transitions and np.ndim(transitions[0]) == 3:
            return self._written_out(unary, [as_float(x) for x in transitions])
        blocks = as_float(transitions)
        if blocks.ndim == 4:
            rows = self._written_out(unary, list(blocks))
            equal = len({len(x) for x in unary}) == 1
            return np.array(rows.rows()) if equal else rows
        if blocks.shape not in {(k, k), (len(unary), k, k)}:
            raise ValueError(
                f"transitions over {k} states and {len(unary)} sequences have shape {(k, k)}, "
                f"{(len(unary), k, k)} or one block per position, got {blocks.shape}"
            )
        return as_float(Tied(own, blocks.reshape(-1, k * k)))

    def _written_out(self, unary: list[Array], blocks: list[Array]) -> Ragged:
        k = self.n_states
        if len(blocks) != len(unary):
            raise ValueError(f"{len(unary)} sequences, but transitions of {len(blocks)}")
        for i, (x, y) in enumerate(zip(unary, blocks, strict=True)):
            if y.shape != (len(x) - 1, k, k):
                raise ValueError(
                    f"sequence {i} has {len(x)} positions, so transitions of shape "
                    f"{(len(x) - 1, k, k)}, got {y.shape}"
                )
        pairs = zip(unary, blocks, strict=True)
        return Ragged.from_rows([np.concatenate([x.ravel(), y.ravel()]) for x, y in pairs])

    def tie(self, p: Any) -> Tied:
        """Points with their transition marginals summed over the positions.

        >>> Chain(2).tie(Chain(2).encode(np.array([[0, 0, 0]]))).rows()
        [array([1., 0., 1., 0., 1., 0., 2., 0., 0., 0.])]
        """
        p = as_float(p)
        if isinstance(p, Tied):
            return p
        rows, k = as_rows(p), self.n_states
        lengths = self.lengths(rows)
        at = layout(rows, lengths, k)
        unary = [at.nodes[a : a + n * k] for a, n in zip(at.node_start, lengths, strict=True)]
        blocks = [
            at.edges[a : a + (n - 1) * k * k].reshape(-1, k * k).sum(axis=0, dtype=np.float64)
            for a, n in zip(at.edge_start, lengths, strict=True)
        ]
        tied = np.array(blocks, rows.dtype).reshape(len(lengths), k * k)
        return Tied(Ragged.from_rows(unary), tied)

    def conform(self, p: Rows, template: Rows) -> Rows:
        """Points with summed transitions where the scores are tied."""
        if isinstance(template, Tied) and (isinstance(p, Ragged) or np.ndim(p) == 2):
            return self.tie(p)
        return p

    def conform_scores(self, theta: Rows, template: Rows) -> Rows:
        """Tied scores where the template is tied; all positions must then score alike."""
        if not isinstance(template, Tied) or not isinstance(theta, Ragged):
            return theta
        tied = self.tie(theta)
        steps = np.maximum(self.lengths(theta) - 1, 1)[:, None]
        tied = Tied(tied.own, tied.tied / steps)
        spread = theta - self.untie(tied)
        if np.abs(spread.values).max(initial=0.0) > 1e-12 * (1 + np.abs(theta.values).max()):
            raise ValueError(
                "transition scores that differ from position to position cannot be added to tied "
                "ones; write all of them out (ChainMap(..., tied=False))"
            )
        return tied

    def untie(self, theta: Tied) -> Ragged:
        """Tied scores written out, one block per position."""
        blocks = np.broadcast_to(theta.tied, (len(theta), theta.tied.shape[1]))
        rows = zip(theta.own.rows(), blocks, self.lengths(theta), strict=True)
        return Ragged.from_rows([np.concatenate([x, np.tile(b, n - 1)]) for x, b, n in rows])

    def vertices(self, size: int) -> Array:
        """All paths, `K^T` without forbidden transitions."""
        paths = itertools.product(range(self.n_states), repeat=self.length(size))
        banned = set(self.forbidden)
        allowed = [p for p in paths if not banned.intersection(itertools.pairwise(p))]
        return np.asarray(self.encode(np.array(allowed)))

    def encode(self, labels: Any, tied: bool = False) -> Rows:
        """Paths as vertices: a 2-D array of states gives an array, a list of paths a Ragged.

        With ``tied`` both give a Tied, whose last block counts the transitions of each path.

        >>> Chain(2).encode(np.array([[0, 1]]))
        array([[1., 0., 0., 1., 0., 1., 0., 0.]])
        """
        if isinstance(labels, np.ndarray) and labels.ndim != 2:
            raise ValueError(f"labels are a 2-D array or a list of paths, got {labels.ndim} axes")
        paths = [self._path(path) for path in labels]
        lengths = np.array([path.size for path in paths], np.int64)
        padded = np.zeros((len(paths), lengths.max(initial=1)), np.int64)
        for row, path in zip(padded, paths, strict=True):
            row[: path.size] = path
        rows = self._room(lengths, tied)
        self._write(padded, lengths, rows)
        if tied or not isinstance(labels, np.ndarray):
            return rows
        return rows.values.reshape(-1, self.size(labels.shape[1]))

    def _room(self, lengths: Array, tied: bool) -> Rows:
        k = self.n_states
        sizes = lengths * k if tied else lengths * k + (lengths - 1) * k * k
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        own = Ragged(np.empty(offsets[-1]), offsets)
        return Tied(own, np.empty((len(lengths), k * k))) if tied else own

    def _write(self, paths: Array, lengths: Array, out: Rows) -> None:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.chain.kernels.marginals import write_paths

        at = layout(out, lengths, self.n_states)
        write = exact(write_paths, paths.size, calls=1)
        write(paths, lengths, self.n_states, at.step, *at[:4])

    def _path(self, labels: Any) -> Array:
        path = np.asarray(labels)
        if path.ndim != 1 or path.size == 0 or not np.issubdtype(path.dtype, np.integer):
            raise ValueError(f"a path is a non-empty vector of integer states, got {labels!r}")
        if path.min() < 0 or path.max() >= self.n_states:
            raise ValueError(
                f"states run from 0 to {self.n_states - 1}, "
                f"got one from {path.min()} to {path.max()}"
            )
        banned = set(self.forbidden).intersection(itertools.pairwise(path.tolist()))
        if banned:
            raise ValueError(f"a path makes the forbidden transition {min(banned)}")
        return path

    def decode(self, p: Any) -> list[Array]:
        """The states of each row: the path of a vertex, the likeliest states of marginals."""
        rows = as_rows(as_float(p))
        lengths = self.lengths(rows)
        at = layout(rows, lengths, self.n_states)
        return [
            at.nodes[a : a + length * self.n_states].reshape(length, -1).argmax(axis=1)
            for a, length in zip(at.node_start, lengths, strict=True)
        ]

    def allowed(self, theta: Rows) -> Rows:
        """The scores with -inf at forbidden transitions."""
        if not self.forbidden:
            return theta
        banned = np.array(self.forbidden) @ [self.n_states, 1]
        theta = theta.copy()
        if isinstance(theta, Tied):
            theta.tied[:, banned] = -np.inf
            return theta
        lengths = self.lengths(theta)
        at = layout(theta, lengths, self.n_states)
        for start, length in zip(at.edge_start, lengths, strict=True):
            block = at.edges[start : start + (length - 1) * at.step]
            block.reshape(-1, at.step)[:, banned] = -np.inf
        return theta

    def _argmax(self, theta: Rows) -> Rows:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.chain.kernels.marginals import argmax_rows

        out = empty_like(theta)
        steps = self._steps(self.lengths(theta))
        self._over_rows(exact(argmax_rows, steps), theta, out)
        return out

    def _softmax(self, theta: Rows) -> tuple[Array, Rows]:
        log_partition, out = np.empty(len(theta)), empty_like(theta)
        lengths = self.lengths(theta)
        if len(theta) and few(lengths, self.n_states**2):
            self._few_marginals(self.allowed(theta), lengths, log_partition, out)
            self._refuse(np.flatnonzero(log_partition == -np.inf))
        else:
            from maxent.structured.chain.kernels.marginals import softmax_rows

            self._over_rows(softmax_rows, theta, out, log_partition)
        return log_partition, out

    def _few_marginals(self, theta: Rows, lengths: Array, value: Array, out: Rows) -> None:
        """Write log-partitions and marginals, in numpy."""
        k, packed = self.n_states, Packed.from_lengths(lengths)
        at, to = layout(theta, lengths, k), layout(out, lengths, k)
        row = packed.row[packed.sequence]
        t = packed.token - (np.cumsum(lengths) - lengths)[row]
        states, pairs, later = np.arange(k), np.arange(k * k), t > 0
        # the blocks that lead to later positions, each once
        places = at.edge_start[row] + (t - 1) * at.step
        starts, which = np.unique(np.where(later, places, 0), return_inverse=True)
        blocks = at.edges[starts[:, None] + pairs] if later.any() else np.zeros((1, k * k))
        unary = at.nodes[(at.node_start[row] + t * k)[:, None] + states]
        found = packed.marginals(unary, blocks.reshape(-1, k, k), which)
        value[packed.row] = found.value
        to.nodes[(to.node_start[row] + t * k)[:, None] + states] = found.mean
        joint = found.before[:, :, None] * found.weight[which] * found.onward[:, None, :]
        joint[found.far] = found.joint
        joint = joint.reshape(-1, k * k)
        if to.step:
            places = to.edge_start[row] + (t - 1) * to.step
            to.edges[places[later, None] + pairs] = np.minimum(joint[later], 1.0)
        else:
            total = np.zeros((len(lengths), k * k))
            np.add.at(total, row, joint)
            to.edges[to.edge_start[:, None] + pairs] = np.minimum(total, lengths[:, None] - 1.0)

    def _over_rows(self, kernel: Any, theta: Rows, out: Rows | None, *more: Any) -> None:
        """Run a kernel over the rows; it answers with a row without a path, or -1."""
        theta, k = self.allowed(theta), self.n_states
        lengths = self.lengths(theta)
        places = () if out is None else layout(out, lengths, k)[:4]
        arguments = (*layout(theta, lengths, k), lengths, k, *places, *more)
        impossible: list[int] = []

        def work(start: int, stop: int) -> None:
            row = kernel(*arguments, start, stop)
            if row is not None and row >= 0:
                impossible.append(row)

        over_rows(work, len(lengths), self._work(lengths))
        self._refuse(impossible)

    def _refuse(self, impossible: Sequence[int] | Array) -> None:
        """Say which row has no path, if there is one."""
        if len(impossible):
            raise ValueError(
                f"row {min(impossible)} has no path: scores of -inf forbid every one of them; "
                "leave at least one path finite"
            )

    def _work(self, lengths: Array) -> int:
        """Entries that a programme visits in a row, on average."""
        return int(lengths.mean() * self.n_states**2) if lengths.size else 0

    def _steps(self, lengths: Array) -> int:
        """Entries that a programme visits in all rows."""
        return int(lengths.sum()) * self.n_states**2

    def _kbest(self, theta: Rows, k: int) -> tuple[Array, list[Rows]]:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.chain.kernels.marginals import kbest_rows

        lengths = self.lengths(theta)
        scores = np.empty((len(lengths), k))
        paths = np.zeros((len(lengths), k, lengths.max(initial=1)), np.int64)
        steps = k * self._steps(lengths)
        self._over_rows(exact(kbest_rows, steps), theta, None, k, scores, paths)
        if (scores[:, 0] == -np.inf).any():
            self._argmax(theta)  # says which row has no path
        batches = self._batches(np.moveaxis(paths, 1, 0), theta)
        for rank, batch in enumerate(batches):
            missing = scores[:, rank] == -np.inf
            if missing.any():
                for part in self._row_parts(batch, lengths, missing):
                    part[:] = 0
        return scores, batches

    def _row_parts(self, batch: Rows, lengths: Array, chosen: Array) -> list[Array]:
        """Views of the entries of the chosen rows."""
        k, at = self.n_states, layout(batch, lengths, self.n_states)
        views = []
        for i in np.flatnonzero(chosen):
            length = lengths[i]
            views.append(at.nodes[at.node_start[i] : at.node_start[i] + length * k])
            block = (length - 1) * at.step if at.step else k * k
            views.append(at.edges[at.edge_start[i] : at.edge_start[i] + block])
        return views

    def _sample(self, theta: Rows, n: int, rng: np.random.Generator) -> list[Rows]:
        from maxent.structured.chain.kernels.marginals import sample_rows

        lengths = self.lengths(theta)
        paths = np.zeros((n, len(lengths), lengths.max(initial=1)), np.int64)
        self._over_rows(sample_rows, theta, None, rng.random(paths.shape), paths)
        return self._batches(paths, theta)

    def _batches(self, paths: Array, theta: Rows) -> list[Rows]:
        lengths, batches = self.lengths(theta), []
        for each in paths:
            batch = empty_like(theta)
            self._write(np.ascontiguousarray(each), lengths, batch)
            batches.append(batch)
        return batches

    def softmax_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """Covariance of the vertex times v, by two more recursions either way."""
        from maxent.structured.chain.kernels.marginals import covariance_rows

        rows, tangent = as_rows(theta), as_rows(v).astype(np.float64, copy=False)
        out = empty_like(rows, np.float64)
        lengths = self.lengths(rows)
        along = layout(tangent, lengths, self.n_states)[:4]
        to = layout(out, lengths, self.n_states)[:4]
        self._over_rows(covariance_rows, rows, None, *along, *to)
        return like(out.astype(rows.dtype, copy=False), theta)

    def _project(self, theta: Rows) -> Rows:
        if isinstance(theta, Tied):
            raise TypeError(
                "a projection weighs the transitions of each position by themselves, so rows with "
                "tied transitions have none; write them out (Chain.scores with one block per "
                "position, ChainMap(..., tied=False))"
            )
        return super()._project(theta)

    def _project_support(self, theta: Rows, start: Sequence[Support] | None) -> list[Support]:
        from maxent.structured.chain.kernels.marginals import project_row

        rows, lengths = each_row(self.allowed(theta)), self.lengths(theta)
        starts = [None] * len(rows) if start is None else start
        supports: list[Any] = [None] * len(rows)

        def work(first: int, stop: int) -> None:
            for i in range(first, stop):
                row, length = rows[i], int(lengths[i])
                index = np.empty((0, 2 * length - 1), np.int32)
                weights = np.empty(0)
                if (known := starts[i]) is not None:
                    index = known.vertices.indices.reshape(-1, 2 * length - 1)
                    weights = known.weights
                count, room = project_row(
                    row.astype(np.float64), length, self.n_states, index, weights, max_steps()
                )
                supports[i] = support_of(room, count, row.size) if count else None

        over_rows(work, len(rows), 1000 * self._work(lengths))
        if any(support is None for support in supports):
            self._argmax(theta)  # says which row has no path
        return supports

    def project_jvp(self, theta: Rows, p: Rows, v: Rows) -> Rows:
        """v projected on the directions of the face of p: 0 where p is 0, mass conserved."""
        rows = as_rows(p)
        values = flat(rows)
        support = np.flatnonzero(values > 0)
        constraints = self._conservation(rows, support)
        out = np.zeros_like(values)
        inside = flat(v)[support].astype(np.float64)
        gram = sparse.csc_array(constraints @ constraints.T)
        multipliers = splu(gram, "MMD_AT_PLUS_A").solve(constraints @ inside)
        out[support] = inside - constraints.T @ multipliers
        return like(_with_cuts(out, rows), p)

    def _conservation(self, rows: Rows, support: Array) -> Any:
        """Sparse A with A d = 0 for directions d of the polytope, on the supported entries.

        What leaves state i of position t is d_t(i), and so is what enters it; sum_i d_0(i) = 0.
        """
        k = self.n_states
        lengths = self.lengths(rows)
        offsets = (
            rows.offsets if isinstance(rows, Ragged) else np.arange(len(rows) + 1) * rows.shape[1]
        )
        row = np.searchsorted(offsets, support, side="right") - 1
        first = np.concatenate([[0], np.cumsum(lengths * k)])  # number of each row's first state
        local = support - offsets[row]
        nodes = (lengths * k)[row]
        is_node = local < nodes
        node = (first[row] + local)[is_node]
        last = (local >= nodes - k)[is_node]
        start = (local < k)[is_node]
        step, arc = np.divmod((local - nodes)[~is_node], k * k)
        tail = first[row[~is_node]] + step * k + arc // k
        head = first[row[~is_node]] + (step + 1) * k + arc % k
        column = np.arange(support.size)
        at_node, at_edge = column[is_node], column[~is_node]
        # constraint 2 n: entering state n (all states of position 0 together); 2 n + 1: leaving it
        enter = np.where(start, 2 * first[row[is_node]], 2 * node)
        constraint = np.concatenate([2 * tail + 1, 2 * head, enter, 2 * node[~last] + 1])
        entry = np.concatenate([at_edge, at_edge, at_node, at_node[~last]])
        sign = np.ones(entry.size)
        sign[2 * at_edge.size :] = -1
        used, constraint = np.unique(constraint, return_inverse=True)
        return sparse.csr_array((sign, (constraint, entry)), shape=(used.size, support.size))

    def negentropy(self, p: Rows) -> Array:
        """`sum_t p_t(i, j) log p_t(i, j) - sum_{0 < t < T-1} p_t(i) log p_t(i)`; `T = 1`: p log p.

        Sums of transition marginals (a Tied) leave the distribution open: the value is then
        `max_theta <theta, p> - log Z`, found numerically unless the row is a single path.
        """
        rows = as_rows(p)
        if isinstance(rows, TiedPaths):
            return np.zeros(len(rows))
        if isinstance(rows, Tied):
            values = rows.own.values
            if ((values == 0) | (values == 1)).all():
                return np.zeros(len(rows))  # paths: one structure of probability 1 each
            return np.array(
                [tied_negentropy(self._softmax, take_row(rows, i)) for i in range(len(rows))]
            )
        values = flat(rows)
        lengths = self.lengths(rows)
        signs = {length: self._signs(length) for length in np.unique(lengths)}
        if isinstance(rows, Ragged):
            sign = np.concatenate([np.empty(0), *(signs[length] for length in lengths)])
        else:
            sign = np.tile(signs[lengths[0]], len(rows)) if len(rows) else np.empty(0)
        terms = sign * np.where(values < 0, 0.0, special.entr(values))
        total = -row_sum(_with_cuts(terms, rows))
        outside = row_sum(_with_cuts(values < 0, rows)) > 0
        return leading(np.where(outside, np.inf, total), p)

    def cheap_negentropy(self, p: Rows) -> bool:
        """Whether the negentropy has a formula: not for sums of transition marginals."""
        return not isinstance(p, Tied)

    def _signs(self, length: int) -> Array:
        """How often p log p of each entry counts in the negentropy."""
        sign = np.ones(self.size(length))
        if length > 1:
            sign[: length * self.n_states] = -1
            sign[: self.n_states] = sign[(length - 1) * self.n_states : length * self.n_states] = 0
        return sign

    def _contains(self, p: Rows, atol: float) -> Array:
        from maxent._support.compiling.kernels import exact
        from maxent.structured.chain.kernels.marginals import violation_rows

        lengths = self.lengths(p)
        worst = np.empty(len(lengths))
        at = layout(p, lengths, self.n_states)
        measure = exact(violation_rows, self._steps(lengths), calls=1)
        measure(*at, lengths, self.n_states, worst, 0, len(lengths))
        return (worst <= atol) & ~self._uses_forbidden(at, lengths, atol)

    def _uses_forbidden(self, at: Layout, lengths: Array, atol: float) -> Array:
        uses = np.zeros(len(lengths), bool)
        if not self.forbidden:
            return uses
        blocks = lengths - 1 if at.step else np.ones_like(lengths)
        banned = np.array(self.forbidden) @ [self.n_states, 1]
        for row, (start, count) in enumerate(zip(at.edge_start, blocks, strict=True)):
            entries = start + np.arange(count)[:, None] * at.step + banned
            uses[row] = bool((np.abs(at.edges[entries]) > atol).any())
        return uses


def _with_cuts(values: Array, rows: Rows) -> Rows:
    """The flat values with the shape of a batch of rows."""
    if isinstance(rows, Ragged):
        return Ragged(values, rows.offsets)
    return values.reshape(rows.shape)

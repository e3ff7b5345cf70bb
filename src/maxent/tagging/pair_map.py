"""The feature map of a linear-chain model over sparse attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent import io
from maxent._support.checks import cuts, indices
from maxent._support.threads import over_rows, sum_of_parts
from maxent.core.domains import Domain
from maxent.core.entropies import Entropy, Shannon, Shifted
from maxent.core.maps import RowMap
from maxent.core.row_factors import chain_columns
from maxent.rows.arrays import Array, Ragged, Rows, Tied
from maxent.rows.local import LocalEvaluator
from maxent.structured import Chain
from maxent.structured.chain.observed import TiedPaths
from maxent.structured.chain.small import Packed, few

_COST = 16  # entries of an elementwise pass that an attribute of a token counts as
_LANES = 8  # rows of scores are a multiple of this
_WIDE = 4  # attributes with weights for a K / _WIDE of the K states are added as whole rows
_PARTS = 8  # sums of moments that are made on their own
_PART = 1 << 15  # entries of work below which a part does not pay
_FEW_WEIGHTS = 1 << 20  # that numpy may write out, attributes times states


class _Codes(NamedTuple):
    """The attributes of all tokens as the kernels read them, see ``kernels.attribute_scores``."""

    values: Array
    codes: Array
    tokens: Array
    state: Array


class _Weights(NamedTuple):
    """Weights, or sums of moments, as the kernels read them."""

    pairs: Array
    table: Array


@io.register
class PairChainMap(RowMap):
    """Chains whose attributes have weights for the states they were seen with (CRFsuite's rule).

    w = [one weight per pair of an attribute and a state, transitions (states, states) flattened];
    ``seen`` makes those of a training set, ``ChainMap`` is the map with all pairs.

    Parameters
    ----------
    X : sparse matrix (n_positions, n_attributes)
        Positions of all sequences.
    lengths : array (n_sequences,)
        Length of each sequence.
    n_states : int
        Number of states.
    start : array (n_attributes + 1,)
        Where the pairs of each attribute start.
    state : array (n_pairs,)
        State of each pair, attribute by attribute.

    Examples
    --------
    >>> X = sparse.csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> chains = PairChainMap.seen(X, np.array([2]), 2, np.array([0, 1]))
    >>> chains.scores(np.array([5.0, 7.0, 0.0, 0.0, 0.0, 0.0])).own.values
    array([ 5.,  0.,  0., 14.])
    """

    def __init__(self, X: Any, lengths: Array, n_states: int, start: Array, state: Array) -> None:
        self.X = X = sparse.csr_array(X)
        self.n_states = int(n_states)
        self.start, self.state = np.asarray(start, np.int32), np.asarray(state, np.int16)
        self.n_rows: int = len(lengths)
        self.n_features = self.state.size + self.n_states**2
        self._lengths = np.asarray(lengths, np.int64)
        if self._lengths.sum() != X.shape[0] or self._lengths.min(initial=1) < 1:
            raise ValueError(
                f"the lengths add up to {self._lengths.sum()} positions, X has {X.shape[0]}, and "
                "no sequence is empty"
            )
        if self.start.size != X.shape[1] + 1 or self.start[-1] != self.state.size:
            raise ValueError(
                f"{X.shape[1]} attributes need {X.shape[1] + 1} starts that end at the "
                f"{self.state.size} pairs"
            )
        self._cuts = np.concatenate([[0], np.cumsum(self._lengths)])

    @classmethod
    def seen(cls, X: Any, lengths: Array, n_states: int, labels: Array) -> PairChainMap:
        """The map with the pairs that occur with the labels, one per position."""
        from maxent._support.compiling.kernels import exact
        from maxent.tagging.kernels.attribute_scores import mark_pairs

        X = sparse.csr_array(X)
        marks = np.zeros((X.shape[1], n_states), bool)
        exact(mark_pairs, X.nnz, calls=1)(X.indices, X.indptr, labels, marks)
        attribute, state = np.nonzero(marks)
        start = np.searchsorted(attribute, np.arange(X.shape[1] + 1))
        return cls(X, lengths, n_states, start, state)

    def __repr__(self) -> str:
        return (
            f"PairChainMap({self.n_rows} sequences, {self.n_features} weights, "
            f"{self.n_states} states)"
        )

    def __getmodel__(self) -> dict[str, Any]:
        return {
            "X": self.X,
            "lengths": self._lengths,
            "n_states": self.n_states,
            "start": self.start,
            "state": self.state,
        }

    def __setmodel__(self, state: dict[str, Any]) -> None:
        n_states = state["n_states"]
        if not isinstance(n_states, int) or isinstance(n_states, bool) or n_states < 1:
            raise ValueError(f"a PairChainMap has a number of states, got {n_states!r}")
        X = sparse.csr_array(state["X"])
        indices("lengths", state["lengths"], np.size(state["lengths"]), X.shape[0] + 1)
        cuts("start", state["start"], np.size(state["state"]))
        indices("state", state["state"], np.size(state["state"]), n_states)
        self.__init__(X, state["lengths"], n_states, state["start"], state["state"])  # type: ignore[misc]

    # -- what kernels read ---------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return -(-self.n_states // _LANES) * _LANES

    @cached_property
    def _wide(self) -> tuple[Array, Array, Array]:
        """Attributes kept as whole rows, their pairs, and where these are in the table."""
        counts = np.diff(self.start)
        # an attribute without weights is a row of zeros
        wide = np.flatnonzero((counts >= max(2, self.n_states / _WIDE)) | (counts == 0))
        rows = np.repeat(np.arange(wide.size), counts[wide])
        firsts = np.cumsum(counts[wide]) - counts[wide]
        pairs = np.arange(rows.size) + np.repeat(self.start[wide] - firsts, counts[wide])
        return wide, pairs, rows * self._width + self.state[pairs]

    @cached_property
    def _codes(self) -> _Codes:
        X, (wide, _, _) = self.X, self._wide
        codes = self.start[:-1].copy()
        codes[wide] = ~np.arange(wide.size, dtype=np.int32)
        state = self.state.copy()
        last = self.start[1:][np.diff(self.start) > 0] - 1
        state[last] = ~state[last]
        ones = X.data.dtype == np.int8 or bool((X.data == 1).all())
        values = np.empty(0) if ones else X.data.astype(np.float64, copy=False)
        return _Codes(values, codes[X.indices], X.indptr, state)

    def _weights(self, w: Array) -> _Weights:
        wide, pairs, places = self._wide
        table = np.zeros((wide.size, self._width))
        table.reshape(-1)[places] = w[pairs]
        return _Weights(np.ascontiguousarray(w[: self.state.size], np.float64), table)

    def _edge(self, transitions: Array) -> Array:
        k, width = self.n_states, self._width
        edge = np.full((1, width, width), -np.inf)
        edge[0, :k, :k] = transitions.reshape(k, k)
        return edge

    def _zeros(self, parts: tuple[int, ...]) -> list[Array]:
        """Views of one vector, so that sums of it are sums of all of them."""
        whole = np.zeros(sum(parts))
        return [whole, *np.split(whole, np.cumsum(parts)[:-1])]

    def _moments(self, pairs: Array, table: Array, edge: Array) -> Array:
        """Sums as they come from the kernels, in the order of the weights."""
        _, places, wide = self._wide
        pairs[places] = table[wide]
        return np.concatenate([pairs, edge])

    # -- what numpy reads, of few positions ----------------------------------------------------

    @cached_property
    def _few(self) -> Packed | None:
        """Where the positions lie for recursions in numpy; None where kernels are worth it."""
        attributes = self.X.shape[1] * self.n_states
        if attributes > _FEW_WEIGHTS or not few(self._lengths, self.n_states):
            return None
        return Packed.from_lengths(self._lengths)

    @cached_property
    def _values(self) -> Any:
        return self.X.astype(np.float64)

    @cached_property
    def _attribute(self) -> Array:
        """Of each pair."""
        return np.repeat(np.arange(self.X.shape[1]), np.diff(self.start))

    @property
    def lengths(self) -> Array:
        """Positions of each sequence."""
        return self._lengths

    @property
    def _size(self) -> int:
        """Entries of an elementwise pass that a token counts as."""
        return _COST * (1 + self.X.nnz // max(1, self.X.shape[0]))

    # -- the map -------------------------------------------------------------------------------

    def scores(self, w: Array) -> Tied:
        """Unary scores of every position, and the transitions that all share."""
        transitions = np.asarray(w[None, self.state.size :], np.float64)
        return Tied(Ragged(self._unary(w).reshape(-1), self._cuts * self.n_states), transitions)

    def _unary(self, w: Array) -> Array:
        if self._few is not None:
            table = np.zeros((self.X.shape[1], self.n_states))
            table[self._attribute, self.state] = w[: self.state.size]
            return self._values @ table
        from maxent.tagging.kernels.attribute_scores import scores_of

        unary = np.empty((self.X.shape[0], self.n_states))
        arguments = (*self._codes, *self._weights(w), unary)
        over_rows(lambda first, last: scores_of(*arguments, first, last), len(unary), self._size)
        return unary

    def moments(self, p: Rows) -> Array:
        """Expected attributes of every pair, and summed transition marginals."""
        marginals = p.own.values.astype(np.float64, copy=False).reshape(-1, self.n_states)
        edge = p.tied.sum(axis=0, dtype=np.float64)
        if self._few is not None:
            return self._few_moments(marginals, edge)
        return self._part_moments(lambda first, last: marginals[first:last], edge)

    def weighted_moments(self, p: Rows, weights: Array) -> Array:
        """The same of rows with weights; observed paths are written out a part at a time."""
        if self._few is not None or not isinstance(p, TiedPaths):
            return super().weighted_moments(p, weights)
        each = np.repeat(weights, self._lengths)[:, None]

        def marginals(first: int, last: int) -> Array:
            return p.unary(first, last) * each[first:last]

        return self._part_moments(marginals, p.transitions(weights))

    def _part_moments(self, marginals: Callable[[int, int], Array], edge: Array) -> Array:
        """Moments from the marginals of the positions from one to another."""
        from maxent.tagging.kernels.attribute_scores import add_moments

        sizes = (self.state.size, self._wide[0].size * self._width)
        values, codes, tokens, state = self._codes

        def part(first: int, last: int) -> Array:
            whole, pairs, table = self._zeros(sizes)
            sums = pairs, table.reshape(-1, self._width)
            here = values, codes, tokens[first : last + 1], state
            add_moments(*here, marginals(first, last), *sums, 0, last - first)
            return whole

        total = self._sum(part, self._cuts)
        pairs, table = np.split(total, [self.state.size])
        return self._moments(pairs, table, edge)

    def _few_moments(self, marginals: Array, edge: Array) -> Array:
        expected = self._values.T @ marginals
        return np.concatenate([expected[self._attribute, self.state], edge.reshape(-1)])

    def evaluator(self, domain: Domain, weights: Array | None, observed: Any) -> LocalEvaluator:
        """Observed paths stay states, which are in the domain as they are."""
        fits = (
            isinstance(observed, TiedPaths)
            and domain == Chain(observed.n_states)
            and observed.n_states == self.n_states
            and np.array_equal(observed.lengths, self._lengths)
        )
        if fits:
            return LocalEvaluator(self, weights, observed)
        return super().evaluator(domain, weights, observed)

    def row_moments(self, p: Rows, index: Array) -> Any:
        """Expected attributes and transitions of each sequence."""
        if not index.size:
            return sparse.csr_array((self.n_rows, 0))
        own = index[index < self.state.size]
        attribute = np.searchsorted(self.start, own, side="right") - 1
        unary = p.own.values.reshape(-1, self.n_states)
        first = chain_columns(self.X, self._lengths, unary, attribute, self.state[own])
        return sparse.hstack([first, p.tied[:, index[own.size :] - self.state.size]], "csr")

    def conjugate_and_moments(
        self, entropy: Entropy, w: Array, weights: Array | None
    ) -> tuple[Array, Array] | None:
        """Log-partitions and moments of Shannon's entropy on ``Chain``, with a cost or without."""
        cost = self._cost(entropy)
        if cost is None or weights is None:
            return None
        if self._few is not None:
            return self._few_sums(self._few, cost, w, weights)
        from maxent.tagging.kernels.attribute_scores import (
            conjugate_and_moments,
            far_conjugate_and_moments,
        )

        k, width = self.n_states, self._width
        transitions = np.asarray(w[self.state.size :], np.float64)
        arguments = (*self._codes, *self._weights(w), self._edge(transitions), self._cuts)
        values = np.empty(self.n_rows)
        sizes = (self.state.size, self._wide[0].size * width, width * width)
        impossible: list[int] = []

        def part(first: int, last: int) -> Array:
            whole, pairs, table, edge = self._zeros(sizes)
            sums = pairs, table.reshape(-1, width), edge.reshape(width, width)
            conjugate_and_moments(*arguments, weights, cost, values, *sums, first, last)
            far = first + np.flatnonzero(np.isnan(values[first:last]))
            if far.size:
                row = far_conjugate_and_moments(*arguments, weights, cost, values, *sums, far)
                if row >= 0:
                    impossible.append(row)
            return whole

        total = self._sum(part, np.arange(self.n_rows + 1))
        if impossible:
            return None  # the plain way says which sequence has no path, and why
        pairs, table, edge = np.split(total, np.cumsum(sizes)[:-1])
        edge = edge.reshape(width, width)[:k, :k].reshape(-1)
        return values, self._moments(pairs, table, edge)

    def _few_sums(
        self, packed: Packed, cost: Array, w: Array, weights: Array
    ) -> tuple[Array, Array] | None:
        """The same in numpy."""
        unary = self._unary(w)
        if len(cost):
            unary += cost
        edge = np.asarray(w[self.state.size :], np.float64).reshape(1, self.n_states, -1)
        found = packed.marginals(unary[packed.token], edge, np.zeros(len(unary), int))
        if not np.isfinite(found.value).all():
            return None
        weight = weights[packed.row][packed.sequence][:, None]
        values, marginals = np.empty(self.n_rows), np.empty_like(unary)
        values[packed.row], marginals[packed.token] = found.value, weight * found.mean
        joint = found.weight[0] * (found.before.T @ (weight * found.onward))
        joint += (weight[found.far, None] * found.joint).sum(axis=0)
        return values, self._few_moments(marginals, joint)

    def _sum(self, part: Any, starts: Array) -> Array:
        """Sum of part(first, last) over a few parts of the sequences, which start at ``starts``.

        Each makes a vector of all weights, so there are fewer of them than blocks of a plain loop.
        """
        tokens = self._cuts[-1]
        number = int(np.clip(tokens * self._size // _PART, 1, min(_PARTS, self.n_rows)))
        ends = starts[np.searchsorted(self._cuts, tokens * np.arange(number + 1) / number)]

        def work(first: int, last: int) -> Array:
            return part(ends[first], ends[last])

        return sum_of_parts(work, number, _PART)

    def _cost(self, entropy: Entropy) -> Array | None:
        """What an entropy adds to the unary scores, (0, states) for nothing; None for others."""
        cost = np.empty((0, self.n_states))
        if isinstance(entropy, Shifted) and isinstance(entropy.cost, Tied):
            if entropy.cost.tied.any():
                return None
            cost = entropy.cost.own.values.reshape(-1, self.n_states)
            entropy = entropy.entropy
        chain = entropy.domain
        if not (isinstance(entropy, Shannon) and isinstance(chain, Chain)):
            return None
        if chain.forbidden or chain.n_states != self.n_states:
            return None
        return cost if len(cost) in (0, self._cuts[-1]) else None

    def best_paths(self, w: Array) -> Array:
        """The states of the best path through each sequence, one below the other."""
        from maxent._support.compiling.kernels import exact
        from maxent.tagging.kernels.attribute_scores import best_paths

        work = (self.X.nnz + self.n_states * len(self._codes.tokens)) * self.n_states
        find = exact(best_paths, work, calls=1)
        paths = np.empty(self.X.shape[0], np.int64)
        edge = self._edge(np.asarray(w[self.state.size :], np.float64))
        arguments = (*self._codes, *self._weights(w), edge, self._cuts, self.n_states, paths)
        size = self._size * (1 + len(paths) // max(1, self.n_rows))
        over_rows(lambda first, last: find(*arguments, first, last), self.n_rows, size)
        return paths

    def take(self, rows: Array) -> PairChainMap:
        """Some of the sequences."""
        ends = self._cuts
        X = sparse.vstack([self.X[ends[i] : ends[i + 1]] for i in rows], "csr")
        return PairChainMap(X, self._lengths[rows], self.n_states, self.start, self.state)

    def row_norms(self) -> Array:
        """A bound on the squared norm of the map of each sequence: see ``ChainMap``."""
        sizes = np.asarray(self.X.power(2).sum(axis=1)).ravel()
        return np.maximum(np.add.reduceat(sizes, self._cuts[:-1]), 1.0)

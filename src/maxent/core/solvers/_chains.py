"""Chain models laid out for compiled solvers that visit one sequence at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent.core.entropies import Entropy, unwrap
from maxent.core.maps import ChainMap, FeatureMap
from maxent.core.problem import Problem
from maxent.core.solvers.base import elastic_terms
from maxent.rows.arrays import Array, Rows, Tied
from maxent.structured import Chain
from maxent.tagging.pair_map import PairChainMap


class Tokens(NamedTuple):
    """The positions of all sequences, one after another: see ``chain.kernels.token_weights``."""

    values: Any
    attributes: Any
    offsets: Any
    start: Any
    state: Any


class Chains(NamedTuple):
    """The rows: first tokens, lengths, costs (token, state), weights; barriers of transitions.

    ``barrier`` (states, states) is -inf where a transition is forbidden, (0, 0) where none is.
    """

    first: Any
    lengths: Any
    cost: Any
    weights: Any
    barrier: Any


class Active(NamedTuple):
    """Slots of the rows: row i has those from ``slot[i]`` to ``slot[i + 1]``.

    Its paths are a matrix (slot, position) from ``path_at[i]`` on, its inner products a matrix
    (slot, slot) from ``product_at[i]`` on.
    """

    slot: Any
    path_at: Any
    product_at: Any
    count: Any
    share: Any
    cost: Any
    paths: Any
    products: Any


class Weights(NamedTuple):
    """Weights of tokens and of transitions, 1/l2 of both, and room that is 0 between calls."""

    unary: Any
    edges: Any
    unary_scale: Any
    edge_scale: Any
    room: Any
    edge_room: Any


class Layout(NamedTuple):
    """What kernels need of a problem over chains; weights are [those of tokens, transitions]."""

    tokens: Tokens
    chains: Chains
    n_states: int
    cut: int  # weights of tokens

    @property
    def longest(self) -> int:
        """Positions of the longest sequence."""
        return int(self.chains.lengths.max())

    def split(self, w: Array) -> tuple[Array, Array]:
        """Weights of tokens and of transitions, as views."""
        return w[: self.cut], w[self.cut :].reshape(self.n_states, self.n_states)


def layout(problem: Problem, kind: type[Entropy]) -> Layout | None:
    """The layout, for an entropy of this kind on ``Chain`` and tied transitions; else None.

    A cost may depend on the state of each position, not on transitions.
    """
    recipe, features = unwrap(problem.entropy), problem.features
    domain = recipe.entropy.domain
    tied = isinstance(features, PairChainMap) or (isinstance(features, ChainMap) and features.tied)
    if type(recipe.entropy) is not kind or type(domain) is not Chain or not tied:
        return None
    tokens, cut = _tokens(features)
    costs = _costs(domain, recipe.cost, features)
    if costs is None:
        return None
    lengths = np.ascontiguousarray(features.lengths, dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    barrier = np.zeros((0, 0))
    if domain.forbidden:
        barrier = np.zeros((domain.n_states, domain.n_states))
        barrier[tuple(np.array(domain.forbidden).T)] = -np.inf
    assert problem.weights is not None
    weights = np.array(problem.weights, dtype=np.float64)
    return Layout(tokens, Chains(first, lengths, costs, weights, barrier), domain.n_states, cut)


def weights_of(problem: Problem, parts: Layout) -> tuple[Array, Array, Weights]:
    """Weights w, l2, and views of both for the kernels, under a squared norm."""
    l2 = elastic_terms(problem)[1]
    w, room = np.zeros(l2.size), np.zeros(l2.size)
    return w, l2, Weights(*parts.split(w), *parts.split(1 / l2), *parts.split(room))


def _tokens(features: Any) -> tuple[Tokens, int]:
    """The positions as lists of their attributes, and the number of their weights."""
    X = sparse.csr_array(features.X)
    start, state = np.empty(0, np.int64), np.empty(0, np.int32)
    cut = X.shape[1] * features.n_states
    if isinstance(features, PairChainMap):
        start, state = features.start.astype(np.int64), features.state.astype(np.int32)
        cut = state.size
    values = X.data.astype(np.float64, copy=False)
    offsets, attributes = X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False)
    return Tokens(values, attributes, offsets, start, state), cut


def _costs(domain: Chain, cost: Rows | None, features: FeatureMap) -> Array | None:
    """The costs of the states at each token; None where transitions have costs."""
    template = features.scores(np.zeros(features.n_features))
    k = domain.n_states
    if cost is None:
        return np.zeros((template.own.values.size // k, k))
    cost = domain.conform_scores(cost, template)
    if not isinstance(cost, Tied) or cost.tied.any():
        return None
    return np.array(cost.own.values, dtype=np.float64).reshape(-1, k)


def observed_paths(domain: Chain, point: Tied) -> list[Array] | None:
    """The paths of the rows, None where a row is not a single path."""
    paths = domain.decode(point)
    same = domain.encode(paths, tied=True)
    whole = np.array_equal(same.own.values, point.own.values)
    return paths if whole and np.array_equal(same.tied, point.tied) else None

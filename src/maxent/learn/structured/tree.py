"""Labels of the nodes of trees: hierarchical models under any Fenchel-Young loss and potential."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from maxent import io
from maxent.core.domains import Simplex
from maxent.core.entropies import Entropy, Shannon, Shifted, Slack, SmoothedMax, Zero, unwrap
from maxent.core.maps import RaggedMap, TreeMap
from maxent.core.potentials import scaled
from maxent.core.problem import Problem
from maxent.learn.linear.base import as_potential
from maxent.learn.parameters import as_cost, slack_of
from maxent.learn.solving import CERTIFICATE, Posed, StructuredEstimator
from maxent.learn.structured.chain import LOSSES
from maxent.learn.structured.sequences import look_up, number_labels, read_labels, split, stack
from maxent.rows.arrays import Array, Ragged, row_dot
from maxent.structured import Tree
from maxent.structured.trees.rows import TreeRows
from maxent.typing import ArrayLike, PotentialLike, SequencesLike


@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, one tree after another."""

    X: Any
    lengths: Array
    edges: Array  # (edges, 2): parent, child
    kinds: Array  # of each edge, the table that scores it

    def tree(self, n_states: int) -> Tree:
        """One forest of all nodes."""
        return Tree(tuple(map(tuple, self.edges.tolist())), (n_states,) * int(self.lengths.sum()))

    @cached_property
    def _cuts(self) -> tuple[Array, Array]:
        """Where the nodes of each tree end, and its edges."""
        ends = np.cumsum(self.lengths)
        return ends, np.searchsorted(self.edges[:, 1], ends)

    def rows(self, n_states: int) -> TreeRows:
        """Every tree by itself."""
        ends, last = self._cuts
        trees = []
        for edges, length, end in zip(
            np.split(self.edges, last[:-1]), self.lengths, ends, strict=True
        ):
            own = (edges - (end - length)).tolist()
            trees.append(Tree(tuple(map(tuple, own)), (n_states,) * int(length)))
        return TreeRows(tuple(trees))

    def cut(self, row: Array, n_states: int) -> Ragged:
        """A row of the forest as rows of its trees."""
        ends, last = self._cuts
        unary, tables = np.split(row, [int(ends[-1]) * n_states])
        own = zip(
            np.split(unary, ends[:-1] * n_states),
            np.split(tables, last[:-1] * n_states**2),
            strict=True,
        )
        return Ragged.from_rows([np.concatenate(parts) for parts in own])

    def row_map(self, n_states: int) -> RaggedMap:
        """The scores of ``TreeMap``, tree by tree."""
        ends, last = self._cuts
        kinds = np.eye(int(self.kinds.max(initial=0)) + 1)[self.kinds]
        nodes, edges = sparse.csr_array(self.X), sparse.csr_array(kinds)
        nodes = sparse.csr_array(sparse.kron(nodes, sparse.eye_array(n_states)))
        edges = sparse.csr_array(sparse.kron(edges, sparse.eye_array(n_states**2)))
        blocks, u, e = [], 0, 0
        for node_end, edge_end in zip(ends * n_states, last * n_states**2, strict=True):
            blocks.append(sparse.block_diag([nodes[u:node_end], edges[e:edge_end]], "csr"))
            u, e = node_end, edge_end
        return RaggedMap(blocks)


@io.register
@dataclass(eq=False, repr=False)
class TreeClassifier(StructuredEstimator):
    """Labels of all nodes of a tree, with scores of the labels of parent and child.

    A labelling y of a tree scores `sum_u <w, x_u (x) y_u> + sum_uv T(y_u, y_v)` over its edges.
    Minimises mean loss over the trees + `V*(w)`, the Fenchel-Young loss of an entropy on ``Tree``:
    the hierarchical models of the discrimination paper, section 7.4.

    Parameters
    ----------
    loss : str or Entropy, default "crf"
        "crf", "hinge", "softmax-margin", or an Entropy of the simplex, which then smooths the
        recursion (``SmoothedMax``), sparsely with ``Tsallis(2.0)``; see ``ChainClassifier``.
    potential : Potential or float, default Quadratic(1e-3)
        V, whose conjugate `V*` is the penalty on the weights; a number s for ``Quadratic(s)``.
    cost : array (n_classes, n_classes), default None
        What it costs in training to label a node j where i is right, as for ``ChainClassifier``.
    slack : "linear", "squared" or "kl", default "linear"
        How the slack of a tree counts with "hinge", as for ``ChainClassifier``.
    slack_rate : float, default None
        Rate of the prior of "kl" slacks; None is 1.
    tables : "one" or "depth", default "one"
        "one" table for all edges, or one for each "depth" of the child, where labels mean something
        else on each level.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    tol : float, default 1e-4
        Duality gap at which to stop.
    max_iter : int, default None
        Iterations at most; None is the solver's own limit.
    verbose : int, default 0
        1 shows a progress line.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    coef_ : array (n_classes, n_features)
        Weights of the features.
    tables_ : array (n_tables, n_classes, n_classes)
        Scores of two labels, [parent's, child's].
    depth_ : int
        Depth of the deepest edge in training, from 0.
    loss_ : float
        Mean loss on the training data.
    objective_ : float
        ``loss_`` with the penalty.
    gap_ : float
        Duality gap: ``objective_`` is at most this far above the minimum.
    optimality_ : float
        Violation of the optimality conditions.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of features of a node.

    Examples
    --------
    >>> features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> parents = [-1, 0, 0]  # a root with two children
    >>> model = TreeClassifier().fit([(features, parents)], [["page", "name", "name"]])
    >>> model.predict([(features[:2], [-1, 0])])
    [array(['page', 'name'], dtype='<U4')]
    """

    _fitted_fields = ("n_features_in_", "depth_", "classes_", "coef_", "tables_", *CERTIFICATE)

    loss: Any = "crf"
    potential: PotentialLike = None
    _: KW_ONLY
    cost: ArrayLike | None = None
    slack: str = "linear"
    slack_rate: float | None = None
    tables: str = "one"
    tol: float = 1e-4

    def fit(self, X: SequencesLike, y: SequencesLike) -> TreeClassifier:
        """Learn from trees X and the labels y of their nodes.

        A tree is a pair (features (nodes, features), parents), with the number of each node's
        parent, -1 for a root. y has one label per node.
        """
        return self._fit(X, y)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.tables not in ("one", "depth"):
            raise ValueError(f'tables must be "one" or "depth", got {self.tables!r}')

    def _pose(self, X: Any, y: Any, sample_weight: Any) -> Posed:
        nodes = self._read(X, fit=True)
        labels = number_labels(read_labels(type(self).__name__, y, nodes.lengths))
        if labels.hidden:
            raise ValueError("TreeClassifier needs a label for every node, y has None")
        self.classes_, k = labels.classes, len(labels.classes)
        kind, rate = slack_of(self.slack, self.slack_rate)
        if kind != "linear" and self.loss != "hinge":
            raise ValueError(f'slack={kind!r} is for loss="hinge", got {self.loss!r}')
        tree = nodes.tree(k)
        observed = tree.encode(labels.states[None])[0]
        entropy = tree_entropy(self.loss, tree)
        cost = self.cost
        if cost is None and isinstance(self.loss, str) and LOSSES[self.loss][1]:
            cost = 1 - np.eye(k)
        if cost is not None:
            row = np.zeros(tree.size)
            row[: labels.states.size * k] = as_cost(cost, labels.classes)[labels.states].ravel()
            if kind != "linear":  # of every tree by itself
                right = nodes.cut(observed, k)
                hinge = Shifted(Zero(domain=nodes.rows(k)), nodes.cut(row, k))
                entropy, potential = Slack(hinge, right, kind, rate), as_potential(self.potential)
                return Posed(Problem(entropy, nodes.row_map(k), potential, observed=0 * right))
            entropy = Shifted(entropy, row)
        count = float(len(nodes.lengths))
        features = TreeMap(nodes.X, nodes.kinds, k)
        potential = scaled(as_potential(self.potential), count)
        return Posed(Problem(entropy, features, potential, observed=observed), count)

    def _keep(self, w: Array) -> None:
        k = len(self.classes_)
        cut = self.n_features_in_ * k
        self.coef_ = np.ascontiguousarray(w[:cut].reshape(-1, k).T)
        self.tables_ = w[cut:].reshape(-1, k, k)

    def _read(self, X: Any, fit: bool) -> Nodes:
        trees = list(X)
        if not trees:
            raise ValueError("X has no trees: give at least one")
        for i, tree in enumerate(trees):
            if not (isinstance(tree, tuple | list) and len(tree) == 2):
                raise ValueError(f"tree {i} must be a pair (features, parents), got {tree!r:.80}")
        matrix, lengths = stack([features for features, _ in trees])
        if fit:
            self.n_features_in_ = matrix.shape[1]
        elif matrix.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {matrix.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        edges, depths, start = [np.empty((0, 2), np.int64)], [np.empty(0, np.int64)], 0
        for i, ((_, parents), length) in enumerate(zip(trees, lengths, strict=True)):
            own = _parents(i, parents, int(length))
            children = np.flatnonzero(own >= 0)
            edges.append(np.column_stack([own[children], children]) + start)
            depths.append(_depths(i, own)[children] - 1)
            start += int(length)
        kinds = np.concatenate(depths)
        if self.tables == "one":
            kinds[:] = 0
        if fit:
            self.depth_ = int(kinds.max(initial=0))
        elif kinds.max(initial=0) > self.depth_:
            raise ValueError(
                f"X has edges at depth {int(kinds.max()) + 1}, training went to {self.depth_ + 1}; "
                'tables="one" has no such limit'
            )
        return Nodes(matrix, lengths, np.concatenate(edges), kinds)

    def _scores(self, X: Any) -> tuple[Nodes, Tree, Array]:
        check_is_fitted(self)
        nodes, k = self._read(X, fit=False), len(self.classes_)
        unary = np.asarray(nodes.X @ self.coef_.T).ravel()
        return nodes, nodes.tree(k), np.concatenate([unary, self.tables_[nodes.kinds].ravel()])

    def predict(self, X: SequencesLike) -> list[Array]:
        """The best labels of each tree."""
        nodes, tree, scores = self._scores(X)
        return split(self.classes_[tree.decode(tree.argmax(scores)[None])[0]], nodes.lengths)

    def predict_proba(self, X: SequencesLike) -> list[Array]:
        """Marginals (nodes, classes) of each tree, see ``ChainClassifier.predict_proba``."""
        nodes, tree, scores = self._scores(X)
        entropy = tree_entropy(self.loss, tree)
        if not unwrap(entropy).entropy.differentiable:
            entropy = Shannon(domain=tree)
        k = len(self.classes_)
        unary = entropy.conjugate(scores)[1][: int(nodes.lengths.sum()) * k]
        return split(unary.reshape(-1, k), nodes.lengths)

    def score(self, X: SequencesLike, y: SequencesLike) -> float:
        """The share of right labels over all nodes; a label unseen in training is wrong."""
        predicted = self.predict(X)
        given = read_labels(type(self).__name__, y, np.array([len(row) for row in predicted]))
        pairs = zip(np.concatenate(predicted).tolist(), np.concatenate(given).tolist(), strict=True)
        return float(np.mean([a == b for a, b in pairs]))

    def log_loss(self, X: SequencesLike, y: SequencesLike) -> float:
        """Mean negative log-likelihood of the labels of a tree, as of a CRF."""
        nodes, tree, scores = self._scores(X)
        states = look_up(read_labels(type(self).__name__, y, nodes.lengths), self.classes_)
        log_partition, _ = tree.softmax(scores)
        right = row_dot(scores, tree.encode(np.concatenate(states)[None])[0])
        return float(log_partition - right) / len(nodes.lengths)


def tree_entropy(loss: Any, tree: Tree) -> Entropy:
    """The entropy on labellings of a loss: a name, or an entropy of the simplex."""
    if isinstance(loss, str) and loss in LOSSES and loss != "sparsemap":
        return LOSSES[loss][0](domain=tree)
    if isinstance(loss, Entropy) and isinstance(loss.domain, Simplex):
        return SmoothedMax(loss, tree)
    names = ", ".join(repr(name) for name in LOSSES if name != "sparsemap")
    raise ValueError(
        f"loss must be one of {names} or an Entropy of the simplex (Tsallis(2.0) has sparse "
        f"marginals), got {loss!r}"
    )


def _parents(i: int, given: Any, length: int) -> Array:
    parents = np.asarray(given)
    if parents.shape != (length,) or parents.dtype.kind not in "iu":
        raise ValueError(
            f"tree {i} has {length} nodes, so as many parents (integers, -1 for a root), got shape "
            f"{parents.shape} of {parents.dtype}"
        )
    if parents.min() < -1 or parents.max() >= length:
        raise ValueError(
            f"parents of tree {i} are -1 (a root) or nodes 0 .. {length - 1}, got {parents.min()} "
            f".. {parents.max()}"
        )
    return parents.astype(np.int64)


def _depths(i: int, parents: Array) -> Array:
    """How far each node is from its root."""
    depths = np.where(parents < 0, 0, -1)
    for depth in range(len(parents)):
        above = parents[depths < 0]
        if not above.size:
            return depths
        below = (depths < 0) & (depths[np.maximum(parents, 0)] == depth)
        depths[below] = depth + 1
    raise ValueError(f"the parents of tree {i} run in a circle: every node has a root above it")

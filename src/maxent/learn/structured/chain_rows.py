"""The rows of a chain model: its map, what wrong labels cost, and whether data are separable."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxent.core.entropies import Shannon, unwrap
from maxent.core.maps import ChainMap, RowMap
from maxent.core.problem import Problem
from maxent.core.solvers.recession import recession_direction, unseen_direction
from maxent.learn.structured.sequences import Labels, split
from maxent.rows.arrays import Array, Ragged, Rows, Tied, row_dot
from maxent.rows.local import LocalEvaluation
from maxent.structured import Chain
from maxent.tagging.input_map import InputChainMap

_FEW = 200_000  # rows times weights up to which a direction of recession is looked for


def full_map(matrix: Any, lengths: Array, n_states: int, transitions: str, tied: bool) -> RowMap:
    """The map with weights for all pairs of a feature and a state."""
    if transitions == "input":
        return InputChainMap(split(matrix, lengths), n_states)
    return ChainMap(split(matrix, lengths), n_states, tied=tied)


def position_costs(cost: Array, labels: Labels, chains: RowMap) -> Rows:
    """The cost of every state at every position; hidden labels cost nothing."""
    count = len(labels.classes)
    rows = np.vstack([cost, np.zeros(count)])[labels.states]  # HIDDEN = -1 is the last row
    theta = chains.scores(np.zeros(chains.n_features))
    if isinstance(theta, Tied):
        return Tied(Ragged(rows.ravel(), theta.own.offsets), np.zeros((1, count * count)))
    for row, own in zip(theta.rows(), split(rows, labels.lengths), strict=True):
        row[: own.size] = own.ravel()
    return theta


def separates(problem: Problem, w: Array) -> bool:
    """Whether the right path of every row scores strictly higher than all the others."""
    return problem.rows.holds_everywhere(_right_paths_are_best, problem.entropy, w)


def _right_paths_are_best(at: LocalEvaluation) -> bool:
    domain = at.entropy.domain
    if not isinstance(domain, Chain):
        return False
    values, _ = domain.kbest(at.theta, 2)
    right = row_dot(at.theta, at.rows.observed)
    rounding = 1e-9 * (1 + np.abs(right))
    best = right >= values[:, 0] - rounding
    return bool((best & ~(values[:, 1] >= values[:, 0] - rounding)).all())


def endless(problem: Problem, w: Array) -> str | None:
    """Words for why the loss falls for ever as weights grow; None where no reason is found.

    Labels are separable where w separates them, and in part along a direction of recession, which
    lets the loss of some rows fall and that of none rise. Linear programmes look for one in
    problems that are small enough for them, beyond only among the features that never occur.
    """
    if separates(problem, w):
        return "the training labels are separable"
    features = problem.features
    if not isinstance(features, RowMap) or not isinstance(unwrap(problem.entropy).entropy, Shannon):
        return None
    if len(problem.observed) * features.n_features > _FEW:
        unseen = unseen_direction(problem)
        if unseen is None:
            return None
        number = int(np.count_nonzero(unseen))
        return (
            f"{number} of {unseen.size} weights are of attributes and neighbours that no training "
            "label has"
        )
    direction = recession_direction(problem)
    if direction is None:
        return None
    theta = features.scores(direction)
    _, middle = problem.entropy.conjugate(0 * theta)
    mean = row_dot(theta, problem.observed - middle)  # of all margins of a row
    count = int(np.sum(mean > 1e-6 * mean.max()))
    return f"the training labels of {count} of {features.n_rows} sequences are separable"

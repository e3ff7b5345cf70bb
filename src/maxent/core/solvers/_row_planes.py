"""Planes of single rows: the master problems of cutting planes with one slack per row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from maxent.core.problem import Problem, State
from maxent.rows.arrays import Array, Rows, row_scale, take_row

_PASSES = 10_000  # over the rows, for one quadratic programme


class RowMaster(ABC):
    """Planes a_i (F_i p, Omega(p)) of row i, and their weights, which sum to 1 in each row.

    floor : a height that no row falls below, known without a plane; the weights then sum to less.
    """

    floor = -np.inf

    def __init__(self, problem: Problem) -> None:
        self.problem, features = problem, problem.features
        self.weights = np.ones(1) if problem.weights is None else problem.weights
        self.parts = [features]
        if not features.one_row:
            self.parts = [features.take(np.array([i])) for i in range(self.weights.size)]
        self.answers: list[Rows] = []
        self.last: Rows = None  # answer, whether or not planes of it are kept
        self.planes = sparse.csr_array((0, problem.features.n_features))
        self.entropies, self.mixture = np.empty(0), np.empty(0)
        self.row, self.answer = np.empty(0, np.int64), np.empty(0, np.int64)

    def answer_at(self, state: State) -> tuple[Rows, Array, Array]:
        """The answer p of each row, Omega(p), and the height <theta, p> - Omega(p) of its plane."""
        p = self.rows_of(state.p)
        return p, self.problem.entropy.value_inside(p), np.atleast_1d(state.conjugate)

    def rows_of(self, x: Rows) -> Rows:
        """With an axis of rows, where there is one row without."""
        return np.asarray(x)[None] if self.problem.features.one_row else x

    def add(self, state: State) -> bool:
        """Add the planes of the answer at a state that lie above those known; whether any does."""
        p, omega, scores = self.answer_at(state)
        self.last, weights = p, self.weights
        heights = np.where(weights > 0, self.floor, -np.inf) * np.where(weights > 0, weights, 1.0)
        np.maximum.at(heights, self.row, self.planes @ state.w - self.entropies)
        size = np.abs(scores) + np.abs(omega)
        rounding = 4 * np.finfo(np.float64).eps * weights * size
        new = np.flatnonzero(weights * scores > heights + rounding)
        if not new.size:
            return False
        self._keep(p, omega, new)
        return True

    def _keep(self, p: Rows, omega: Array, new: Array) -> None:
        """Add the planes of these rows of an answer."""
        planes = self._moments(p, new)
        first = self.row.size == 0
        order = np.argsort(np.concatenate([self.row, new]), kind="stable")
        self.row = np.concatenate([self.row, new])[order]
        number = np.full(new.size, len(self.answers))
        self.answer = np.concatenate([self.answer, number])[order]
        self.planes = sparse.csr_array(sparse.vstack([self.planes, planes]))[order]
        self.entropies = np.concatenate([self.entropies, (self.weights * omega)[new]])[order]
        start = np.full(new.size, 1.0 if first and self.floor == -np.inf else 0.0)
        self.mixture = np.concatenate([self.mixture, start])[order]
        self.answers.append(p)

    def _moments(self, p: Rows, rows: Array) -> Any:
        """a_i F_i p_i of these rows, without their zeros."""
        vectors = []
        for i in rows:
            own = p[0] if self.problem.features.one_row else take_row(p, int(i))
            dense = self.weights[i] * self.parts[i].moments(own)
            where = np.flatnonzero(dense)
            vectors.append((dense[where], where))
        offsets = np.concatenate([[0], np.cumsum([where.size for _, where in vectors])])
        values, indices = (np.concatenate(x) for x in zip(*vectors, strict=True))
        return sparse.csr_array((values, indices, offsets), (len(rows), self.planes.shape[1]))

    def point(self) -> Rows:
        """The mixture of the answers, row by row."""
        total: Rows = None
        for number, answer in enumerate(self.answers):
            share = np.zeros(len(self.parts))
            mine = self.answer == number
            share[self.row[mine]] = self.mixture[mine]
            if share.any():
                part = row_scale(answer, share)
                total = part if total is None else total + part
        if total is None:  # no plane counts, as where no slack is above its least value
            total = row_scale(self.last, np.zeros(len(self.parts)))
        return total[0] if self.problem.features.one_row else total

    @abstractmethod
    def solve(self, tol: float) -> Array:
        """The best weights against the planes so far; their mixture to a gap of tol."""


class QuadraticRows(RowMaster):
    """Under a squared norm: a quadratic programme over a product of simplices."""

    def __init__(self, problem: Problem, l2: Array) -> None:
        super().__init__(problem)
        self.scale = 1 / l2

    def solve(self, tol: float) -> Array:
        """Pairs of planes of a row, pass after pass."""
        from maxent.core.kernels.simplices import simplices_quadratic

        residual = self.planes.T @ self.mixture - self.problem.target
        w = -self.scale * residual
        cuts = np.searchsorted(self.row, np.arange(len(self.parts) + 1))
        simplices_quadratic(
            cuts, self.planes.data, self.planes.indices.astype(np.int64),
            self.planes.indptr.astype(np.int64), self.entropies, self.scale, self.mixture, w,
            np.zeros(w.size), _PASSES, tol,
        )  # fmt: skip
        self._drop_idle()
        return -self.scale * (self.planes.T @ self.mixture - self.problem.target)

    def _drop_idle(self) -> None:
        """Forget planes without weight, and answers without planes."""
        used = self.mixture > 0
        self.planes, self.entropies = self.planes[used], self.entropies[used]
        self.mixture, self.row, self.answer = self.mixture[used], self.row[used], self.answer[used]
        kept, self.answer = np.unique(self.answer, return_inverse=True)
        self.answers = [self.answers[number] for number in kept]


class LinearRows(RowMaster):
    """Under the l1 norm: min l1'|w| - <w, mu> + sum t_i, <w, m_k> - o_k <= t_i, by HiGHS."""

    def __init__(self, problem: Problem, l1: Array) -> None:
        super().__init__(problem)
        self.l1 = l1

    def solve(self, tol: float) -> Array:
        """A linear programme in (w+, w-, t)."""
        rows, size = len(self.parts), self.l1.size
        mu = self.problem.target
        cost = np.concatenate([self.l1 - mu, self.l1 + mu, np.ones(rows)])
        slack = sparse.csr_array(
            (np.ones(self.row.size), (np.arange(self.row.size), self.row)), (self.row.size, rows)
        )
        matrix = sparse.hstack([self.planes, -self.planes, -slack], "csr")
        answer: Any = None
        for reach in (None, 1e6):  # too few planes leave w unbounded: keep it in a wide box
            bounds = [(0, reach)] * (2 * size) + [(None, None)] * rows
            answer = scipy.optimize.linprog(
                cost, matrix, self.entropies, bounds=bounds, method="highs"
            )
            if answer.status == 0:
                break
        mixture = np.maximum(-np.asarray(answer.ineqlin.marginals), 0)
        sums = np.zeros(rows)
        np.add.at(sums, self.row, mixture)
        self.mixture = mixture / sums[self.row]
        return answer.x[:size] - answer.x[size : 2 * size]

"""The regularization path of any problem: one multiplier c on its potential, warm starts.

V_c(r) = c V(r / c), so that V_c* = c V*: the same model, regularized c times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from maxent.core.potentials import scaled
from maxent.core.problem import Problem
from maxent.core.solvers import Solution, choose


def multiplier_grid(problem: Problem, n: int = 20, smallest: float = 1e-2) -> list[float]:
    """``n`` multipliers, equal ratios apart, from where all weights are 0 to ``smallest`` of it.

    Where no finite multiplier makes all weights 0 (a quadratic) the grid starts at 1 / smallest.
    """
    largest = problem.potential.critical_multiplier(problem.origin().gradient)
    if not (np.isfinite(largest) and largest > 0):
        largest = 1 / smallest
    return [float(c) for c in largest * np.geomspace(1, smallest, n)]


def solution_path(
    problem: Problem,
    multipliers: Sequence[float],
    solver: Any = "auto",
    *,
    warn: bool = True,
    **settings: Any,
) -> Iterator[tuple[float, Problem, Solution]]:
    """(c, the problem with the potential c V(. / c), its solution), largest c first.

    Parameters
    ----------
    problem : Problem
        The problem at multiplier 1.
    multipliers : sequence of float
        Values of c.
    solver : str or Solver, default "auto"
        How to solve the problem; see ``Problem.solve``. "auto" chooses by the problem.
    warn : bool, default True
        Whether to warn of a solution that missed its tolerance; else its status alone tells.
    **settings : object
        Settings that replace the solver's own.

    Examples
    --------
    >>> from maxent import Box, Shannon
    >>> cells = np.arange(5.0)[:, None]
    >>> problem = Problem(Shannon(), cells, Box(0.1), observed=[0, 0, 0, 0.5, 0.5])
    >>> [round(float(s.w[0]), 2) for _, _, s in solution_path(problem, [20.0, 10.0, 1.0])]
    [0.0, 0.26, 0.93]
    """
    start = problem.origin()
    problem, w = start.problem, start.w  # its unit is that of every multiplier
    for c in sorted(map(float, multipliers), reverse=True):
        other = problem.with_potential(scaled(problem.potential, c))
        chosen = choose(solver, other, **settings)
        solution = chosen.run(other, w)
        if warn:
            chosen.warn_unless_converged(solution, stacklevel=2)
        w = solution.w
        yield c, other, solution

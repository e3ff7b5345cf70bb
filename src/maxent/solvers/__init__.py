"""Solvers, and the choice between them."""

from __future__ import annotations

from maxent.problem import Problem
from maxent.solvers.base import Interrupted, Solution, Solver, Status
from maxent.solvers.cutting_plane import CuttingPlane
from maxent.solvers.fista import FISTA
from maxent.solvers.lbfgs import LBFGS
from maxent.solvers.prox_newton import ProxNewton

__all__ = [
    "FISTA",
    "LBFGS",
    "CuttingPlane",
    "Interrupted",
    "ProxNewton",
    "Solution",
    "Solver",
    "Status",
    "choose",
]

_BY_NAME: dict[str, type[Solver]] = {
    "prox-newton": ProxNewton,
    "lbfgs": LBFGS,
    "fista": FISTA,
    "cutting-plane": CuttingPlane,
}


def choose(solver: Solver | str, problem: Problem) -> Solver:
    """The solver asked for, or for "auto" the first of the list that fits the problem."""
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        lacks = {}
        for name, kind in _BY_NAME.items():
            lack = kind.missing(problem)
            if lack is None:
                return kind()
            lacks[name] = lack
        reasons = "".join(f"\n  {name}: {lack}" for name, lack in lacks.items())
        raise TypeError(f"no solver fits this problem:{reasons}")
    if solver in _BY_NAME:
        return _BY_NAME[solver]()
    raise ValueError(f"unknown solver {solver!r}; choose 'auto', {', '.join(map(repr, _BY_NAME))}")

"""Solvers, and the choice between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from maxent._support.compiling import switches
from maxent.core.domains import StructuredDomain
from maxent.core.entropies import BinaryGini, Slack, SquaredNorm, Tsallis, unwrap
from maxent.core.maps import SampleMap
from maxent.core.problem import Problem
from maxent.core.solvers._outputs_apart import lie_apart
from maxent.core.solvers.base import ConvergenceWarning, Interrupted, Solution, Solver, Status
from maxent.core.solvers.block_frank_wolfe import BlockFrankWolfe
from maxent.core.solvers.column_generation import ColumnGeneration
from maxent.core.solvers.coordinate import CoordinateDescent
from maxent.core.solvers.cutting_plane import CuttingPlane
from maxent.core.solvers.dual_coordinate import DualCoordinateAscent
from maxent.core.solvers.fista import FISTA
from maxent.core.solvers.joint_newton import JointNewton
from maxent.core.solvers.lbfgs import LBFGS
from maxent.core.solvers.newton_cg import NewtonCG
from maxent.core.solvers.owlqn import OWLQN
from maxent.core.solvers.papers.ball_search import BallSearch
from maxent.core.solvers.papers.exponentiated_gradient import ExponentiatedGradient
from maxent.core.solvers.papers.scaling import PLUMMET, SUMMET
from maxent.core.solvers.papers.subgradient import Subgradient
from maxent.core.solvers.prox_newton import ProxNewton
from maxent.core.solvers.reweighted import Reweighted
from maxent.core.solvers.smoothing import Smoothing
from maxent.core.solvers.stochastic_gradient import StochasticGradient

__all__ = [
    "FISTA",
    "LBFGS",
    "OWLQN",
    "PLUMMET",
    "SUMMET",
    "BallSearch",
    "BlockFrankWolfe",
    "ColumnGeneration",
    "ConvergenceWarning",
    "CoordinateDescent",
    "CuttingPlane",
    "DualCoordinateAscent",
    "ExponentiatedGradient",
    "Interrupted",
    "JointNewton",
    "NewtonCG",
    "ProxNewton",
    "Reweighted",
    "Smoothing",
    "Solution",
    "Solver",
    "Status",
    "StochasticGradient",
    "Subgradient",
    "choose",
]

_AUTO: dict[str, type[Solver]] = {
    "prox-newton": ProxNewton,
    "newton-cg": NewtonCG,
    "lbfgs": LBFGS,
    "fista": FISTA,
    "reweighted": Reweighted,
    "cutting-plane": CuttingPlane,
    "column-generation": ColumnGeneration,
    "smoothing": Smoothing,
}
_BY_NAME: dict[str, type[Solver]] = {
    **_AUTO,
    "joint-newton": JointNewton,
    "owlqn": OWLQN,
    "summet": SUMMET,
    "plummet": PLUMMET,
    "ball-search": BallSearch,
    "coordinate-descent": CoordinateDescent,
    "dual-coordinate": DualCoordinateAscent,
    "block-frank-wolfe": BlockFrankWolfe,
    "exponentiated-gradient": ExponentiatedGradient,
    "subgradient": Subgradient,
    "stochastic-gradient": StochasticGradient,
}
_FEW_SAMPLES = 1.5  # per column, below which the steps of Newton's method meet too many kinks
_FEW_FOR_A_PROGRAMME = 50  # features up to which cutting planes with an l1 penalty are fast
_FEW_WEIGHTS = 500  # features up to which interior points are faster than smoothing
_FEW_PLANES = 20_000_000  # rows times features up to which planes of all rows fit into memory
_FEW_PATHS = 2_000  # rows times features of a hinge over chains that need no compiled solver
_TINY, _SOON = 10_000, 200  # rows times features that are handed over after so many steps
_MANY_L1 = 10_000  # features beyond which FISTA takes many more steps than OWLQN
_MANY, _MANY_OF_ONE_ROW = 100, 2000  # features beyond which Newton steps cost too much


def choose(solver: Solver | str, problem: Problem, **settings: Any) -> Solver:
    """The solver asked for, or for "auto" the first of the list that fits the problem.

    Hinges over chains with tied transitions under Quadratic go to ``BlockFrankWolfe``, of very few
    sequences to ``ColumnGeneration``; smooth losses of structures with many l1 weights go to
    ``OWLQN``. Where a hinge has few rows ``ColumnGeneration`` goes on where the first solver
    stalls, and where that does ``Smoothing``.

    ``settings`` replace its own.
    """
    chosen = replace(_chosen(solver, problem), **settings)
    if solver != "auto" or "max_iter" in settings:
        return chosen
    last = Smoothing() if Smoothing.missing(problem) is None else None
    if isinstance(chosen, ColumnGeneration):
        return replace(chosen, then=last)
    if _exact(problem):
        tiny = (problem.features.n_rows or 1) * problem.features.n_features <= _TINY
        soon = min(_SOON, chosen.max_iter) if tiny else chosen.max_iter
        return replace(chosen, max_iter=soon, then=ColumnGeneration(then=last))
    return chosen


def _chosen(solver: Solver | str, problem: Problem) -> Solver:
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise TypeError(f"give an instance, {solver.__name__}(), not the class {solver.__name__}")
    if solver == "auto":
        if JointNewton.missing(problem) is None:
            return JointNewton()
        lacks = {}
        # without an l1 term every feature is in use, and a Newton step costs their number cubed
        many = _MANY_OF_ONE_ROW if problem.features.one_row else _MANY
        dense = problem.potential.smooth_conjugate and problem.features.n_features > many
        last = {"prox-newton"} if dense else set()
        if lie_apart(problem):
            pass  # each output has steps of its own, and none is cut short by another
        elif problem.features.one_row or not problem.entropy.has_curvature:
            last.add("newton-cg")  # no preconditioner, or costly products with the Jacobian
        elif dense and _few_samples(problem) and _curvature_jumps(problem):
            last |= {"newton-cg", "prox-newton"}  # kinks everywhere cut their steps short
        if problem.features.n_features <= _FEW_FOR_A_PROGRAMME:
            last.add("reweighted")  # a linear programme is exact, and cheap where it is small
        elif _l1(problem) and isinstance(problem.entropy.domain, StructuredDomain):
            last.add("cutting-plane")
        curved, bare = isinstance(problem.entropy, Slack), problem.observed is None
        if (curved or bare) and _exact(problem):
            # planes of all rows at once do not follow curved slacks, nor are their moments exact
            last.add("cutting-plane")
        elif problem.features.n_features > _FEW_WEIGHTS or not _exact(problem):
            last.add("column-generation")
        names = sorted(_AUTO, key=last.__contains__)
        special = _for_chains(problem)
        if special is not None:
            return special()
        for name in names:
            kind = _AUTO[name]
            lack = kind.missing(problem)
            if lack is None:
                return kind()
            lacks[name] = lack
        reasons = "".join(f"\n  {name}: {lack}" for name, lack in lacks.items())
        raise TypeError(f"no solver fits this problem:{reasons}")
    if solver in _BY_NAME:
        return _BY_NAME[solver]()
    raise ValueError(f"unknown solver {solver!r}; choose 'auto', {', '.join(map(repr, _BY_NAME))}")


def _exact(problem: Problem) -> bool:
    """Whether the planes of all rows make a programme that is solved to the last digits."""
    if problem.entropy.differentiable or ColumnGeneration.missing(problem) is not None:
        return False
    if problem.features.one_row:
        return problem.features.n_features <= _FEW_WEIGHTS
    return problem.features.n_rows * problem.features.n_features <= _FEW_PLANES


def _for_chains(problem: Problem) -> type[Solver] | None:
    """The faster of the solvers that fit, for tied chains with a hinge or with many l1 weights."""
    features, recipe = problem.features, unwrap(problem.entropy)
    size = features.n_features
    elastic = problem.potential.elastic(size)
    if elastic is None or features.one_row or not recipe.entropy.domain.ragged:
        return None
    if problem.entropy.differentiable:
        pure = size > _MANY_L1 and elastic[0].any() and not elastic[1].any()
        return OWLQN if pure else None
    if not BlockFrankWolfe.resumes(problem):
        return None
    return ColumnGeneration if _few_paths(problem) else BlockFrankWolfe


def _few_paths(problem: Problem) -> bool:
    """Whether an exact programme is solved before the kernels of ``BlockFrankWolfe`` are ready."""
    size = problem.features.n_rows * problem.features.n_features
    small = switches.spare_small_problems and size <= _FEW_PATHS
    return small and ColumnGeneration.missing(problem) is None


def _l1(problem: Problem) -> bool:
    """Whether the penalty is l1 and nothing else."""
    elastic = problem.potential.elastic(problem.features.n_features)
    return elastic is not None and not elastic[1].any()


def _curvature_jumps(problem: Problem) -> bool:
    """Whether the map is piecewise linear, or steeper where an entry becomes 0."""
    entropy = unwrap(problem.entropy).entropy
    if isinstance(entropy, Tsallis):
        return entropy.alpha >= 2
    return isinstance(entropy, BinaryGini | SquaredNorm)


def _few_samples(problem: Problem) -> bool:
    """Whether a linear model may fit its samples exactly, or nearly."""
    features = problem.features
    return isinstance(features, SampleMap) and features.n_rows < _FEW_SAMPLES * features.X.shape[1]

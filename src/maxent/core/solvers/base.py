"""Solvers minimise the dual of a Problem and stop on its certificate.

A solver is a frozen dataclass of its own settings. It declares what it needs of a problem, and
writes one generator, ``_iterate``, which yields a State after each step; stopping, history,
callbacks and interruption are handled here, once. ``run`` returns the status, and ``solve`` warns
as well where the tolerance was missed.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from time import perf_counter
from typing import Any, ClassVar, TypeVar

import numpy as np

from maxent import io
from maxent._support.progress import Progress
from maxent._support.threads import one_blas_thread
from maxent.core.maps import BlocksLost, FeatureMap
from maxent.core.problem import Problem, State
from maxent.core.quasi_newton import BOTTOMLESS, bottomless
from maxent.core.solvers.checkpoint import CheckpointFile
from maxent.rows.arrays import Array, Rows
from maxent.rows.evaluator import above_rounding


@io.register
class Status(Enum):
    """Why a solver stopped."""

    CONVERGED = "converged"  # the duality gap is at most the tolerance
    STATIONARY = "stationary"  # the optimality is, and no finite gap bounds the objective
    MAX_ITER = "max_iter"
    UNPROVED = "unproved"  # nothing better is found in a search that does not rule it out
    SMALL_CHANGE = "small_change"  # the objective changed too little, by the rule of a paper
    STALLED = "stalled"  # no further progress is possible in floating point
    UNBOUNDED = "unbounded"  # the dual has no minimum: no p has moments in reach of the target
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"  # the callback asked for it

    @property
    def reached(self) -> bool:
        """Whether the tolerance was reached, by the gap or else by the optimality.

        A stationary solution meets the optimality conditions to the tolerance, but its objective
        may lie above the minimum by more: where the minimum is attained at infinity, or where the
        entropy is flat.
        """
        return self in (Status.CONVERGED, Status.STATIONARY)


class _WhenAsked:
    """A field that is given a value, or a function that makes it when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:  # asked of the class, as tools that read documentation do
            return self
        value = vars(instance)[self._name]
        if callable(value):
            value = vars(instance)[self._name] = value()
        return value


Class = TypeVar("Class", bound=type)


def _when_asked(name: str) -> Callable[[Class], Class]:
    """Let a field of a dataclass be made when it is asked for."""

    def changed(cls: Class) -> Class:
        setattr(cls, name, _WhenAsked(name))
        return cls

    return changed


@io.register
@_when_asked("p")
@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found.

    Attributes
    ----------
    w : array (n_features,)
        The weights.
    p : array
        The prediction `p_w` at them (for a hinge the mixture of vertices).
    gap : float
        Duality gap, inf where none exists (then see ``optimality``).
    optimality : float
        Violation of the optimality conditions, in units of the moments.
    objective : float
        The dual objective at w.
    n_iter : int
        Number of iterations.
    status : Status
        Why the solver stopped.
    history : list of dict
        One record per iteration with keys seconds, objective, gap, optimality; ``SUMMET`` and
        ``PLUMMET`` add auxiliary, the value of their auxiliary function.
    guarantees : dict
        What the gap says of the distance to the optimum (Problem.guarantees).
    """

    w: Array
    p: Rows
    gap: float
    optimality: float
    objective: float
    n_iter: int
    status: Status
    history: list[dict[str, float]]
    guarantees: dict[str, float]

    def __repr__(self) -> str:
        return f"<Solution: {self}>"

    def __str__(self) -> str:
        parts = [
            f"{self.status.value} after {self.n_iter} iterations: dual {self.objective:.10g}, "
            f"gap {self.gap:.2e}, optimality {self.optimality:.2e}"
        ]
        texts = {
            "kl": "KL(p* || p) <= {:.2e}",
            "mean_kl": "mean KL(p* || p) over rows <= {:.2e}",
            "l1": "||p* - p||_1 <= {:.2e}",
            "l2": "||p* - p||_2 <= {:.2e}",
            "rms_l2": "root mean square of ||p* - p||_2 over rows <= {:.2e}",
        }
        known = [texts[k].format(v) for k, v in self.guarantees.items() if k in texts]
        if known and np.isfinite(self.gap):
            parts.append("guaranteed: " + ", ".join(known))
        return "; ".join(parts)


class ConvergenceWarning(UserWarning):
    """A solver stopped before its certificate reached the tolerance."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; ``solution`` holds the best point so far.

    Parameters
    ----------
    solution : Solution
        The best point so far.
    """

    def __init__(self, solution: Solution) -> None:
        super().__init__(f"{solution} (the last point is in the exception's `solution`)")
        self.solution = solution


_PATIENCE = 50  # steps without progress beyond rounding
# units of rounding of the objective: a certificate of no more may be nothing else
_ROUNDED = 1000.0
# steps before the first look at the dearer certificate, then each time twice as many
_FIRST_ROWS = 32
_FIRST_TILT = 256  # steps before predictions are tilted, which costs as much as tens of them
_STEPS_A_PRODUCT = 8  # steps for each of which that may take a product with the Hessian
_STEPS_A_SEARCH = 2  # steps for each of which that may take one of the search nearby
_STILL_FALLING = 8  # steps in which an objective that falls by more than tol is not within tol yet
_FURTHER = 2.0  # times as far from 0 as at the last look at a ray

Callback = Callable[[int, State], Any]


@dataclass(frozen=True)
class Solver(ABC):
    """Settings common to all solvers.

    Parameters
    ----------
    tol : float, default 1e-8
        Duality gap at which to stop; where no finite gap exists the optimality, which promises less
        (``Status.STATIONARY``).
    max_iter : int, default 1000
        Iterations at most.
    verbose : int, default 1
        0 silences the progress line that appears on standard error after a few seconds.
    checkpoint : path, default None
        File that is given the weights and the history after each step; where it is there already,
        of the same problem, a run goes on from it.
    then : Solver, default None
        Solver that goes on from there, with this one's tolerance, where this one ends above it.
    """

    begins_at_weights: ClassVar[bool] = True  # else it moves rows, which w does not determine

    tol: float = 1e-8
    max_iter: int = 1000
    verbose: int = field(default=1, kw_only=True)
    checkpoint: str | None = field(default=None, kw_only=True, metadata=io.LATER)
    then: Solver | None = field(default=None, kw_only=True, repr=False, metadata=io.LATER)

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise ValueError(f"tol must be >= 0, got {self.tol!r}")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be >= 1, got {self.max_iter!r}")
        if not (self.then is None or isinstance(self.then, Solver)):
            raise TypeError(f"then must be a solver such as ColumnGeneration(), got {self.then!r}")

    @classmethod
    @abstractmethod
    def missing(cls, problem: Problem) -> str | None:
        """What the problem lacks for this solver, None if nothing."""

    @abstractmethod
    def _iterate(self, problem: Problem, state: State) -> Iterator[State]:
        """Yield the state after each step from ``state``; return when no progress is possible."""

    def _initial(self, state: State) -> State:
        """What ``_iterate`` and ``_measures`` see first, made of the plain state at the start."""
        return state

    def _measures(self, state: State) -> dict[str, float]:
        """Further entries of a state's record in the history."""
        return {}

    def solve(self, problem: Problem, w0: Any = None, callback: Callback | None = None) -> Solution:
        """Minimise the dual from w0 (0 by default); warn where the tolerance is not reached.

        ``callback(iteration, state)`` is called after each step, and ends the run by True.
        """
        solution = self.run(problem, w0, callback)
        self.warn_unless_converged(solution, stacklevel=2)
        return solution

    def run(self, problem: Problem, w0: Any = None, callback: Callback | None = None) -> Solution:
        """As ``solve``, without a ConvergenceWarning: the caller reads the solution's status."""
        lack = self.missing(problem)
        if lack:
            raise TypeError(f"{type(self).__name__} cannot solve this problem: {lack}")
        with one_blas_thread():
            w, file = self._start(problem, w0), None
            earlier: list[dict[str, float]] = []
            if self.checkpoint is not None:
                if not self.begins_at_weights:
                    raise ValueError(
                        f"{type(self).__name__} moves the distributions of rows, which weights do "
                        "not bring back: take checkpoint=None, or a solver such as LBFGS or FISTA"
                    )
                file = CheckpointFile(self.checkpoint, problem)
                found = file.read()
                w, earlier = (w, []) if found is None else (found.w, found.history)
            start = problem.state(w) if w.any() else problem.origin()
            solution = self._descend(self._initial(start), callback, file, earlier)
        if self.then is None or solution.status not in (Status.STALLED, Status.MAX_ITER):
            return solution
        then = replace(self.then, tol=self.tol, verbose=self.verbose)
        later = None if callback is None else _counted_from(solution.n_iter, callback)
        return _joined(solution, then.run(problem, solution.w, later))

    def warn_unless_converged(self, solution: Solution, stacklevel: int = 1) -> None:
        """A ConvergenceWarning for a solution of this solver that missed its tolerance.

        ``stacklevel`` counts frames as in ``warnings.warn``: 1 is the line of this call.
        """
        if solution.status.reached or solution.status is Status.STOPPED:
            return
        warnings.warn(
            f"{type(self).__name__} {solution}, tol {self.tol:g}; raise max_iter or tol, try "
            "another solver, or check that the target can be reached at all",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )

    def _descend(
        self,
        state: State,
        callback: Callback | None,
        file: CheckpointFile | None = None,
        earlier: Sequence[dict[str, float]] = (),
    ) -> Solution:
        spent = earlier[-1]["seconds"] if earlier else 0.0
        begin = perf_counter() - spent
        history = [*earlier[:-1], self._record(state, begin)]
        status, count, due = Status.MAX_ITER, 0, _FIRST_ROWS
        progress = Progress(type(self).__name__, self.verbose)
        try:
            if state.w.any() and state.optimality <= self.tol and not self._done(state):
                state = self._tightened(state, history, _FIRST_TILT)  # a start that may be the end
            if self._done(state):
                status = _reached(state)
            else:
                iterations = self._iterate(state.problem, state)
                start, reach = state.dual, float(np.max(np.abs(state.w), initial=0.0))
                standstill, floor = _Standstill(state), -np.inf
                for count, plain in enumerate(iterations, start=1):
                    state = _bounded(plain, floor, self.tol)
                    history.append(self._record(state, begin))
                    if file is not None:
                        file.write(state.w, history)
                    progress.update(
                        f"iteration {count}, gap {state.gap:.1e}, optimality {state.optimality:.1e}"
                    )
                    stop = callback is not None and callback(count, state) is True
                    if self._done(state):
                        status = _reached(state)
                        break
                    if stop:
                        status = Status.STOPPED
                        break
                    if count >= due and not self._falls(history):
                        due = 2 * count
                        state = self._tightened(state, history, count)
                        floor = max(floor, state.dual - state.gap)
                        if self._done(state):
                            status = Status.CONVERGED
                            break
                    size = float(np.max(np.abs(state.w), initial=0.0))
                    look = np.isinf(state.gap) and size > _FURTHER * reach
                    reach = size if look else reach
                    if bottomless(state, start) or (look and _endless(state, start)):
                        status = Status.UNBOUNDED
                        break
                    if standstill.after(state):
                        status = Status.STALLED
                        break
                    if count >= self.max_iter:
                        break
                else:
                    status = Status.STALLED
                if status in (Status.STALLED, Status.MAX_ITER, Status.STOPPED):
                    if due != 2 * count:  # else it has been looked at
                        state = self._tightened(state, history, count)
                    status = Status.CONVERGED if state.gap <= self.tol else status
        except BlocksLost as lost:
            raise BlocksLost(f"{lost} {self._way_back(count)}") from lost
        except KeyboardInterrupt as stop:
            solution = self._solution(state, Status.INTERRUPTED, history)
            raise Interrupted(solution) from stop
        finally:
            progress.close()
        return self._solution(state, status, history)

    def _tightened(self, state: State, history: list[dict[str, float]], steps: int) -> State:
        """The state with the dearer certificate, where that is better; in the history as well."""
        products = steps // _STEPS_A_PRODUCT if steps >= _FIRST_TILT else 0
        search = steps // _STEPS_A_SEARCH if steps >= _FIRST_ROWS else 0
        state = state.tightened(self.tol, products, search)
        history[-1]["gap"] = state.gap
        return state

    def _falls(self, history: Sequence[dict[str, float]]) -> bool:
        """Whether the objective still falls by more than the gap may be."""
        past = history[-1 - _STILL_FALLING]["objective"]
        return past - history[-1]["objective"] > self.tol

    def _way_back(self, steps: int) -> str:
        if self.checkpoint is None:
            return f"{steps} steps are lost: give checkpoint=PATH to be able to go on from the last"
        kept = f"The last of {steps} steps is" if steps else "Nothing is lost; steps will be"
        return f"{kept} in the checkpoint {self.checkpoint}: fit again with it to go on"

    def _done(self, state: State) -> bool:
        return _certificate(state) <= self.tol

    @staticmethod
    def _start(problem: Problem, w0: Any) -> Array:
        size = problem.features.n_features
        if w0 is None:
            return np.zeros(size)
        w = np.array(w0, dtype=np.float64)
        if w.shape != (size,) or not np.isfinite(w).all():
            raise ValueError(f"w0 must be a finite vector of shape ({size},), got shape {w.shape}")
        return w

    def _record(self, state: State, begin: float) -> dict[str, float]:
        return {
            "seconds": perf_counter() - begin,
            "objective": state.dual,
            "gap": state.gap,
            "optimality": state.optimality,
            **self._measures(state),
        }

    @staticmethod
    def _solution(state: State, status: Status, history: list[dict[str, float]]) -> Solution:
        return Solution(
            w=state.w,
            p=state.prediction_when_asked,
            gap=state.gap,
            optimality=state.optimality,
            objective=state.dual,
            n_iter=len(history) - 1,
            status=status,
            history=history,
            guarantees=state.problem.guarantees(state.gap),
        )


def _counted_from(steps: int, callback: Callback) -> Callback:
    return lambda count, state: callback(steps + count, state)


def _joined(first: Solution, second: Solution) -> Solution:
    """The better of two solutions, the second begun at the first, with the steps of both."""
    spent = first.history[-1]["seconds"]
    later = [{**record, "seconds": spent + record["seconds"]} for record in second.history[1:]]
    gains = second.status is Status.CONVERGED or second.gap < first.gap
    better = second if gains or (second.status.reached and np.isinf(first.gap)) else first
    history = [*first.history, *later]
    return replace(better, n_iter=len(history) - 1, history=history)


def _certificate(state: State) -> float:
    """The gap, or the optimality where there is no finite one: what solvers stop on."""
    return state.gap if np.isfinite(state.gap) else state.optimality


class _Standstill:
    """Whether steps near the optimum do nothing but shift rounding errors.

    So it is where the certificate is a few units of rounding of the objective, and ``_PATIENCE``
    steps in a row have neither lowered the objective by a few units nor the certificate by a tenth.
    No single bit decides, so that every processor ends.
    """

    def __init__(self, state: State) -> None:
        self._certificate, self._dual, self._idle = np.inf, state.dual, 0

    def after(self, state: State) -> bool:
        """Take in a step; True where nothing has moved for long."""
        unit = float(np.finfo(np.float64).eps) * (1 + abs(state.dual))
        certificate = _certificate(state)
        if certificate < 0.9 * self._certificate or state.dual < self._dual - 16 * unit:
            self._certificate = min(certificate, self._certificate)
            self._dual, self._idle = min(state.dual, self._dual), 0
            return False
        self._idle += 1
        return self._idle >= _PATIENCE and self._certificate <= _ROUNDED * unit


def _bounded(state: State, floor: float, tol: float) -> State:
    """The state, its gap at most what is left above a lower bound that a dear certificate gave.

    A gap at any w bounds the minimum from below, by the dual less the gap, and so the gap at all.
    Where no finite gap exists, the optimality decides until the bound is within ``tol``.
    """
    left = above_rounding(state.dual - floor, abs(state.dual) + abs(floor))
    known = np.isfinite(state.gap) or left <= tol
    return state.with_gap(left) if known and left < state.gap else state


def _reached(state: State) -> Status:
    return Status.CONVERGED if np.isfinite(state.gap) else Status.STATIONARY


def _endless(state: State, start: float) -> bool:
    """Whether the dual is bottomless somewhere along the ray of w."""
    return state.falls_along_w(-BOTTOMLESS * (1 + abs(start)))


def elastic_terms(problem: Problem) -> tuple[Array, Array]:
    """l1 and l2 of each weight, for a solver whose ``missing`` has made sure of them."""
    terms = problem.potential.elastic(problem.features.n_features)
    assert terms is not None
    return terms


def needs_gradient(problem: Problem) -> str | None:
    """Shared requirement: the conjugate of the entropy is differentiable."""
    if problem.entropy.differentiable:
        return None
    return (
        f"the conjugate of {problem.entropy!r} is not differentiable; use a strictly convex "
        "entropy (Shannon, Tsallis, SquaredNorm ...) or the solver CuttingPlane"
    )


def needs_rows(problem: Problem) -> str | None:
    """Shared requirement: the scores and distributions of single rows."""
    if isinstance(problem.features, FeatureMap):
        return None
    return "it needs the rows that blocks keep; use CuttingPlane"


def needs_kinks(problem: Problem, in_memory: bool = True) -> str | None:
    """Shared requirement: a conjugate without a gradient, and where asked for single rows."""
    lack = needs_rows(problem) if in_memory else None
    if lack:
        return lack
    if problem.entropy.differentiable:
        return f"{problem.entropy!r} has a gradient; ProxNewton, LBFGS and FISTA use it"
    return None

"""check_solver: every solver on problems whose solution is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxent.core.entropies import Entropy, FermiDirac, Relative, Shannon, Shifted, Tsallis, Zero
from maxent.core.maps import ChainMap, FeatureMap, JointMap, MatrixMap, SampleMap
from maxent.core.potentials import (
    Ball,
    Box,
    Coupled,
    DualBall,
    ElasticNet,
    Equality,
    LaplacePrior,
    Potential,
    Quadratic,
    SmoothBox,
)
from maxent.core.problem import Problem
from maxent.core.solvers import Solver
from maxent.rows.arrays import Array
from maxent.structured import Chain


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """A problem with its optimal weights (None: only the certificate is known)."""

    name: str
    problem: Problem
    w: Array | None


def built_backwards(
    entropy: Entropy, features: FeatureMap, potential: Potential, v: Array
) -> tuple[Problem, Array]:
    """A problem whose solution w* is known, from any vector v.

    For x = prox_{V*}(v) the residual v - x is a subgradient of V* at x. So w* = -x is optimal
    for the target mu = F p_{w*} - (v - x).
    """
    x = potential.prox_conjugate(v, 1.0)
    start = Problem(entropy, features, potential, np.zeros_like(v))
    moments = start.state(-x).gradient
    return Problem(entropy, features, potential, moments - (v - x)), -x


def known_problems(random_state: int = 0) -> Iterator[KnownProblem]:
    """Problems built backwards from a solution w*, and hinges with a certificate."""
    rng = np.random.default_rng(random_state)
    cells, features = 60, 5
    X = rng.uniform(-1, 1, size=(cells, features))
    q0 = rng.dirichlet(np.full(cells, 5.0))
    samples = rng.normal(size=(40, 3))
    maps: list[tuple[str, Entropy, FeatureMap]] = [
        ("density", Relative(Shannon(), q0), MatrixMap(X)),
        ("sparse density", Relative(Tsallis(1.5), q0), MatrixMap(X)),
        ("classifier", Tsallis(2.0), SampleMap(samples, 3)),
        ("logistic", FermiDirac(), SampleMap(samples)),
    ]
    potentials: list[Potential] = [
        Box(0.3),
        Quadratic(0.5),
        ElasticNet(0.3, 0.5),
        Ball(0.4),
        SmoothBox(0.5, 0.5),
        LaplacePrior(1.0),
        DualBall(0.7),
        Equality(),
    ]
    for name, entropy, features_map in maps:
        for potential in potentials:
            v = 0.8 * rng.normal(size=features_map.n_features)
            problem, w = built_backwards(entropy, features_map, potential, v)
            yield KnownProblem(f"{name}, {potential!r}", problem, w)
    labels = np.eye(3)[rng.integers(0, 3, size=40)]
    for potential in (Quadratic(0.5), Box(0.05)):
        hinge = Problem(
            Shifted(Zero(), 1 - labels), SampleMap(samples, 3), potential, observed=labels
        )
        yield KnownProblem(f"hinge, {potential!r}", hinge, None)
    yield from _chains(rng)


def _chains(rng: np.random.Generator) -> Iterator[KnownProblem]:
    """A conditional random field and max-margin networks over sequences of several lengths."""
    chain = Chain(3)
    sequences: list[Any] = [rng.normal(size=(length, 2)) for length in (1, 3, 2, 4)]
    paths = [rng.integers(0, 3, size=len(x)) for x in sequences]
    cost = chain.scores([1 - np.eye(3)[path] for path in paths], np.zeros((3, 3)))
    pairs: list[tuple[Entropy, Potential]] = [
        (Shannon(domain=chain), Quadratic(0.5)),
        (Shannon(domain=chain), ElasticNet(0.05, 0.5)),
        (Shifted(Zero(chain), cost), Quadratic(0.5)),
        (Shifted(Zero(chain), cost), Box(0.05)),
    ]
    observed = chain.encode(paths, tied=True)
    for entropy, potential in pairs:
        problem = Problem(entropy, ChainMap(sequences, 3), potential, observed=observed)
        name = "hinge" if isinstance(entropy, Shifted) else "CRF"
        yield KnownProblem(f"chain {name}, {potential!r}", problem, None)


def check_solver(solver: Solver, random_state: int = 0) -> None:
    """Raise AssertionError unless ``solver`` solves every known problem it says it fits.

    Parameters
    ----------
    solver : Solver
        The solver to check.
    random_state : int, default 0
        Seed of what is drawn.
    """
    tried = sum(_solved(solver, known) for known in known_problems(random_state))
    if not tried:  # a solver of many densities at once fits nothing else
        tried = sum(_solved(solver, known) for known in _many_densities(random_state))
    if not tried:
        raise AssertionError(f"{solver!r} fits none of the known problems")


def _many_densities(random_state: int) -> Iterator[KnownProblem]:
    """Densities over the same cells whose weights are coupled."""
    rng = np.random.default_rng(random_state)
    counts = rng.multinomial(30, np.full(40, 1 / 40), size=3)
    observed, root = counts / counts.sum(axis=1, keepdims=True), rng.normal(size=(3, 3))
    features = JointMap(rng.normal(size=(40, 5)), 3)
    for potential in (Quadratic(0.5), Coupled(np.eye(3) + root @ root.T, Quadratic(0.1))):
        problem = Problem(
            Shannon(), features, potential, observed=observed, weights=np.full(3, 1 / 3)
        )
        yield KnownProblem(f"many densities, {type(potential).__name__}", problem, None)


def _solved(solver: Solver, known: KnownProblem) -> bool:
    """Whether the solver fits a problem, which it then has to solve."""
    if solver.missing(known.problem) is not None:
        return False
    solution = solver.solve(known.problem)
    label = f"{type(solver).__name__} on {known.name}"
    if not solution.status.reached:
        raise AssertionError(f"{label}: {solution}")
    certificate = solution.gap if np.isfinite(solution.gap) else solution.optimality
    if certificate > solver.tol:
        raise AssertionError(f"{label}: {solution.status.value} with certificate {certificate:.2e}")
    if known.w is not None:
        excess = solution.objective - known.problem.dual(known.w)
        if abs(excess) > 10 * max(solver.tol, 1e-12):
            raise AssertionError(f"{label}: objective off by {excess:.2e}")
    return True

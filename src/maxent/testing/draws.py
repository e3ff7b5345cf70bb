"""Random entropies, potentials, domains and problems: what fuzzers feed to the checks.

Each is a function of a random generator, so that a seed brings a failing case back.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np

from maxent.core import domains, entropies, potentials
from maxent.core.domains import Domain
from maxent.core.entropies import Entropy
from maxent.core.maps import FeatureMap, MatrixMap, SampleMap
from maxent.core.potentials import Potential
from maxent.core.problem import Problem
from maxent.rows.arrays import Array
from maxent.structured import (
    Alignment,
    Arborescence,
    Birkhoff,
    Chain,
    ConstituencyTree,
    Permutahedron,
    ProjectiveTree,
    Transport,
    Tree,
)
from maxent.testing.solvers import built_backwards

Rng = np.random.Generator


def draw_domain(rng: Rng) -> tuple[Domain, int]:
    """A domain, and a row size at which its vertices can be enumerated; the smallest ones too."""
    return draw_structure(rng) if rng.random() < 0.5 else _draw_simple(rng)


def draw_structure(rng: Rng) -> tuple[Domain, int]:
    """A domain of paths, trees, alignments, rankings or couplings, from one node or entry on."""
    n, m = (int(k) for k in rng.integers(1, 4, size=2))
    nodes, states = int(rng.integers(1, 4)), tuple(int(k) for k in rng.integers(1, 4, size=3))
    edges = [(int(rng.integers(child)), child) for child in range(1, nodes) if rng.random() < 0.8]
    pairs = sum(states[a] * states[b] for a, b in edges)
    root: Literal["single", "multi"] = pick(rng, "single", "multi")
    mass, spread = positive(rng, 1e-3, 1e3), positive(rng, 0.2, 5)
    a, b = (mass * rng.dirichlet(np.full(k, spread)) for k in (n, m))
    weights = np.round(positive(rng) * -np.sort(-rng.random(n + 1)), 1)
    return pick(
        rng,
        (Chain(states[0]), states[0] * n + (n - 1) * states[0] ** 2),
        (Tree(tuple(edges), states[:nodes]), sum(states[:nodes]) + pairs),
        (Alignment(n, m, pick(rng, None, 1)), n * m),
        (Arborescence(root=root), nodes**2),
        (ProjectiveTree(root=root), nodes**2),
        (ConstituencyTree(states[0]), states[0] * nodes**2),
        (Permutahedron(weights), n + 1),
        (Birkhoff(), n**2),
        (Transport(a, b), n * m),
    )


def _draw_simple(rng: Rng) -> tuple[Domain, int]:
    size = int(rng.integers(1, 7))
    subset = domains.KSubset(int(rng.integers(1, size + 1)))
    return pick(
        rng,
        (domains.Simplex(), size),
        (domains.Cube(), min(size, 4)),
        (domains.NonNegative(), size),
        (domains.Euclidean(), size),
        (subset, size),
        (domains.ScaledDomain(subset, positive(rng)), size),
        (domains.Product(domains.Simplex(), size), 2 * size),
    )


def draw_entropy(rng: Rng) -> tuple[Entropy, int]:
    """An entropy, plain or wrapped, and a row size."""
    size = int(rng.integers(2, 8))
    structure, entries = draw_structure(rng)
    if rng.random() < 0.3:
        return _on_structure(rng, structure), entries
    plain = _plain_entropy(rng)
    q0 = rng.dirichlet(np.full(size, positive(rng, 0.3, 5))) + 1e-6
    measured = pick(
        rng,
        entropies.Shannon(),
        entropies.Tsallis(_beyond_one(rng)),
        entropies.SquaredNorm(float(rng.uniform(1.1, 2))),
        entropies.NormEntropy(float(rng.uniform(1.2, 5))),
    )
    return pick(
        rng,
        (plain, size),
        (entropies.Scaled(plain, positive(rng)), size),
        (entropies.Shifted(plain, rng.normal(size=size) * positive(rng)), size),
        (entropies.Relative(measured, q0 / q0.sum()), size),
        (entropies.FermiDirac(), size),
        (entropies.BinaryGini(), size),
        (entropies.OneVsAll(entropies.Tsallis(_beyond_one(rng))), size),
        (entropies.Shannon(domain=domains.KSubset(int(rng.integers(1, size)))), size),
        (entropies.SquaredNorm(domain=domains.KSubset(int(rng.integers(1, size)))), size),
    )


def draw_potential(rng: Rng) -> tuple[Potential, int]:
    """A potential, plain or wrapped, and the length of its residuals."""
    size = int(rng.integers(1, 6))
    beta, strength, order = positive(rng), positive(rng), float(rng.uniform(1, 4))
    order = pick(rng, 1.0, 2.0, float("inf"), order)
    plain: Potential = pick(
        rng,
        potentials.Box(beta * rng.random(size)),
        potentials.Quadratic(strength),
        potentials.ElasticNet(beta, strength),
        potentials.NormBall(beta, order),
        potentials.SquaredNormPotential(strength, order),
        potentials.NormPlusSquare(beta, strength, order),
        potentials.DualBall(beta, order),
        potentials.SmoothBox(beta, strength),
        potentials.LaplacePrior(strength),
        potentials.Equality(),
    )
    shift = rng.normal(size=size)
    return pick(
        rng,
        (plain, size),
        (potentials.ScaledPotential(plain, positive(rng)), size),
        (potentials.ShiftedPotential(plain, shift), size),
        (potentials.Families([plain, potentials.Box(beta)], [size, 2]), size + 2),
    )


def draw_problem(rng: Rng) -> tuple[Problem, Array]:
    """A problem built backwards from its solution, which comes with it."""
    cells, n_features = int(rng.integers(3, 60)), int(rng.integers(1, 6))
    X = rng.uniform(-1, 1, size=(cells, n_features)) * positive(rng)
    q0 = rng.dirichlet(np.full(cells, 5.0))
    outputs = int(rng.integers(2, 5))
    entropy, features = pick(
        rng,
        (entropies.Relative(entropies.Shannon(), q0), MatrixMap(X)),
        (entropies.Relative(entropies.Tsallis(float(rng.uniform(1, 2))), q0), MatrixMap(X)),
        (entropies.Shannon(), SampleMap(X, outputs)),
        (entropies.Tsallis(float(rng.uniform(1.1, 2))), SampleMap(X, outputs)),
        (entropies.FermiDirac(), SampleMap(X)),
    )
    chosen: FeatureMap = features
    beta, strength = positive(rng, 0.05, 2), positive(rng, 0.05, 2)
    potential = pick(
        rng,
        potentials.Box(beta),
        potentials.Quadratic(strength),
        potentials.ElasticNet(beta, strength),
        potentials.Ball(beta),
        potentials.SmoothBox(beta, strength),
        potentials.LaplacePrior(1 / strength),
    )
    return built_backwards(entropy, chosen, potential, rng.normal(size=chosen.n_features))


def check_problem(problem: Problem, w: Array) -> None:
    """Solve a problem whose solution is known: same value, an honest certificate."""
    solution = problem.run()
    best = problem.dual(w)
    scale = 1 + abs(best)
    excess = solution.objective - best
    assert excess >= -1e-9 * scale, f"below the optimum by {-excess:.2e}"
    if np.isfinite(solution.gap):
        slack = 1e-9 * scale
        assert excess <= solution.gap + slack, f"gap {solution.gap:.1e} under {excess:.1e}"
    assert solution.status.name != "CONVERGED" or excess <= 1e-5 * scale, (
        f"converged, {excess:.2e} above the optimum"
    )


def exact_sparsemax(theta: Array) -> list[Fraction]:
    """The projection of a row onto the simplex, in fractions."""
    scores = [Fraction(float(t)) for t in theta]
    total, threshold = Fraction(0), Fraction(0)
    for k, score in enumerate(sorted(scores, reverse=True), start=1):
        total += score
        if 1 + k * score > total:
            threshold = (total - 1) / k
    return [max(score - threshold, Fraction(0)) for score in scores]


def _on_structure(rng: Rng, structure: Domain) -> Entropy:
    known: list[Entropy] = [
        entropies.SquaredNorm(domain=structure),
        entropies.Zero(domain=structure),
    ]
    if isinstance(structure, domains.SumProductDomain):
        known.append(entropies.Shannon(domain=structure))
    if structure.has_project_kl:
        known.append(entropies.MeanEntropy(structure))
    return pick(rng, *known)


def _plain_entropy(rng: Rng) -> Entropy:
    return pick(
        rng,
        entropies.Shannon(),
        entropies.Tsallis(_beyond_one(rng)),
        entropies.NormEntropy(float(rng.uniform(1.2, 5))),
        entropies.SquaredNorm(float(rng.uniform(1.1, 2))),
        entropies.Renyi(float(rng.uniform(0.2, 1))),
        entropies.Zero(),
    )


def _beyond_one(rng: Rng) -> float:
    return pick(rng, 1.0, 1.5, 2.0, float(rng.uniform(1, 2)), float(rng.uniform(2, 5)))


def positive(rng: Rng, low: float = 0.03, high: float = 30.0) -> float:
    """A number between two, all sizes alike."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def pick(rng: Rng, *choices: Any) -> Any:
    """One of them."""
    return choices[int(rng.integers(len(choices)))]

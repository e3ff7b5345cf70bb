"""Sampling structures without replacement, exactly: what is left is kept as disjoint sets.

Where a recursion knows the chance of every choice of a derivation, a set is what begins with the
same choices. Elsewhere it is what scores of -inf leave of a domain.
"""

from __future__ import annotations

import heapq
import math
from itertools import count

import numpy as np

from maxent.core.domains import Domain, Simplex, StructuredDomain
from maxent.rows.arrays import Array
from maxent.structured.chain.domain import Chain
from maxent.structured.derivations import Derivation, derivable, derivation
from maxent.structured.paths.automaton import Automaton
from maxent.structured.paths.domain import Lattice
from maxent.structured.segments.domain import SemiMarkov
from maxent.structured.trees.tables import DependencyTrees
from maxent.structured.trees.tree import Tree


def check_distinct(domain: Domain, size: int) -> None:
    """Refuse domains whose structures are no sequences of decisions."""
    if not derivable(domain):
        decisions(domain, np.zeros(size))


def decisions(domain: Domain, structure: Array) -> list[Array]:
    """What a structure decides, in order: sets of entries of which it has exactly one.

    Given the decisions before it, every structure has exactly one entry of the next set, and all
    of them fix the structure.
    """
    size = structure.size
    if isinstance(domain, Simplex):
        return [np.arange(size)]
    if isinstance(domain, Chain):
        return _each(domain.length(size), domain.n_states)
    if isinstance(domain, Automaton):
        return _each(domain.length(size), domain.width)
    if isinstance(domain, Tree):
        return [np.arange(first, last) for first, last in domain.rooted.nodes]
    if isinstance(domain, DependencyTrees):
        n = domain.nodes(size)
        return list(np.arange(n * n).reshape(n, n).T[1:])
    if isinstance(domain, Lattice):
        tails = np.array(domain.arcs)[:, 0]
        return [np.flatnonzero(tails == tails[arc]) for arc in np.flatnonzero(structure > 0.5)]
    if isinstance(domain, SemiMarkov):
        segments = domain.longest * domain.n_labels  # that may begin at a position
        begun = np.flatnonzero(structure[: domain.length(size) * segments] > 0.5) // segments
        return [np.arange(start * segments, (start + 1) * segments) for start in begun]
    raise TypeError(
        f"sampling without replacement is not for {domain}: its structures do not fall apart into "
        "decisions that scores of -inf can force"
    )


def _each(positions: int, entries: int) -> list[Array]:
    return list(np.arange(positions * entries).reshape(positions, entries))


def draw_distinct(
    domain: StructuredDomain,
    theta: Array,
    n: int,
    rng: np.random.Generator,
    out: Array,
    row: int = 0,
) -> None:
    """Write n different structures to rows of zeros, each by its share of what is left.

    ``row`` is the number of the scores in a batch whose rows the domain tells apart.
    """
    if derivable(domain):
        _leaves(derivation(domain, theta, row), n, rng, out)
    else:
        _parts(domain, theta, n, rng, out)


def _leaves(choices: Derivation, n: int, rng: np.random.Generator, out: Array) -> None:
    """Leaves of a tree of choices.

    Every leaf has its log-chance plus noise of Gumbel's law, and those of the largest sums are
    n draws without replacement. The largest sum below a node has Gumbel's law around its own
    log-chance, and the leaf that attains it any leaf's chance; so sums are drawn from the top
    down: the one of a node is that of the child which is chosen, and the others' are below it.
    """
    number = count()
    waiting = [(-rng.gumbel(), next(number), 0.0, choices.begin())]
    for row in out[:n]:
        if not waiting:
            return
        least, _, so_far, state = heapq.heappop(waiting)
        while True:
            shares, states = choices.options(state)
            if not states:
                break
            chosen = _one_of(shares, rng.random())
            for i, share in enumerate(shares):
                if i != chosen and share > -math.inf:
                    mass = so_far + share
                    top = mass - _log_sum(mass + least, -rng.gumbel())
                    heapq.heappush(waiting, (-top, next(number), mass, states[i]))
            so_far, state = so_far + shares[chosen], states[chosen]
        choices.write(state, row)


def _one_of(shares: list[float], at: float) -> int:
    """The choice at a place between 0 and 1, of those with these log-chances."""
    likeliest = shares.index(max(shares))
    for i, share in enumerate(shares):
        at -= math.exp(share)
        if at < 0.0:
            return i
    return likeliest  # chances round to less than 1


def _log_sum(a: float, b: float) -> float:
    """`log(exp a + exp b)`."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def _parts(
    domain: StructuredDomain, theta: Array, n: int, rng: np.random.Generator, out: Array
) -> None:
    """Structures by the decisions that scores of -inf force.

    After a draw its set falls apart into the structures that share its first decisions and differ
    in the next, one set for each decision; scores of -inf say what a set allows.
    """
    sets, masses = [theta.copy()], [float(domain.softmax(theta)[0])]
    for row in out[:n]:
        if not sets:
            return
        chosen = int(np.argmax(np.array(masses) + rng.gumbel(size=len(masses))))
        allowed = sets.pop(chosen)
        masses.pop(chosen)
        row[:] = _draw(domain, allowed, rng)
        parts = []
        for group in decisions(domain, row):
            taken = group[row[group] > 0.5]
            parts.append(allowed.copy())
            parts[-1][taken] = -np.inf
            kept = allowed[taken]
            allowed[group] = -np.inf
            allowed[taken] = kept
        left = [
            (part, mass)
            for part, mass in zip(parts, _masses(domain, np.stack(parts)), strict=True)
            if mass > -np.inf
        ]
        sets += [part for part, _ in left]
        masses += [mass for _, mass in left]


def _draw(domain: Domain, theta: Array, rng: np.random.Generator) -> Array:
    if isinstance(domain, Simplex):
        return np.eye(theta.size)[np.argmax(theta + rng.gumbel(size=theta.size))]
    drawn: Array = domain.sample(theta, 1, rng)[0]  # type: ignore[attr-defined]
    return drawn


def _masses(domain: StructuredDomain, theta: Array) -> list[float]:
    """Log-partitions of rows, -inf where no structure is left."""
    try:
        return list(np.asarray(domain.softmax(theta)[0], np.float64))
    except ValueError:  # how domains refuse such a row; the scores at first were not refused
        if len(theta) == 1:
            return [-np.inf]
        half = len(theta) // 2
        return _masses(domain, theta[:half]) + _masses(domain, theta[half:])

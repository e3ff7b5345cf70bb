"""The rows of a hinge over chains, each a mixture of a few paths, moved in compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxent.core.entropies import unwrap
from maxent.core.problem import Problem
from maxent.core.solvers._chains import Active, Layout, observed_paths, weights_of
from maxent.core.solvers._dual import DualRows, PairState
from maxent.rows.arrays import Array, Ragged, Rows, Tied, put_row, take_row
from maxent.structured import Chain

_SLOTS = 8  # of a row at first; twice as many whenever they do not suffice
_GROWS, _SHRINKS = 1.7, 0.5  # factors of the proximal term, for each oracle; after a failure
_FASTEST = 1.2  # growth at a time
_FIRST, _MOST = 0.25, 100.0  # the proximal term after the first success and at most, times l2
_EVERY = 2  # passes between two moves of the proximal centre
_LATE = 12  # the k-th pass counts about k^11 in the average


@dataclass(frozen=True, eq=False)
class ActivePaths:
    """The primal point of a hinge over chains as mixtures of paths: where a solver can resume.

    counts : paths of each row; shares : theirs, row by row, summing to 1 in each; paths : their
    states, path after path.
    """

    counts: Array
    shares: Array
    paths: Array

    @classmethod
    def single(cls, paths: list[Array]) -> ActivePaths:
        """One path per row."""
        count = np.ones(len(paths), np.int64)
        return cls(count, np.ones(len(paths)), np.concatenate(paths).astype(np.int32))

    def check(self, lengths: Array, n_states: int) -> None:
        """Compiled code trusts them, so they must fit the problem."""
        counts, shares, paths = self.counts, self.shares, self.paths
        if counts.shape != lengths.shape or (counts < 1).any():
            raise ValueError(f"{len(lengths)} rows need a number of paths >= 1 each, got {counts}")
        if shares.shape != (counts.sum(),) or paths.shape != (counts @ lengths,):
            raise ValueError("the active paths are those of sequences of other lengths")
        sums = np.add.reduceat(shares, np.cumsum(counts) - counts)
        if (shares < 0).any() or not np.allclose(sums, 1.0):
            raise ValueError("the shares of the paths of a row are not negative and sum to 1")
        if paths.min() < 0 or paths.max() >= n_states:
            raise ValueError(f"states run from 0 to {n_states - 1}")


def _slots(lengths: Array, sizes: Array) -> Active:
    """Empty slots, ``sizes`` of them for each row."""

    def places(counts: Array) -> Array:
        return np.concatenate([[0], np.cumsum(counts)])

    slot, path_at, product_at = places(sizes), places(sizes * lengths), places(sizes**2)
    return Active(
        slot,
        path_at,
        product_at,
        np.zeros(len(lengths), np.int64),
        np.zeros(slot[-1]),
        np.zeros(slot[-1]),
        np.zeros(path_at[-1], np.int32),
        np.zeros(product_at[-1]),
    )


class ChainRows(DualRows):
    """Weights w = -r/l2 that follow the rows; the seed of orders by gap or at random."""

    def __init__(self, problem: Problem, point: Rows, parts: Layout, by_gap: bool) -> None:
        super().__init__(problem, point)
        self.parts, self.by_gap = parts, by_gap
        self.w, self.l2, self.kernel_weights = weights_of(problem, parts)
        self.gaps = np.zeros(len(self.weights))

    def order(self, rng: np.random.Generator, known: bool) -> Array:
        """Rows of a pass: each once, or where their gaps are known drawn by them."""
        total = float(self.gaps[self.moving].sum())
        if not (self.by_gap and known and total > 0):
            return rng.permutation(self.moving)
        return rng.choice(self.moving, self.moving.size, p=self.gaps[self.moving] / total)

    def _settled(self, state: PairState) -> PairState:
        """Rows without influence are where the weights put them."""
        for i in self.still:
            put_row(state.point, i, take_row(state.p, i))
        return state


class PathRows(ChainRows):
    """Mixtures of paths: pairwise steps, recombined paths, and accelerated passes.

    A pass that asks the oracle is followed by ``cache`` passes over the paths that can be made of
    the states in use. Block coordinate steps are slow where rows share their weights, so they act
    on the problem with a proximal term c l2/2 (w - y)^2, whose centre y moves ahead (Shalev-Shwartz
    and Zhang, 2014; Lin, Mairal and Harchaoui, 2015): c grows while the primal falls. The weights
    that are certified are an average of the last passes, which has less of their noise.
    """

    def __init__(
        self, problem: Problem, point: Rows, parts: Layout, by_gap: bool, cache: int,
        active: ActivePaths | None = None,
    ) -> None:  # fmt: skip
        super().__init__(problem, point, parts, by_gap)
        self.cache = cache
        # few answers of the oracle do not tell how far the centre may go
        self.grows = min(_GROWS ** (_EVERY / (1 + cache)), _FASTEST)
        if active is None:
            active = ActivePaths.single(self._start())
        active.check(parts.chains.lengths, parts.n_states)
        self.slots = self._filled(active)
        self.full = np.zeros(len(self.gaps), dtype=bool)
        self.c, self.most, self.count = 0.0, _MOST, 0
        self.primal, self.rose = np.inf, False
        self._refresh(self._residual(self._point()))
        self.centre, self.last, self.mean = self.w.copy(), self.w.copy(), self.w.copy()

    def _start(self) -> list[Array]:
        """The paths of the point, or where it is not made of single ones those of w = 0."""
        domain = unwrap(self.problem.entropy).entropy.domain
        assert isinstance(domain, Chain)
        paths = observed_paths(domain, self.point)
        return domain.decode(self.problem.origin().p) if paths is None else paths

    def _filled(self, active: ActivePaths) -> Active:
        from maxent.structured.chain.kernels.path_steps import write_costs_and_products

        parts = self.parts
        lengths = parts.chains.lengths
        slots = _slots(lengths, np.maximum(active.counts + 1, _SLOTS))
        slots.count[:] = active.counts
        for given, places, sizes in (
            (active.shares, (slots.share, slots.slot), active.counts),
            (active.paths, (slots.paths, slots.path_at), active.counts * lengths),
        ):
            array, at = places
            inside = np.arange(given.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            array[np.repeat(at[:-1], sizes) + inside] = given
        write_costs_and_products(
            parts.tokens, parts.chains, self.kernel_weights, slots, parts.longest
        )
        return slots

    @property
    def active(self) -> ActivePaths:
        """The paths in use and their shares."""
        slots, lengths = self.slots, self.parts.chains.lengths

        def taken(array: Array, at: Array, sizes: Array) -> Array:
            inside = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            return array[np.repeat(at[:-1], sizes) + inside]

        shares = taken(slots.share, slots.slot, slots.count)
        paths = taken(slots.paths, slots.path_at, slots.count * lengths)
        return ActivePaths(slots.count.copy(), shares, paths)

    def advance(self, rng: np.random.Generator, passes: int) -> bool:
        """At least so many passes, until the next that asks the oracle; whether a row moved.

        A pass over known states costs half of one that asks, and counts half.
        """
        moved, done = 0, 0.0
        while done < passes:
            for k in range(1 + self.cache):
                moved += self._pass(self.order(rng, known=k > 0), oracle=k == 0)
            done += 1 + 0.5 * self.cache
        if moved:
            return True
        # the average of the passes still lags behind, and the centre behind the weights
        held = self.c > 0
        self._set(self._own(), 0.0)
        self.mean = self.w.copy()
        return held

    def _pass(self, order: Array, oracle: bool) -> int:
        from maxent.structured.chain.kernels.path_steps import visit_rows

        parts = self.parts
        moved = visit_rows(
            order, oracle, 1 / (1 + self.c), parts.tokens, parts.chains, self.kernel_weights,
            self.slots, self.gaps, self.full, parts.longest,
        )  # fmt: skip
        self._make_room()
        self.count += 1
        self.mean += _LATE / (self.count + _LATE) * (self.w - self.mean)
        if self.count % _EVERY == 0:
            self._move_centre()
        return int(moved)

    def _make_room(self) -> None:
        if not self.full.any():
            return
        from maxent.structured.chain.kernels.path_steps import copy_slots

        sizes = np.diff(self.slots.slot)
        sizes[self.full | (self.slots.count > 0.7 * sizes)] *= 2  # for the next passes as well
        larger = _slots(self.parts.chains.lengths, sizes)
        copy_slots(self.slots, larger, self.parts.chains.lengths)
        self.slots = larger
        self.full[:] = False

    def _move_centre(self) -> None:
        """The centre goes on in the direction of the weights, or stops where the primal rose."""
        own = self._own()
        primal = self._primal(own)
        rose = primal > self.primal
        if rose:
            self.centre = self.w.copy()
            c = _SHRINKS * self.c
            if self.rose:  # plain steps, which never raise it, and more care from now on
                c, self.most = 0.0, _SHRINKS * self.most
        else:
            root = 1 / np.sqrt(1 + self.c)
            self.centre = self.w + (1 - root) / (1 + root) * (self.w - self.last)
            c = min(self.grows * max(self.c, _FIRST), self.most)
        self.primal, self.rose, self.last = primal, rose, self.w.copy()
        self._set(own, c)

    def _own(self) -> Array:
        """-r/l2, the weights without the proximal term."""
        return (1 + self.c) * self.w - self.c * self.centre

    def _set(self, own: Array, c: float) -> None:
        self.c = c
        self.w[:] = (own + c * self.centre) / (1 + c)

    def _primal(self, own: Array) -> float:
        slots = self.slots
        shares = np.add.reduceat(slots.share * slots.cost, slots.slot[:-1])
        return float(0.5 * self.l2 @ own**2 - self.weights @ shares)

    def _point(self) -> Tied:
        from maxent.structured.chain.kernels.path_steps import write_points

        k, chains = self.parts.n_states, self.parts.chains
        unary, edges = np.empty((len(chains.cost), k)), np.empty((len(chains.lengths), k, k))
        write_points(self.slots, chains.lengths, chains.first, unary, edges)
        offsets = np.append(chains.first, len(chains.cost)) * k
        return Tied(Ragged(unary.reshape(-1), offsets), edges.reshape(-1, k * k))

    def _residual(self, point: Rows) -> Array:
        return self.problem.moments(point) - self.problem.target

    def _refresh(self, residual: Array) -> None:
        """The weights from the residual: rounding of many steps ends with it."""
        centre = self.centre if self.c else 0.0
        self.w[:] = (self.c * centre - residual / self.l2) / (1 + self.c)

    def state(self) -> PairState:
        """The state at the average weights, certified at the mixtures."""
        problem, w = self.problem, self.mean.copy()
        point = self._point()
        state = PairState(problem, w, problem.scored(w), point, rows=self)
        self._refresh(state.residual)
        return self._settled(state)


class PlainRows(ChainRows):
    """One step of each row towards its best path, no memory of paths."""

    def __init__(self, problem: Problem, point: Tied, parts: Layout, by_gap: bool) -> None:
        super().__init__(problem, point, parts, by_gap)
        self.count = 0
        self._refresh()

    def _refresh(self) -> None:
        residual = self.problem.moments(self.point) - self.problem.target
        self.w[:] = -residual / self.l2

    def advance(self, rng: np.random.Generator, passes: int) -> bool:
        """So many passes; whether a row moved."""
        from maxent.structured.chain.kernels.path_steps import frank_wolfe_rows

        parts, k = self.parts, self.parts.n_states
        unary = self.point.own.values.reshape(-1, k)
        edges = self.point.tied.reshape(-1, k, k)
        moved = 0
        for _ in range(passes):
            order = self.order(rng, known=self.count % 10 > 0)  # Osokin et al. (2016)
            self.count += 1
            moved += frank_wolfe_rows(
                order, parts.tokens, parts.chains, self.kernel_weights, unary, edges, self.gaps,
                parts.longest,
            )  # fmt: skip
        return moved > 0

    def state(self) -> PairState:
        """The state here; rounding in the weights ends with it."""
        self._refresh()
        return super().state()

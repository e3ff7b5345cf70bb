"""Binary decision trees with leaves labelled 0 or 1, grown leaf by leaf (structural paper, §4).

A tree with leaves l, R_l the sum of r over the cells of l, has the value sum_l [R_l]_+ where leaves
with R_l > 0 are labelled 1, and -sum_l [-R_l]_+ with the opposite labels. A split of R into a + b
adds [a]_+ + [b]_+ - [R]_+ to the first and, as [-x]_+ = [x]_+ - x, takes as much from the second:
both signs grow the same tree, and the larger value has the sign of sum_i r_i at every size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import lgamma
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxent import io
from maxent._support.checks import cuts, floats, indices
from maxent._support.threads import over_rows, sum_of_parts
from maxent.families.base import Ceiling, Proposal, Terms, of_sums
from maxent.families.plans import Ask, Plan, PlannedFamily, View, Walk
from maxent.families.resplits import BinnedTree, Resplitter
from maxent.families.single_split import Threshold, threshold_inside
from maxent.families.tree_ceiling import tree_ceiling
from maxent.features.base import Operator, incidence, replaced
from maxent.features.cells import UNKNOWN, Cells, Schema, check_levels
from maxent.rows.arrays import Array

_NOISE = 1e-11  # of sum_i |r_i|: what sums of a million cells may be off by
_RESPLIT = 4  # trees whose questions a longer search asks anew, at first
_BLOCK = 1 << 14  # cells that pass by all trees at once: their masses stay in cache
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little") * 1.0


@io.register
@dataclass(frozen=True)
class Trees(PlannedFamily):
    """`H_k`: binary decision trees with k internal nodes; a feature is the union of some leaves.

    Nodes ask `[x <= t]`, or [level in a set] of a categorical variable. The best tree of `k + 1`
    nodes found splits one leaf of the best of k, for k up to ``max_nodes``. The threshold of a
    single node lies between any two values of the cells. Those of larger trees do as well, unless a
    variable has more than ``bins`` distinct values: then they are spread evenly by cell count, and
    `H_2`, `H_3` ... have no others.

    Parameters
    ----------
    max_nodes : int, default 8
        Largest number of internal nodes k.
    bins : int, default 255
        Bins of a variable at most, for trees of two nodes and more; one byte per cell up to 255,
        two beyond.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> schema = Schema.from_table(X)
    >>> proposals = Trees(2).search(schema.read(X), schema).propose(np.array([1, -2, -1.5, 2.5]))
    >>> [(p.level, p.operator.names(), p.value) for p in proposals]
    [(1, ['x0 <= 3.5'], -2.5), (2, ['1.5 < x0 <= 3.5'], -3.5)]
    """

    letter: ClassVar[str] = "d"
    looks_at: ClassVar[frozenset[str]] = frozenset({"values"})

    max_nodes: int = 8
    bins: int = 255

    def __post_init__(self) -> None:
        if not (isinstance(self.max_nodes, int | np.integer) and self.max_nodes >= 1):
            raise ValueError(f"max_nodes must be an integer >= 1, got {self.max_nodes!r}")
        if not (isinstance(self.bins, int | np.integer) and 2 <= self.bins < 1 << 16):
            raise ValueError(f"bins must be an integer from 2 to 65535, got {self.bins!r}")

    @property
    def max_level(self) -> int:
        """The largest k."""
        return self.max_nodes

    def complexity(self, level: int, d: int, m: int) -> float:
        """`sqrt((4k + 2) log2(d + 2) log(m + 1) / m)`, for thresholds alone: `[x <= t]`."""
        # structural paper, eq. 15
        return float(np.sqrt((4 * level + 2) * np.log2(d + 2) * np.log(m + 1) / m))

    def complexity_of(self, level: int, schema: Schema, m: int) -> float:
        """(15), or `sqrt(log Pi / 2m)` if larger, Pi at least the ways to label m records.

        Sets of levels need the second: a category of L levels alone labels L records in every way.
        """
        printed = self.complexity(level, schema.n_raw, m)
        return max(printed, float(np.sqrt(log_growth(level, schema, m) / (2 * m))))

    def plan(self, view: View) -> TreePlan:
        """Every variable of a table in bins, ready to grow trees."""
        return TreePlan(view, self.max_nodes, self.bins)


def log_growth(level: int, schema: Schema, m: int) -> float:
    """log of C_k 2^(k + 1) Q^k, at least the labellings of m records by trees of k nodes.

    C_k, the Catalan number, counts the shapes and 2^(k + 1) the labels of the leaves. Q questions
    differ on m records: m - 1 thresholds of each continuous variable, min(2^L, 2^m) sets of L
    levels, and one that all answer alike.

    >>> schema = Schema(("x", "soil"), ("soil",), (("clay", "sand"),))
    >>> round(float(np.exp(log_growth(1, schema, m=10))), 6)  # 4 (9 + 1 + 4)
    56.0
    """
    thresholds = np.log(len(schema.continuous) * (m - 1) + 1)
    sets = [min(len(levels), m) * np.log(2) for levels in schema.levels]
    shapes = lgamma(2 * level + 1) - lgamma(level + 1) - lgamma(level + 2)
    questions = float(np.logaddexp.reduce([thresholds, *sets]))
    return shapes + (level + 1) * float(np.log(2)) + level * questions


# -- trees as features ---------------------------------------------------------------------------


@io.register
@dataclass(frozen=True, eq=False)
class TreeTerms(Operator):
    """Several trees; nodes one tree after the other, cut at ``offsets``, parents before children.

    ``variable`` counts the continuous variables, then the categorical ones. ``left`` (where x <=
    ``threshold``, or the level is in the node's set) and ``right`` are numbers of nodes within the
    tree, or -1 and -2 for leaves labelled 0 and 1. Sets are codes, ``members``, cut at ``sets``.
    """

    continuous: tuple[str, ...]
    categorical: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    variable: Array
    threshold: Array
    left: Array
    right: Array
    offsets: Array
    members: Array
    sets: Array

    def __post_init__(self) -> None:
        """Compiled kernels trust the nodes, so a file may not bring wrong ones."""
        check_levels(self.categorical, self.levels)
        size = np.size(self.variable)
        indices("variable", self.variable, size, len(self.continuous) + len(self.categorical))
        floats("threshold", self.threshold, size)
        for name in ("left", "right"):  # -2 and -1 are leaves
            indices(name, np.asarray(getattr(self, name)) + 2, size, size + 2)
        cuts("offsets", self.offsets, size, least=1)
        cuts("sets", self.sets, np.size(self.members))
        if self.sets.size != size + 1:
            raise ValueError(f"sets must have {size + 1} entries, got {self.sets.size}")
        if not self._leads_to_leaves():
            raise ValueError("nodes must lead to later nodes of their tree, or to -1 and -2")
        sizes = list(map(len, self.levels))
        most = max(sizes, default=0)  # sets of continuous variables are not looked at
        known = np.array([*(most for _ in self.continuous), *sizes], dtype=np.intp)
        indices("members", self.members, np.size(self.members), most)
        if (self.members >= np.repeat(known[self.variable], np.diff(self.sets))).any():
            raise ValueError("nodes must ask for levels that their variable has")

    def _leads_to_leaves(self) -> bool:
        """Whether every node but the first is the child of one earlier node."""
        sizes = np.diff(self.offsets)
        start, end = np.repeat(self.offsets[:-1], sizes), np.repeat(self.offsets[1:], sizes)
        child = np.array([self.left, self.right])
        to = child + start
        later = (to > np.arange(start.size)) & (to < end)
        inner = to[child >= 0]
        once = np.unique(inner).size == inner.size == start.size - sizes.size
        return bool(once and (sizes > 0).all() and (later | (child == -1) | (child == -2)).all())

    @property
    def n_features(self) -> int:
        """Number of trees."""
        return int(self.offsets.size - 1)

    def names(self) -> list[str]:
        """The leaves labelled 1 as conditions, or "not (...)" of the others if that is shorter."""
        return [self._name(tree) for tree in range(self.n_features)]

    def _name(self, tree: int) -> str:
        leaves = self._leaves(tree)
        ones, zeros = (" or ".join(said for n, said in leaves if n == label) for label in (1, 0))
        return min(ones, f"not ({zeros})", key=len)

    def _leaves(self, tree: int) -> list[tuple[int, str]]:
        """Label and conditions of every leaf."""
        start, stop = self.offsets[tree : tree + 2]
        reached: dict[int, dict[int, _Range | _Subset]] = {0: {}}
        leaves = []
        for node in range(start, stop):
            here, v = reached.pop(node - start), int(self.variable[node])
            for child, left in ((self.left[node], True), (self.right[node], False)):
                there = {**here, v: self._narrowed(here.get(v), node, left)}
                if child >= 0:
                    reached[int(child)] = there
                else:
                    said = " and ".join(
                        where.describe(self._label(v)) for v, where in there.items()
                    )
                    leaves.append((-1 - int(child), said))
        return leaves

    def _label(self, v: int) -> str:
        return (*self.continuous, *self.categorical)[v]

    def _narrowed(self, where: Any, node: int, left: bool) -> _Range | _Subset:
        """The values of the node's variable that go left or right, of those that come."""
        v = int(self.variable[node]) - len(self.continuous)
        if v < 0:
            return (where or _Range()).cut(float(self.threshold[node]), left)
        chosen = frozenset(self.members[self.sets[node] : self.sets[node + 1]].tolist())
        return (where or _Subset(self.levels[v])).cut(chosen, left)

    def kinds(self) -> Array:
        """d."""
        return np.full(self.n_features, "d")

    def matches(self, schema: Schema) -> bool:
        """The continuous and categorical columns, with the same levels."""
        mine = (self.continuous, self.categorical, self.levels)
        return mine == (schema.continuous, schema.categorical, schema.levels)

    def uses_columns(self, names: Sequence[str]) -> Array:
        """The variables of the nodes."""
        variables = (*self.continuous, *self.categorical)
        return incidence(names, variables, self.variable, self.offsets)

    def restrict(self, index: Array) -> TreeTerms:
        """Some of the trees."""
        nodes, offsets = _entries(self.offsets, np.asarray(index, dtype=np.intp))
        members, sets = _entries(self.sets, nodes)
        per_node = {name: getattr(self, name)[nodes] for name in _PER_NODE}
        return replaced(self, offsets=offsets, members=self.members[members], sets=sets, **per_node)

    def join(self, other: Operator) -> TreeTerms | None:
        """The trees of two operators over the same variables."""
        if not isinstance(other, TreeTerms) or not self._same_variables(other):
            return None
        return _chained([self, other])

    def _same_variables(self, other: TreeTerms) -> bool:
        names = ("continuous", "categorical", "levels")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def bind(self, cells: Cells, clamp: bool = False) -> BoundTrees:
        """The value of every tree at every cell; a level unknown at the fit is in no set."""
        bound = BoundTrees(cells)
        bound.append(self)
        return bound


_PER_NODE = ("variable", "threshold", "left", "right")


def _entries(offsets: Array, index: Array) -> tuple[Array, Array]:
    """The entries of the rows ``index`` of values cut at ``offsets``, and their own offsets."""
    sizes = np.diff(offsets)[index]
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    return np.repeat(offsets[index] - cuts[:-1], sizes) + np.arange(cuts[-1]), cuts


def _chained(parts: Sequence[TreeTerms]) -> TreeTerms:
    """The trees of all as one operator."""
    joint = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*_PER_NODE, "members")
    }
    for name in ("offsets", "sets"):
        sizes = np.concatenate([np.diff(getattr(part, name)) for part in parts])
        joint[name] = np.concatenate([[0], np.cumsum(sizes)])
    return replaced(parts[0], **joint)


@dataclass(frozen=True)
class _Range:
    """low < x <= high."""

    low: float = -np.inf
    high: float = np.inf

    def cut(self, threshold: float, left: bool) -> _Range:
        if left:
            return _Range(self.low, min(self.high, threshold))
        return _Range(max(self.low, threshold), self.high)

    def describe(self, name: str) -> str:
        low, high = (repr(end).removesuffix(".0") for end in (self.low, self.high))
        if self.low == -np.inf:
            return f"{name} <= {high}"
        return f"{name} > {low}" if self.high == np.inf else f"{low} < {name} <= {high}"


@dataclass(frozen=True)
class _Subset:
    """The codes in a set, or all that are not."""

    levels: tuple[Any, ...]
    codes: frozenset[int] = frozenset()
    inside: bool = False

    def cut(self, chosen: frozenset[int], left: bool) -> _Subset:
        if self.inside:
            codes = self.codes & chosen if left else self.codes - chosen
        else:
            codes = chosen - self.codes if left else self.codes | chosen
        return _Subset(self.levels, codes, self.inside or left)

    def describe(self, name: str) -> str:
        listed = ", ".join(str(self.levels[code]) for code in sorted(self.codes))
        return f"{name} {'in' if self.inside else 'not in'} {{{listed}}}"


class BoundTrees(Terms):
    """Trees on given cells: one bit per cell and tree.

    Trees share bytes by eight. All sums over a byte's trees are one sum by its 256 values.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self._parts: list[TreeTerms] = []
        self._bytes: list[Array] = []
        self._room = 0  # bits of the last byte that no tree has yet
        self._slots = np.empty(0, dtype=np.intp)  # of each tree: 8 x its byte + its bit
        self.n_features = 0
        self._groups: list[tuple[Array, Array, Array]] | None = None

    def append(self, operator: Operator) -> None:
        """Work out the trees at every cell."""
        if not isinstance(operator, TreeTerms):
            raise TypeError(f"trees can be joined by TreeTerms, got {type(operator).__name__}")
        first = 0
        while first < operator.n_features:
            if not self._room:
                self._bytes.append(np.zeros(self.cells.n_cells, dtype=np.uint8))
                self._room = 8
            count = min(self._room, operator.n_features - first)
            self._mark(operator, first)
            slots = 8 * len(self._bytes) - self._room + np.arange(count)
            self._slots = np.concatenate([self._slots, slots])
            self._room -= count
            first += count
        self._parts.append(operator)
        self._groups = None
        self.n_features += operator.n_features

    def _mark(self, trees: TreeTerms, first: int) -> None:
        """Fill the rest of the last byte with the trees from ``first`` on."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import mark_trees

        packed, bit = self._bytes[-1], 8 - self._room
        mark = exact(mark_trees, packed.size * trees.variable.size)

        def work(start: int, stop: int) -> None:
            for begin in range(start, stop, _BLOCK):
                mark(
                    self.cells.values, self.cells.codes, trees.variable, trees.threshold,
                    trees.left, trees.right, trees.offsets, trees.members, trees.sets,
                    first, bit, begin, packed[begin : min(begin + _BLOCK, stop)],
                )  # fmt: skip

        over_rows(work, packed.size, 8)

    def operator(self) -> TreeTerms | None:
        """All trees taken in."""
        if len(self._parts) > 1:
            self._parts = [_chained(self._parts)]
        return self._parts[0] if self._parts else None

    def _by_byte(self) -> list[tuple[Array, Array, Array]]:
        """Each byte at every cell, its trees and their bits."""
        if self._groups is None:
            byte, bit = np.divmod(self._slots, 8)
            mine = [np.flatnonzero(byte == b) for b in range(len(self._bytes))]
            self._groups = [(p, w, bit[w]) for p, w in zip(self._bytes, mine, strict=True)]
        return self._groups

    def add_scores(self, w: Array, theta: Array) -> None:
        """theta += sum_j w_j f_j: a table of 256 sums for every byte."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import add_bytes

        groups = [group for group in self._by_byte() if w[group[1]].any()]
        tables = [_BITS[:, bits] @ w[where] for _, where, bits in groups]

        add = exact(add_bytes, len(groups) * theta.size)

        def work(start: int, stop: int) -> None:
            for begin in range(start, stop, _BLOCK):
                block = slice(begin, min(begin + _BLOCK, stop))
                for (packed, _, _), table in zip(groups, tables, strict=True):
                    add(packed[block], table, theta[block])

        over_rows(work, theta.size, len(groups))

    def moments(self, p: Array) -> Array:
        """sum_i p_i f_j(i)."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import sum_bytes

        groups = self._by_byte()
        add = exact(sum_bytes, len(groups) * (p.size + 1024))

        def part(start: int, stop: int) -> Array:
            sums = np.zeros((len(groups), 256))
            for begin in range(start, stop, _BLOCK):
                block = slice(begin, min(begin + _BLOCK, stop))
                for (packed, _, _), row in zip(groups, sums, strict=True):
                    add(packed[block], p[block], row)
            return sums

        sums = sum_of_parts(part, p.size, len(groups)) @ _BITS
        out = np.empty(self.n_features)
        for row, (_, where, bits) in zip(sums, groups, strict=True):
            out[where] = row[bits]
        return out

    squares = moments  # an indicator is its own square

    def restrict(self, index: Array) -> BoundTrees:
        """Some of the trees on the same cells."""
        trees = self.operator()
        byte, bit = np.divmod(self._slots[index], 8)
        used, place = np.unique(byte, return_inverse=True)
        return replaced(
            self,
            _parts=[] if trees is None else [trees.restrict(index)],
            _bytes=[self._bytes[b] for b in used],
            _room=0,  # the other bits are not its own
            _slots=8 * place + bit,
            _groups=None,
            n_features=len(index),
        )

    def take(self, cells: Array) -> BoundTrees:
        """The same trees on some of the cells."""
        return replaced(
            self,
            cells=self.cells.take(cells),
            _parts=list(self._parts),
            _bytes=[packed[cells] for packed in self._bytes],
            _groups=None,
        )

    def write(self, root: Array, start: int, stop: int, out: Array) -> None:
        """The columns of some cells, one row per tree."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import write_bits

        for packed, where, bits in self._by_byte():
            write = exact(write_bits, bits.size * (stop - start))
            write(packed[start:stop], bits, where, root[start:stop], out)


# -- search --------------------------------------------------------------------------------------


class TreeSums(ABC):
    """What a search of trees asks: sums of r by bin of every variable, over the cells of a leaf.

    ``size`` and ``total`` are sum_i |r_i| and sum_i r_i, ``count`` cells have r_i != 0. All cells
    are leaf 0; the s-th split, counted from 0, makes the leaves 2 s + 1 and 2 s + 2.
    """

    size: float
    total: float
    count: int

    @abstractmethod
    def root(self) -> Array:
        """The sums over all cells."""

    @abstractmethod
    def negatives(self) -> Array:
        """The sums of [-r]_+ over all cells; where all values of the cells have bins, empty."""

    @abstractmethod
    def within(self, bins: Array) -> list[tuple[Array, Array]]:
        """Of the cells in each of some bins of continuous variables the values, and r."""

    @abstractmethod
    def split(self, leaf: int, variable: int, goes_left: Array) -> tuple[Array, Array]:
        """The sums of both sides of a leaf; ``goes_left`` are the bins of the variable that do."""

    @abstractmethod
    def restart(self) -> None:
        """All cells are leaf 0 again, and the only one."""

    @abstractmethod
    def resplit(self, tree: BinnedTree, node: int) -> Array:
        """Sums of r_i (a_i - b_i) by bin of every variable, see ``resplits``."""

    @abstractmethod
    def leaves(self, tree: BinnedTree) -> Array:
        """Sums of r over the cells of each leaf of a tree."""

    @abstractmethod
    def cells(self) -> tuple[Array, Array]:
        """The bins of all cells with r_i != 0, (cells, variables), and r: for few cells."""


class TreeWalk(TreeSums, Walk):
    """The sums over cells in memory.

    Moves are a leaf, a variable and the bytes of the bins; or the name of another question, a node
    and a tree in bytes.
    """

    def __init__(self, binned: BinnedCells, r: Array) -> None:
        self._binned, self._r = binned, r
        self.size, self.total = float(np.abs(r).sum()), float(r.sum())
        self._order = np.flatnonzero(r).astype(np.int32)  # cells of each leaf together
        self.count = self._order.size
        self._spare = np.empty_like(self._order)
        self._leaves = [(0, self._order.size, self._sums(0, self._order.size))]

    def _sums(self, start: int, stop: int) -> Array:
        return self._binned.sums(self._r, self._order[start:stop])

    def root(self) -> Array:
        """The sums over all cells."""
        return self._leaves[0][2]

    def split(self, leaf: int, variable: int, goes_left: Array) -> tuple[Array, Array]:
        """The smaller side from its cells, the other as the rest."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import partition

        start, stop, whole = self._leaves[leaf]
        here = slice(start, stop)
        middle = start + exact(partition, 2 * (stop - start))(
            self._binned.codes, variable, goes_left, self._order[here], self._spare[here]
        )
        ends = [(start, middle), (middle, stop)]
        small = int(middle - start > stop - middle)
        sums = self._sums(*ends[small])
        both = (sums, whole - sums) if small == 0 else (whole - sums, sums)
        self._leaves += [(*end, side) for end, side in zip(ends, both, strict=True)]
        return both

    def negatives(self) -> Array:
        """From the cells of the rarer sign: records, of a density."""
        if not self._binned.coarse:
            return np.empty(0)
        negative = np.flatnonzero(self._r < 0).astype(np.int32)
        if 2 * negative.size <= self.count:
            return -self._binned.sums(self._r, negative)
        positive = np.flatnonzero(self._r > 0).astype(np.int32)
        return self._binned.sums(self._r, positive) - self.root()

    def within(self, bins: Array) -> list[tuple[Array, Array]]:
        """Those in memory."""
        return self._binned.within(self._r, bins)

    def first(self) -> Array:
        """size, total, count, the sums of the root and those of negative parts."""
        known = [self.size, self.total, self.count]
        return np.concatenate([known, self.root(), self.negatives()])

    def restart(self) -> None:
        """The cells stay in the order they have."""
        del self._leaves[1:]

    def resplit(self, tree: BinnedTree, node: int) -> Array:
        """In one pass over the cells."""
        return self._binned.resplit(self._r, self._order, tree, node)

    def leaves(self, tree: BinnedTree) -> Array:
        """In one pass over the cells."""
        return self._binned.leaves(self._r, self._order, tree)

    def cells(self) -> tuple[Array, Array]:
        """Those in memory."""
        order = np.sort(self._order)
        return self._binned.codes[order], self._r[order]

    def step(self, move: tuple[Any, ...]) -> Any:
        """The sums of the left side, or the answer to another question."""
        if move[0] == "cells":
            return [self.cells()]  # lists of several blocks add up to one
        if move[0] == "within":
            return [self.within(np.array(move[1:]))]
        if move[0] == "resplit":
            return self.resplit(_unpacked(move[2:]), move[1])
        if move[0] == "leaves":
            return self.leaves(_unpacked(move[2:]))
        leaf, variable, goes_left = move
        return self.split(leaf, variable, np.frombuffer(bytearray(goes_left), np.uint8))[0]


def _packed(tree: BinnedTree) -> tuple[bytes, ...]:
    """A tree as plain values, which moves are made of."""
    return tuple(part.tobytes() for part in tree)


def _unpacked(packed: Sequence[bytes]) -> BinnedTree:
    variable, left, right = (np.frombuffer(bytearray(packed[k]), dtype=np.int32) for k in (0, 2, 3))
    goes_left = np.frombuffer(bytearray(packed[1]), dtype=np.uint8)
    return BinnedTree(variable, goes_left.reshape(variable.size, -1), left, right)


class TreesInBlocks(TreeSums):
    """The sums over cells in blocks: one pass for each question."""

    def __init__(self, ask: Ask, n_bins: int) -> None:
        self._ask: Ask = ask
        self._moves: tuple[tuple[Any, ...], ...] = ()
        self.size, self.total, count, *sums = ask(())
        self.count, self._leaves = round(count), [np.array(sums[:n_bins])]
        self._negatives = np.array(sums[n_bins:])

    def root(self) -> Array:
        """The sums over all cells."""
        return self._leaves[0]

    def split(self, leaf: int, variable: int, goes_left: Array) -> tuple[Array, Array]:
        """The left side from the blocks, the other as the rest."""
        self._moves = (*self._moves, (int(leaf), int(variable), goes_left.tobytes()))
        left = self._ask(self._moves)
        both = left, self._leaves[leaf] - left
        self._leaves += both
        return both

    def restart(self) -> None:
        """The next pass begins anew."""
        self._moves = ()
        del self._leaves[1:]

    def resplit(self, tree: BinnedTree, node: int) -> Array:
        """In one pass over the blocks."""
        return self._asked("resplit", node, tree)

    def leaves(self, tree: BinnedTree) -> Array:
        """In one pass over the blocks."""
        return self._asked("leaves", 0, tree)

    def negatives(self) -> Array:
        """From the first pass."""
        return self._negatives

    def within(self, bins: Array) -> list[tuple[Array, Array]]:
        """Those of all blocks."""
        self._moves = (*self._moves, ("within", *map(int, bins)))
        found = []
        for parts in zip(*self._ask(self._moves), strict=True):  # of each bin, from all blocks
            values, r = zip(*parts, strict=True)
            found.append((np.concatenate(values), np.concatenate(r)))
        return found

    def cells(self) -> tuple[Array, Array]:
        """Those of all blocks."""
        self._moves = (*self._moves, ("cells",))
        codes, r = zip(*self._ask(self._moves), strict=True)
        return np.concatenate(codes), np.concatenate(r)

    def _asked(self, name: str, node: int, tree: BinnedTree) -> Array:
        self._moves = (*self._moves, (name, int(node), *_packed(tree)))
        return self._ask(self._moves)


class _Leaf(NamedTuple):
    """A leaf of a growing tree, with its best split."""

    number: int  # as in ``TreeSums``
    parent: tuple[int, int]  # node and side, 0 for left
    total: float
    gain: float
    variable: int
    goes_left: Array  # of the bins of the variable
    left_total: float


@dataclass(eq=False)
class _TreeNodes:
    """The nodes of a tree in the order they were made.

    ``child`` and ``total`` (nodes, 2) are the node a side leads to, if any so far, and its sum.
    """

    variable: list[int] = field(default_factory=list)
    goes_left: list[Array] = field(default_factory=list)
    child: list[list[int]] = field(default_factory=list)
    total: list[tuple[float, float]] = field(default_factory=list)

    def split(self, leaf: _Leaf, never: int) -> int:
        """A node in place of a leaf; its number."""
        node = len(self.variable)
        self.variable.append(leaf.variable)
        self.goes_left.append(leaf.goes_left)
        self.child.append([never, never])
        self.total.append((leaf.left_total, leaf.total - leaf.left_total))
        if node:
            above, side = leaf.parent
            self.child[above][side] = node
        return node


class BinnedCells:
    """Given cells, every variable in bins."""

    def __init__(self, plan: TreePlan, cells: Cells) -> None:
        self._plan, self._cells = plan, cells
        sizes = np.diff(plan.firsts)
        small = np.min_scalar_type(sizes.max() - 1)
        self.codes = np.empty((cells.n_cells, sizes.size), dtype=small)
        over_rows(self._encode, cells.n_cells, 16 * sizes.size)
        self.coarse = bool(plan.coarse.any())
        self._sorted: dict[int, tuple[Array, Array]] = {}  # see _in_order

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_sorted": {}}

    def _encode(self, start: int, stop: int) -> None:
        """The bins of some cells."""
        thresholds, schema = self._plan.thresholds, self._plan.schema
        for begin in range(start, stop, _BLOCK):  # searchsorted answers in 8 bytes
            block = slice(begin, min(begin + _BLOCK, stop))
            for v, between in enumerate(thresholds):
                self.codes[block, v] = np.searchsorted(between, self._cells.values[v, block])
            for v, levels in enumerate(schema.levels, start=len(thresholds)):
                codes = self._cells.codes[v - len(thresholds), block]
                self.codes[block, v] = np.where(codes == UNKNOWN, len(levels), codes)

    def walk(self, r: Array) -> TreeWalk:
        """The sums with weights r."""
        return TreeWalk(self, r)

    def within(self, r: Array, bins: Array) -> list[tuple[Array, Array]]:
        """Of the cells in each of some bins of continuous variables the values, and r."""
        found: list[tuple[Array, Array]] = []
        for v in np.searchsorted(self._plan.firsts, bins, side="right") - 1:
            order, ends = self._in_order(int(v))
            here = int(bins[len(found)] - self._plan.firsts[v])
            cells = order[ends[here] : ends[here + 1]]
            found.append((self._cells.values[v, cells], r[cells]))
        return found

    def _in_order(self, v: int) -> tuple[Array, Array]:
        """The cells by their values of a variable, and where each of its bins begins and ends."""
        if v not in self._sorted:
            values = self._cells.values[v]
            order = np.argsort(values, kind="stable").astype(np.int32)
            upto = np.searchsorted(values[order], self._plan.thresholds[v], side="right")
            self._sorted[v] = order, np.concatenate([[0], upto, [order.size]])
        return self._sorted[v]

    def sums(self, r: Array, cells: Array) -> Array:
        """Sums of r by bin of every variable, over some cells."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import sum_bins

        firsts = self._plan.firsts

        def part(start: int, stop: int) -> Array:
            sums = np.zeros(firsts[-1])
            exact(sum_bins, (stop - start) * self.codes.shape[1])(
                self.codes, cells[start:stop], r, firsts, sums
            )
            return sums

        return sum_of_parts(part, cells.size, self.codes.shape[1])

    def resplit(self, r: Array, cells: Array, tree: BinnedTree, node: int) -> Array:
        """Sums of r_i (a_i - b_i) by bin over the cells that reach a node."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import sum_resplit

        firsts, (above, side) = self._plan.firsts, tree.path(node)

        def part(start: int, stop: int) -> Array:
            sums = np.zeros(firsts[-1])
            exact(sum_resplit, (stop - start) * (self.codes.shape[1] + tree.size))(
                self.codes, cells[start:stop], r, *tree, above, side, firsts, sums
            )
            return sums

        return sum_of_parts(part, cells.size, self.codes.shape[1])

    def leaves(self, r: Array, cells: Array, tree: BinnedTree) -> Array:
        """Sums of r by leaf."""
        return _leaf_sums(self.codes, r, cells, tree)


def _leaf_sums(codes: Array, r: Array, cells: Array, tree: BinnedTree) -> Array:
    """Sums of r by leaf of a tree, over some of the cells with these bins."""
    from maxent._support.compiling.kernels import exact
    from maxent.families.kernels.trees import sum_leaves

    def part(start: int, stop: int) -> Array:
        sums = np.zeros((tree.size, 2))
        exact(sum_leaves, (stop - start) * tree.size)(codes, cells[start:stop], r, *tree, sums)
        return sums

    return sum_of_parts(part, cells.size, 8)


class _Gathered(NamedTuple):
    """Cells that came together: their bins (cells, variables), and r."""

    codes: Array
    r: Array

    def leaves(self, tree: BinnedTree) -> Array:
        """Sums of r over the cells of each leaf, with no further pass over blocks."""
        return _leaf_sums(*self, np.arange(self.r.size, dtype=np.int32), tree)


class TreePlan(Plan):
    """Trees over the columns of a table, every variable in bins.

    ``thresholds`` are the ends of the bins of each continuous variable, ``firsts`` the number of
    each variable's first bin; bins of a variable with too many values are ``coarse``.
    """

    def __init__(self, view: View, max_nodes: int, bins: int) -> None:
        self.schema, self._max_nodes = view.schema, max_nodes
        n_continuous = len(self.schema.continuous)
        self.thresholds: list[Array] = [np.empty(0)] * n_continuous
        many = np.zeros(n_continuous, dtype=bool)

        def find(first: int, last: int) -> None:
            for v in range(first, last):
                values, counts = view.counted(v)
                self.thresholds[v], many[v] = _thresholds(values, counts, bins), values.size > bins

        over_rows(find, n_continuous, 64 * view.length)
        # unknown levels have a bin of their own, the last
        levels = [len(known) + 1 for known in self.schema.levels]
        sizes = [t.size + 1 for t in self.thresholds] + levels
        self.firsts = np.concatenate([[0], np.cumsum(sizes)])
        self.coarse = np.repeat([*many, *(False for _ in levels)], sizes)

    def bind(self, cells: Cells) -> BinnedCells:
        """Given cells in bins."""
        return BinnedCells(self, cells)

    def over_blocks(self, ask: Ask) -> TreesInBlocks:
        """One pass over the blocks for each split."""
        return TreesInBlocks(ask, int(self.firsts[-1]))

    def terms(self, cells: Cells) -> BoundTrees:
        """A place for chosen trees, a bit per cell and tree."""
        return BoundTrees(cells)

    def propose(self, sums: TreeSums) -> list[Proposal]:
        """The tree of every size, each with one leaf of the one before it split."""
        return self._trees(sums, self._sign(sums))

    def largest(self, sums: TreeSums) -> list[Proposal]:
        """The same trees with the labels for positive values; 1 everywhere where no split gains."""
        found = self._trees(sums, 1.0)
        if found or sums.total <= 0:
            return found
        ones = np.full(1, -2, np.int32)
        tree = BinnedTree(np.zeros(1, np.int32), np.zeros((1, 1)), ones, ones)
        whole = self._terms(tree, np.zeros(1), [np.empty(0, np.int32)])
        return [Proposal(whole, 1, sums.total)]

    def _trees(self, sums: TreeSums, sign: float) -> list[Proposal]:
        noise = _NOISE * sums.size
        finer = self._finer(sums, noise)
        grown = self._grow(sums, noise)
        proposals = [self._proposal(*found) for found in self._sizes(grown, sign)]
        return proposals if finer is None else [self._single(finer, sums, sign), *proposals[1:]]

    def refine(self, sums: TreeSums, prices: Array, chosen: Sequence[Operator]) -> list[Proposal]:
        """The best tree grown from the best question on each variable, the best with new questions.

        Greed from one root ends where no first question is worth much. Where that finds nothing,
        trees in use are asked anew as well.
        """
        noise, sign = _NOISE * sums.size, self._sign(sums)
        resplitter = Resplitter(self.firsts, len(self.thresholds), prices, sign)

        def worth(found: tuple[BinnedTree, float]) -> float:
            return sign * found[1] - float(prices[found[0].size - 1])

        grown = []
        for variable in range(self.firsts.size - 1):
            sums.restart()
            sizes = list(self._sizes(self._grow(sums, noise, variable), sign))
            grown += [max(sizes, key=worth)] if sizes else []
        grown.sort(key=worth, reverse=True)
        better = [resplitter.better(sums, tree) for tree, _ in grown[:_RESPLIT]]
        if not any(worth(found) > noise for found in better):
            better += [resplitter.better(sums, tree) for tree in self._binned(chosen)]
        return [self._proposal(*found) for found in (*better, *grown[_RESPLIT:])]

    def ceiling(self, sums: TreeSums, prices: Array, budget: float) -> Ceiling:
        """One node is searched whole, larger trees by branch and bound where the budget allows.

        Else they have the larger of the sums of both signs. Cells in blocks come together for it.
        """
        noise = _NOISE * sums.size
        sums.restart()
        one, finer = self._leaf(0, (0, 0), sums.total, sums.root(), 0.0), self._finer(sums, noise)
        most = np.full(len(prices), of_sums(sums.size, sums.total) + noise)
        most[0] = abs(sums.total) + (one.gain if finer is None else finer.gain) + noise
        single = [] if finer is None else [self._single(finer, sums, self._sign(sums))]
        variables = self.firsts.size - 1
        if len(prices) == 1 or sums.count * variables**2 > budget:
            return Ceiling(most, single)
        gathered = _Gathered(*sums.cells())
        n_continuous = len(self.thresholds)
        proved, trees = tree_ceiling(*gathered, self.firsts, n_continuous, prices, budget)
        resplitter = Resplitter(self.firsts, n_continuous, prices, self._sign(sums))
        found = [resplitter.labelled(gathered, tree) for tree in trees]
        proved[0] = most[0]  # thresholds of one node are not those of the bins alone
        proposals = [*single, *(self._proposal(*better) for better in found)]
        return Ceiling(np.minimum(most, proved), proposals)

    def _finer(self, sums: TreeSums, noise: float) -> Threshold | None:
        """The best single threshold, if one inside a bin is better than all between bins."""
        between = self._leaf(0, (0, 0), sums.total, sums.root(), noise).gain
        return threshold_inside(sums, self.firsts, self.coarse, between, noise)

    def _single(self, at: Threshold, sums: TreeSums, sign: float) -> Proposal:
        """The tree of one node that asks for a threshold, labelled for values of a sign."""
        totals = np.array([at.left, sums.total - at.left])
        ones = sign * totals > 0
        links = np.where(ones, -2, -1).astype(np.int32)
        tree = BinnedTree(np.array([at.variable], np.int32), np.zeros((1, 1)), links[:1], links[1:])
        operator = self._terms(tree, np.array([_between(at.low, at.high)]), [np.empty(0, np.int32)])
        return Proposal(operator, 1, float(totals[ones].sum()))

    def _binned(self, chosen: Sequence[Operator]) -> Iterator[BinnedTree]:
        """Trees of this plan as they ask for bins."""
        width = int(np.diff(self.firsts).max())
        for trees in chosen:
            assert isinstance(trees, TreeTerms)
            for start, stop in pairwise(trees.offsets):
                goes_left = np.zeros((stop - start, width), dtype=np.uint8)
                for place, node in enumerate(range(start, stop)):
                    v = int(trees.variable[node])
                    if v < len(self.thresholds):
                        # a single node may ask for a threshold inside a bin: the next one
                        cut = np.searchsorted(self.thresholds[v][:-1], trees.threshold[node])
                        goes_left[place, : cut + 1] = 1
                    else:
                        goes_left[place, trees.members[trees.sets[node] : trees.sets[node + 1]]] = 1
                nodes = slice(start, stop)
                yield BinnedTree(
                    trees.variable[nodes].astype(np.int32),
                    goes_left,
                    trees.left[nodes].astype(np.int32),
                    trees.right[nodes].astype(np.int32),
                )

    def _sign(self, sums: TreeSums) -> float:
        """The sign that has the larger value, see the top of the module.

        Of equal ones that of r = p - observed where records are: features say where they are.
        """
        return 1.0 if sums.total > _NOISE * sums.size else -1.0

    def _sizes(self, grown: _TreeNodes, sign: float) -> Iterator[tuple[BinnedTree, float]]:
        """The tree of every size with its value, of one that grew node by node."""
        if not grown.variable:
            return
        child, total = np.array(grown.child), np.array(grown.total)
        variable, goes_left = np.array(grown.variable, np.int32), np.array(grown.goes_left)
        label = sign * total > 0
        for size in range(1, variable.size + 1):
            inner = child[:size] < size
            links = np.where(inner, child[:size], np.where(label[:size], -2, -1)).astype(np.int32)
            value = float(total[:size][label[:size] & ~inner].sum())
            ends = (np.ascontiguousarray(links[:, side]) for side in (0, 1))
            yield BinnedTree(variable[:size], goes_left[:size], *ends), value

    def _proposal(self, tree: BinnedTree, value: float) -> Proposal:
        return Proposal(self._operator(tree), tree.size, value)

    def _operator(self, tree: BinnedTree) -> TreeTerms:
        size, n_continuous = tree.size, len(self.thresholds)
        threshold, members = np.zeros(size), [np.empty(0, dtype=np.int32)] * size
        for node, v in enumerate(tree.variable):
            chosen = np.flatnonzero(tree.goes_left[node])
            if v < n_continuous:
                threshold[node] = self.thresholds[v][chosen.size - 1]
            else:
                members[node] = chosen.astype(np.int32)
        return self._terms(tree, threshold, members)

    def _terms(self, tree: BinnedTree, threshold: Array, members: list[Array]) -> TreeTerms:
        return TreeTerms(
            self.schema.continuous,
            self.schema.categorical,
            self.schema.levels,
            tree.variable,
            threshold,
            tree.left,
            tree.right,
            np.array([0, tree.size]),
            np.concatenate(members),
            np.concatenate([[0], np.cumsum([m.size for m in members])]),
        )

    def _grow(self, sums: TreeSums, noise: float, first: int | None = None) -> _TreeNodes:
        """Split the leaf with the largest gain until there is none, or nodes enough.

        ``first`` is the variable that the root asks for, if it is given.
        """
        tree = _TreeNodes()
        leaves = [self._leaf(0, (0, 0), sums.total, sums.root(), noise, first)]
        while len(tree.variable) < self._max_nodes:
            leaf = leaves.pop(int(np.argmax([leaf.gain for leaf in leaves])))
            if leaf.gain <= noise:
                break
            node = tree.split(leaf, never=self._max_nodes)
            if node + 1 == self._max_nodes:
                break
            both = sums.split(leaf.number, leaf.variable, leaf.goes_left)
            leaves += [
                self._leaf(
                    2 * node + 1 + side, (node, side), tree.total[node][side], both[side], noise
                )
                for side in (0, 1)
            ]
        return tree

    def _leaf(
        self,
        number: int,
        parent: tuple[int, int],
        total: float,
        sums: Array,
        noise: float,
        only: int | None = None,
    ) -> _Leaf:
        """A leaf with its best split, by one variable where ``only`` is given."""
        from maxent._support.compiling.kernels import exact
        from maxent.families.kernels.trees import best_split

        goes_left = np.zeros(int(np.diff(self.firsts).max()), dtype=np.uint8)
        firsts, n_continuous = self.firsts, len(self.thresholds)
        if only is not None:
            here = slice(*firsts[only : only + 2])
            sums, firsts = sums[here], np.array([0, here.stop - here.start])
            n_continuous = int(only < n_continuous)
        find = exact(best_split, sums.size)
        gain, variable, left_total = find(sums, firsts, n_continuous, total, noise, goes_left)
        if only is not None and variable >= 0:
            variable = only
        return _Leaf(number, parent, total, gain, variable, goes_left, left_total)


def _thresholds(values: Array, counts: Array, bins: int) -> Array:
    """Numbers between distinct values, which ``counts`` cells have: at most ``bins`` bins."""
    last = np.arange(values.size - 1)  # the last value of every bin
    if values.size > bins:
        # a value that very many cells share takes a bin, not the bins of others
        upto = np.cumsum(np.minimum(counts, counts.sum() / bins))
        last = np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, bins) / bins))
        last = last[last < values.size - 1]
    pairs = zip(values[last].tolist(), values[last + 1].tolist(), strict=True)
    return np.array([_between(low, high) for low, high in pairs])


def _between(low: float, high: float) -> float:
    """The middle of two values, to as few digits as leave it in the middle half between them."""
    middle = low / 2 + high / 2
    for digits in range(1, 18):
        short = float(f"{middle:.{digits}g}")
        if low <= short < high and abs(short - middle) <= (high - low) / 4:
            return short
    return low  # neighbouring floats

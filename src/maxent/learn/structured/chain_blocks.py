"""Chain models of sequences in blocks: two passes that number names and labels, then sums alone."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxent._support.checks import masses
from maxent.core.entropies import Entropy, Shifted
from maxent.core.maps import RowMap
from maxent.core.potentials import Potential
from maxent.core.problem import Problem
from maxent.learn.structured.chain_rows import full_map, position_costs
from maxent.learn.structured.reading import NO_WEIGHT
from maxent.learn.structured.sequences import (
    TWO_KINDS,
    Labels,
    check_classes,
    check_count,
    is_matrix,
    read_labels,
    sorted_classes,
    stack,
)
from maxent.rows.arrays import Array, Rows
from maxent.rows.blocks.engine import Blocks
from maxent.rows.blocks.map import InBlocks, SampleBlockMap
from maxent.rows.blocks.samples import SampleBlock, SampleSums
from maxent.rows.blocks.sequences import SequenceBlock
from maxent.rows.blocks.table import BlockTable, block_table, cut_columns
from maxent.rows.blocks.weights import SparseWeights
from maxent.structured import Chain
from maxent.tagging.attributes import Attributes
from maxent.tagging.pair_map import PairChainMap
from maxent.tagging.vocabulary import Names, Vocabulary
from maxent.typing import TableLike

_NOWHERE = -1  # the number of a name that is left out


# -- reading ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class ReadBlock:
    """Sequences with columns and labels in numbers of the block's own.

    ``names`` are those of the columns, None for matrices and hashed names. A block without
    sequences has no X.
    """

    number: int
    X: Any
    lengths: Array
    classes: Array
    states: Array
    weight: Array
    names: Vocabulary | None
    hash_bits: int | None = None

    def survey(self, least: int) -> Survey | None:
        """What the blocks must agree on, and what they have in common."""
        if self.X is None:
            return None
        named = self.names is not None or self.hash_bits is not None
        rare = self.names is not None or (self.hash_bits is not None and least > 1)
        width = self.X.shape[1] if self.names is None else len(self.names)
        return Survey(
            {self.number: len(self.lengths)},
            {self.number: Kind(named, None if self.names is not None else width)},
            {self.number: sparse.issparse(self.X)},
            self.classes,
            float(self.weight.sum()),
            self.names,
            np.bincount(self.X.indices, minlength=width) if rare else np.zeros(0, np.int64),
            {} if self.names is None else {self.number: np.arange(width)},
            self.hash_bits,
        )


class Kind(NamedTuple):
    """Of sequences: with names or as matrices, and the number of columns that all must share."""

    named: bool
    width: int | None

    def __str__(self) -> str:
        return "lists of tokens" if self.named else f"matrices of {self.width} columns"


class Survey(NamedTuple):
    """The first pass. ``columns`` are the numbers of each block's names among all ``names``."""

    sizes: dict[int, int]
    kinds: dict[int, Kind]
    sparse: dict[int, bool]
    classes: Array
    total: float
    names: Vocabulary | None
    occurrences: Array
    columns: dict[int, Array]
    hash_bits: int | None

    def merge(self, other: Survey) -> Survey:
        """Of two pieces: new names are numbered as they occur."""
        if (self.classes.dtype.kind == "U") != (other.classes.dtype.kind == "U"):
            raise ValueError(TWO_KINDS)
        names, occurrences, columns = self.names, self.occurrences, other.columns
        if names is None or other.names is None:
            names = other.names if names is None else names
            if occurrences.shape == other.occurrences.shape:
                occurrences = occurrences + other.occurrences
        else:
            names = deepcopy(names)  # what came in may be asked for again
            numbers = names.add(Names([other.names.names()]))
            occurrences = np.zeros(len(names), np.int64)
            occurrences[: self.occurrences.size] = self.occurrences
            occurrences[numbers] += other.occurrences
            columns = {number: numbers[own] for number, own in columns.items()}
        return Survey(
            self.sizes | other.sizes,
            self.kinds | other.kinds,
            self.sparse | other.sparse,
            sorted_classes(np.concatenate([self.classes, other.classes]))[0],
            self.total + other.total,
            names,
            occurrences,
            self.columns | columns,
            self.hash_bits,
        )

    def check(self) -> None:
        """Refuse blocks that do not fit one another."""
        (first, expected), *others = sorted(self.kinds.items())
        for number, found in others:
            if found != expected:
                raise ValueError(
                    f"block {number} has {found}, block {first} has {expected}: give all blocks "
                    "sequences of one kind"
                )
        check_classes(self.classes)


def count_sequences(raw: Any) -> dict[int, int]:
    """How many sequences a block has, by its number."""
    return {raw.number: len(list(raw.load().X))}


def weighted(raw: Any, weight: Array) -> SequenceBlock:
    """A block that knows the weights of its sequences."""
    return replace(raw.load(), sample_weight=weight)


def read_block(raw: Any, model: str) -> ReadBlock:
    """A block whose sequences are read, and its labels; an error names the block."""
    try:
        return _read(raw.load(), model)
    except (TypeError, OSError) as error:
        raise type(error)(f"block {raw.number}: {error}") from error


def _read(block: SequenceBlock, model: str) -> ReadBlock:
    number, bits = block.number, block.hash_bits
    X, y = _unzipped(block.X) if block.y is None else (block.X, block.y)
    X, y = X if hasattr(X, "__len__") else list(X), list(y)
    weight = masses("sample_weight", block.sample_weight, len(X))
    if not weight.all():
        check_count(y, len(X))
        kept = np.flatnonzero(weight)
        X, y, weight = [X[i] for i in kept], [y[i] for i in kept], weight[kept]
    if not len(X):
        if y:
            raise ValueError(f"X has no sequences, y has {len(y)}")
        empty = np.zeros(0, np.int64)
        return ReadBlock(number, None, empty, empty, empty, np.zeros(0), None, bits)
    first = next(iter(X))
    named = bits is not None or not (sparse.issparse(first) or is_matrix(first))
    attributes = Attributes(hash_bits=bits)
    if named:
        tokens = attributes.fit(X)
        matrix, lengths = tokens.X, tokens.lengths
    else:
        matrix, lengths = stack(list(X))
    labels = read_labels(model, y, lengths)
    for i, row in enumerate(labels):
        if row.dtype.kind == "O" and None in row.tolist():
            raise ValueError(
                f"sequence {i} has hidden labels (None), which take several fits: give labels for "
                "all positions, or fit sequences in memory"
            )
    classes, states = sorted_classes(np.concatenate([row.astype(object) for row in labels]))
    names = Vocabulary(attributes.names) if named and bits is None else None
    return ReadBlock(number, matrix, lengths, classes, states, weight, names, bits)


def _unzipped(pairs: Any) -> tuple[list[Any], list[Any]]:
    """Sequences and labels of pairs."""
    X, y = [], []
    for i, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"element {i} is {type(pair).__name__}, expected a pair (sequence, labels); or "
                "give sequences as X and their labels as y"
            )
        X.append(pair[0])
        y.append(pair[1])
    return X, y


# -- numbers that all blocks share -----------------------------------------------------------------


class Numbers(NamedTuple):
    """For one block: the number of each of its columns among all ``width``, and of its labels."""

    columns: Array | None
    width: int
    sparse: bool
    classes: Array
    weight: Array | None


@dataclass(eq=False)
class LabelledBlock:
    """Sequences with columns and labels in the numbers of all blocks."""

    number: int
    X: Any
    lengths: Array
    states: Array
    weight: Array

    def pairs(self, n_states: int) -> Array | None:
        """attribute * n_states + state of what occurs together."""
        if self.X is None:
            return None
        states = np.repeat(self.states, np.diff(self.X.indptr))
        return np.unique(self.X.indices.astype(np.int64) * n_states + states)

    def training_block(self, plan: Plan) -> ChainBlock:
        """The block that sums are asked of."""
        weight = self.weight / plan.total
        labels = Labels(plan.classes, self.states, self.lengths)
        if self.X is None or not weight.any():
            return ChainBlock(self.number, plan, None, weight, labels)
        return ChainBlock(self.number, plan, plan.map(self.X, self.lengths), weight, labels)


def numbered(block: ReadBlock, numbers: Numbers) -> LabelledBlock:
    """The block in the numbers of all."""
    X, weight = block.X, block.weight if numbers.weight is None else numbers.weight
    if X is None:
        return LabelledBlock(block.number, None, block.lengths, block.states, weight)
    if numbers.sparse and not sparse.issparse(X):
        X = sparse.csr_array(X)
    if numbers.columns is not None:
        own = numbers.columns[X.indices]
        kept = own != _NOWHERE
        before = np.concatenate([[0], np.cumsum(kept)])
        parts = X.data[kept], own[kept], before[X.indptr].astype(X.indptr.dtype)
        X = sparse.csr_array(parts, shape=(X.shape[0], numbers.width))
    own_classes = block.classes.astype(numbers.classes.dtype)
    places = np.searchsorted(numbers.classes, own_classes)
    return LabelledBlock(block.number, X, block.lengths, places[block.states], weight)


@dataclass(frozen=True, eq=False)
class BlockSequences:
    """Labelled sequences in blocks; ``width`` columns, the weights of all sum to ``total``."""

    blocks: Blocks
    classes: Array
    attributes: Attributes | None
    width: int
    sparse: bool
    n_sequences: int
    total: float

    def seen_pairs(self) -> tuple[Array, Array]:
        """The pairs of an attribute and a label that occur, as ``PairChainMap`` lists them."""
        count = len(self.classes)
        codes = self.blocks.reduce("pairs", count, merge=np.union1d)
        attribute, state = np.divmod(codes, count)
        start = np.searchsorted(attribute, np.arange(self.width + 1))
        return start.astype(np.int32), state.astype(np.int16)

    def problem(self, plan: Plan, potential: Potential) -> Problem:
        """The problem of all sequences, whose rows stay in their blocks."""
        blocks = self.blocks.map("training_block", plan)
        features = ChainBlockMap(blocks, plan.n_features(self.width), self.n_sequences, plan.tied)
        return Problem(plan.entropy, features, potential, observed=InBlocks())


def read_in_blocks(model: str, X: Any, y: Any, sample_weight: Any, least: int) -> BlockSequences:
    """Number names and labels as in memory: names as they occur, labels in order."""
    table, weight = _table(X, y, sample_weight)
    raw = table.blocks
    if weight is not None and not np.all(weight):
        # sequences of weight 0 are not read: their names and labels would stay
        sizes = raw.reduce(count_sequences, merge=or_)
        raw, weight = raw.apply(weighted, _cut_weight(weight, sizes, len(raw))), None
    read = raw.map(read_block, model)
    survey: Survey | None = read.reduce("survey", least, merge=Survey.merge, ordered=True)
    if survey is None:
        if any(raw.reduce(count_sequences, merge=or_).values()):
            raise ValueError(NO_WEIGHT)
        raise ValueError("X has no sequences: give at least one")
    survey.check()
    cut: Sequence[Any] = [None] * len(read)
    total = survey.total
    if weight is not None:
        cut = _cut_weight(weight, survey.sizes, len(read))
        total = float(sum(part.sum() for part in cut))
    attributes, places, width = _columns(survey, least)
    is_sparse = any(survey.sparse.values())
    others = [
        Numbers(_places(survey, places, number), width, is_sparse, survey.classes, cut[number])
        for number in range(len(read))
    ]
    return BlockSequences(
        read.apply(numbered, others),
        survey.classes,
        attributes,
        width,
        is_sparse,
        sum(survey.sizes.values()),
        total,
    )


def _cut_weight(weight: Any, sizes: dict[int, int], count: int) -> list[Array]:
    """The weights of the sequences of each block."""
    cuts = [sizes.get(number, 0) for number in range(count)]
    weight = masses("sample_weight", weight, sum(cuts))
    return [part["sample_weight"] for part in cut_columns({"sample_weight": weight}, cuts)]


def _table(X: Any, y: Any, sample_weight: Any) -> tuple[BlockTable, Any]:
    """The sequences in blocks, and weights that are still to be cut."""
    if isinstance(X, BlockTable):
        if y is not None:
            raise ValueError("the labels of a BlockTable are in its blocks: leave out y")
        return X, sample_weight
    package = type(X).__module__
    if not package.startswith("dask.bag"):
        raise TypeError(
            f"sequences in blocks are a dask bag of pairs (sequence, labels), or bags X and y, got "
            f"{type(X).__name__}"
        )
    lazy = type(sample_weight) is type(X)
    columns = {"y": y, "sample_weight": sample_weight if lazy else None}
    return block_table(X, **columns), None if lazy else sample_weight


def _columns(survey: Survey, least: int) -> tuple[Attributes | None, Array | None, int]:
    """The attributes, the numbers that their columns get, and the number of columns."""
    (named, width), *_ = survey.kinds.values()
    if not named:
        assert width is not None
        return None, None, width
    frequent = survey.occurrences >= least
    if least > 1 and not frequent.any():
        raise ValueError(f"no attribute occurs {least} times: lower least")
    if survey.names is None:
        assert width is not None
        places = np.where(frequent, np.arange(width), _NOWHERE) if least > 1 else None
        return Attributes(hash_bits=survey.hash_bits), places, width
    names = survey.names.names()
    if least > 1:
        names = [name for name, kept in zip(names, frequent, strict=True) if kept]
    if not names:
        raise ValueError("no token has an attribute: give at least one name")
    places = np.where(frequent, np.cumsum(frequent) - 1, _NOWHERE).astype(np.int32)
    return Attributes(names), places, len(names)


def _places(survey: Survey, places: Array | None, number: int) -> Array | None:
    """The numbers of the columns of one block; None where they stay."""
    if places is None or survey.names is None:
        return places
    return places[survey.columns[number]] if number in survey.columns else None


# -- the blocks of the problem ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plan:
    """What every block is told: the loss, the weights there are, and the labels.

    ``cost`` is that of a label where another is right, ``pairs`` are those of ``PairChainMap``,
    None for all.
    """

    entropy: Entropy
    cost: Array | None
    classes: Array
    transitions: str
    tied: bool
    pairs: tuple[Array, Array] | None
    total: float

    def map(self, X: TableLike, lengths: Array) -> RowMap:
        """The map of some sequences."""
        count = len(self.classes)
        if self.pairs is not None:
            return PairChainMap(X, lengths, count, *self.pairs)
        return full_map(X, lengths, count, self.transitions, self.tied)

    def n_features(self, width: int) -> int:
        """Number of weights."""
        count = len(self.classes)
        if self.pairs is not None:
            return self.pairs[1].size + count**2
        inputs = width * count**2 if self.transitions == "input" else 0
        return width * count + count**2 + inputs


class ChainBlock(SampleBlock):
    """Sequences of one block with their labels; rows are written out when they are asked for."""

    def __init__(
        self, number: int, plan: Plan, features: RowMap | None, weights: Array, labels: Labels
    ) -> None:
        self.number, self.features, self.weights = number, features, weights
        self._plan, self._labels = plan, labels
        self._last = {}

    def __getstate__(self) -> dict[str, Any]:
        made = ("entropy", "observed")
        return {k: v for k, v in vars(self).items() if k not in made} | {"_last": {}}

    @cached_property
    def entropy(self) -> Entropy:  # type: ignore[override]
        """With the costs of these sequences."""
        plan = self._plan
        if plan.cost is None:
            return plan.entropy
        assert isinstance(self.features, RowMap)
        return Shifted(plan.entropy, position_costs(plan.cost, self._labels, self.features))

    @cached_property
    def observed(self) -> Rows:
        """The paths of the labels."""
        chain = Chain(len(self._plan.classes))
        return chain.encode(self._labels.paths(), tied=self._plan.tied)

    def sums(self, weights: SparseWeights, wanted: Array | None) -> SampleSums | None:
        """One evaluation, without scores where the map has a short cut."""
        if self.features is not None and wanted is None:
            sums = self.features.conjugate_and_moments(self.entropy, weights.full(), self.weights)
            if sums is not None:
                return SampleSums(float(sums[0] @ self.weights), sums[1])
        return super().sums(weights, wanted)


class ChainBlockMap(SampleBlockMap):
    """Features of sequences in blocks; ``tied`` as in ``ChainMap``."""

    def __init__(self, blocks: Blocks, n_features: int, n_samples: int, tied: bool) -> None:
        super().__init__(blocks, n_features, n_samples)
        self._tied = tied

    def mixture_gap(self, entropy: Entropy, w: Array, s: float) -> float | None:
        """None for tied rows, where no formula gives the entropy of a mixture."""
        return None if self._tied else super().mixture_gap(entropy, w, s)

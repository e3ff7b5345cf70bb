"""Cross-validation of presence / background data, with scikit-learn's splitter interface.

Rows are cells and y holds occurrences per row, 0 for background. ``split`` yields row indices
(training, test), sorted. A fold's presences are in no other test set and never in its own training
set; what happens to the background is said by each class. Presences are counted by row, whatever
their number of occurrences.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from maxent import io
from maxent.rows.arrays import Array

Split = tuple[Array, Array]
Background = Literal["training-blocks", "all"]
_STARTS = 20  # of k-means


class _Splitter(ABC):
    """What all splitters share: the presences of y, and splits made of them."""

    n_splits: Any

    def split(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[Split]:
        """Row indices (training, test) of each fold; X may be None."""
        return self._split(_presences(X, y), groups)

    def get_n_splits(
        self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Number of folds."""
        return int(self.n_splits)

    @abstractmethod
    def _split(self, presence: Array, groups: ArrayLike | None) -> Iterator[Split]:
        """Splits of rows whose presences are marked."""


def _presences(X: Any, y: ArrayLike | None) -> Array:
    """(rows,) True where y > 0."""
    if y is None:
        raise ValueError("y is needed: occurrences per row, 0 for background")
    counts = np.asarray(y)
    if counts.ndim != 1 or counts.dtype.kind not in "biuf":
        raise ValueError(
            f"y must be a vector of occurrences per row, got shape {counts.shape} of {counts.dtype}"
        )
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise ValueError("y must be finite and >= 0: occurrences per row, 0 for background")
    if X is not None:
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if rows != counts.size:
            raise ValueError(f"X has {rows} rows, y has {counts.size}")
    return np.asarray(counts > 0)


def _check_folds(n_splits: Any) -> None:
    if not isinstance(n_splits, int | np.integer) or n_splits < 2:
        raise ValueError(f"n_splits must be an integer >= 2, got {n_splits!r}")


def _check_enough(presence: Array, n_splits: int) -> None:
    if presence.sum() < n_splits:
        raise ValueError(
            f"{n_splits} folds need as many rows with presences, y has {presence.sum()}; "
            "lower n_splits"
        )


@io.register
@dataclass(frozen=True)
class PresenceKFold(_Splitter):
    """Folds of the presences; the background belongs to every training and every test set.

    The usual random cross-validation of a presence-only model. Where presences are clustered it
    flatters: use :class:`SpatialBlocks` to judge transfer to other places.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds, of presences as even in number as possible.
    shuffle : bool, default True
        Whether to assign presences at random; else in the order of the rows.
    random_state : int or None, default 0
        Seed of the shuffle.

    Examples
    --------
    >>> for train, test in PresenceKFold(2, shuffle=False).split(None, [1, 0, 2, 0]):
    ...     print(train, test)
    [1 2 3] [0 1 3]
    [0 1 3] [1 2 3]
    """

    n_splits: int = 5
    shuffle: bool = True
    random_state: int | None = 0

    def __post_init__(self) -> None:
        _check_folds(self.n_splits)

    def _split(self, presence: Array, groups: ArrayLike | None) -> Iterator[Split]:
        _check_enough(presence, self.n_splits)
        rows = np.flatnonzero(presence)
        if self.shuffle:
            rows = np.random.default_rng(self.random_state).permutation(rows)

        def folds() -> Iterator[Split]:
            for held_out in np.array_split(rows, self.n_splits):
                train, test = np.ones_like(presence), ~presence
                train[held_out], test[held_out] = False, True
                yield np.flatnonzero(train), np.flatnonzero(test)

        return folds()


@dataclass(frozen=True, eq=False)
class _Spatial(_Splitter):
    """A splitter that knows where the rows are."""

    coordinates: ArrayLike | None = field(repr=False)

    _in_plane = True  # whether coordinates are x and y

    def __post_init__(self) -> None:
        if self.coordinates is not None:
            made = _as_coordinates(self.coordinates, self._in_plane)
            object.__setattr__(self, "coordinates", made)

    def _places(self, groups: ArrayLike | None, rows: int) -> Array:
        given = self.coordinates if self.coordinates is not None else groups
        if given is None:
            raise ValueError(
                f"{type(self).__name__} needs coordinates: give them when you make it, or as "
                "groups, one (x, y) per row"
            )
        places = _as_coordinates(given, self._in_plane)
        if len(places) != rows:
            raise ValueError(
                f"there are {len(places)} coordinates for {rows} rows; to split subsets of the "
                f"rows, make {type(self).__name__} without coordinates and give them as groups"
            )
        return places


def _as_coordinates(coordinates: ArrayLike, in_plane: bool) -> Array:
    places = np.array(coordinates, dtype=np.float64)
    if places.ndim != 2 or (in_plane and places.shape[1] != 2):
        shape = "(rows, 2)" if in_plane else "(rows, variables)"
        raise ValueError(f"coordinates must have shape {shape}, got {places.shape}")
    bad = ~np.isfinite(places).all(axis=1)
    if bad.any():
        raise ValueError(
            f"coordinates must be finite; row {np.flatnonzero(bad)[0]} and {bad.sum() - 1} others "
            "are not"
        )
    places.setflags(write=False)
    return places


@dataclass(frozen=True, eq=False)
class _Blocked(_Spatial):
    """Folds that are regions: every row, presence or background, has one."""

    background: Background = field(default="training-blocks", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.background not in ("training-blocks", "all"):
            raise ValueError(
                f"background must be 'training-blocks' or 'all', got {self.background!r}"
            )

    def folds(self, y: ArrayLike, groups: ArrayLike | None = None) -> Array:
        """The fold of each row, 0 to n_splits - 1: what to draw on a map."""
        presence = _presences(None, y)
        return self._folds(self._places(groups, presence.size), presence)

    @abstractmethod
    def _folds(self, places: Array, presence: Array) -> Array:
        """(rows,) fold of each row."""

    def _split(self, presence: Array, groups: ArrayLike | None) -> Iterator[Split]:
        n_splits = self.get_n_splits()
        places = self._places(groups, presence.size)
        _check_enough(presence, n_splits)
        fold = self._folds(places, presence)
        per_fold = np.bincount(fold[presence], minlength=n_splits)
        if not per_fold.all():
            raise ValueError(
                f"fold {np.argmin(per_fold)} has no presences (presences per fold: "
                f"{per_fold.tolist()}); change the size of the blocks or their number"
            )
        everywhere = ~presence if self.background == "all" else np.zeros_like(presence)
        holding = np.unique(fold[~presence])
        if holding.size == 1 and not everywhere.any():
            raise ValueError(
                f"fold {holding[0]} holds all of the background and leaves none to train on; use "
                "background='all' or other blocks"
            )
        return (
            (np.flatnonzero((fold != k) | everywhere), np.flatnonzero(fold == k))
            for k in range(n_splits)
        )


@io.register
@dataclass(frozen=True, eq=False)
class SpatialBlocks(_Blocked):
    """Contiguous blocks: the model is judged where it was not trained.

    Without ``size``, ``n_splits`` rectangles with as even a number of presences as possible, by
    halving along the second coordinate, then the first, and so on: for 4, the "block" partition
    of ENMeval (Muscarella et al., 2014). With ``size``, the cells of a grid, dealt at random to
    ``n_splits`` folds so that presences are balanced (Roberts et al., 2017).

    The test set is the test blocks: their presences and their background. The training set is the
    other blocks, and with ``background="all"`` the background of the test blocks as well.

    Parameters
    ----------
    coordinates : array (n_rows, 2)
        x and y (longitude and latitude) of every row; None where they are given to ``split`` as
        ``groups``, which also works inside nested cross-validation.
    n_splits : int, default 4
        Number of folds.
    size : float or (float, float), default None
        Side of a grid cell in the unit of the coordinates, a number or (width, height).
    random_state : int or None, default 0
        Seed of the deal.
    background : "training-blocks" or "all", default "training-blocks"
        Background to train on.

    Examples
    --------
    >>> places = [(0, 0), (0, 1), (1, 0), (1, 1), (0.1, 0.1), (0.9, 0.2), (0.2, 0.7), (0.8, 0.9)]
    >>> blocks = SpatialBlocks(places, n_splits=4)
    >>> train, test = next(blocks.split(None, [1, 1, 1, 1, 0, 0, 0, 0]))
    >>> train, test
    (array([1, 2, 3, 5, 6, 7]), array([0, 4]))
    """

    n_splits: int = 4
    size: ArrayLike | None = None
    random_state: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_folds(self.n_splits)
        if self.size is not None:
            _sides(self.size)

    def _folds(self, places: Array, presence: Array) -> Array:
        if self.size is None:
            return _halved(places, presence, self.n_splits)
        return self._dealt(_grid_cells(places, self.size), presence)

    def _dealt(self, cells: Array, presence: Array) -> Array:
        column, row = (np.unique(axis, return_inverse=True)[1] for axis in cells.T)
        block = np.unique(column * len(cells) + row, return_inverse=True)[1]
        presences = np.bincount(block, weights=presence).astype(int)
        occupied = np.count_nonzero(presences)
        if occupied < self.n_splits:
            raise ValueError(
                f"the presences lie in {occupied} blocks of size {self.size!r}, too few for "
                f"n_splits={self.n_splits}; use smaller blocks or fewer folds"
            )
        order = np.random.default_rng(self.random_state).permutation(presences.size)
        order = order[np.argsort(-presences[order], kind="stable")]  # large blocks first
        fold = np.empty(presences.size, dtype=np.int64)
        load = [(0, k) for k in range(self.n_splits)]
        for b in order[:occupied]:
            total, k = load[0]
            fold[b] = k
            heapq.heapreplace(load, (total + int(presences[b]), k))
        fold[order[occupied:]] = np.arange(presences.size - occupied) % self.n_splits
        return fold[block]


@io.register
@dataclass(frozen=True, eq=False)
class Checkerboard(_Blocked):
    """Squares of a checkerboard: 2 folds, or 4 where a coarser board divides each of them.

    Separates training from test by less than :class:`SpatialBlocks` but keeps their conditions
    alike (Muscarella et al., 2014, "checkerboard1" and "checkerboard2"). The squares start at
    the lowest coordinates; those of the coarse board are twice as wide. Background as in
    :class:`SpatialBlocks`.

    Parameters
    ----------
    coordinates : array (n_rows, 2)
        x and y of every row; None where they are given to ``split`` as ``groups``.
    size : float or (float, float)
        Side of a square in the unit of the coordinates, a number or (width, height).
    levels : 1 or 2, default 1
        1 for 2 folds, 2 for 4.
    background : "training-blocks" or "all", default "training-blocks"
        Background to train on.

    Examples
    --------
    >>> board = Checkerboard([(0, 0), (1, 0), (0, 1), (1, 1)], size=1)
    >>> [test.tolist() for _, test in board.split(None, [1, 1, 0, 0])]
    [[0, 3], [1, 2]]
    """

    size: ArrayLike
    levels: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        _sides(self.size)
        if self.levels not in (1, 2):
            raise ValueError(f"levels must be 1 (2 folds) or 2 (4 folds), got {self.levels!r}")

    def get_n_splits(
        self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Number of folds: 2 or 4."""
        return 2 * int(self.levels)

    def _folds(self, places: Array, presence: Array) -> Array:
        cells = _grid_cells(places, self.size)
        fine = cells.sum(axis=1) % 2
        return fine if self.levels == 1 else 2 * fine + (cells // 2).sum(axis=1) % 2


@io.register
@dataclass(frozen=True, eq=False)
class EnvironmentalBlocks(_Blocked):
    """Blocks of environment: the model is judged in conditions that it was not trained in.

    The variables are scaled to mean 0 and standard deviation 1, the presences are parted into
    ``n_splits`` groups by k-means, and every row belongs to the group with the nearest centre
    (Roberts et al., 2017; blockCV's environmental clusters). Background as in
    :class:`SpatialBlocks`.

    Parameters
    ----------
    coordinates : array (n_rows, n_variables)
        The environment of every row; None where it is given to ``split`` as ``groups``.
    n_splits : int, default 4
        Number of folds.
    random_state : int or None, default 0
        Seed of the first centres.
    background : "training-blocks" or "all", default "training-blocks"
        Background to train on.

    Examples
    --------
    >>> heat = [[0.0], [1.0], [9.0], [10.0], [0.5], [9.5]]
    >>> blocks = EnvironmentalBlocks(heat, n_splits=2)
    >>> [test.tolist() for _, test in blocks.split(None, [1, 1, 1, 1, 0, 0])]
    [[0, 1, 4], [2, 3, 5]]
    """

    n_splits: int = 4
    random_state: int | None = 0

    _in_plane = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_folds(self.n_splits)

    def _folds(self, places: Array, presence: Array) -> Array:
        from scipy.cluster.vq import ClusterError, kmeans2
        from scipy.spatial import KDTree

        spread = places.std(axis=0)
        used = spread > 0
        scaled = (places[:, used] - places[:, used].mean(axis=0)) / spread[used]
        points = scaled[presence]
        if len(np.unique(points, axis=0)) < self.n_splits:
            raise ValueError(
                f"the presences have too few different environments for n_splits={self.n_splits}; "
                "use fewer folds"
            )
        rng = np.random.default_rng(self.random_state)
        found = []
        for _ in range(_STARTS):
            try:
                centres, group = kmeans2(
                    points, self.n_splits, iter=100, minit="++", missing="raise", rng=rng
                )
            except ClusterError:  # a group has lost its last point
                continue
            found.append((((points - centres[group]) ** 2).sum(), centres))
        if not found:
            raise ValueError(f"k-means finds no {self.n_splits} groups; use fewer folds")
        _, centres = min(found, key=lambda one: one[0])
        centres = centres[np.lexsort(centres.T[::-1])]  # a fold's number means something
        return np.asarray(KDTree(centres).query(scaled)[1])


@io.register
@dataclass(frozen=True, eq=False)
class BufferedLeaveOneOut(_Spatial):
    """One presence at a time, judged by a model that saw nothing within a radius of it.

    The training set is every row further away than ``radius``; the test set is the presence and
    the background within the radius, which may be none: score with the log density there.
    Distances are Euclidean, so project longitudes and latitudes first.

    Parameters
    ----------
    coordinates : array (n_rows, 2)
        x and y of every row; None where they are given to ``split`` as ``groups``.
    radius : float
        Radius of the buffer, in the unit of the coordinates; 0 leaves out the place itself.
    n_splits : int, default None
        How many presences to test, drawn at random; None is all of them.
    random_state : int, default 0
        Seed of the draw.

    Examples
    --------
    >>> places = [(0, 0), (1, 0), (5, 0), (6, 0)]
    >>> loo = BufferedLeaveOneOut(places, radius=2)
    >>> [(train.tolist(), test.tolist()) for train, test in loo.split(None, [1, 0, 1, 0])]
    [([2, 3], [0, 1]), ([0, 1], [2, 3])]
    """

    radius: float
    n_splits: int | None = None
    random_state: int | None = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.radius < np.inf:
            raise ValueError(f"radius must be a finite number >= 0, got {self.radius!r}")
        if self.n_splits is not None:
            _check_folds(self.n_splits)

    def get_n_splits(
        self, X: Any = None, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> int:
        """Number of presences tested; y is needed where ``n_splits`` is None."""
        return int(self.n_splits) if self.n_splits is not None else int(_presences(X, y).sum())

    def _split(self, presence: Array, groups: ArrayLike | None) -> Iterator[Split]:
        places = self._places(groups, presence.size)
        rows = np.flatnonzero(presence)
        _check_enough(presence, 2 if self.n_splits is None else self.n_splits)
        if self.n_splits is not None:
            rng = np.random.default_rng(self.random_state)
            rows = np.sort(rng.choice(rows, self.n_splits, replace=False))

        def folds() -> Iterator[Split]:
            for row in rows:
                near = np.hypot(*(places - places[row]).T) <= self.radius
                if presence[~near].sum() == 0:
                    raise ValueError(
                        f"every presence is within {self.radius!r} of the one in row {row}, and "
                        "none is left to train on; use a smaller radius"
                    )
                test = near & ~presence
                test[row] = True
                yield np.flatnonzero(~near), np.flatnonzero(test)

        return folds()


def _sides(size: Any) -> Array:
    """(width, height) of a block."""
    sides = np.asarray(size, dtype=np.float64)
    if sides.shape not in ((), (2,)) or not np.isfinite(sides).all() or (sides <= 0).any():
        raise ValueError(f"size must be a number > 0 or (width, height), got {size!r}")
    return np.broadcast_to(sides, (2,))


def _grid_cells(places: Array, size: Any) -> Array:
    """(rows, 2) column and row of the grid cell of each place, from the lowest coordinates."""
    cells = (places - places.min(axis=0)) / _sides(size)
    # centres of raster cells lie on the lines of the grid up to rounding
    return np.floor(cells + 1e-9).astype(np.int64)


def _halved(places: Array, presence: Array, n_splits: int) -> Array:
    """The rectangle of each row, by recursive halving of the presences."""
    fold = np.empty(len(places), dtype=np.int64)
    parts = [(np.arange(len(places)), n_splits, 0, 1)]  # rows, folds, first fold, axis to cut
    while parts:
        rows, n_folds, first, axis = parts.pop()
        if n_folds == 1:
            fold[rows] = first
            continue
        axis, cut = _best_cut(places[rows][presence[rows]], n_folds, axis)
        low = places[rows, axis] <= cut
        n_low = (n_folds + 1) // 2
        parts.append((rows[low], n_low, first, 1 - axis))
        parts.append((rows[~low], n_folds - n_low, first + n_low, 1 - axis))
    return fold


def _best_cut(points: Array, n_folds: int, axis: int) -> tuple[int, float]:
    """Where to cut the points for (n_folds + 1) // 2 of n_folds folds below.

    Points with equal coordinates stay together, so the cut is at the step nearest to the share;
    along the other axis where there is no step that leaves each fold a point.
    """
    n_low = (n_folds + 1) // 2
    share = -(-len(points) * n_low // n_folds)
    for candidate in (axis, 1 - axis):
        ordered = np.sort(points[:, candidate])
        steps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
        steps = steps[(steps >= n_low) & (steps <= len(points) - (n_folds - n_low))]
        if steps.size:
            i = steps[np.argmin(np.abs(steps - share))]
            middle = (ordered[i - 1] + ordered[i]) / 2
            # between neighbouring floats the middle rounds to one of them
            return candidate, float(middle if middle < ordered[i] else ordered[i - 1])
    raise ValueError(
        f"{len(points)} presences at too few distinct places cannot be cut into {n_folds} blocks; "
        "lower n_splits"
    )
